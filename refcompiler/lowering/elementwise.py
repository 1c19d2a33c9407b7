"""Elementwise ops, and ops that only rename registers."""

from __future__ import annotations

from refcompiler.dialects.elementwise import ELEMENTWISE
from refcompiler.ir.core import Constant, Op
from refcompiler.ir.types import DType, PointerType, element_of
from refcompiler.layouts import index_pieces, is_additive, register_offsets
from refcompiler.lowering.state import Lowering, layout_of, lowers


@lowers(*ELEMENTWISE, "select", "cast", "bitcast", "addptr")
def lower_elementwise(state: Lowering, op: Op) -> None:
    state.set(op.result, state.apply(op, [state.value(o) for o in op.operands]))


@lowers("program_id", "num_programs")
def lower_program(state: Lowering, op: Op) -> None:
    state.set(op.result, state.op(op.name, axis=op.axis))


@lowers("arange")
def lower_arange(state: Lowering, op: Op) -> None:
    layout = layout_of(op.result)
    offsets = [offset[0] for offset in register_offsets(layout)]
    index = state.index(index_pieces(layout, 0), offsets, is_additive(layout, 0))
    if op.start:
        index = state.op("add", index, state.constant(op.start))
    state.set(op.result, index)


@lowers("full")
def lower_full(state: Lowering, op: Op) -> None:
    state.set(op.result, state.value(op.value))


@lowers("empty")
def lower_empty(state: Lowering, op: Op) -> None:
    """Unspecified elements: zero is as good as any; of pointers, any that there is."""
    element = element_of(op.result.type)
    if isinstance(element, DType):
        state.set(op.result, Constant(0, element))
    else:
        pointer = next(p for p in state.new.params if isinstance(p.type, PointerType))
        state.set(op.result, state.op("bitcast", pointer, types=[element]))
