"""Layout conversion and broadcast: by nothing, registers, shuffles or shared memory, as the layouts' plan says."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from refcompiler.dialects.simt.registers import count_of
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.types import I32, BlockType, DType, SharedType, element_of
from refcompiler.layouts import (
    Conversion,
    LinearLayout,
    SharedAccess,
    SharedExchange,
    Shuffle,
    Swap,
    broadcast,
    conversion,
    index_pieces,
    is_additive,
    register_offsets,
    row_major,
    shared_access,
    shared_exchange,
)
from refcompiler.layouts.matrices import WORD_BYTES, MatrixAccess, MatrixExchange, matrix_exchange
from refcompiler.lowering.fragments import Fragments, is_operand, taken
from refcompiler.lowering.shared import moves_matrices, store
from refcompiler.lowering.state import Lowering, layout_of, lowers

POINTER_BYTES = 8


def element_bytes(value: Value) -> int:
    element = element_of(value.type)
    return element.itemsize if isinstance(element, DType) else POINTER_BYTES


@lowers("convert_layout", "reshape")
def lower_convert(state: Lowering, op: Op) -> None:
    source, target = layout_of(op.x), layout_of(op.result)
    if op.name == "reshape" and target.is_shared:
        state.set(op.result, state.value(op.x))
        return
    if op.name == "reshape":
        source = source.reshape(target.shape)
    plan, value = conversion(source, target, element_bytes(op.x)), state.value(op.x)
    if plan.shared is None or isinstance(value, Constant):
        state.set(op.result, convert(state, value, plan))
        return
    exchange = _by_matrices(state, op, source, target) or plan.shared
    buffer = stored(state, value, exchange.store, exchange.layout.size("offset"))
    state.values[op.result] = taken(state, op, Fragments(buffer, None, exchange.load))


def _by_matrices(state: Lowering, op: Op, source: LinearLayout, target: LinearLayout) -> MatrixExchange | None:
    """The exchange that ends with ldmatrix for operands of tensor cores, which are read step by step; or that begins
    with stmatrix for 16-bit registers, where that takes fewer accesses than vectors do."""
    size = element_bytes(op.x)
    stores = size == WORD_BYTES // 2 and state.target is not None and state.target.has_stmatrix
    if not moves_matrices(element_of(op.x.type)):
        return None
    found = matrix_exchange(source, target, size, stores=stores) if is_operand(state, op) else None
    if found is None and stores:
        found = matrix_exchange(source, target, size, loads=False, stores=True)
        if found is not None and found.accesses >= shared_exchange(source, target, size).accesses:
            return None
    return found


@lowers("broadcast")
def lower_broadcast(state: Lowering, op: Op) -> None:
    value = state.value(op.x)
    if isinstance(op.x.type, BlockType):
        value = convert(state, value, broadcast(layout_of(op.x), layout_of(op.result), element_bytes(op.x)))
    state.set(op.result, value)


@lowers("gather")
def lower_gather(state: Lowering, op: Op) -> None:
    """Through shared memory in row-major order; every index is cut to the extent, so that none leaves the buffer."""
    value, source, target = state.value(op.x), layout_of(op.x), layout_of(op.result)
    if isinstance(op.x.type, BlockType) and count_of(value.type) == 1 and source.num_registers > 1:
        value = state.vector(op.x)
    order = row_major(source.shape)
    store = shared_access(source, order, element_bytes(op.x), store=True)
    buffer = stored(state, value, store, order.size("offset"))
    place, stride = _along_axis(state, op), 1
    for dim in reversed(range(source.rank)):
        if dim != op.axis and source.shape[dim] > 1:
            offsets = [offset[dim] for offset in register_offsets(target)]
            at = state.index(index_pieces(target, dim), offsets, is_additive(target, dim))
            at = at if stride == 1 else state.op("mul", at, state.constant(stride))
            place = state.op("add", place, at)
        stride *= source.shape[dim]
    place = state.splat(place, target.num_registers)
    state.set(op.result, state.op("ld_shared", buffer, place))


def _along_axis(state: Lowering, op: Op) -> Value:
    """The part of the places that the index gives, i32."""
    place, shape = state.value(op.index), layout_of(op.x).shape
    if element_of(op.index.type).bits < 32:
        place = state.cast(place, I32)
    place = state.op("and", place, Constant(shape[op.axis] - 1, element_of(place.type)))
    if element_of(place.type) is not I32:
        place = state.cast(place, I32)
    stride = prod(shape[op.axis + 1 :])
    return place if stride == 1 else state.op("mul", place, state.constant(stride))


@lowers("butterfly")
def lower_butterfly(state: Lowering, op: Op) -> None:
    """Bits of the mask that are registers rename those, lanes exchange by shuffles, warps through shared memory."""
    layout, value = layout_of(op.x), state.value(op.x)
    if isinstance(value, Constant) or (count_of(value.type) == 1 and layout.num_registers > 1):
        state.set(op.result, state.vector(op.x))
        return
    registers, lanes, warps = (
        sum(1 << bit for bit, basis in enumerate(layout.bases(name)) if basis[op.axis] & op.mask)
        for name in ("register", "lane", "warp")
    )
    order = [register ^ registers for register in range(layout.num_registers)]
    if not warps:
        value = state.pick(value, order)
        state.set(op.result, state.op("shfl_xor", value, mask=lanes) if lanes else value)
        return
    rows = row_major(layout.shape)
    store = shared_access(layout, rows, element_bytes(op.x), store=True)
    load = shared_access(layout, rows, element_bytes(op.x), store=False)
    buffer = stored(state, value, store, rows.size("offset"))
    distance = op.mask * prod(layout.shape[op.axis + 1 :])
    places = [layout.packed_at(register=register) ^ distance for register in range(layout.num_registers)]
    index = state.index(load.pieces, places, additive=False)
    state.set(op.result, state.op("ld_shared", buffer, state.splat(index, len(places))))


@lowers("expand_dims", "trans", "hint")
def lower_view(state: Lowering, op: Op) -> None:
    """The type rule gives the result the operand's layout, seen in the other shape: registers stay as they are. What a
    hint says has been used by then."""
    state.set(op.result, state.value(op.x))


def convert(state: Lowering, value: Value, plan: Conversion) -> Value:
    """The registers of the plan's destination, given those of its source."""
    if plan.kind in ("none", "registers"):
        return state.pick(value, plan.registers)
    if isinstance(value, Constant):
        return value  # the same in every register of every thread
    if plan.kind == "shuffle":
        return shuffle(state, value, plan.shuffle)
    return through_shared(state, value, plan.shared)


