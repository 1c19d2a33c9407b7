"""Stages of a loop's blocks in shared memory: asynchronous copies of each thread, and barriers if others take them."""

from __future__ import annotations

from math import prod

from refcompiler.dialects.stages import StageCommit, StageCopy, StagePut, Stages, StageTake, StageWait
from refcompiler.ir.core import Value
from refcompiler.layouts import shared_access
from refcompiler.layouts.matrices import load_access
from refcompiler.lowering.exchange import element_bytes
from refcompiler.lowering.fragments import Fragments, taken
from refcompiler.lowering.memory import owned
from refcompiler.lowering.shared import moves_matrices
from refcompiler.lowering.state import Lowering, layout_of, lowers


@lowers("stages")
def lower_stages(state: Lowering, op: Stages) -> None:
    """Accesses of all threads are ordered by the barriers here, and by those of ``stage_wait``."""
    if not op.private:
        state.builder.op("barrier")
    synchronized = "thread" if op.private else "program"
    state.set(op.result, state.op("shared_alloc", types=[op.result.type], synchronized=synchronized))


@lowers("stage_copy")
def lower_stage_copy(state: Lowering, op: StageCopy) -> None:
    side = layout_of(op.pointer)
    size = state.value(op.buffer).type.element.itemsize
    store = shared_access(side, op.shared, size, store=True, widest=op.width)
    leaders = [registers[0] for _, registers in store.vectors]
    index = state.index(store.pieces, [constant for constant, _ in store.vectors], store.additive)
    mask = None if op.mask is None else state.compute_for(state.value(op.mask), leaders)
    state.builder.op(
        "cp_async",
        state.value(op.buffer),
        state.splat(state.op("add", index, _first(state, op)), len(leaders)),
        state.splat(state.compute_for(state.value(op.pointer), leaders), len(leaders)),
        owned(state, mask, store.idle_threads),
        width=store.vector,
        eviction=op.eviction,
    )


@lowers("stage_put")
def lower_stage_put(state: Lowering, op: StagePut) -> None:
    store = shared_access(layout_of(op.value), op.shared, element_bytes(op.value), store=True)
    index = state.index(store.pieces, [constant for constant, _ in store.vectors], store.additive)
    order = [register for _, vector in store.vectors for register in vector]
    state.builder.op(
        "st_shared",
        state.value(op.buffer),
        state.splat(state.op("add", index, _first(state, op)), len(store.vectors)),
        state.pick(state.vector(op.value), order),
        owned(state, None, store.idle_threads),
        width=store.vector,
    )


@lowers("stage_take")
def lower_stage_take(state: Lowering, op: StageTake) -> None:
    size = element_bytes(op.result)
    if op.buffer.owner.private:  # matrices would be of several threads
        own = shared_access(layout_of(op.result), op.shared, size, store=False)
        state.set(op.result, Fragments(state.value(op.buffer), _first(state, op), own).all(state))
        return
    load = load_access(layout_of(op.result), op.shared, size, matrices=moves_matrices(op.result.type.element))
    state.values[op.result] = taken(state, op, Fragments(state.value(op.buffer), _first(state, op), load))


def _first(state: Lowering, op: StageCopy | StagePut | StageTake) -> Value:
    """Where the stage begins in the buffer."""
    return state.op("mul", state.value(op.stage), state.constant(prod(op.shared.shape)))


@lowers("stage_commit")
def lower_stage_commit(state: Lowering, op: StageCommit) -> None:
    state.builder.op("cp_async_commit")


@lowers("stage_wait")
def lower_stage_wait(state: Lowering, op: StageWait) -> None:
    state.builder.op("cp_async_wait", pending=op.pending)
    if not op.private:
        state.builder.op("barrier")
