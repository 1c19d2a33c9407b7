"""The SSA data structures: values, constants, operations with regions, blocks and functions."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from refcompiler.ir.opdef import Attr, Operand, OpMeta
from refcompiler.ir.types import BF16, F8E4M3, F8E5M2, DType, Type, element_of
from refcompiler.source import Span

LEVELS = ("tile", "laid_out", "simt")


class Value:
    """An SSA value: a parameter, a region argument or the result of an op. Compared by identity."""

    __slots__ = ("type", "name", "owner")

    def __init__(self, type_: Type, name: str | None = None, owner: Op | Block | None = None):
        self.type: Any = type_
        self.name = name
        self.owner: Any = owner

    def __repr__(self) -> str:
        return f"<{self.name or 'value'}: {self.type}>"


class Constant(Value):
    """A scalar literal. ``value`` is a bool, int or float that the dtype holds exactly; it has no defining op."""

    __slots__ = ("value",)

    def __init__(self, value: bool | int | float, type_: DType):
        super().__init__(type_)
        self.value = normalise_literal(value, type_)

    def key(self) -> tuple:
        """Identity of the literal: type and bits, so that 0.0 differs from -0.0 and NaN equals NaN."""
        if isinstance(self.value, float):
            return (self.type, "nan" if self.value != self.value else struct.pack("<d", self.value))
        return (self.type, self.value)

    def __repr__(self) -> str:
        return f"<{self.value!r}: {self.type}>"


def normalise_literal(value: Any, dtype: DType) -> bool | int | float:
    """``value`` as ``dtype`` stores it: integers wrap, floats are rounded once, to nearest even, bool is truth."""
    if dtype.is_bool:
        return bool(value)
    if not dtype.is_float:
        return dtype.wrap(int(value))
    if dtype.bits == 64:
        return float(value)
    return _round_float(_sticky(value) if isinstance(value, int) else float(value), dtype)


def _sticky(value: int) -> float:
    """A number of 53 bits which rounds to 24 bits or fewer as the integer does: bits shifted out set the last one."""
    size = abs(value)
    shift = max(0, size.bit_length() - 53)
    kept = size >> shift
    return math.copysign(math.ldexp(kept | (kept << shift != size), shift), value)


# Significant bits, and the exponent by frexp of the least normal number.
_BITS = {BF16: (8, -125), F8E4M3: (4, -5), F8E5M2: (3, -13)}


def _round_float(value: float, dtype: DType) -> float:
    if dtype in _BITS and abs(value) < 2.0**128:  # ml_dtypes would round to f32 first
        bits, least = _BITS[dtype]
        quantum = max(math.frexp(value)[1], least) - bits  # the exponent of the last bit
        value = math.ldexp(round(math.ldexp(value, -quantum)), quantum) or math.copysign(0.0, value)
    if dtype.bits == 8 and value == value:  # saturates
        largest = 448.0 if dtype is F8E4M3 else 57344.0
        value = min(max(value, -largest), largest)
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        return float(dtype.numpy.type(value))


def literal_dtype(operands: list[Value | None]) -> DType | None:
    """The element dtype of the first operand that is no literal; None if there is none or it is a pointer."""
    for operand in operands:
        if operand is not None and not isinstance(operand, Constant):
            element = element_of(operand.type)
            return element if isinstance(element, DType) else None
    return None


class Op(metaclass=OpMeta):
    """One operation. A subclass with ``name=`` declares it: operand and attribute fields, type rule, verifier, folder.

    Class keywords: ``effects`` (a set of "read", "write", "barrier"; empty means pure), ``commutative``,
    ``terminator``, ``explicit_type`` (the result type is stated, not inferred), ``levels`` where it may occur,
    ``needs`` (a field of the target that must be true for the op to have an instruction), ``deferred`` (its results are
    there only after a wait; the clause that an op breaks which reads them before), ``kept`` (the index of an operand
    that stays as it is until then, and the clause).
    """

    name: ClassVar[str] = ""
    operand_fields: ClassVar[tuple[Operand, ...]] = ()
    attr_fields: ClassVar[tuple[Attr, ...]] = ()
    effects: ClassVar[frozenset[str]] = frozenset()
    commutative: ClassVar[bool] = False
    terminator: ClassVar[bool] = False
    explicit_type: ClassVar[bool] = False
    levels: ClassVar[tuple[str, ...]] = LEVELS
    needs: ClassVar[str] = ""
    deferred: ClassVar[str] = ""
    kept: ClassVar[tuple[int, str] | None] = None
    whole_descriptors: ClassVar[bool] = False  # takes descriptors as they are, not their parts

    def __init__(
        self,
        *operands: Value | None,
        span: Span | None = None,
        types: list[Type] | None = None,
        body: Block | None = None,
        regions: Sequence[Block] = (),
        **attrs: Any,
    ):
        self.operands: list[Value | None] = list(operands)
        fixed = len(self.operand_fields)
        if not (self.operand_fields and self.operand_fields[-1].variadic):
            self.operands += [None] * (fixed - len(operands))  # trailing optional operands may be left out
        self.attrs = {f.name: attrs.pop(f.name, f.default) for f in self.attr_fields}
        if attrs:
            raise TypeError(f"{self.name} has no attribute {', '.join(sorted(attrs))}")
        self.span = span
        self.spans: dict[str, Span] = {}  # operand or attribute name -> span of that argument in the source
        self.regions: list[Block] = [body] if body is not None else list(regions)
        for region in self.regions:
            region.owner = self
        self.results: list[Value] = []
        if types is None:
            types = self.infer()
        self.results = [Value(t, owner=self) for t in types]

    if TYPE_CHECKING:  # the fields of a subclass, read on a value that is only known to be an Op

        def __getattr__(self, name: str) -> Any: ...

    @property
    def result(self) -> Value:
        """The single result."""
        (value,) = self.results
        return value

    @property
    def body(self) -> Block | None:
        """The region of an op with one; None where there is none."""
        return self.regions[0] if self.regions else None

    def infer(self) -> list[Type]:
        """Result types from operands and attributes; an op with ``explicit_type`` has no rule."""
        return []

    def verify(self, require) -> None:
        """Check the op's own rules with ``require(condition, clause_id, message, at=field)``."""

    def feature(self) -> str:
        """The field of the target that must be true for this op; "" where none must."""
        return self.needs

    def accepts_deferred(self, index: int) -> bool:
        """True if the operand at ``index`` may be the result of a deferred op."""
        return False

    def fold(self) -> Value | None:
        """An existing value or a constant that equals the result, or None."""
        return None

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        """The dtype a bare literal at ``operands[index]`` has in text, decided by the operands that are no literals and
        by the stated result ``types``; None where nothing decides. By default all operands share one element type."""
        return literal_dtype(operands)

    def yield_types(self) -> list[Type]:
        """The types that the terminator of each region must have, after its own operands."""
        return [r.type for r in self.results]

    def named_operands(self) -> Iterator[tuple[str, Value | None]]:
        """(field name, value) pairs; a variadic field gives one pair per value."""
        fields = self.operand_fields
        for i, value in enumerate(self.operands):
            yield fields[min(i, len(fields) - 1)].name if fields else f"operand{i}", value

    @property
    def pure(self) -> bool:
        return (
            not self.effects
            and not self.terminator
            and all(o.pure or o.terminator for region in self.regions for o in region.walk())
        )

    def clone(self, values: dict[Value, Value]) -> Op:
        """A copy with operands replaced by ``values``, which gains the copies of results and region arguments."""
        regions = [region.clone(values) for region in self.regions]
        operands = [values.get(o, o) if o is not None else None for o in self.operands]
        types = [r.type for r in self.results]
        copy = type(self)(*operands, span=self.span, types=types, regions=regions, **self.attrs)
        copy.spans = self.spans
        for old, new in zip(self.results, copy.results, strict=True):
            new.name = old.name
            values[old] = new
        return copy

    def __repr__(self) -> str:
        return f"<op {self.name}>"


