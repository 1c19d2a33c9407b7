"""Draws expressions: operands from the variables in scope, literals, and every operation of the vocabulary on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from conformance.dtypes import DTYPES as FORMATS
from conformance.fuzzing.nodes import Expr, Shape, Type, literal
from conformance.fuzzing.scope import Scope, joined
from conformance.fuzzing.vocabulary import (
    BINARY,
    COMPARISONS,
    DTYPES,
    FLOATS,
    INTEGERS,
    LOGICAL,
    NUMBERS,
    ROWS,
    SIGNED,
    TERNARY,
    UNARY,
    Row,
)
from oracles.promotion import literal_format, promote

FLOAT_LITERALS = (1.0, 2.0, 0.0, -0.0, -1.0, 0.5, 3.0, -2.5, 0.1, 1e-3, 65504.0, 1e30, 1e-40)
INTEGER_LITERALS = (1, 2, 0, 3, 7, 5, 31, 32, 63, 64, 100, 127, 128, 255, 32767, 65535, 2**31 - 1, 2**32 - 1)
SIGNED_LITERALS = (*INTEGER_LITERALS, -1, -2, -7, -128, -32768, -(2**31))


def limits(dtype: str) -> tuple[int, int]:
    bits = 1 if dtype == "bool" else FORMATS[dtype].bits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype in SIGNED else (0, (1 << bits) - 1)


class Values(Scope):
    """Every method that makes an expression returns one whose value is specified in every lane."""

    # --- operands
    def operand(self, dtypes: Sequence[str] = DTYPES, shape: Shape | None = None, depth: int = 0) -> Expr:
        """A value of one of the dtypes that broadcasts with a shape: a variable, as it is or cast, or a new value."""

        def near(e: Expr) -> bool:
            return shape is None or self.fits(e.type.shape, shape)

        if depth > 0 and self.one_in(4):
            made = self.compound(depth - 1, near)
            if made is not None:
                return made if made.type.dtype in dtypes else self.cast(made, self.pick(dtypes))
        found = self.variables(lambda e: e.type.dtype in dtypes and near(e))
        if found and not self.one_in(6):
            return self.pick(found)
        other = self.pick(self.variables(near) or [self.number(self.pick(dtypes))])
        return other if other.type.dtype in dtypes and not self.one_in(4) else self.cast(other, self.pick(dtypes))

    def literal_beside(self, dtype: str) -> Expr:
        """A literal that takes the dtype of the operand beside it, which it must fit."""
        if dtype in FLOATS:
            if self.one_in(4):
                return literal(self.pick((1, 2, 0, 3, -1, 100)), dtype)
            return literal(self.pick(FLOAT_LITERALS), dtype)
        if dtype == "bool":
            return literal(bool(self.integer(0, 1)), dtype)
        low, high = limits(dtype)
        pool = SIGNED_LITERALS if dtype in SIGNED else INTEGER_LITERALS
        return literal(self.pick([v for v in pool if low <= v <= high]), dtype)

    def number(self, dtype: str) -> Expr:
        """A scalar of a dtype that is no variable."""
        value = self.literal_beside(dtype)
        return Expr("full", Type(dtype), (value,), whole=value.whole)

    def literal_above(self, dtype: str) -> Expr:
        """A literal that keeps a dtype of its own beside a narrower kind of operand."""
        value = self.pick(FLOAT_LITERALS if dtype != "bool" or self.one_in(2) else (2, 0, 7, 2**31, 2**40))
        return literal(value, literal_format(value, dtype).name)

    def cast(self, e: Expr, dtype: str) -> Expr:
        """`e` in a dtype; as it is where it has it."""
        if e.type.dtype == dtype:
            return e
        keeps = e.whole is not None and _holds(dtype, e.whole)
        return Expr("cast", Type(dtype, e.type.shape), (e,), whole=e.whole if keeps else None)

    def small(self, shape: Shape | None, bits: int) -> Expr:
        """A non-negative integer block below 2^bits."""
        e = self.operand(INTEGERS, shape)
        return self.masked_to(e, (1 << bits) - 1)

    def masked_to(self, e: Expr, mask: int) -> Expr:
        if limits(e.type.dtype)[1] < mask:
            e = self.cast(e, "i32")
        return Expr("and", e.type, (e, literal(mask, e.type.dtype)), whole=mask)

    # --- operations
    def compound(self, depth: int, near: Callable[[Expr], bool] = lambda e: True) -> Expr | None:
        """One operation on drawn operands; None where the draw has no sense for them."""
        make = self.pick(
            (
                self.binary,
                self.binary,
                self.binary,
                self.comparison,
                self.unary,
                self.neutral,
                self.neutral,
                self.conversion,
                self.choice,
                self.ternary,
                self.logical,
                self.bounded,
                self.reinterpreted,
                self.reshaped,
                self.expanded,
                self.transposed,
                self.broadcast,
                self.reduced,
                self.scanned,
                self.gathered_from,
                self.turned,
                self.conditional,
                self.created,
            )
        )
        made = make(depth)
        return made if made is not None and near(made) else None

    def value(self, depth: int = 2) -> Expr:
        """A compound value; a plain addition where three draws had no sense."""
        for _ in range(3):
            made = self.compound(depth)
            if made is not None:
                return made
        x = self.operand(NUMBERS)
        return Expr("add", x.type, (x, self.literal_beside(x.type.dtype)))

    def binary(self, depth: int) -> Expr | None:
        return self._apply(self.pick(BINARY), depth)

    def neutral(self, depth: int) -> Expr | None:
        """An operation that changes nothing, or next to nothing: what optimisers look for."""
        x = self.operand(FLOATS if self.one_in(2) else NUMBERS, depth=depth)
        is_float, low = x.type.dtype in FLOATS, limits(x.type.dtype)[0] if x.type.dtype not in FLOATS else 0
        row, value = self.pick(
            (("add", 0.0), ("add", -0.0), ("sub", 0.0), ("mul", 1.0), ("mul", 0.0), ("div", 1.0), ("sub", None))
            if is_float
            else (("add", 0), ("mul", 1), ("or", 0), ("xor", 0), ("shl", 0), ("mul", 0), ("and", -1 if low else 1))
        )
        other = x if value is None else literal(value, x.type.dtype)
        return self._made(ROWS[row], [x, other])

    def comparison(self, depth: int) -> Expr | None:
        return self._apply(self.pick(COMPARISONS), depth)

    def logical(self, depth: int) -> Expr | None:
        row = self.pick(LOGICAL)
        operands = [self.operand(("bool",), depth=depth)]
        if row.arity == 2:
            operands.append(self.operand(("bool",), operands[0].type.shape, depth))
        return self._made(row, operands)

    def unary(self, depth: int) -> Expr | None:
        row = self.pick(UNARY)
        return self._made(row, [self.operand([d for d in DTYPES if row.typing(d)], depth=depth)])

    def ternary(self, depth: int) -> Expr | None:
        row = self.pick(TERNARY)
        x = self.operand(FLOATS, depth=depth)
        y = self.operand((x.type.dtype,), x.type.shape, depth)
        common = joined(x.type.shape, y.type.shape)
        return self._made(row, [x, y, self.operand((x.type.dtype,), common, depth)])

    def _apply(self, row: Row, depth: int) -> Expr | None:
        """A row of two operands: the second is a literal, a value of any dtype, or one of the first's."""
        first = [d for d in DTYPES if any(row.typing(d, other) for other in DTYPES)]
        x = self.operand(first, depth=depth)
        if self.one_in(4):
            above = self.one_in(4) and x.type.dtype not in FLOATS
            y = self.literal_above(x.type.dtype) if above else self.literal_beside(x.type.dtype)
            if row.guard == "odd" and y.type.dtype in INTEGERS and y.attributes["value"] == 0:
                return None
            pair = [x, y]
            if row.guard != "odd" and self.one_in(3):
                pair.reverse()
            return self._made(row, pair)
        accepted = [d for d in DTYPES if row.typing(x.type.dtype, d)]
        mixed = self.one_in(3)
        y = self.operand(
            accepted if mixed else [d for d in accepted if d == x.type.dtype] or accepted, x.type.shape, depth
        )
        if row.guard == "odd" and y.type.dtype in INTEGERS:
            y = Expr("or", y.type, (y, literal(1, y.type.dtype)))
        return self._made(row, [x, y])

    def _made(self, row: Row, operands: list[Expr]) -> Expr | None:
        dtype = row.typing(*(o.type.dtype for o in operands))
        if dtype is None or all(o.op == "literal" for o in operands):
            return None
        shape = joined(*(o.type.shape for o in operands))
        assert shape is not None
        whole = None
        if row.name == "and" and dtype in INTEGERS:
            whole = min(
                (o.whole for o in operands if o.op == "literal" and o.whole is not None and o.attributes["value"] >= 0),
                default=None,
            )
        return Expr(row.name, Type(dtype, shape), tuple(operands), whole=whole)

    def conversion(self, depth: int) -> Expr | None:
        e = self.operand(depth=depth)
        return self.cast(e, self.pick([d for d in DTYPES if d != e.type.dtype]))

    def choice(self, depth: int) -> Expr | None:
        """tl.where: arms of any dtypes that meet, one of them perhaps a literal."""
        condition = self.operand(("bool",), depth=depth)
        x = self.operand(shape=condition.type.shape, depth=depth)
        common = joined(condition.type.shape, x.type.shape)
        if self.one_in(4):
            y = self.literal_beside(x.type.dtype)
        else:
            y = self.operand(DTYPES if self.one_in(3) else (x.type.dtype,), common, depth)
        dtype = promote(x.type.dtype, y.type.dtype).name
        shape = joined(condition.type.shape, x.type.shape, y.type.shape)
        whole = max(x.whole, y.whole) if x.whole is not None and y.whole is not None else None
        if whole is not None and not _holds(dtype, whole):
            whole = None
        return Expr("where", Type(dtype, shape or ()), (condition, x, y), whole=whole)

    def bounded(self, depth: int) -> Expr | None:
        """tl.clamp between two literals in order: otherwise the value is unpredictable, select.clamp#N1."""
        x = self.operand(NUMBERS, depth=depth)
        low, high = self.literal_beside(x.type.dtype), self.literal_beside(x.type.dtype)
        if low.attributes["value"] > high.attributes["value"]:
            low, high = high, low
        keywords = ", propagate_nan=tl.PropagateNan.ALL" if self.one_in(3) else ""
        return Expr("clamp", x.type, (x, low, high), {"keywords": keywords})

    def reinterpreted(self, depth: int) -> Expr | None:
        """A bitcast; of floats only variables that were loaded, since an operation may give a NaN any payload."""
        e = self.operand(INTEGERS, depth=depth)
        same = [d for d in NUMBERS if FORMATS[d].bits == FORMATS[e.type.dtype].bits and d != e.type.dtype]
        return Expr("bitcast", Type(self.pick(same), e.type.shape), (e,))

    # --- shapes
    def reshaped(self, depth: int) -> Expr | None:
        e = self.block()
        if self.one_in(4):
            return self.moved("ravel", e, (e.type.numel,))
        bits = e.type.numel.bit_length() - 1
        first = self.integer(0, bits)
        second = self.integer(0, bits - first)
        shapes = (
            (1 << bits,),
            (1 << first, 1 << (bits - first)),
            (1 << first, 1 << second, 1 << (bits - first - second)),
        )
        return self.moved("reshape", e, self.pick(shapes))

    def expanded(self, depth: int) -> Expr | None:
        e = self.block(lambda e: len(e.type.shape) < 3)
        axis = self.integer(0, len(e.type.shape))
        return self.expand(e, axis)

    def expand(self, e: Expr, axis: int) -> Expr:
        shape = e.type.shape
        return self.moved("expand_dims", e, (*shape[:axis], 1, *shape[axis:]), axes=(axis,))

    def transposed(self, depth: int) -> Expr | None:
        e = self.block(lambda e: len(e.type.shape) > 1)
        order = list(range(len(e.type.shape)))
        for i in range(len(order) - 1):
            j = self.integer(i, len(order) - 1)
            order[i], order[j] = order[j], order[i]
        return self.moved("trans", e, tuple(e.type.shape[i] for i in order), order=tuple(order))

    def broadcast(self, depth: int) -> Expr | None:
        e = self.block(lambda e: 1 in e.type.shape or not e.type.shape)
        room = self.limit // e.type.numel
        shape = []
        for extent in e.type.shape:
            grown = 1 << self.integer(0, room.bit_length() - 1) if extent == 1 else extent
            room //= grown if extent == 1 else 1
            shape.append(grown)
        return self.moved("broadcast_to", e, tuple(shape))

    def moved(self, op: str, e: Expr, shape: Shape, **attributes: object) -> Expr:
        """The same elements in another shape."""
        return Expr(op, Type(e.type.dtype, shape, e.type.pointer), (e,), attributes, whole=e.whole, ulps=e.ulps)

    def block(self, accept: Callable[[Expr], bool] = lambda e: True) -> Expr:
        """A variable that is a block; a new one where there is none."""
        found = self.variables(lambda e: bool(e.type.shape) and accept(e))
        return self.pick(found) if found else self.counted((4,) if accept(Expr("", Type("i32", (4,)))) else (2, 1))

    def counted(self, shape: Shape) -> Expr:
        """0, 1, 2, ... in row order, as a block of a shape."""
        flat = Expr("arange", Type("i32", (math.prod(shape),)), (), {"start": 0}, whole=math.prod(shape))
        return flat if len(shape) == 1 else self.moved("reshape", flat, shape)

    def created(self, depth: int) -> Expr | None:
        shape = self.shape()
        if self.one_in(3):
            start = self.pick((0, 1, 5, -3, 100))
            extent = 1 << self.integer(0, self.limit.bit_length() - 1)
            return Expr("arange", Type("i32", (extent,)), (), {"start": start}, whole=extent + 100)
        dtype = self.pick(DTYPES)
        value = self.literal_beside(dtype)
        if self.one_in(3):
            value = self.operand(NUMBERS if dtype != "bool" else ("bool",), ())
            if value.type.shape:
                return None
        return Expr("full", Type(dtype, shape), (value,), whole=value.whole if value.op == "literal" else None)

    def gathered_from(self, depth: int) -> Expr | None:
        """tl.gather by places that are inside: what an index beyond picks is unpredictable, shape.gather#N1."""
        e = self.block()
        axis = self.integer(0, len(e.type.shape) - 1)
        index = self.operand(INTEGERS, e.type.shape)
        if index.type.shape != e.type.shape:
            index = self.counted(e.type.shape)
        index = self.masked_to(index, e.type.shape[axis] - 1)
        return Expr("gather", e.type, (e, index), {"axis": axis}, whole=e.whole)

    def turned(self, depth: int) -> Expr:
        """tl.flip, or tl.sort of integers."""
        e = self.block()
        attributes: dict[str, object] = {"axis": self.integer(0, len(e.type.shape) - 1)}
        if e.type.dtype not in INTEGERS or self.one_in(2):
            return Expr("flip", e.type, (e,), attributes, whole=e.whole)
        return Expr("sort", e.type, (e,), {**attributes, "descending": self.one_in(2)}, whole=e.whole)

    def conditional(self, depth: int) -> Expr | None:
        """`x if c else y` of run time: one condition for the program, both sides of one type."""
        x = self.operand()
        found = self.variables(lambda e: e.type == x.type)
        if not found:
            return None
        return Expr("conditional", x.type, (self.condition(), x, self.pick(found)))

    def condition(self) -> Expr:
        """A scalar that decides: a bool, or a number, which is true where it is not 0."""
        found = self.variables(lambda e: not e.type.shape)
        bools = [e for e in found if e.type.dtype == "bool"]
        if bools and self.one_in(2):
            return self.pick(bools)
        e = self.pick(found) if found else self.number("i32")
        if self.one_in(3):
            return e
        row = self.pick(COMPARISONS)
        return Expr(row.name, Type("bool"), (e, self.literal_beside(e.type.dtype)))

    # --- reductions
    def reduced(self, depth: int) -> Expr | None:
        e = self.block()
        axis: int | None = self.integer(0, len(e.type.shape) - 1)
        dtype = e.type.dtype
        is_float = dtype in FLOATS
        options = ["max", "min"]
        if not is_float:
            options += ["sum", "xor_sum", "reduce_or", "argmax", "argmin"]
        elif e.whole is not None:
            options += ["argmax", "argmin", "sum"]
        function = self.pick(options)
        if function not in ("argmax", "argmin") and self.one_in(5):
            axis = None
        count = e.type.numel if axis is None else e.type.shape[axis]
        if function == "sum" and is_float:
            e = self.cast(self.masked_to(self.cast(e, "i32"), 7), dtype)
            if 7 * count > 1 << FORMATS[dtype].precision:
                e = self.cast(e, "f32")
        whole = None if e.whole is None else e.whole * (count if function == "sum" else 1)
        if function in ("argmax", "argmin"):
            result, whole = "i32", count
        else:
            result = reduced_dtype(function, e.type.dtype)
        shape = () if axis is None else (*e.type.shape[:axis], *e.type.shape[axis + 1 :])
        keywords: dict[str, object] = {}
        if axis is not None and self.one_in(5):
            shape = (*e.type.shape[:axis], 1, *e.type.shape[axis + 1 :])
            keywords["keep_dims"] = True
        attributes = {"function": function, "meaning": function, "axis": axis, "keywords": keywords}
        if whole is not None and not _holds(result, whole):
            whole = None
        return Expr("reduce", Type(result, shape), (e,), attributes, whole=whole)

    def scanned(self, depth: int) -> Expr | None:
        """Running sums and products: of integers, or of floats so small that every order gives the same bits."""
        e = self.block(lambda e: e.type.dtype not in FLOATS or e.whole is not None)
        axis = self.integer(0, len(e.type.shape) - 1)
        function = self.pick(("cumsum", "cumprod"))
        if e.type.dtype in FLOATS:
            function = "cumsum"
            e = self.cast(self.masked_to(self.cast(e, "i32"), 7), e.type.dtype)
            if 7 * e.type.shape[axis] > 1 << FORMATS[e.type.dtype].precision:
                e = self.cast(e, "f32")
        keywords = {"reverse": True} if self.one_in(3) else {}
        attributes = {"function": function, "meaning": function, "axis": axis, "keywords": keywords}
        return Expr("scan", Type(reduced_dtype("sum", e.type.dtype), e.type.shape), (e,), attributes)


def reduced_dtype(function: str, dtype: str) -> str:
    """The dtype of a reduction's result: reduce.sum#C2, reduce.max#C2; bits and places have their own."""
    bits = 1 if dtype == "bool" else FORMATS[dtype].bits
    if function in ("xor_sum", "reduce_or"):
        return dtype
    if dtype in FLOATS:
        return dtype if function == "sum" or bits >= 32 else "f32"
    if bits >= 32:
        return dtype
    return "i32" if function != "sum" or dtype in SIGNED else "u32"


def _holds(dtype: str, whole: int) -> bool:
    """Whether every integer up to this magnitude is a value of the dtype."""
    if dtype in FLOATS:
        return whole <= 1 << FORMATS[dtype].precision
    return dtype in SIGNED and whole <= limits(dtype)[1]
