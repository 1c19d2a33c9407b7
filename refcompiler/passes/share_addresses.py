"""Compute one address for accesses at constant distances: the distances become part of the instructions."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.ranges import Ranges
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import DType, RegType, element_of


def share_addresses(func: Func, context: Any = None) -> None:
    """Add constants last: ``(x + constants) + y`` of numbers of each thread becomes ``(x + y) + constants``, and
    ``p + (x + constants)`` of a pointer ``(p + x) + constants``.

    The latter only where ``x + constants`` cannot wrap: offsets are extended to 64 bits before they are added.
    """
    _sums(func.body)
    _pointers(func.body, Ranges(func))


def _sums(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _sums(region)
        for one, other in ((0, 1), (1, 0)) if op.name == "add" and _is_integer(op.result) else ():
            parts = _parts(op.operands[one])
            if parts is not None and not isinstance(op.operands[other].type, RegType):
                first = OPS["add"](parts[0], op.operands[other], span=op.span)
                ops.append(first)
                op.operands = [first.result, parts[1]]
                break
        ops.append(op)
    block.ops = ops


def _pointers(block: Block, ranges: Ranges) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _pointers(region, ranges)
        parts = _parts(op.offset) if op.name == "addptr" and not isinstance(op.pointer.type, RegType) else None
        if parts is not None and op.offset.owner in ranges.exact:
            first = OPS["addptr"](op.pointer, parts[0], span=op.span)
            ops.append(first)
            op.operands = [first.result, parts[1]]
        ops.append(op)
    block.ops = ops


def _parts(value: Value) -> tuple[Value, Value] | None:
    """The number of each thread, and the constants, whose sum is ``value``."""
    made = value.owner
    if not isinstance(made, Op) or made.name != "add":
        return None
    one, constants = made.operands
    if isinstance(one.type, RegType) or isinstance(one, Constant):
        return None
    return (one, constants) if isinstance(constants.owner, Op) and constants.owner.name == "constants" else None


def _is_integer(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(value.type, RegType) and isinstance(element, DType) and element.is_int
