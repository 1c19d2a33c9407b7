"""Axis analysis: contiguity, divisibility and constancy of blocks per dimension, from which coalescing follows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.scf import Structured
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import PointerType, Type, element_of, shape_of

MAX_DIVISOR = 1 << 30
MAX_ACCESS_BYTES = 16


def power_of_two_in(number: int) -> int:
    """The largest power of two that divides ``number``; MAX_DIVISOR for 0."""
    return min(number & -number, MAX_DIVISOR) if number else MAX_DIVISOR


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """What is known along each dimension; all numbers are powers of two. A scalar counts as a block of shape (1,).

    Cut dimension d into aligned groups of ``contiguity[d]``: within a group each element is its predecessor plus one
    unit (an element for pointers, 1 for integers), and the first element of each group is divisible by
    ``divisibility[d]`` (pointers: in bytes), whatever the other coordinates. Within aligned groups of ``constancy[d]``
    all elements are equal. Sums may wrap: an aligned group of a power-of-two length never straddles the wrap, which is
    why a vector access needs both contiguity and divisibility.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    unit: int = 1

    def divisor_at(self, dim: int, step: int) -> int:
        """The divisor of every element whose coordinate along ``dim`` is a multiple of ``step``."""
        known = self.divisibility[dim]
        return known if step >= self.contiguity[dim] else min(known, step * self.unit)

    @property
    def divisor(self) -> int:
        """The divisor of every element."""
        return max(self.divisor_at(dim, 1) for dim in range(len(self.contiguity)))


def _uniform(shape: tuple[int, ...], divisor: int, unit: int = 1, constant: bool = True) -> AxisInfo:
    shape = shape or (1,)
    ones = (1,) * len(shape)
    return AxisInfo(ones, (divisor,) * len(shape), shape if constant else ones, unit)


def _unit(type_: Type) -> int:
    element = element_of(type_)
    return element.pointee.itemsize if isinstance(element, PointerType) else 1


class AxisAnalysis:
    """The AxisInfo of every value of a function at the tile or the laid-out level."""

    def __init__(self, func: Func):
        self.func = func
        self.ranges = Ranges(func)
        self.infos: dict[Value, AxisInfo] = {}
        self._block(func.body)

    def of(self, value: Value) -> AxisInfo:
        if isinstance(value, Constant):
            number = value.value if not value.type.is_float else 1
            return _uniform((), power_of_two_in(int(number)))
        info = self.infos.get(value)
        if info is None:
            info = _uniform((), self._hint(value), _unit(value.type))
        return info

    def _hint(self, param: Value) -> int:
        hint = self.func.hints.get(param.name, 1) if param.owner is self.func.body else 1
        return max(power_of_two_in(hint), _unit(param.type))

    def order(self, value: Value) -> tuple[int, ...]:
        """The dimensions of a block from the most to the least contiguous; the later one first where equal."""
        info = self.of(value)
        return tuple(sorted(range(len(info.contiguity)), key=lambda dim: (-info.contiguity[dim], -dim)))

    def vector_width(self, dim: int, pointer: Value, mask: Value | None) -> int:
        """How many elements along ``dim`` one access may take: contiguous, aligned, under one mask, up to 16 bytes."""
        info = self.of(pointer)
        width = min(info.contiguity[dim], MAX_ACCESS_BYTES // info.unit)
        if mask is not None and shape_of(mask.type):
            width = min(width, self.spread(mask, shape_of(pointer.type)).constancy[dim])
        while width > 1 and info.divisor_at(dim, width) < width * info.unit:
            width //= 2
        return max(1, width)

    def spread(self, value: Value, shape: tuple[int, ...]) -> AxisInfo:
        """The info of ``value`` broadcast to ``shape``."""
        info, source = self.of(value), shape_of(value.type)
        if not shape or source == shape:
            return info
        if not source:
            return _uniform(shape, info.divisor, info.unit)
        new = len(shape) - len(source)
        contiguity = [1] * new + list(info.contiguity)
        divisibility = [info.divisor] * new + list(info.divisibility)
        constancy = list(shape[:new]) + list(info.constancy)
        for dim, extent in enumerate(source, new):
            if extent != shape[dim]:
                constancy[dim] = shape[dim]
        return AxisInfo(tuple(contiguity), tuple(divisibility), tuple(constancy), info.unit)

    # --- the walk
    def _block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, Structured):
                self._structured(op)
            else:
                for result in op.results:
                    self.infos[result] = self._op(op, result)

    def _structured(self, op: Structured) -> None:
        """Carried values start as optimistic as their inits and are lowered until an iteration keeps them."""
        if op.name == "for":
            self.infos[op.body.args[0]] = _uniform((), min(self.of(op.start).divisor, self.of(op.step).divisor))
        slots = op.slots()
        states = [self.of(slot.sources[-1]) for slot in slots] if op.starts else []
        while True:
            for slot, state in zip(slots, states, strict=False):
                self.infos.update(dict.fromkeys(slot.values, state))
            for region in op.regions:
                self._block(region)
            met = [reduce(_meet, map(self.of, slot.sources)) for slot in slots]
            if met == states or not op.starts:
                break
            states = met
        for slot, state in zip(slots, met, strict=True):
            self.infos[slot.values[-1]] = state

    def _op(self, op: Op, result: Value) -> AxisInfo:
        shape = shape_of(result.type)
        rule = _RULES.get(op.name)
        if rule is not None:
            return rule(self, op, shape)
        if (
            op.pure
            and op.body is None
            and op.operands
            and op.name not in ("reduce", "scan", "reshape", "gather", "butterfly", "dot")
        ):
            infos = [self.spread(o, shape) for o in op.operands if o is not None]
            constancy = tuple(map(min, *(i.constancy for i in infos))) if len(infos) > 1 else infos[0].constancy
            return AxisInfo((1,) * len(constancy), (_unit(result.type),) * len(constancy), constancy)
        return _uniform(shape, _unit(result.type), _unit(result.type), constant=not shape)

    def operands(self, op: Op, shape: tuple[int, ...]) -> list[AxisInfo]:
        return [self.spread(o, shape) for o in op.operands]


