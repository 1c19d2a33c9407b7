"""Compute one address for accesses at constant distances: the distances become part of the instructions."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.ranges import Ranges
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import RegType


def share_addresses(func: Func, context: Any = None) -> None:
    """Rewrite every ``p + (x + constants)``, of one pointer and one number per thread, to ``(p + x) + constants``.

    Only where ``x + constants`` cannot wrap: offsets are extended to 64 bits before they are added to a pointer.
    """
    _block(func.body, Ranges(func))


def _block(block: Block, ranges: Ranges) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _block(region, ranges)
        if op.name == "addptr" and (parts := _parts(op, ranges)) is not None:
            one, constants = parts
            first = OPS["addptr"](op.pointer, one, span=op.span)
            ops.append(first)
            op.operands = [first.result, constants]
        ops.append(op)
    block.ops = ops


def _parts(op: Op, ranges: Ranges) -> tuple[Value, Value] | None:
    """The number of each thread, and the constants, whose sums are the offsets of one pointer."""
    made = op.offset.owner
    if isinstance(op.pointer.type, RegType) or not isinstance(made, Op) or made.name != "add":
        return None
    one, constants = made.operands
    if isinstance(one.type, RegType) or isinstance(one, Constant) or made not in ranges.exact:
        return None
    return (one, constants) if isinstance(constants.owner, Op) and constants.owner.name == "constants" else None
