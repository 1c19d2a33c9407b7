"""Loads and stores: vector accesses, one owner per stored element."""

from __future__ import annotations

from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import BlockType, SharedType, element_of
from refcompiler.layouts import contiguous_elements, owner_bits, owner_registers, vector_groups
from refcompiler.lowering.state import Lowering, inverse, layout_of, lowers

Groups = tuple[tuple[int, ...], ...]


@lowers("load")
def lower_load(state: Lowering, op: Op) -> None:
    flags = {"cache": op.cache, "eviction": op.eviction, "volatile": op.volatile}
    pointer, mask, other = (None if o is None else state.value(o) for o in op.operands)
    if not isinstance(op.result.type, BlockType):
        if op.volatile:  # another program may change it between the loads of two threads, so one loads
            mask = owned(state, mask, state.num_warps * 32 - 1)
        loaded = state.op("ld_global", pointer, mask, other, replicated=True, **flags)
        state.set(op.result, from_first(state, loaded) if op.volatile else loaded)
        return
    width, groups = access_groups(state, op)
    leaders = [group[0] for group in groups]
    order = [register for group in groups for register in group]
    loaded = state.op(
        "ld_global",
        state.splat(state.compute_for(pointer, leaders), len(leaders)),
        None if mask is None else state.compute_for(mask, leaders),
        None if other is None else state.pick(other, order),
        width=width,
        replicated=bool(owner_bits(layout_of(op.pointer)).thread),
        **flags,
    )
    loaded.name = op.result.name
    state.set(op.result, state.pick(loaded, inverse(order)))


@lowers("store")
def lower_store(state: Lowering, op: Op) -> None:
    flags = {"cache": op.cache, "eviction": op.eviction}
    pointer, value, mask = (None if o is None else state.value(o) for o in op.operands)
    if not isinstance(op.pointer.type, BlockType):
        mask = owned(state, mask, state.num_warps * 32 - 1)
        state.builder.op("st_global", pointer, value, mask, replicated=True, **flags)
        return
    width, groups = access_groups(state, op)
    layout = layout_of(op.pointer)
    kept = set(owner_registers(layout))
    groups = tuple(group for group in groups if group[0] in kept)
    leaders = [group[0] for group in groups]
    order = [register for group in groups for register in group]
    mask = None if mask is None else state.compute_for(mask, leaders)
    state.builder.op(
        "st_global",
        state.splat(state.compute_for(pointer, leaders), len(leaders)),
        state.pick(value, order),
        owned(state, mask, owner_bits(layout).thread),
        width=width,
        replicated=bool(owner_bits(layout_of(op.pointer)).thread),
        **flags,
    )


def from_first(state: Lowering, value: Value) -> Value:
    """A scalar as the first thread has it, in all threads."""
    buffer = state.op("shared_alloc", types=[SharedType(element_of(value.type), 1)])
    first = state.constant(0)
    state.builder.op("st_shared", buffer, first, value, owned(state, None, state.num_warps * 32 - 1))
    return state.op("ld_shared", buffer, first)


def owned(state: Lowering, mask: Value | None, idle: int) -> Value | None:
    """``mask``, and this thread has no bit of ``idle`` set: it is the owner among the replicas."""
    if not idle:
        return mask
    threads = state.num_warps * 32 - 1
    bits = state.thread if idle == threads else state.op("and", state.thread, state.constant(idle))
    owner = state.op("cmp_eq", bits, state.constant(0))
    return owner if mask is None else state.op("and", mask, owner)


def access_groups(state: Lowering, op: Op) -> tuple[int, Groups]:
    """The widest proven access and the registers of each access, in the order of their addresses."""
    layout = layout_of(op.pointer)
    best: tuple[int, int] = (1, layout.rank - 1)
    for dim in range(layout.rank):
        width = min(state.axis.vector_width(dim, op.pointer, op.mask), contiguous_elements(layout, dim))
        best = max(best, (width, dim))
    width, dim = best
    return width, vector_groups(layout, dim, width) if width > 1 else singles(layout.num_registers)


def singles(count: int) -> Groups:
    return tuple((register,) for register in range(count))
