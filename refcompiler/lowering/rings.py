"""Rings of slots in shared memory: barriers that tell full from empty, and copies of boxes by one elected thread."""

from __future__ import annotations

from typing import NamedTuple

from refcompiler.analysis.host_values import host_expression
from refcompiler.analysis.mapped_boxes import base_parameter
from refcompiler.analysis.register_plan import registers_of_roles
from refcompiler.analysis.warpgroup_products import WARPGROUP
from refcompiler.dialects.rings import BulkStore, Ring, RingPut, RingRelease, RingTake
from refcompiler.dialects.scf import Structured
from refcompiler.dialects.simt.tensor_maps import TensorMap
from refcompiler.dialects.tile.descriptor import MakeDescriptor, without_ones
from refcompiler.ir.core import Block, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import SharedType, element_of
from refcompiler.layouts import register_offsets, swizzle_bytes, swizzled, wgmma_accumulator
from refcompiler.layouts.matrices import store_access
from refcompiler.lowering.control import lower_region
from refcompiler.lowering.shared import moves_matrices, store
from refcompiler.lowering.state import Lowering, SharedBlock, layout_of, lowers


class Slots(NamedTuple):
    """What a ring became: a buffer for each block of a slot, and two barriers a slot."""

    buffers: list[Value]
    full: Value
    empty: Value


@lowers("ring")
def lower_ring(state: Lowering, op: Ring) -> None:
    buffers = [
        state.op(
            "shared_alloc", types=[SharedType(b.element, b.numel * op.stages)], alignment=1024, synchronized="mbarrier"
        )
        for b in op.blocks
    ]
    full, empty = (state.op("mbarrier_alloc", count=op.stages) for _ in range(2))
    first = state.op("cmp_eq", state.thread, state.constant(0))
    for slot in range(op.stages):
        state.builder.op("mbarrier_init", full, state.constant(slot), first, arrivals=1)
        state.builder.op("mbarrier_init", empty, state.constant(slot), first, arrivals=op.readers)
    state.rings[op.result] = Slots(buffers, full, empty)


