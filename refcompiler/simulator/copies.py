"""Copies on their way, and the barriers in memory that wait for them; a copy ends as late as may be, or at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from refcompiler.dialects.simt.tensor_maps import Placed
from refcompiler.ir.core import Op, Value
from refcompiler.simulator.agents import AgentOrder, Clock


@dataclass
class Flight:
    """A copy: the op that started it, and what moves its data when it ends."""

    op: Op
    move: Callable[[], None]
    ended: bool = False

    def land(self) -> None:
        if not self.ended:
            self.ended = True
            self.move()


@dataclass
class Barrier:
    """A barrier in memory: of the current phase the arrivals and bytes that it lacks, and what those who came know."""

    slot: int
    arrivals: int
    nothing: Clock
    initialised_by: int  # the number of a thread
    known: bool = False  # to copies
    phase: int = 0
    lacks: int = 0
    bytes: int = 0
    now: Clock = field(init=False)
    last: Clock = field(init=False)  # of the phase before

    def __post_init__(self) -> None:
        self.lacks = self.arrivals
        self.now = self.last = self.nothing

    def learn(self, clock: Clock) -> None:
        self.now = Clock(np.maximum(self.now.seen, clock.seen), np.maximum(self.now.fenced, clock.fenced))

    def advance(self) -> None:
        """Begin the next phase if this one lacks nothing."""
        if not self.lacks and not self.bytes:
            self.phase += 1
            self.lacks, self.last, self.now = self.arrivals, self.now, self.nothing

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity is complete."""
        return self.phase % 2 != parity % 2

    def __str__(self) -> str:
        counted = f"{self.bytes} bytes" if self.bytes >= 0 else f"has {-self.bytes} bytes too many"
        return f"its phase {self.phase} lacks {self.lacks} arrivals and {counted}"


@dataclass
class Groups:
    """The copies that one warp started and waits for: those of no group yet, and the groups with their times."""

    single: list[Flight] = field(default_factory=list)
    groups: list[tuple[int, list[Flight]]] = field(default_factory=list)


class Copies:
    """What is on its way in one CTA. With ``early`` each copy ends when it starts, else when somebody needs it."""

    def __init__(self, order: AgentOrder, maps: Sequence[Placed], slots: Mapping[Value, int], early: bool):
        self.order, self.maps, self.slots, self.early = order, maps, slots, early
        self.slots_in_cta = sum(buffer.type.count for buffer in slots)
        self.barriers: dict[int, Barrier] = {}
        self.loads: list[Flight] = []
        self.groups: dict[tuple[str, int], Groups] = {}
        self.registers: dict[int, int] = {}  # of a thread of each warp, once it has said so

    def nothing(self) -> Clock:
        """What is known of nobody."""
        unknown = np.full(len(self.order.seen), -1, np.int64)
        return Clock(unknown, unknown)

    # --- copies that a barrier in memory counts
    def count(self, flight: Flight) -> None:
        self.loads.append(flight)
        if self.early:
            self.land_last()

    def land_last(self) -> bool:
        """Let the load that started last end; False if there is none."""
        if not self.loads:
            return False
        self.loads.pop().land()
        return True

    # --- copies that threads wait for
    def of(self, family: str, warp: int) -> Groups:
        return self.groups.setdefault((family, warp), Groups())

    def add(self, family: str, warp: int, flight: Flight) -> None:
        self.of(family, warp).single.append(flight)
        if self.early:
            flight.land()

    def commit(self, family: str, warp: int) -> None:
        mine = self.of(family, warp)
        mine.groups.append((self.order.tick(), mine.single))
        mine.single = []

    def wait(self, family: str, warp: int, pending: int, kinds: Sequence[int]) -> None:
        """Let all but the last ``pending`` groups end; the warp knows of them then."""
        mine = self.of(family, warp)
        ended = max(0, len(mine.groups) - pending)
        done, mine.groups = mine.groups[:ended], mine.groups[ended:]
        for time, flights in done:
            for flight in flights:
                flight.land()
            for kind in kinds:
                group = kind * self.order.warps + warp
                self.order.landed[group] = max(self.order.landed[group], time)

    def left(self) -> list[Flight]:
        """Copies of boxes that nobody has waited for."""
        mine = [groups for (family, _), groups in self.groups.items() if family == "bulk"]
        stores = [f for groups in mine for _, group in groups.groups for f in group]
        return [*self.loads, *(f for groups in mine for f in groups.single), *stores]
