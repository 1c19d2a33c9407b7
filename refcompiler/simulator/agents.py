"""Order where copies act on their own: what a thread knows of a copy it learns by waiting, and others from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from refcompiler.simulator.memory import WARP, Conflict, Order, Records

# What a thread starts and waits for itself: elements copied in, elements of boxes read, elements of boxes written; and
# what the first thread of a warpgroup reads for a matrix product.
COPIED, READ, WROTE, MULTIPLIED = 1, 2, 3, 4
_KINDS = 5
WARPGROUP = 4  # warps


class Clock(NamedTuple):
    """What someone knows: up to when accesses of each group are ordered, and up to when they are fenced as well."""

    seen: np.ndarray
    fenced: np.ndarray


class AgentOrder(Order):
    """Order in one CTA whose warps are apart and whose copies are agents with numbers of their own.

    The numbers of a CTA are its threads, then for each kind one for each thread, then 32 for each of ``slots`` barriers
    in memory, which are for the copies that these count. 32 numbers are a group, as a warp is one. ``landed`` has up to
    when the warp that started a group of copies has waited for them itself. An access is ``fenced`` where copies may
    follow it.
    """

    def __init__(self, first: int, threads: int, now: int, slots: int, cluster: int = 1):
        super().__init__(first, threads, 1, now, True, cluster)
        self.lanes = threads * cluster
        self.warps = self.lanes // WARP
        groups = _KINDS * self.warps + slots
        self.numbers = groups * WARP
        # readers: each warp, the products of each warpgroup, and all other agents
        self.rows = self.warps + 1 + -(-self.warps // WARPGROUP)
        self.seen = np.full((groups, groups), now, np.int64)
        self.fenced = self.seen.copy()
        self.landed = np.full(groups, now, np.int64)

    # --- numbers
    def agent_of(self, who: np.ndarray | int, kind: int):
        """The agent of a kind that acts for a thread."""
        return who + kind * self.lanes

    def agent_of_slot(self, slot: int) -> int:
        """The agent that copies what barrier ``slot`` counts."""
        return self.first + _KINDS * self.lanes + slot * WARP

    def is_agent(self, who: int) -> bool:
        return self.lanes <= who - self.first < self.numbers

    def group(self, who: np.ndarray | int):
        return (who - self.first) // WARP

    # --- what the records ask
    def visible(self, who: np.ndarray, other: np.ndarray) -> np.ndarray:
        mine, its = self.group(who), self.group(other)
        offset = np.asarray(other) - who
        own = (offset > 0) & (offset % self.lanes == 0) & (its < _KINDS * self.warps) & (mine < self.warps)
        return np.where(own, np.maximum(self.seen[mine, its], self.landed[its]), self.seen[mine, its])

    def row(self, who: np.ndarray) -> np.ndarray:
        group = self.group(who)
        multiplier = group - MULTIPLIED * self.warps
        multiplies = (multiplier >= 0) & (multiplier < self.warps)
        return np.where(multiplies, self.warps + 1 + multiplier // WARPGROUP, np.minimum(group, self.warps))

    def readers(self, row: int, last: np.ndarray) -> np.ndarray:
        """Agents share a row; several of them are as the last one of all, which nobody waits for in time."""
        if row < self.warps:
            return super().readers(row, last)
        if row > self.warps:
            first = (row - self.warps - 1) * WARPGROUP * WARP
            return np.full(last.size, self.agent_of(self.first + first, MULTIPLIED))
        return np.where(last >= 0, last, self.first + self.numbers - 1)

    def unfenced(self, records: Records, places: np.ndarray, who: np.ndarray) -> Conflict | None:
        """What a thread stored that nobody has made known to copies."""
        writer = records.writer[places]
        kind = (writer - self.first) // self.lanes
        stored = np.flatnonzero((writer >= self.first) & (kind <= COPIED))
        time = self.fenced[self.group(who[stored]), self.group(writer[stored])]
        late = stored[records.written[places[stored]] > time]
        if not late.size:
            return None
        at = int(late[0])
        return Conflict(at, int(writer[at]), "wrote", False, "fence_proxy_async and a barrier between")

    def alike(self, warps: Sequence[int]) -> list[int]:
        """One of the warps for each different knowledge that they have."""
        found = {self.seen[warp].tobytes() + self.fenced[warp].tobytes(): warp for warp in warps}
        return sorted(found.values())

    def land(self, warp: int, agent: int, time: int) -> None:
        """``warp`` knows that what an agent began up to ``time`` has ended."""
        group = self.group(agent)
        self.seen[warp, group] = max(self.seen[warp, group], time)

    # --- events
    def tick(self) -> int:
        """The time now; what follows is later."""
        self.now += 1
        return self.now - 1

    def release(self, warp: int) -> Clock:
        """What those learn who are told by ``warp``."""
        seen = self.seen[warp].copy()
        own = np.arange(_KINDS) * self.warps + warp
        seen[own] = np.maximum(seen[own], self.landed[own])
        seen[warp] = self.tick()
        return Clock(seen, self.fenced[warp].copy())

    def acquire(self, warp: int, clock: Clock) -> None:
        np.maximum(self.seen[warp], clock.seen, out=self.seen[warp])
        np.maximum(self.fenced[warp], clock.fenced, out=self.fenced[warp])

    def barrier(self, groups: np.ndarray) -> None:
        clocks = [self.release(int(warp)) for warp in groups]
        joined = Clock(np.max([c.seen for c in clocks], axis=0), np.max([c.fenced for c in clocks], axis=0))
        for warp in groups:
            self.acquire(int(warp), joined)

    def fence(self, warp: int) -> None:
        """What ``warp`` did, and has waited for, is there for copies that are ordered after."""
        own = np.array([warp, COPIED * self.warps + warp])
        self.fenced[warp, own] = self.tick(), self.landed[own[1]]


def start(
    records: Records,
    places: np.ndarray,
    who: np.ndarray,
    agent: np.ndarray,
    order: AgentOrder,
    *,
    writes: bool,
    fenced: bool = False,
) -> Conflict | None:
    """Agents access the granules from now on, for threads ``who`` who start them: an access that is not ordered before.

    ``fenced`` says that stores of threads have to be known to copies.
    """
    found = records.unordered(places, who, order) if writes else records.unordered_write(places, who, order)
    if found is None and fenced:
        found = order.unfenced(records, places, who)
    if found is not None:
        return found
    if writes:
        records.writer[places] = agent
        records.written[places] = order.now
    else:
        records.readers.note(places, agent, order)
    return None
