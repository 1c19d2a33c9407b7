"""Intervals of integer values, at every level: which values can occur, and which sums cannot wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from refcompiler.dialects.simt.thread import SHUFFLES
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import I32, DType, element_of

Interval = tuple[int, int]  # least and greatest value, both included

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # extents of a grid, per axis


class Ranges:
    """The intervals of all integer values of a function, each sound for every element, thread and iteration."""

    def __init__(self, func: Func):
        self.threads = func.attrs.get("num_warps", 32) * 32
        self.ctas = func.attrs.get("num_ctas", 1) if func.level == "simt" else 1  # a grid has those of one program
        self.intervals: dict[Value, Interval] = {}
        self.exact: set[Op] = set()  # ops whose mathematical result always fits the type
        for param in func.params:
            if isinstance(param.type, DType) and param.type.is_int and func.hints.get(param.name) == 1:
                self.intervals[param] = (1, 1)
        self._block(func.body)

    def of(self, value: Value) -> Interval | None:
        """The interval of ``value``; None where it is no integer."""
        if isinstance(value, Constant):
            return (int(value.value), int(value.value)) if not value.type.is_float else None
        dtype = element_of(value.type)
        if not isinstance(dtype, DType) or dtype.is_float:
            return None
        return self.intervals.get(value, (dtype.min_int, dtype.max_int) if dtype.is_int else (0, 1))

    def constant(self, value: Value) -> int | None:
        """The one value that ``value`` has in every element, if that is known."""
        interval = self.of(value)
        return interval[0] if interval is not None and interval[0] == interval[1] else None

    def defined(self, op: Op) -> bool:
        """True if an integer division can neither divide by 0 nor overflow, and a shift never reaches the width."""
        low, high = self.of(op.y)
        if op.name in ("div", "rem"):
            return low > 0 or low == high < -1
        return low >= 0 and high < element_of(op.y.type).bits

    def can_count(self, stop: Value, step: int) -> bool:
        """True if counting by the constant ``step`` until ``stop`` is passed cannot leave the type."""
        low, high = self.of(stop)
        dtype = element_of(stop.type)
        return abs(step) == 1 or (high + step - 1 <= dtype.max_int if step > 0 else low + step + 1 >= dtype.min_int)

    def can_count_wider(self, loop: Op) -> bool:
        """True if a loop counts up by a step that is known at run time only, and in 64 bits cannot leave the type."""
        step = self.of(loop.step)
        return not isinstance(loop.step, Constant) and step[0] > 0 and element_of(loop.start.type).bits <= 32

    def non_negative(self, value: Value) -> bool:
        interval = self.of(value)
        return interval is not None and interval[0] >= 0

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.name == "for":
                self._loop(op)
            elif op.regions:
                for region in op.regions:
                    self._block(region)
                if op.name == "if":
                    self._join_slots(op)
            elif len(op.results) == 1:
                self._op(op)

    def _loop(self, op: Op) -> None:
        start, stop, step = (self.of(v) for v in (op.start, op.stop, op.step))
        if step[0] > 0:
            last = stop[1] - 1
            if start[0] == start[1] and step[0] == step[1]:  # the last index lies whole steps from the first
                last -= (last - start[0]) % step[0]
            self.intervals[op.body.args[0]] = (start[0], max(start[0], last))
        elif step[1] < 0:
            self.intervals[op.body.args[0]] = (min(start[1], stop[0] + 1), start[1])
        self._carried(op)

    def _carried(self, op: Op) -> None:
        """Counters that a loop carries round a ring stay in it, if they begin in it and the body leaves them there."""
        assumed, ends = self._counters(op), dict(zip(op.body.args[1:], op.body.terminator.carried, strict=True))
        known, exact = dict(self.intervals), set(self.exact)
        while True:
            self.intervals, self.exact = {**known, **assumed}, set(exact)
            self._block(op.body)
            outside = [arg for arg, interval in assumed.items() if not _within(self.of(ends[arg]), interval)]
            if not outside:
                break
            for arg in outside:
                del assumed[arg]
        results = dict(zip(op.body.args[1:], op.results, strict=True))
        self.intervals |= {results[arg]: interval for arg, interval in assumed.items()}

    def _counters(self, op: Op) -> dict[Value, Interval]:
        """What a loop may carry round a ring, with the interval that it has then."""
        rings = [ring for inner in op.body.walk() if inner.name == "select" and (ring := _ring(inner)) is not None]
        if not rings:
            return {}
        interval = (0, max(ring.last for ring in rings))
        carried = zip(op.body.args[1:], op.inits, strict=True)
        return {arg: interval for arg, start in carried if arg.type is I32 and _within(self.of(start), interval)}

    def _join_slots(self, op: Op) -> None:
        for slot in op.slots():
            intervals = [self.of(source) for source in slot.sources]
            if None not in intervals:
                self.intervals[slot.values[-1]] = (min(i[0] for i in intervals), max(i[1] for i in intervals))

    def _op(self, op: Op) -> None:
        result = op.results[0]
        dtype = element_of(result.type)
        if not isinstance(dtype, DType) or not dtype.is_int:
            return
        interval = self._special(op)
        if interval is None:
            rule = _RULES.get(op.name)
            operands = [self.of(o) for o in op.operands] if rule else [None]
            interval = rule(*operands) if all(o is not None for o in operands) else None
        if interval is not None and dtype.min_int <= interval[0] and interval[1] <= dtype.max_int:
            self.intervals[result] = interval
            self.exact.add(op)

    def _special(self, op: Op) -> Interval | None:
        if op.name == "thread_id":
            return 0, self.threads - 1
        if op.name == "cta_rank":
            return 0, op.ctas - 1
        if op.name in ("program_id", "num_programs"):
            limit = GRID_LIMITS[op.axis]
            return (0, limit - 1) if op.name == "program_id" else (self.ctas if op.axis == 0 else 1, limit)
        if op.name == "arange":
            return op.start, op.end - 1
        if op.name == "constants":
            return min(op.values), max(op.values)
        if op.name == "select":
            return _join(self.of(op.x), self._counted(op))
        if op.name == "cast":
            return self.of(op.x)
        if op.name == "pack" or (op.name in ("reduce", "scan") and _selects(op)):
            intervals = [self.of(v) for v in op.operands]
            return (min(i[0] for i in intervals), max(i[1] for i in intervals))
        if op.name in _MOVES:
            return self.of(op.operands[0])
        return None

    def _counted(self, op: Op) -> Interval | None:
        """The interval of what a select gives if its condition is false: a counter stops short of its limit there."""
        interval, ring = self.of(op.y), _ring(op)
        if interval is None or ring is None or self.of(ring.counter)[1] > ring.limit:
            return interval
        return interval[0], min(interval[1], ring.last)


_MOVES = frozenset(
    "full broadcast expand_dims reshape trans hint gather butterfly convert_layout splat extract".split()
) | set(SHUFFLES)


class _Ring(NamedTuple):
    """A counter that starts again at 0 where it is ``limit``; ``last`` is the greatest that comes of counting on."""

    counter: Value
    limit: int
    last: int


def _ring(op: Op) -> _Ring | None:
    """The ring that a select counts round: ``counter == limit ? 0 : counter``, or the counter plus a constant."""
    test = op.condition.owner if isinstance(op.condition, Value) else None
    zero = isinstance(op.x, Constant) and op.x.type is I32 and op.x.value == 0
    if not zero or not isinstance(test, Op) or test.name != "cmp_eq" or not isinstance(test.y, Constant):
        return None
    counter, limit = test.x, int(test.y.value)
    if op.y is counter:
        return _Ring(counter, limit, limit - 1)
    made = op.y.owner
    if isinstance(made, Op) and made.name == "add" and made.x is counter and isinstance(made.y, Constant):
        return _Ring(counter, limit, limit - 1 + int(made.y.value))
    return None


def _within(interval: Interval | None, other: Interval) -> bool:
    return interval is not None and other[0] <= interval[0] and interval[1] <= other[1]


def _selects(op: Op) -> bool:
    """Whether a combination gives one of its operands."""
    return op.attrs.get("combine") in ("maximum", "minimum")


def _join(a: Interval | None, b: Interval | None) -> Interval | None:
    return (min(a[0], b[0]), max(a[1], b[1])) if a is not None and b is not None else None


def _corners(function: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def rule(x: Interval, y: Interval) -> Interval:
        corners = [function(a, b) for a in x for b in y]
        return min(corners), max(corners)

    return rule


def _div(x: Interval, y: Interval) -> Interval | None:
    if y[0] <= 0 or x[0] < 0:
        return None
    return x[0] // y[1], x[1] // y[0]


def _rem(x: Interval, y: Interval) -> Interval | None:
    return (0, min(x[1], y[1] - 1)) if x[0] >= 0 and y[0] > 0 else None


def _shl(x: Interval, y: Interval) -> Interval | None:
    return _corners(lambda a, b: a << b)(x, y) if 0 <= y[0] and y[1] < 64 else None


def _shr(x: Interval, y: Interval) -> Interval | None:
    return (x[0] >> y[1], x[1] >> y[0]) if x[0] >= 0 and 0 <= y[0] and y[1] < 64 else None


def _and(x: Interval, y: Interval) -> Interval | None:
    bounds = [i[1] for i in (x, y) if i[0] >= 0]
    return (0, min(bounds)) if bounds else None


def _or(x: Interval, y: Interval) -> Interval | None:
    if x[0] < 0 or y[0] < 0:
        return None
    return 0, (1 << max(x[1], y[1]).bit_length()) - 1


_RULES: dict[str, Callable[..., Interval | None]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": _corners(lambda a, b: a * b),
    "neg": lambda x: (-x[1], -x[0]),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "div": _div,
    "rem": _rem,
    "shl": _shl,
    "shr": _shr,
    "and": _and,
    "or": _or,
    "xor": _or,
}