def shuffle(state: Lowering, value: Value, plan: Shuffle) -> Value:
    """Swap registers by lane, exchange round by round, swap back."""
    value = swap(state, value, plan.before)
    lane = None if plan.is_xor else state.thread_function(plan.lane_pieces)
    received = []
    for step in plan.rounds:
        offered = state.pick(value, (step.register,))
        if plan.is_xor:
            received.append(state.op("shfl_xor", offered, mask=step.lane_constant) if step.lane_constant else offered)
        else:
            source = state.constant(0) if lane is None else lane
            if step.lane_constant:
                source = state.op("xor", source, state.constant(step.lane_constant))
            received.append(state.op("shfl_idx", offered, source))
    result = received[0] if len(received) == 1 else state.op("pack", *received)
    return swap(state, result, plan.after)


def swap(state: Lowering, value: Value, swaps: Sequence[Swap]) -> Value:
    """Where a thread bit is set, registers r and r ^ n change places."""
    for step in swaps:
        bit = state.op("and", state.thread, state.constant(1 << step.thread_bit))
        condition = state.op("cmp_ne", bit, state.constant(0))
        moved = state.pick(value, [r ^ step.registers for r in range(count_of(value.type))])
        value = state.op("select", condition, moved, value)
    return value


def through_shared(state: Lowering, value: Value, plan: SharedExchange) -> Value:
    """Store, let the barrier pass do its work, load."""
    return from_shared(state, to_shared(state, value, plan), plan)


def to_shared(state: Lowering, value: Value, plan: SharedExchange) -> Value:
    """The buffer that every thread stores its registers to. Several exchanges share a barrier if all store first."""
    return stored(state, value, plan.store, plan.layout.size("offset"))


def stored(state: Lowering, value: Value, access: SharedAccess | MatrixAccess, size: int) -> Value:
    """A buffer of ``size`` elements that every thread stores its registers to."""
    buffer = state.op("shared_alloc", types=[SharedType(element_of(value.type), size)])
    store(state, buffer, None, access, value)
    return buffer


def from_shared(state: Lowering, buffer: Value, plan: SharedExchange) -> Value:
    """The registers that every thread loads from the buffer."""
    return Fragments(buffer, None, plan.load).all(state)