class Block:
    """A straight list of ops with arguments; the body of a function or of an op with a region."""

    def __init__(self, args: list[Value] | tuple = (), ops: list[Op] | None = None):
        self.args = list(args)
        self.ops: list[Op] = []
        self.owner: Op | Func | None = None
        for arg in self.args:
            arg.owner = self
        for op in ops or ():
            self.append(op)

    def append(self, op: Op) -> Op:
        self.ops.append(op)
        return op

    def clone(self, values: dict[Value, Value]) -> Block:
        """A copy; ``values`` gains the copies of its arguments and of the results in it."""
        copy = Block([Value(a.type, a.name) for a in self.args])
        values.update(zip(self.args, copy.args, strict=True))
        for op in self.ops:
            copy.append(op.clone(values))
        return copy

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and self.ops[-1].terminator else None

    def walk(self) -> Iterator[Op]:
        """Every op of this block and of nested regions, in program order, an op before its regions."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


class Func:
    """A kernel at one level of the pipeline. ``hints`` maps a parameter name to a known divisor of its value (bytes
    for pointers); 1 for an integer means the value is 1. ``attrs`` holds ``num_warps`` and the like once decided."""

    def __init__(
        self,
        name: str,
        params: list[Value],
        constexprs: dict[str, Any] | None = None,
        hints: dict[str, int] | None = None,
        attrs: dict[str, Any] | None = None,
        level: str = "tile",
        span: Span | None = None,
    ):
        self.name, self.params = name, params
        self.constexprs = dict(constexprs or {})
        self.hints = dict(hints or {})
        self.attrs = dict(attrs or {})
        self.level = level
        self.span = span
        self.body = Block()
        self.body.owner = self
        for param in params:
            param.owner = self.body

    def clone(self) -> Func:
        """A deep copy that shares nothing but spans."""
        params = [Value(p.type, p.name) for p in self.params]
        copy = Func(self.name, params, self.constexprs, self.hints, self.attrs, self.level, self.span)
        values: dict[Value, Value] = dict(zip(self.params, params, strict=True))
        for op in self.body.ops:
            copy.body.append(op.clone(values))
        return copy

    def walk(self) -> Iterator[Op]:
        return self.body.walk()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Func):
            return NotImplemented
        from refcompiler.ir.printer import print_func  # the printed text is the identity of a function

        return print_func(self) == print_func(other)

    __hash__ = None

    def __str__(self) -> str:
        from refcompiler.ir.printer import print_func

        return print_func(self)
