"""Roles as coroutines: each runs until it waits at a named barrier, which opens when its threads have come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from refcompiler.dialects.simt.asynchronous import PtxOp
from refcompiler.dialects.simt.clusters import ClusterBarrier
from refcompiler.dialects.simt.roles import NamedBarrier, Roles
from refcompiler.dialects.simt.warpgroup import Wgmma
from refcompiler.ir.core import Op
from refcompiler.simulator.control import Region
from refcompiler.simulator.machine import WARP, Arrival, Blocked, Machine, Pause, Step, Waiting, steps


class Role:
    """One coroutine, the lanes it is for, and where it waits; None while it runs and after its end."""

    def __init__(self, run: Waiting, lanes: np.ndarray | None):
        self.run, self.active = run, lanes
        self.parted: list[Op] = []
        self.waits: Arrival | Blocked | None = None
        self.ended = False

    def advance(self, m: Machine) -> Pause | None:
        """Run up to where it waits, or to a pause."""
        m.active, m.parted = self.active, self.parted
        reached = next(self.run, None)
        self.ended = reached is None
        self.waits = reached if isinstance(reached, Arrival | Blocked) else None
        self.active, self.parted = m.active, m.parted
        return reached if isinstance(reached, Pause) else None


def take_turns(m: Machine, roles: Sequence[Role]) -> Iterator[Pause]:
    """Run roles to their ends: each as far as it can get, the first one first, in turns; pauses where one does."""
    while not all(role.ended for role in roles):
        pause = None
        for role in roles:
            if not role.ended and role.waits is None:
                pause = role.advance(m) or pause
        opened = _open(m, roles) | _unblock(roles)
        if pause is not None:
            yield pause
        elif not opened:
            waiting = [role.waits for role in roles if role.waits is not None]
            if waiting and not (m.copies is not None and m.copies.land_last()):
                raise _stuck(m, waiting)


def _unblock(roles: Sequence[Role]) -> bool:
    """Let go everyone who waits for what is so now; False if there is none."""
    ready = [role for role in roles if isinstance(role.waits, Blocked) and role.waits.ready()]
    for role in ready:
        role.waits = None
    return bool(ready)


def _open(m: Machine, roles: Sequence[Role]) -> bool:
    """Let go everyone at the barriers that have all their threads; False if there is none."""
    opened = False
    waiting = [role for role in roles if isinstance(role.waits, Arrival)]
    for id in sorted({role.waits.op.id for role in waiting}):
        here = [role for role in waiting if role.waits is not None and role.waits.op.id == id]
        counts = {role.waits.op.threads for role in here}
        warps = np.concatenate([role.waits.warps for role in here])
        if len(counts) > 1 or warps.size * WARP > min(counts):
            raise _stuck(m, [role.waits for role in here])
        if warps.size * WARP == counts.pop():
            m.order.barrier(warps)
            if m.counts is not None:
                m.counts.barriers += 1
            for role in here:
                role.waits = None
            opened = True
    return opened


def _arrival(a: Arrival) -> str:
    return f"barrier {a.op.id} at {a.op.span} is for {a.op.threads} threads; {a.warps.size * WARP} came from this role"


def _stuck(m: Machine, waiting: Sequence[Arrival | Blocked]):
    first = waiting[0].op
    notes = [a.why() if isinstance(a, Blocked) else _arrival(a) for a in waiting]
    m.active = None
    if isinstance(waiting[0], Blocked):
        return m.error(first, "exec.mbarriers#E1", f"a deadlock: {waiting[0].why()}", notes=notes[1:])
    what = f"the threads at barrier {first.id} wait for ever: not {first.threads} threads come to it"
    return m.error(first, "exec.roles#E1", what, notes=notes)


@steps("named_barrier")
def named_barrier(op: NamedBarrier) -> Step:
    def step(m: Machine) -> Waiting:
        active = m.narrowed(np.ones(1, bool)).reshape(-1, WARP)
        here = active.any(axis=1)
        parted = here & ~active.all(axis=1)
        if parted.any():
            warp = int(parted.argmax())
            lane = warp * WARP + int((~active[warp]).argmax())
            what = f"divergent barrier: {m.thread(lane)} does not come with the other threads of its warp"
            raise m.error(op, "exec.barriers#E1", what)
        yield Arrival(op, np.flatnonzero(here))

    return step


@steps("roles")
def roles(op: Roles) -> Step:
    regions = [Region(region) for region in op.regions]

    def step(m: Machine) -> Waiting:
        if m.active is not None:
            raise m.error(op, "exec.barriers#E1", "roles are for all threads of a CTA, and some do not come to them")
        warp = np.arange(m.lanes) // WARP
        chosen = []
        for region, (first, end) in zip(regions, op.ranges(m.threads // WARP), strict=True):
            if first < end:
                chosen.append(Role(region.run(m), (warp >= first) & (warp < end)))
        outer = m.parted
        yield from take_turns(m, chosen)
        m.active, m.parted = None, outer

    return step


def uses_roles(ops: Sequence[Op]) -> bool:
    """Whether warps may part so that a CTA has to be simulated alone."""
    return any(op.name in ("roles", "named_barrier") for op in ops) or acts_alone(ops)


def acts_alone(ops: Sequence[Op]) -> bool:
    """Whether something goes on in memory while the threads do."""
    return any(isinstance(op, PtxOp | Wgmma) and not isinstance(op, ClusterBarrier) for op in ops)