@lowers("roles")
def lower_roles(state: Lowering, op: Structured) -> None:
    """Roles begin when the barriers of all rings do."""
    computing, fetching = [lower_region(state, region) for region in op.regions]
    prefetch_maps(state, op.warps[0] * 32)
    state.builder.op("fence_mbarrier_init")
    wait_for_grids(state)
    state.builder.op("barrier")
    if any(inner.name == "tma_store" for inner in computing.walk()):  # shared memory stays until it has been read
        computing.ops.insert(-1, OPS["bulk_wait"](read=True, span=op.span))
    fetching = _by_one_thread(state, fetching)
    given = registers_of_roles(op.warps[0] // 4, state.maxnreg)
    if given is not None:
        for region, count in zip((computing, fetching), given, strict=True):
            region.ops.insert(0, OPS["set_max_registers"](count=count, increase=region is computing, span=op.span))
    state.builder.op("roles", regions=[computing, fetching], warps=op.warps)


def prefetch_maps(state: Lowering, fetching: int) -> None:
    """Have one thread ask for all tensor maps, which the first copies would wait for."""
    fetches = state.op("cmp_eq", state.thread, state.constant(fetching))
    for number in range(len(state.new.attrs.get("tensor_maps", ()))):
        state.builder.op("prefetch_tensor_map", state.op("tensor_map", descriptor=number), fetches)


def wait_for_grids(state: Lowering) -> None:
    """What was done until here needed no array, and went on beside the end of what was queued before."""
    state.builder.op("griddep_wait")
    state.builder.op("griddep_launch")


def _by_one_thread(state: Lowering, region: Block) -> Block:
    """The region in a branch that only the first of the fetching threads takes."""
    outer = Block()
    with state.builder.inside(outer):
        first = state.op("cmp_eq", state.thread, state.constant(state.num_warps * 32))
        otherwise = Block([], [OPS["yield"]()])
        state.builder.op("if", first, regions=[region, otherwise], types=[])
        state.builder.op("yield")
    return outer


@lowers("make_descriptor")
def lower_descriptor(state: Lowering, op: MakeDescriptor) -> None:
    """A tensor map says it all."""


@lowers("ring_put")
def lower_put(state: Lowering, op: RingPut) -> None:
    ring: Slots = state.rings[op.ring]
    slot, parity = state.value(op.slot), state.value(op.parity)
    bytes_ = sum(b.numel * b.element.itemsize for b in op.ring.owner.blocks)
    state.builder.op("mbarrier_wait", ring.empty, slot, state.op("xor", parity, state.constant(1)))
    state.builder.op("mbarrier_expect_tx", ring.full, slot, None, bytes=bytes_)
    for (descriptor, offsets), buffer, swizzle in zip(op.accesses(), ring.buffers, op.ring.owner.swizzles, strict=True):
        rows, columns = without_ones(descriptor.type.block_shape)
        wide = swizzle // descriptor.type.element.itemsize
        shape = (*descriptor.type.block_shape[:-1], wide)
        map_ = tensor_map(state, descriptor.owner, shape)
        start = state.op("mul", slot, state.constant(rows * columns))
        *before, column = map(state.value, offsets)
        for box in range(columns // wide):
            index = state.op("add", start, state.constant(box * rows * wide)) if box else start
            at = state.op("add", column, state.constant(box * wide)) if box else column
            state.builder.op("tma_load", buffer, index, map_, *before, at, ring.full, slot, None, box=shape)


def tensor_map(state: Lowering, made: MakeDescriptor, box: tuple[int, ...]) -> Value:
    """The tensor map of a descriptor for boxes of that shape, among the hidden parameters."""
    element = made.base.type.pointee
    strides = [("mul", host_expression(s, state.old), ("const", element.itemsize)) for s in made.strides[:-1]]
    found = TensorMap(
        pointer=base_parameter(made, state.old),
        dtype=element.name,
        extents=tuple(host_expression(e, state.old) for e in made.shape),
        strides=tuple(strides),
        box=box,
        swizzle=box[-1] * element.itemsize,
    ).to_attribute()
    known = state.new.attrs.setdefault("tensor_maps", ())
    if found not in known:
        known = state.new.attrs["tensor_maps"] = (*known, found)
    return state.op("tensor_map", descriptor=known.index(found))


@lowers("bulk_store")
def lower_bulk_store(state: Lowering, op: BulkStore) -> None:
    """Part after part of the columns goes to one of the buffers, from which one thread has it copied out."""
    layout, element = layout_of(op.value), element_of(op.value.type)
    rows, columns = layout.shape[-2], op.box.block_shape[-1]
    wide = swizzle_bytes(columns * element.itemsize) // element.itemsize
    shape = (*op.box.block_shape[:-1], wide)
    map_ = tensor_map(state, op.descriptor.owner, shape)
    part = wgmma_accumulator((rows, wide), state.num_warps // 4)
    shared = swizzled((rows, wide), element.itemsize)
    access = store_access(part, shared, element.itemsize, matrices=moves_matrices(element))
    buffer = state.op(
        "shared_alloc", types=[SharedType(element, op.buffers * rows * wide)], alignment=1024, synchronized="mbarrier"
    )
    value, elected = state.vector(op.value), state.op("cmp_eq", state.thread, state.constant(0))
    *before, column = map(state.value, op.offsets)
    at = [offset[-1] // wide for offset in register_offsets(layout)]
    for box in range(columns // wide):
        place = state.constant(box % op.buffers * rows * wide)
        if box == 0 or box >= op.buffers:  # copies of ops before this one are complete; one has read its buffer
            state.builder.op("bulk_wait", pending=op.buffers - 1 if box else 0, read=bool(box))
            state.builder.op("named_barrier", id=1, threads=state.num_warps * 32)
        registers = [r for r in range(layout.num_registers) if at[r] == box]
        store(state, buffer, place if box % op.buffers else None, access, state.pick(value, registers))
        state.builder.op("fence_proxy_async")
        state.builder.op("named_barrier", id=1, threads=state.num_warps * 32)
        to = state.op("add", column, state.constant(box * wide)) if box else column
        state.builder.op("tma_store", map_, *before, to, buffer, place, elected, box=shape)
        state.builder.op("bulk_commit")


@lowers("ring_take")
def lower_take(state: Lowering, op: RingTake) -> None:
    ring: Slots = state.rings[op.ring]
    slot = state.value(op.slot)
    state.builder.op("mbarrier_wait", ring.full, slot, state.value(op.parity))
    for block, buffer, held in zip(op.results, ring.buffers, op.ring.owner.blocks, strict=True):
        index = state.op("mul", slot, state.constant(held.numel))
        state.values[block] = SharedBlock(buffer, index)


@lowers("ring_release")
def lower_release(state: Lowering, op: RingRelease) -> None:
    """One thread of each warpgroup speaks for it: its products are complete, in all its threads at once."""
    bits = state.op("and", state.thread, state.constant(WARPGROUP - 1))
    speaks = state.op("cmp_eq", bits, state.constant(0))
    if op.condition is not None:
        speaks = state.op("and", speaks, state.value(op.condition))
    state.builder.op("mbarrier_arrive", state.rings[op.ring].empty, state.value(op.slot), speaks)
