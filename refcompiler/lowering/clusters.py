"""Exchange between the CTAs of a cluster: each writes what it has to the shared memory of all of them."""

from __future__ import annotations

from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import F32, I32, I64, BlockType, DType, SharedType, element_of, shape_of, with_element
from refcompiler.layouts import index_pieces, is_additive, owner_bits, owner_registers, register_offsets, row_major
from refcompiler.layouts.shared import shared_access
from refcompiler.lowering.fragments import Fragments
from refcompiler.lowering.memory import owned
from refcompiler.lowering.state import Lowering, layout_of, lowers


@lowers("cta_rank")
def lower_cta_rank(state: Lowering, op: Op) -> None:
    state.set(op.result, _rank(state, op.ctas))


def _rank(state: Lowering, ctas: int) -> Value:
    return state.op("and", state.op("program_id", axis=0), state.constant(ctas - 1))


@lowers("all_gather")
def lower_all_gather(state: Lowering, op: Op) -> None:
    """A buffer of its own in every CTA, so that between two exchanges of a loop one barrier is enough."""
    state.begin_cluster()
    layout = layout_of(op.result)
    element, shape = element_of(op.x.type), shape_of(op.x.type)
    word = I64 if element.bits == 64 else I32
    elements = 1
    for extent in shape:
        elements *= extent
    buffer = state.op("shared_alloc", synchronized="cluster", types=[SharedType(word, op.ctas * elements)])
    rank = _rank(state, op.ctas)
    value = _as_words(state, state.vector(op.x) if shape else state.value(op.x), word)
    if shape:
        _put_block(state, op, buffer, value, state.op("mul", rank, state.constant(elements)))
    else:  # each of the first threads writes to one of the CTAs
        to_one = state.op("cmp_lt", state.thread, state.constant(op.ctas))
        state.builder.op("st_cluster", buffer, rank, state.thread, value, to_one)
    load = shared_access(layout, row_major(layout.shape), word.itemsize, store=False)
    state.set(op.result, _from_words(state, Fragments(buffer, None, load).all(state), element))


def _put_block(state: Lowering, op: Op, buffer: Value, value: Value, first: Value) -> None:
    """The owner of each element writes it to every CTA, into the row of ``buffer`` that begins at ``first``."""
    assert isinstance(op.x.type, BlockType)
    flat = layout_of(op.x).reshape((op.x.type.numel,))
    registers = owner_registers(flat)
    offsets = [register_offsets(flat)[register][0] for register in registers]
    index = state.index(index_pieces(flat, 0), offsets, is_additive(flat, 0))
    index = state.splat(state.op("add", index, first), len(registers))
    owner = owned(state, None, owner_bits(flat).thread)
    for number, register in enumerate(registers):
        place, word = state.pick(index, (number,)), state.pick(value, (register,))
        for cta in range(op.ctas):
            state.builder.op("st_cluster", buffer, place, state.constant(cta), word, owner)


def _as_words(state: Lowering, value: Value, word: DType) -> Value:
    """Numbers as integers of 32 or 64 bits that hold their bits, or their value."""
    element = element_of(value.type)
    if element is word:
        return value
    if element.is_float and element.bits < 32:
        value, element = state.cast(value, F32), F32
    if element.bits == word.bits:
        return state.op("bitcast", value, types=[with_element(value.type, word)])
    return state.cast(value, word)


def _from_words(state: Lowering, value: Value, element: DType) -> Value:
    """The inverse of ``_as_words``."""
    word = element_of(value.type)
    if element is word:
        return value
    if element.bits == word.bits:
        return state.op("bitcast", value, types=[with_element(value.type, element)])
    if element.is_float:
        return state.cast(state.op("bitcast", value, types=[with_element(value.type, F32)]), element)
    return state.cast(value, element)
