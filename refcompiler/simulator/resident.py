"""CTAs that wait for each other: each a coroutine, which pauses after every round of a loop that looks at memory."""

from __future__ import annotations

from collections.abc import Iterator

from refcompiler.dialects.atomic import Atomic
from refcompiler.ir.core import Func
from refcompiler.simulator.control import Region
from refcompiler.simulator.machine import Machine, Pause
from refcompiler.simulator.memory import GlobalMemory
from refcompiler.simulator.roles import Role, take_turns
from refcompiler.target import RESIDENT

MOST_ROUNDS = 1 << 12  # turns of all CTAs in which no byte of memory changed


def waits_for_others(func: Func) -> bool:
    """Whether a loop on a condition looks at memory that other CTAs may change while it runs."""
    loops = [op for op in func.walk() if op.name == "while"]
    inside = [op for loop in loops for region in loop.regions for op in region.walk()]
    return any(isinstance(op, Atomic) or op.name == "ld_global" for op in inside)


def run_resident(coming: Iterator[Machine], region: Region, memory: GlobalMemory) -> None:
    """Run CTAs in turns, each up to its next pause. Raises RunError where all of them wait for ever."""
    live: list[tuple[Machine, Iterator[Pause]]] = []
    idle, more = 0, True
    while True:
        while more and len(live) < RESIDENT:
            machine = next(coming, None)
            more = machine is not None
            if machine is not None:
                live.append((machine, take_turns(machine, [Role(region.run(machine), None)])))
        if not live:
            return
        paused = [(m, turns, pause) for m, turns in live if (pause := next(turns, None)) is not None]
        progress = len(paused) < len(live) or memory.take_changes()
        idle = 0 if progress else idle + 1
        if idle > MOST_ROUNDS:
            raise _deadlock(paused)
        live = [(m, turns) for m, turns, _ in paused]


def _deadlock(paused: list[tuple[Machine, Iterator[Pause], Pause]]):
    machine, _, pause = paused[0]
    machine.active = None
    names = ", ".join(str(tuple(int(i) for i in m.at[0])) for m, _, _ in paused[:4])
    names += ", ..." if len(paused) > 4 else ""
    what = f"a deadlock: the loop waits for memory that no CTA changes (CTAs {names} wait)"
    return machine.error(pause.op, "control.while#E8", what)
