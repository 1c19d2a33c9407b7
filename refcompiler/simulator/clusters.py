"""Steps of ops in which the CTAs of a cluster meet: stores to each other's shared memory, and their barrier."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.simt.clusters import ClusterBarrier, StAsync
from refcompiler.simulator.access import Access, race
from refcompiler.simulator.asynchronous import barrier_in, order_of
from refcompiler.simulator.machine import WARP, Machine, Step, numpy_type, steps


@steps("cluster_barrier")
def cluster_barrier(op: ClusterBarrier) -> Step:
    def step(m: Machine) -> None:
        if m.active is not None and not m.active.all():
            missing, present = int((~m.active).argmax()), int(m.active.argmax())
            what = f"divergent barrier: {m.thread(present)} waits, {m.thread(missing)} never comes"
            notes = [f"{int(m.active.sum())} of {m.lanes} threads of the cluster come to this barrier"]
            raise m.error(op, "exec.clusters#E1", what, notes=notes)
        m.order.barrier(np.arange(m.lanes // m.order.members))
        if m.counts is not None:
            m.counts.barriers += m.ctas

    return step


@steps("st_async")
def st_async(op: StAsync) -> Step:
    """A store of one element by each thread to the shared memory of a CTA that it names. It happens at once; that
    nobody may rely on that, the order shows: those learn of it who wait for the phase that counts it."""
    access = Access(op, 1, 1, numpy_type(op.value.type))
    count = op.buffer.type.count

    def step(m: Machine) -> None:
        lanes = m.narrowed(np.ones(1, bool) if op.predicate is None else m.values[op.predicate][:, 0])
        chosen = np.flatnonzero(lanes)
        place, cta, number = (m.full(v, 1)[chosen, 0].astype(np.int64) for v in (op.index, op.cta, op.bar_index))
        _require(m, op, chosen, (cta >= 0) & (cta < m.ctas), "exec.clusters#E2", f"no CTA of a cluster of {m.ctas}")
        inside = (place >= 0) & (place < count)
        _require(m, op, chosen, inside, "exec.shared_memory#E2", f"an index outside a buffer of {count} elements")
        known = (number >= 0) & (number < op.bar.type.count)
        _require(m, op, chosen, known, "exec.mbarriers#E3", f"no barrier of {op.bar.type.count}")
        offsets = m.full(op.index, 1)[:, 0].astype(np.int64) * access.dtype.itemsize + op.buffer.owner.offset
        if m.counts is not None:
            m.counts.shared_access(offsets[None, :], np.broadcast_to(lanes, (1, m.lanes)), access.size, True)
        places = offsets[chosen] + cta * m.stride
        who, data = m.who[chosen], np.ascontiguousarray(m.full(op.value, 1)[chosen, 0])
        barriers = [
            barrier_in(m, op, op.bar, int(n), int(lane), int(c)) for n, lane, c in zip(number, chosen, cta, strict=True)
        ]
        found = m.shared.write(places, data, who, m.order) if chosen.size else None
        if found is not None:
            raise race(m, access, m.shared, places, who, found, "writes")
        for lane, barrier in zip(chosen, barriers, strict=True):
            if not barrier.known:
                what = "copies count at a barrier that was initialised without fence_mbarrier_init after it"
                raise m.error(op, "exec.mbarriers#E3", f"{m.thread(int(lane))}: {what}")
            barrier.learn(order_of(m).release(int(lane) // WARP))
            barrier.bytes -= access.size
            barrier.advance()

    return step


def _require(m: Machine, op: StAsync, lanes: np.ndarray, fits: np.ndarray, clause: str, what: str) -> None:
    """Raise RunError for the first of the lanes that does not fit."""
    if not fits.all():
        raise m.error(op, clause, f"{m.thread(int(lanes[(~fits).argmax()]))} names {what}", "cta")
