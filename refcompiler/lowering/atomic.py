"""Atomics: one thread acts for each element; where others hold it too, they get the old value through shared memory."""

from __future__ import annotations

from refcompiler.dialects.atomic import Atomic
from refcompiler.ir.types import BlockType
from refcompiler.layouts import owner_bits, owner_registers
from refcompiler.layouts.shared import shared_exchange
from refcompiler.lowering.exchange import element_bytes, from_shared, to_shared
from refcompiler.lowering.memory import from_first, owned
from refcompiler.lowering.state import Lowering, layout_of, lowers


@lowers("atomic_rmw", "atomic_cas")
def lower_atomic(state: Lowering, op: Atomic) -> None:
    if isinstance(op.pointer.type, BlockType):
        _block(state, op)
    else:
        _scalar(state, op)


def _scalar(state: Lowering, op: Atomic) -> None:
    """The first thread acts; all others read what it found."""
    mask = owned(state, None if op.mask is None else state.value(op.mask), state.num_warps * 32 - 1)
    operands = [state.value(o) for name, o in op.named_operands() if name != "mask"]
    old = state.op(op.name, *operands, mask, **{**op.attrs, "replicated": True})
    if op.result in state.users:
        old = from_first(state, old)
    state.set(op.result, old)


def _block(state: Lowering, op: Atomic) -> None:
    layout = layout_of(op.pointer)
    kept = owner_registers(layout)
    idle = owner_bits(layout).thread
    mask = None if op.mask is None else state.compute_for(state.value(op.mask), kept)
    operands = [
        state.splat(state.compute_for(state.value(o), kept), len(kept))
        if name == "pointer"
        else state.pick(state.value(o), kept)
        for name, o in op.named_operands()
        if name != "mask"
    ]
    old = state.op(op.name, *operands, owned(state, mask, idle), **{**op.attrs, "replicated": bool(idle)})
    if op.result in state.users:
        free = layout.free_bits("register")
        old = state.pick(old, [kept.index(r & ~free) for r in range(layout.num_registers)])
        if idle:
            plan = shared_exchange(layout, layout, element_bytes(op.result))
            old = from_shared(state, to_shared(state, old, plan), plan)
    state.set(op.result, old)
