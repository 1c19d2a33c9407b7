"""Steps of ops in which threads meet: shuffles within a warp, barriers of a CTA, and who must take part."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.simt.thread import ALL_LANES, SHUFFLES, VoteAny
from refcompiler.ir.core import Op
from refcompiler.simulator.machine import WARP, Machine, Step, garbage, registers_of, steps


@steps(*SHUFFLES)
def shuffle(op: Op) -> Step:
    """PTX shfl.sync: bfly, idx, up, down. A source outside the warp is the lane itself; one that is not active, or no
    member, gives garbage."""
    registers = registers_of(op.x)
    members = op.members

    def step(m: Machine) -> None:
        _check_members(m, op, members)
        x = m.values[op.x]
        if m.counts is not None:
            m.counts.shuffles += m.active_warps() * registers
        if len(x) == 1 and members == ALL_LANES:
            m.values[op.result] = x
            return
        lane = np.arange(m.lanes)
        source = _source(m, op, lane % WARP)
        inside = (source >= 0) & (source < WARP)
        taken = np.broadcast_to(x, (m.lanes, x.shape[1]))[np.where(inside, lane // WARP * WARP + source, lane)]
        if members != ALL_LANES:
            undefined = inside & ((members >> np.where(inside, source, 0)) & 1 == 0)
            taken[undefined] = garbage((1, taken.shape[1]), taken.dtype)
        m.values[op.result] = taken

    return step


@steps("vote_any")
def vote_any(op: VoteAny) -> Step:
    def step(m: Machine) -> None:
        _check_members(m, op, ALL_LANES)
        x = np.broadcast_to(m.values[op.x], (m.lanes, 1))
        taken = np.repeat(x.reshape(-1, WARP).any(axis=1), WARP)
        m.values[op.result] = taken[:, None]

    return step


def _source(m: Machine, op: Op, lane: np.ndarray) -> np.ndarray:
    """The lane of the warp that each lane reads from; may lie outside."""
    if op.name == "shfl_xor":
        return lane ^ op.mask
    if op.name == "shfl_idx":
        return np.broadcast_to(m.values[op.lane][:, 0] & 31, m.lanes)
    return lane - op.delta if op.name == "shfl_up" else lane + op.delta


def _check_members(m: Machine, op: Op, members: int) -> None:
    """Every active lane is a member, and every member of a warp that comes here is active."""
    if m.active is None and members == ALL_LANES:
        return
    active = m.narrowed(np.ones(1, bool)).reshape(-1, WARP)
    member = (members >> np.arange(WARP)) & 1 == 1
    wrong = active.any(axis=1, keepdims=True) & (active != member)
    if wrong.any():
        warp, lane = (int(i) for i in np.argwhere(wrong)[0])
        if member[lane]:
            what = f"{m.thread(warp * WARP + lane)} is a member of the shuffle and does not take part in it"
        else:
            what = f"{m.thread(warp * WARP + lane)} takes part in the shuffle and is no member ({members:#010x})"
        raise m.error(op, "exec.shuffles#E1", what, notes=["all members of a shuffle execute it together"])


@steps("barrier")
def barrier(op: Op) -> Step:
    def step(m: Machine) -> None:
        here = np.ones(m.ctas, bool)
        if m.active is not None:
            active = m.active.reshape(m.ctas, -1)
            here = np.asarray(active.any(axis=1))
            parted = here & ~active.all(axis=1)
            if parted.any():
                cta = int(parted.argmax())
                missing, present = int((~active[cta]).argmax()), int(active[cta].argmax())
                raise m.error(
                    op,
                    "exec.barriers#E1",
                    f"divergent barrier: {m.thread(cta * m.threads + present)} waits, thread {missing} never comes",
                    notes=[f"{int(active[cta].sum())} of {m.threads} threads come to this barrier"],
                )
        m.order.meet(np.flatnonzero(here))
        if m.counts is not None:
            m.counts.barriers += int(here.sum())

    return step
