"""Exchange between the CTAs of a cluster: each writes what it has to the shared memory of all of them."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from refcompiler.ir.core import Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import F32, I32, I64, BlockType, DType, SharedType, element_of, shape_of, with_element
from refcompiler.layouts import index_pieces, is_additive, owner_bits, owner_registers, register_offsets, row_major
from refcompiler.layouts.shared import shared_access
from refcompiler.lowering.memory import owned
from refcompiler.lowering.shared import loaded
from refcompiler.lowering.state import Lowering, inverse, layout_of, lowers


class Exchange(NamedTuple):
    """What all exchanges of a function share: a buffer of two halves, which they use in turns, the barriers that count
    what has come to each half, and for each thread how many exchanges it has begun."""

    buffer: Value
    half: int  # elements
    barriers: Value
    begun: Value


class Turn(NamedTuple):
    """The half that an exchange uses, its first element, and the parity of its phase."""

    half: Value
    first: Value
    parity: Value


@lowers("cta_rank")
def lower_cta_rank(state: Lowering, op: Op) -> None:
    state.set(op.result, _rank(state, op.ctas))


def _rank(state: Lowering, ctas: int) -> Value:
    return state.op("and", state.op("program_id", axis=0), state.constant(ctas - 1))


@lowers("all_gather")
def lower_all_gather(state: Lowering, op: Op) -> None:
    """Nobody waits for the slowest CTA but for what it sends. Nor does it hurt to be ahead of one: who sends for the
    second time after an exchange has heard from everyone since, so that all have read what was in that half."""
    if state.exchange is None:
        state.exchange = state.at_top(lambda: _begin(state))
    exchange, layout, elements = state.exchange, layout_of(op.result), prod(shape_of(op.x.type))
    word = element_of(exchange.buffer.type)
    turn = _next(state, exchange)
    mine = state.op("add", turn.first, state.op("mul", _rank(state, op.ctas), state.constant(elements)))
    value = _as_words(state, state.vector(op.x) if shape_of(op.x.type) else state.value(op.x), word)
    if shape_of(op.x.type):
        _send_block(state, op, value, mine, turn)
    else:  # each of the first threads sends to one of the CTAs
        to_one = state.op("cmp_lt", state.thread, state.constant(op.ctas))
        _send(state, mine, state.thread, value, turn, to_one)
    first = state.op("cmp_eq", state.thread, state.constant(0))
    total = op.ctas * elements * word.itemsize
    state.builder.op("mbarrier_expect_tx", exchange.barriers, turn.half, first, bytes=total)
    state.builder.op("mbarrier_wait", exchange.barriers, turn.half, turn.parity)
    load = shared_access(layout, row_major(layout.shape), word.itemsize, store=False)
    order = inverse([register for _, vector in load.vectors for register in vector])
    came = loaded(state, exchange.buffer, turn.first, load, list(range(len(load.vectors))))
    state.set(op.result, _from_words(state, state.pick(came, order), element_of(op.x.type)))


def _begin(state: Lowering) -> Exchange:
    """Made before anything else in a kernel; ``meet_before_exchanges`` lets no CTA send to one that has not made it."""
    gathers = [op for op in state.old.walk() if op.name == "all_gather"]
    word = I64 if any(element_of(op.x.type).bits == 64 for op in gathers) else I32
    half = max(op.result.type.numel for op in gathers)
    threads = state.num_warps * 32
    buffer = state.op("shared_alloc", synchronized="cluster", types=[SharedType(word, 2 * half)])
    begun = state.op("shared_alloc", synchronized="thread", types=[SharedType(I32, threads)])
    barriers = state.op("mbarrier_alloc", count=2)
    first = state.op("cmp_eq", state.thread, state.constant(0))
    for number in range(2):
        state.builder.op("mbarrier_init", barriers, state.constant(number), first, arrivals=1)
    state.builder.op("fence_mbarrier_init")
    state.builder.op("st_shared", begun, state.thread, state.constant(0), None)
    return Exchange(buffer, half, barriers, begun)


def meet_before_exchanges(func: Func) -> None:
    """A barrier of the cluster before the first op of the kernel in which CTAs send to each other. What the kernel
    reads first is on its way by then, and needs no other barrier if it has to be ordered against what follows."""
    for place, op in enumerate(func.body.ops):
        inside = (op, *(inner for region in op.regions for inner in region.walk()))
        if any(inner.name == "st_async" for inner in inside):
            func.body.ops.insert(place, OPS["cluster_barrier"](span=op.span))
            return


def _next(state: Lowering, exchange: Exchange) -> Turn:
    """The turn of the exchange that begins."""
    number = state.op("ld_shared", exchange.begun, state.thread)
    following = state.op("add", number, state.constant(1))
    state.builder.op("st_shared", exchange.begun, state.thread, following, None)
    half = state.op("and", number, state.constant(1))
    parity = state.op("and", state.op("shr", number, state.constant(1)), state.constant(1))
    return Turn(half, state.op("mul", half, state.constant(exchange.half)), parity)


def _send(state: Lowering, index: Value, cta: Value, value: Value, turn: Turn, sends: Value | None) -> None:
    exchange = state.exchange
    state.builder.op("st_async", exchange.buffer, index, cta, value, exchange.barriers, turn.half, sends)


def _send_block(state: Lowering, op: Op, value: Value, first: Value, turn: Turn) -> None:
    """The owner of each element sends it to every CTA, into the row of the buffer that begins at ``first``."""
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
            _send(state, place, state.constant(cta), word, turn, owner)


def _as_words(state: Lowering, value: Value, word: DType) -> Value:
    """Numbers as integers of 32 or 64 bits that hold their bits, or their value."""
    element = element_of(value.type)
    if element.is_float and element.bits < 32:
        value, element = state.cast(value, F32), F32
    if element.is_float:
        own = I64 if element.bits == 64 else I32
        value, element = state.op("bitcast", value, types=[with_element(value.type, own)]), own
    return state.cast_to(value, word)


def _from_words(state: Lowering, value: Value, element: DType) -> Value:
    """The inverse of ``_as_words``."""
    if not element.is_float:
        return state.cast_to(value, element)
    own, wide = (I64, element) if element.bits == 64 else (I32, F32)
    value = state.op("bitcast", state.cast_to(value, own), types=[with_element(value.type, wide)])
    return state.cast_to(value, element)
