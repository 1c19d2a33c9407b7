"""Stages of a loop's operands in shared memory: asynchronous copies of each thread, and one barrier a round."""

from __future__ import annotations

from math import prod

from refcompiler.dialects.stages import StageCommit, StageCopy, Stages, StageTake, StageWait
from refcompiler.ir.core import Value
from refcompiler.layouts import shared_access
from refcompiler.lowering.exchange import element_bytes
from refcompiler.lowering.memory import owned
from refcompiler.lowering.state import Lowering, inverse, layout_of, lowers


@lowers("stages")
def lower_stages(state: Lowering, op: Stages) -> None:
    """Its accesses are ordered by the barriers here, and by those of ``stage_wait``."""
    state.builder.op("barrier")
    state.set(op.result, state.op("shared_alloc", types=[op.result.type], synchronized="program"))


@lowers("stage_copy")
def lower_stage_copy(state: Lowering, op: StageCopy) -> None:
    side = layout_of(op.pointer)
    size = state.value(op.buffer).type.element.itemsize
    store = shared_access(side, op.shared, size, store=True, widest=op.width)
    leaders = [registers[0] for _, registers in store.vectors]
    mask = None if op.mask is None else state.compute_for(state.value(op.mask), leaders)
    state.builder.op(
        "cp_async",
        state.value(op.buffer),
        _places(state, op, store),
        state.splat(state.compute_for(state.value(op.pointer), leaders), len(leaders)),
        owned(state, mask, store.idle_threads),
        width=store.vector,
    )


@lowers("stage_take")
def lower_stage_take(state: Lowering, op: StageTake) -> None:
    load = shared_access(layout_of(op.result), op.shared, element_bytes(op.result), store=False)
    loaded = state.op("ld_shared", state.value(op.buffer), _places(state, op, load), width=load.vector)
    order = [register for _, vector in load.vectors for register in vector]
    state.set(op.result, state.pick(loaded, inverse(order)))


def _places(state: Lowering, op: StageCopy | StageTake, access) -> Value:
    """Where each access of this thread is in the buffer."""
    index = state.index(access.pieces, [constant for constant, _ in access.vectors], access.additive)
    first = state.op("mul", state.value(op.stage), state.constant(prod(op.shared.shape)))
    return state.splat(state.op("add", index, first), len(access.vectors))


@lowers("stage_commit")
def lower_stage_commit(state: Lowering, op: StageCommit) -> None:
    state.builder.op("cp_async_commit")


@lowers("stage_wait")
def lower_stage_wait(state: Lowering, op: StageWait) -> None:
    state.builder.op("cp_async_wait", pending=op.pending)
    state.builder.op("barrier")
