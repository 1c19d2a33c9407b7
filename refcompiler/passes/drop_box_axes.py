"""Let accesses of boxes that are one element wide along some axes give and take blocks without these axes."""

from __future__ import annotations

from typing import Any

from refcompiler.dialects.tile.descriptor import DescriptorLoad, DescriptorStore, without_ones
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.rewriter import uses
from refcompiler.ir.types import shape_of


def drop_box_axes(func: Func, context: Any = None) -> None:
    """reshape(descriptor_load) -> descriptor_load, where nothing else uses what it gave; descriptor_store(reshape) ->
    descriptor_store; where the shapes differ in axes of extent 1 only."""
    count = uses(func)
    values: dict[Value, Value] = {}
    for op in func.walk():
        op.operands = [values.get(o, o) if o is not None else None for o in op.operands]
        if _drops_ones(op) and isinstance(op.x.owner, DescriptorLoad) and count[op.x] == 1:
            op.x.type = op.result.type
            values[op.result] = op.x
        elif isinstance(op, DescriptorStore) and isinstance(op.value.owner, Op) and _drops_ones(op.value.owner):
            op.operands[-1] = op.value.owner.x
    if values:
        _remove(func.body, set(values))


def _drops_ones(op: Op) -> bool:
    if op.name != "reshape" or isinstance(op.x, Constant):
        return False
    before, after = without_ones(shape_of(op.x.type)), without_ones(shape_of(op.result.type))
    return before == after and bool(after)


def _remove(block: Any, gone: set[Value]) -> None:
    """Take out the ops whose results nothing names any more."""
    block.ops = [op for op in block.ops if not any(r in gone for r in op.results)]
    for op in block.ops:
        for region in op.regions:
            _remove(region, gone)
