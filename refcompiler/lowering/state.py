"""The state of lowering to SIMT, shared by all families, and the table that they fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.simt.registers import count_of, registers
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.rewriter import users
from refcompiler.ir.types import BF16, F16, F32, I32, BlockType, DType, RegType, element_of, with_element
from refcompiler.layouts import LinearLayout, Piece


class SharedBlock(NamedTuple):
    """A block in shared memory: its buffer, and the index there of its first element."""

    buffer: Value
    index: Value  # type: ignore[assignment]  # tuples have a method of that name


Rule = Callable[["Lowering", Any], None]
LOWERINGS: dict[str, Rule] = {}
_AS_16_BIT = frozenset({"fma", "cast", "bitcast", "select"})  # done on 16-bit floats as they are
_EXPLICIT = frozenset({"cast", "bitcast"})  # their result's element type is stated, its shape follows the operand


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the lowering of the named ops; it appends SIMT ops and sets the results' values."""

    def mark(rule: Rule) -> Rule:
        for name in names:
            if name in LOWERINGS:
                raise TypeError(f"op {name} has two lowerings")
            LOWERINGS[name] = rule
        return rule

    return mark


class Lowering:
    """Builds the SIMT function. A block becomes its registers in the order of its layout; a block whose registers are
    all equal may be one scalar, which elementwise ops accept beside vectors."""

    def __init__(self, func: Func, num_warps: int, debug: bool, target: Any = None, maxnreg: int | None = None):
        self.old, self.debug, self.target, self.maxnreg = func, debug, target, maxnreg
        self.num_warps = num_warps
        self.axis = AxisAnalysis(func)
        params = [Value(p.type, p.name) for p in func.params]
        threads = (num_warps + func.attrs.get("fetching_warps", 0)) * 32
        attrs = {**func.attrs, "num_warps": num_warps, "threads": threads}
        self.new = Func(func.name, params, func.constexprs, func.hints, attrs, "simt", func.span)
        self.values: dict[Value, Any] = dict(zip(func.params, params, strict=True))
        self.builder = Builder(self.new.body)
        self._thread: Value | None = None
        self.rings: dict[Value, Any] = {}
        self.exchange: Any = None  # between CTAs of a cluster
        self.users = users(func)
        self.open: set[Op] = set()  # the ops of the block that is being lowered

    def run(self) -> Func:
        self.block(self.old.body)
        return self.new

    def block(self, block: Block) -> None:
        outer, self.open = self.open, set(block.ops)
        for op in block.ops:
            if not op.terminator:
                with self.builder.at(op.span):
                    LOWERINGS[op.name](self, op)
        self.open = outer

    def in_block(self, op: Op) -> bool:
        """Whether ``op`` is lowered in the same block as the current one."""
        return op in self.open

    # --- values
    def value(self, old: Value) -> Value:
        """What a scalar or block became; a block may be one scalar for all its registers."""
        return old if isinstance(old, Constant) else self.values[old]

    def vector(self, old: Value) -> Value:
        """What a block became, with all its registers."""
        return self.splat(self.value(old), layout_of(old).num_registers)

    def splat(self, value: Value, count: int) -> Value:
        """``count`` registers equal to ``value``, if it is one scalar and count is not 1."""
        if count == 1 or count_of(value.type) == count:
            return value
        return self.builder.value("splat", value, types=[RegType(value.type, count)])

    def set(self, old: Value, new: Value) -> None:
        if isinstance(new, Value) and not isinstance(new, Constant) and new.name is None:
            new.name = old.name
        self.values[old] = new

    # --- building
    def op(self, name: str, *operands: Value | None, **fields: Any) -> Value:
        return self.builder.value(name, *operands, **fields)

    def constant(self, number: int) -> Constant:
        return Constant(number, I32)

    def constants(self, numbers: Sequence[int]) -> Value:
        """Integers known at compile time, one per register."""
        if len(set(numbers)) == 1:
            return self.constant(numbers[0])
        return self.op("constants", values=tuple(numbers), types=[RegType(I32, len(numbers))])

    @property
    def thread(self) -> Value:
        """The thread index, made once at the top."""
        if self._thread is None:
            with self.builder.inside(self.new.body):
                op = self.builder.op("thread_id")
            self.new.body.ops.remove(op)
            self.new.body.ops.insert(0, op)
            self._thread = op.result
        return self._thread

    def at_top(self, build: Callable[[], Any]) -> Any:
        """What ``build`` makes, at the top of the function, behind the thread index."""
        ops, thread = self.new.body.ops, self.thread.owner
        before = len(ops)
        with self.builder.inside(self.new.body):
            made = build()
        first = ops.index(thread) + 1
        ops[first:] = ops[before:] + ops[first:before]
        return made

    def thread_function(self, pieces: Iterable[Piece]) -> Value | None:
        """The xor of the pieces at this thread; None where there are none."""
        total: Value | None = None
        used = 0
        for shift, mask, multiplier in pieces:
            bits = self.thread
            if shift:
                bits = self.op("shr", bits, self.constant(shift))
            if (self.num_warps * 32 - 1) >> shift != mask:
                bits = self.op("and", bits, self.constant(mask))
            if multiplier != 1:
                bits = self.op("mul", bits, self.constant(multiplier))
            if total is None:
                total = bits
            else:
                total = self.op("xor" if used & mask * multiplier else "add", total, bits)
            used |= mask * multiplier
        return total

    def index(
        self, pieces: Iterable[Piece], offsets: Sequence[int], additive: bool, first: Value | None = None
    ) -> Value:
        """From ``first`` on, per register the pieces at this thread xor the register's offset, of which what no piece
        reaches is added last: accesses to memory add a constant for nothing."""
        pieces = tuple(pieces)
        of_thread = self.thread_function(pieces)
        if of_thread is None:
            return self.constants(offsets) if first is None else self.op("add", first, self.constants(offsets))
        reached = 0
        for _, mask, multiplier in pieces:
            reached |= mask * multiplier
        mixed = [0 if additive else offset & reached for offset in offsets]
        added = [offset - low for offset, low in zip(offsets, mixed, strict=True)]
        if any(mixed):
            of_thread = self.op("xor", of_thread, self.constants(mixed))
        if first is not None:
            of_thread = self.op("add", of_thread, first)
        return self.op("add", of_thread, self.constants(added)) if any(added) else of_thread

    def apply(self, op: Op, operands: Sequence[Value]) -> Value:
        """An elementwise op on other operands: scalars, registers, or both."""
        element = element_of(operands[0].type)
        if element not in (F16, BF16) or op.name in _AS_16_BIT:
            return self.rebuild(op, operands)
        # + - * / sqrt and the like on 16-bit floats: exact in f32 up to the one rounding back
        wide = [self.cast(o, F32) for o in operands]
        result = self.op(op.name, *wide)
        return self.cast(result, element) if element_of(result.type) is F32 else result

    def cast(self, value: Value, target: DType) -> Value:
        if isinstance(value, Constant):
            return Constant(value.value, target)
        return self.op("cast", value, types=[with_element(value.type, target)])

    def cast_to(self, value: Value, target: DType) -> Value:
        """``value`` in ``target``; as it is where it has that type."""
        return value if element_of(value.type) is target else self.cast(value, target)

    def rebuild(self, op: Op, operands: Sequence[Value]) -> Value:
        types = [with_element(operands[0].type, element_of(op.results[0].type))] if op.name in _EXPLICIT else None
        return self.op(op.name, *operands, types=types)

    def pick(self, value: Value, indices: Sequence[int]) -> Value:
        """The registers ``indices`` of ``value``."""
        return self._pick(value, tuple(indices), None)

    def compute_for(self, value: Value, indices: Sequence[int]) -> Value:
        """The registers ``indices`` of an address or a mask, computed for these registers only."""
        return self._pick(value, tuple(indices), {})

    def _pick(self, value: Value, indices: tuple[int, ...], made: dict[tuple, Value] | None) -> Value:
        """``made`` has what was recomputed for fewer registers; None where nothing is to be recomputed."""
        count = count_of(value.type)
        if count == 1 or indices == tuple(range(count)):
            return value
        key = (value, indices)
        if made is not None and key in made:
            return made[key]
        owner = value.owner if isinstance(value.owner, Op) else None
        if owner is None:
            result = self.op("extract", value, indices=indices)
        elif owner.name == "constants":
            result = self.constants([owner.values[i] for i in indices])
        elif owner.name == "splat":
            result = owner.x
        elif owner.name == "extract":
            result = self._pick(owner.x, tuple(owner.indices[i] for i in indices), made)
        elif owner.name == "pack" and len(indices) == 1 and len(owner.operands) == count:
            result = owner.operands[indices[0]]
        elif made is not None and is_elementwise(owner) and len(indices) < count:
            result = self.rebuild(owner, [self._pick(o, indices, made) for o in owner.operands])
            result.name = value.name
        else:
            result = self.op("extract", value, indices=indices)
        if made is not None:
            made[key] = result
        return result


def is_elementwise(op: Op) -> bool:
    return isinstance(op, Elementwise) or op.name in ("select", "cast", "bitcast", "addptr")


def layout_of(value: Value) -> LinearLayout:
    """The layout of a laid-out block."""
    assert isinstance(value.type, BlockType)
    return value.type.layout


def register_type(old: Value):
    """The SIMT type of a laid-out value."""
    if not isinstance(old.type, BlockType):
        return old.type
    return registers(old.type.element, layout_of(old).num_registers)


def part(state: Lowering, value: Value, number: int, parts: int) -> Value:
    """The registers of one of ``parts`` equal parts."""
    if parts == 1:
        return value
    count = value.type.count // parts
    return state.splat(state.pick(value, range(number * count, (number + 1) * count)), count)


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    result = [0] * len(permutation)
    for position, source in enumerate(permutation):
        result[source] = position
    return tuple(result)
