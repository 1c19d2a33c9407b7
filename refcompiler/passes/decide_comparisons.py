"""Comparisons of integers whose ranges leave no doubt become their outcome: masks that exclude nothing go away."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.ranges import Interval, Ranges
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import BOOL, BlockType


def decide_comparisons(func: Func, context: Any = None) -> None:
    """Replace every comparison that is true, or false, for all values that its operands can have."""
    _block(func.body, Ranges(func), {})


def _block(block: Block, ranges: Ranges, decided: dict[Value, Value]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        op.operands = [None if o is None else decided.get(o, o) for o in op.operands]
        for region in op.regions:
            _block(region, ranges, decided)
        outcome = _outcome(op, ranges)
        if outcome is None:
            ops.append(op)
        elif isinstance(op.result.type, BlockType):
            ops.append(OPS["full"](Constant(outcome, BOOL), types=[op.result.type], span=op.span))
            decided[op.result] = ops[-1].result
        else:
            decided[op.result] = Constant(outcome, BOOL)
    block.ops = ops


def _outcome(op: Op, ranges: Ranges) -> bool | None:
    """What a comparison gives whatever its operands are; None where that depends on them."""
    if op.name not in _TESTS:
        return None
    x, y = (ranges.of(o) for o in op.operands)
    if x is None or y is None:
        return None
    always, never = _TESTS[op.name]
    return True if always(x, y) else False if never(x, y) else None


def _below(x: Interval, y: Interval) -> bool:
    return x[1] < y[0]


def _not_above(x: Interval, y: Interval) -> bool:
    return x[1] <= y[0]


def _above(x: Interval, y: Interval) -> bool:
    return _below(y, x)


def _not_below(x: Interval, y: Interval) -> bool:
    return _not_above(y, x)


def _apart(x: Interval, y: Interval) -> bool:
    return _below(x, y) or _above(x, y)


def _equal(x: Interval, y: Interval) -> bool:
    return x[0] == x[1] == y[0] == y[1]


# comparison -> when it is true for all values of two intervals, when it is false for all of them
_TESTS = {
    "cmp_lt": (_below, _not_below),
    "cmp_le": (_not_above, _above),
    "cmp_gt": (_above, _not_above),
    "cmp_ge": (_not_below, _below),
    "cmp_eq": (_equal, _apart),
    "cmp_ne": (_apart, _equal),
}
