"""Loops and branches, whose blocks are carried as registers, and assertions."""

from __future__ import annotations

from refcompiler.dialects.scf import Structured
from refcompiler.dialects.tile.dot import Dot
from refcompiler.ir.core import Block, Op, Value
from refcompiler.ir.types import F32, BlockType, element_of
from refcompiler.lowering.state import Lowering, lowers, register_type


@lowers("for", "if", "while")
def lower_structured(state: Lowering, op: Structured) -> None:
    """The same op over registers: blocks are carried as vectors, in every region and at both ends."""
    operands = [_carried(state, v) for v in op.operands]
    regions = [lower_region(state, region) for region in op.regions]
    new = state.builder.op(op.name, *operands, regions=regions, types=[register_type(r) for r in op.results])
    for number, (old, result) in enumerate(zip(op.results, new.results, strict=True)):
        state.set(old, state.op("moved", result) if op.name == "for" and _is_sum(op, number) else result)


def _is_sum(op: Structured, number: int) -> bool:
    """Whether a loop carries a sum of multiply-adds in f32. What reads it afterwards has it in registers of its own: a
    store wants neighbours side by side, and a multiply-add at full rate one even and one odd register."""
    value = op.regions[0].terminator.operands[number]
    made = value.owner
    return isinstance(made, Dot) and made.strategy != "mma" and element_of(value.type) is F32


def lower_region(state: Lowering, old: Block) -> Block:
    """A region over registers."""
    new = Block([Value(register_type(a)) for a in old.args])
    for before, after in zip(old.args, new.args, strict=True):
        state.set(before, after)
    with state.builder.inside(new):
        state.block(old)
        end = old.terminator
        state.builder.op(end.name, *(_carried(state, v) for v in end.operands))
    return new


def _carried(state: Lowering, value: Value) -> Value:
    return state.vector(value) if isinstance(value.type, BlockType) else state.value(value)


@lowers("assert")
def lower_assert(state: Lowering, op: Op) -> None:
    """Checked in debug builds only: a check costs a branch per element."""
    if state.debug:
        state.builder.op("assert", state.value(op.condition), message=op.message)
