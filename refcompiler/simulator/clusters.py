"""Steps of ops in which the CTAs of a cluster meet: stores to each other's shared memory, and their barrier."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.simt.clusters import ClusterBarrier, StCluster
from refcompiler.simulator.access import Access, race
from refcompiler.simulator.machine import Machine, Step, numpy_type, steps


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


@steps("st_cluster")
def st_cluster(op: StCluster) -> Step:
    """A store of one element by each thread, to the shared memory of a CTA that it names."""
    access = Access(op, 1, 1, numpy_type(op.value.type))
    count = op.buffer.type.count

    def step(m: Machine) -> None:
        lanes = m.narrowed(np.ones(1, bool) if op.predicate is None else m.values[op.predicate][:, 0])
        chosen = np.flatnonzero(lanes)
        place, cta = (m.full(v, 1)[chosen, 0].astype(np.int64) for v in (op.index, op.cta))
        _require(m, op, chosen, (cta >= 0) & (cta < m.ctas), "exec.clusters#E2", f"no CTA of a cluster of {m.ctas}")
        inside = (place >= 0) & (place < count)
        _require(m, op, chosen, inside, "exec.shared_memory#E2", f"an index outside a buffer of {count} elements")
        places = place * access.dtype.itemsize + op.buffer.owner.offset
        if m.counts is not None:
            offsets = m.full(op.index, 1)[:, 0] * access.dtype.itemsize
            m.counts.shared_access(offsets[None, :], np.broadcast_to(lanes, (1, m.lanes)), access.size, True)
        who, data = m.who[chosen], np.ascontiguousarray(m.full(op.value, 1)[chosen, 0])
        found = m.shared.write(places + cta * m.stride, data, who, m.order) if chosen.size else None
        if found is not None:
            raise race(m, access, m.shared, places + cta * m.stride, who, found, "writes")

    return step


def _require(m: Machine, op: StCluster, lanes: np.ndarray, fits: np.ndarray, clause: str, what: str) -> None:
    """Raise RunError for the first of the lanes that does not fit."""
    if not fits.all():
        raise m.error(
            op,
            clause,
            f"{m.thread(int(lanes[(~fits).argmax()]))} names {what}",
            "cta" if clause.startswith("exec.clusters") else "index",
        )
