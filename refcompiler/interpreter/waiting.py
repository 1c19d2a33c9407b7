"""Programs that wait for others: how polling is noticed, and programs as coroutines that take turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from refcompiler.errors import RunError
from refcompiler.interpreter.affine import Affine
from refcompiler.interpreter.footprint import Footprint, Lattice
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import Descriptor, Pointer, Val
from refcompiler.ir import Op
from refcompiler.target import RESIDENT

PATIENCE = 1 << 14  # what a loop may poll before its programs are run as coroutines; see Loop.polls
MOST_ROUNDS = 1 << 16  # turns of all programs in which nothing but their own counters changed


class MustWait(Exception):
    """Programs that run together poll memory: they have to take turns with those that they wait for."""


@dataclass
class Observation:
    """What one access in a loop saw. ``anew`` says that it looks at what other programs change: an atomic, a volatile
    load."""

    op: Op
    index: np.ndarray
    values: np.ndarray
    anew: bool

    def same(self, other: Observation) -> bool:
        return (
            self.op is other.op
            and np.array_equal(self.index, other.index)
            and self.values.shape == other.values.shape
            and self.values.tobytes() == other.values.tobytes()
        )


@dataclass
class Loop:
    """A `while` that runs: what its last round saw and changed, and whether it only waits."""

    op: Op
    outer: Loop | None
    seen: list[Observation] = field(default_factory=list)
    changed: bool = False  # an element of memory got other bits in this round
    before: list[Observation] | None = None
    polls: int = 0
    rounds: int = 0

    def saw(self, op: Op, footprint: Footprint, values: np.ndarray, anew: bool) -> None:
        """Note what an access in the loop found."""
        index = footprint.base if isinstance(footprint, Lattice) else footprint.index
        self.seen.append(Observation(op, index, values, anew))

    def end_round(self, programs: Programs, carried: Sequence[Val], left: Sequence[Val]) -> bool | None:
        """Called after every round. None where it accessed no memory; else whether it saw and changed nothing new."""
        self.rounds += 1
        seen, self.seen, changed, self.changed = self.seen, [], self.changed, False
        before, self.before = self.before, seen
        if not seen and not changed:
            if self.rounds >= 1024 and not self.rounds & self.rounds - 1 and same_values(carried, left):
                raise never_ends(programs, self.op)
            return None
        repeated = before is not None and len(before) == len(seen)
        again = [a for a, b in zip(seen, before or (), strict=False) if a.same(b)] if repeated else []
        if any(a.anew for a in again) or (again and same_values(carried, left)):
            self.polls += PATIENCE // 64
        else:
            self.polls = self.polls + 1 if again else 0
        if self.outer is not None:
            self.outer.seen += seen
            self.outer.changed |= changed
        return not changed and repeated and len(again) == len(seen)


def same_values(one: Sequence[Val], other: Sequence[Val]) -> bool:
    return all(map(same_value, one, other))


def same_value(x: Val, y: Val) -> bool:
    if x is y:
        return True
    if isinstance(x, Pointer) and isinstance(y, Pointer):
        return np.array_equal(x.arrays, y.arrays) and same_value(x.offset, y.offset)
    if isinstance(x, Descriptor) and isinstance(y, Descriptor):
        return same_values(x.parts, y.parts)
    if isinstance(x, Affine) or isinstance(y, Affine) or isinstance(x, Pointer) or isinstance(y, Pointer):
        return False
    return x.data.shape == y.data.shape and x.data.tobytes() == y.data.tobytes()


def never_ends(programs: Programs, op: Op) -> RunError:
    lane = 0 if programs.active is None else int(np.flatnonzero(programs.active)[0])
    place = f"program {programs.program_id(lane)}"
    message = f"the loop never ends: a round changes nothing, and no memory can ({place})"
    return programs.error(op, "control.while#E8", message)


@dataclass
class Turn:
    """What a program says where it pauses, at the end of a round of ``loop``: whether that round was like the one
    before (``idle``), and whether the next one can only be like it too (``fixed``)."""

    loop: Loop
    idle: bool
    fixed: bool


def take_turns(coming: Iterator[Programs], begin) -> None:
    """Run programs one at a time, each up to its next pause, in the order of their numbers; at most RESIDENT have
    begun and not ended. ``begin`` makes the execution of one. Raises RunError where none can go on."""
    live: list[tuple[Programs, Iterator[Turn]]] = []
    idle_rounds, more = 0, True
    while True:
        while more and len(live) < RESIDENT:
            programs = next(coming, None)
            more = programs is not None
            if programs is not None:
                live.append((programs, begin(programs)))
        if not live:
            return
        turns: list[Turn] = []
        staying = []
        for programs, execution in live:
            turn = next(execution, None)
            if turn is not None:
                staying.append((programs, execution))
                turns.append(turn)
        progress = len(staying) < len(live) or not all(turn.idle for turn in turns)
        live = staying
        idle_rounds = 0 if progress else idle_rounds + 1
        if idle_rounds > MOST_ROUNDS or (idle_rounds > 1 and all(turn.fixed for turn in turns)):
            raise deadlock([programs for programs, _ in live], turns, more)


def deadlock(live: list[Programs], turns: list[Turn], more: bool) -> RunError:
    """The error where all programs wait."""
    names = ", ".join(str(p.program_id(0)) for p in live[:4]) + (", ..." if len(live) > 4 else "")
    message = f"a deadlock: the loop waits for memory that no program changes (programs {names} wait)"
    others = {turn.loop.op.span: turn for turn in turns[1:] if turn.loop.op is not turns[0].loop.op}
    notes = [f"other programs wait in the loop at {span}" for span in others]
    if more:
        notes.append(f"programs after {live[-1].program_id(0)} have not begun: {RESIDENT} run at the same time")
    return live[0].error(turns[0].loop.op, "control.while#E8", message, notes=notes)
