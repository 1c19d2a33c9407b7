"""Elementwise ops, and ops that only rename registers."""

from __future__ import annotations

from refcompiler.dialects.elementwise import ELEMENTWISE
from refcompiler.dialects.simt.registers import count_of
from refcompiler.ir.core import Constant, Op
from refcompiler.ir.types import BOOL, BlockType, DType, PointerType, element_of
from refcompiler.layouts import contiguous_elements, index_pieces, is_additive, register_offsets, vector_groups
from refcompiler.lowering.state import Lowering, layout_of, lowers


@lowers(*ELEMENTWISE, "select", "cast", "bitcast", "addptr")
def lower_elementwise(state: Lowering, op: Op) -> None:
    operands = [state.value(o) for o in op.operands]
    width, groups = _equal_registers(state, op)
    if width == 1 or max(count_of(o.type) for o in operands) == 1:
        state.set(op.result, state.apply(op, operands))
        return
    leaders = sorted(group[0] for group in groups)
    place = {register: leaders.index(group[0]) for group in groups for register in group}
    once = state.splat(state.apply(op, [state.compute_for(o, leaders) for o in operands]), len(leaders))
    state.set(op.result, state.op("extract", once, indices=tuple(place[r] for r in sorted(place))))


def _equal_registers(state: Lowering, op: Op) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """The registers of a mask in groups of equal elements, as many in each as can be proven: one comparison does for
    all that one vector access takes."""
    if element_of(op.result.type) is not BOOL or not isinstance(op.result.type, BlockType):
        return 1, ()
    layout, constancy = layout_of(op.result), state.axis.of(op.result).constancy
    widths = [min(constancy[dim], contiguous_elements(layout, dim)) for dim in range(layout.rank)]
    dim = max(range(layout.rank), key=lambda d: widths[d], default=0)
    if not widths or widths[dim] == 1 or widths[dim] == layout.num_registers:
        return 1, ()
    return widths[dim], vector_groups(layout, dim, widths[dim])


@lowers("program_id", "num_programs")
def lower_program(state: Lowering, op: Op) -> None:
    """Along the first axis of the grid lie the CTAs of a program."""
    number, ctas = state.op(op.name, axis=op.axis), state.old.attrs.get("num_ctas", 1)
    if op.axis == 0 and ctas > 1:
        number = state.op("shr", number, state.constant(ctas.bit_length() - 1))
    state.set(op.result, number)


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