def _meet(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """What holds for both: groups shrink to the shorter contiguity, divisors to the smaller at those groups."""
    contiguity = tuple(map(min, a.contiguity, b.contiguity))
    divisibility = tuple(min(a.divisor_at(d, c), b.divisor_at(d, c)) for d, c in enumerate(contiguity))
    return AxisInfo(contiguity, divisibility, tuple(map(min, a.constancy, b.constancy)), a.unit)


def _arange(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    return AxisInfo(shape, (power_of_two_in(op.start),), (1,))


def _same(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    return axis.spread(op.operands[0], shape)


def _sum(x: AxisInfo, y: AxisInfo, commutes: bool = True) -> AxisInfo:
    """Contiguous plus constant stays contiguous; divisors meet."""
    contiguity, divisibility = [], []
    for dim in range(len(x.contiguity)):
        c = min(x.contiguity[dim], y.constancy[dim])
        if commutes:
            c = max(c, min(y.contiguity[dim], x.constancy[dim]))
        contiguity.append(c)
        divisibility.append(min(x.divisor_at(dim, c), y.divisor_at(dim, c)))
    return AxisInfo(
        tuple(contiguity), tuple(divisibility), tuple(map(min, x.constancy, y.constancy)), max(x.unit, y.unit)
    )


def _scaled(info: AxisInfo, factor: int, unit: int) -> AxisInfo:
    divisibility = tuple(min(d * factor, MAX_DIVISOR) for d in info.divisibility)
    return AxisInfo(info.contiguity, divisibility, info.constancy, unit)


def _add(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    x, y = axis.operands(op, shape)
    return _sum(x, y)


def _sub(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    x, y = axis.operands(op, shape)
    return _sum(x, y, commutes=False)


def _addptr(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    pointer, offset = axis.operands(op, shape)
    return _sum(pointer, _scaled(offset, pointer.unit, pointer.unit))


def _mul(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    x, y = axis.operands(op, shape)
    for info, other in ((x, op.y), (y, op.x)):
        if axis.ranges.constant(other) == 1:
            return info
    divisor = [min(x.divisor_at(d, 1) * y.divisor_at(d, 1), MAX_DIVISOR) for d in range(len(x.contiguity))]
    constancy = tuple(map(min, x.constancy, y.constancy))
    return AxisInfo((1,) * len(constancy), tuple(divisor), constancy)


def _shl(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    x, y = axis.operands(op, shape)
    shift = axis.ranges.constant(op.y)
    constancy = tuple(map(min, x.constancy, y.constancy))
    if shift == 0:
        return x
    factor = 1 << shift if shift is not None and 0 <= shift < 30 else 1
    divisor = tuple(min(x.divisor_at(d, 1) * factor, MAX_DIVISOR) for d in range(len(constancy)))
    return AxisInfo((1,) * len(constancy), divisor, constancy)


def _quotient(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    """x / c for non-negative x and constant c: constant within aligned groups that c's power of two covers."""
    x, y = axis.operands(op, shape)
    constancy = list(map(min, x.constancy, y.constancy))
    divisor = axis.ranges.constant(op.y)
    if op.name == "shr" and divisor is not None:
        divisor = 1 << divisor if 0 <= divisor < 31 else None
    if divisor is not None and divisor > 0 and axis.ranges.non_negative(op.x):
        if divisor == 1:
            return x
        for dim, c in enumerate(x.contiguity):
            constancy[dim] = max(constancy[dim], _aligned_group(x, dim, c, power_of_two_in(divisor)))
    ones = (1,) * len(constancy)
    return AxisInfo(ones, ones, tuple(constancy))


def _remainder(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    """x % c for non-negative x and constant c: contiguous within aligned groups that c's power of two covers."""
    x, y = axis.operands(op, shape)
    constancy = tuple(map(min, x.constancy, y.constancy))
    ones = (1,) * len(constancy)
    divisor = axis.ranges.constant(op.y)
    if divisor is None or divisor <= 0 or not axis.ranges.non_negative(op.x):
        return AxisInfo(ones, ones, constancy)
    power = power_of_two_in(divisor)
    contiguity = tuple(_aligned_group(x, dim, c, power) for dim, c in enumerate(x.contiguity))
    divisibility = tuple(min(x.divisor_at(dim, c), power) for dim, c in enumerate(contiguity))
    return AxisInfo(contiguity, divisibility, constancy)


def _aligned_group(x: AxisInfo, dim: int, contiguity: int, power: int) -> int:
    """The longest group, up to ``contiguity`` and ``power``, whose first element is divisible by its length."""
    group = min(contiguity, power)
    while group > 1 and x.divisor_at(dim, group) < group:
        group //= 2
    return group


def _compare(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    """x < bound and x >= bound are constant within groups whose length divides the group's start and the bound."""
    x, y = axis.operands(op, shape)
    constancy = list(map(min, x.constancy, y.constancy))
    moving, bound = (x, y) if op.name in ("cmp_lt", "cmp_ge") else (y, x)
    if op.name in ("cmp_lt", "cmp_ge", "cmp_gt", "cmp_le"):
        for dim in range(len(constancy)):
            group = _aligned_group(moving, dim, min(moving.contiguity[dim], bound.constancy[dim]), MAX_DIVISOR)
            while group > 1 and bound.divisor_at(dim, 1) < group:
                group //= 2
            constancy[dim] = max(constancy[dim], group)
    ones = (1,) * len(constancy)
    return AxisInfo(ones, ones, tuple(constancy))


def _select(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    condition, x, y = axis.operands(op, shape)
    met = _meet(x, y)
    contiguity = tuple(map(min, met.contiguity, condition.constancy))
    divisibility = tuple(met.divisor_at(d, c) for d, c in enumerate(contiguity))
    return AxisInfo(contiguity, divisibility, tuple(map(min, met.constancy, condition.constancy)), met.unit)


def _extremum(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    """One operand or the other, element by element."""
    x, y = axis.operands(op, shape)
    constancy = tuple(map(min, x.constancy, y.constancy))
    divisibility = tuple(min(x.divisor_at(d, 1), y.divisor_at(d, 1)) for d in range(len(constancy)))
    return AxisInfo((1,) * len(constancy), divisibility, constancy, x.unit)


def _cast(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    """Between integers values stay equal modulo a power of two; anything else keeps only constancy."""
    info = axis.of(op.x)
    source, target = element_of(op.x.type), element_of(op.result.type)
    if source.is_int and target.is_int:
        return info
    ones = (1,) * len(info.constancy)
    return AxisInfo(ones, ones, info.constancy)


def _bitcast(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    info, unit = axis.of(op.x), _unit(op.result.type)
    if unit == info.unit and isinstance(element_of(op.result.type), PointerType):
        return info
    ones = (1,) * len(info.constancy)
    divisor = info.divisor if isinstance(element_of(op.result.type), PointerType) else 1
    return AxisInfo(ones, (divisor,) * len(ones), info.constancy, unit)


def _expand_dims(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    info, at = axis.of(op.x), op.axis
    if not shape_of(op.x.type):
        return info

    def insert(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*values[:at], value, *values[at:])

    return AxisInfo(
        insert(info.contiguity, 1), insert(info.divisibility, info.divisor), insert(info.constancy, 1), info.unit
    )


def _trans(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    info = axis.of(op.x)

    def reordered(field: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(field[i] for i in op.order)

    return AxisInfo(reordered(info.contiguity), reordered(info.divisibility), reordered(info.constancy), info.unit)


def _hint(axis: AxisAnalysis, op: Op, shape: tuple[int, ...]) -> AxisInfo:
    """What is promised, where it is more than what is seen. The first elements of longer runs are among those of the
    shorter ones, so what divided these divides them."""
    info, extents = axis.of(op.x), shape or (1,)
    ones = (1,) * len(extents)

    def better(known: tuple[int, ...], promised: tuple[int, ...], limits: tuple[int, ...]) -> tuple[int, ...]:
        powers = (
            min(power_of_two_in(p), power_of_two_in(limit)) for p, limit in zip(promised or ones, limits, strict=True)
        )
        return tuple(map(max, known, powers))

    return AxisInfo(
        better(info.contiguity, op.contiguous, extents),
        better(info.divisibility, op.divisible, (MAX_DIVISOR,) * len(extents)),
        better(info.constancy, op.constant, extents),
        info.unit,
    )


_RULES = {
    "hint": _hint,
    "arange": _arange,
    "full": _same,
    "broadcast": _same,
    "convert_layout": _same,
    "expand_dims": _expand_dims,
    "trans": _trans,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "addptr": _addptr,
    "shl": _shl,
    "shr": _quotient,
    "div": _quotient,
    "rem": _remainder,
    "cmp_lt": _compare,
    "cmp_le": _compare,
    "cmp_gt": _compare,
    "cmp_ge": _compare,
    "select": _select,
    "maximum": _extremum,
    "minimum": _extremum,
    "cast": _cast,
    "bitcast": _bitcast,
}
