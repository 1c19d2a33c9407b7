"""Loops, whose blocks are carried as registers, and assertions."""

from __future__ import annotations

from refcompiler.ir.core import Block, Op, Value
from refcompiler.ir.types import BlockType
from refcompiler.lowering.state import Lowering, lowers, register_type


@lowers("for")
def lower_for(state: Lowering, op: Op) -> None:
    bounds = [state.value(v) for v in op.operands[:3]]
    inits = [_carried(state, v) for v in op.inits]
    body = Block([Value(bounds[0].type), *(Value(register_type(a)) for a in op.body.args[1:])])
    for old, new in zip(op.body.args, body.args, strict=True):
        state.set(old, new)
    with state.builder.inside(body):
        state.block(op.body)
        state.builder.op("yield", *(_carried(state, v) for v in op.body.terminator.operands))
    loop = state.builder.op("for", *bounds, *inits, body=body)
    for old, new in zip(op.results, loop.results, strict=True):
        state.set(old, new)


def _carried(state: Lowering, value: Value) -> Value:
    return state.vector(value) if isinstance(value.type, BlockType) else state.value(value)


@lowers("assert")
def lower_assert(state: Lowering, op: Op) -> None:
    """Checked in debug builds only: a check costs a branch per element."""
    if state.debug:
        state.builder.op("assert", state.value(op.condition), message=op.message)
