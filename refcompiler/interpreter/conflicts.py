"""Finds accesses of different programs to one element where one of them writes: the last writer and readers of each.

The order between programs is undefined, so two programs that write an element, even the same value, or one that reads
what another writes, conflict. Within one program, program order holds and nothing is reported. Atomics do not conflict
with each other, and those that release and acquire order what stands around them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from refcompiler.dialects.atomic import Atomic
from refcompiler.interpreter.footprint import Footprint, Scatter

NOBODY = -1


@dataclass(frozen=True)
class Conflict:
    """``unit`` of the records was accessed by programs ``one`` and ``other``, which came first; ``did`` is how."""

    unit: int
    one: int
    other: int
    did: str


Kind = Literal["read", "write", "atomic"]
_DID = {"writer": "wrote", "atomic": "changed", "other_atomic": "changed", "reader": "read", "other_reader": "read"}


class Order:
    """What orders programs: when each last released and last acquired, on any element.

    An access is taken to be ordered after one of another program if that program has released since, and this one has
    acquired since. Whether it acquired what that one released is not looked at: no ordered pair is ever reported, some
    unordered ones are missed.
    """

    def __init__(self, programs: int):
        self.now = 0
        self.released = np.zeros(programs, np.int64)
        self.acquired = np.zeros(programs, np.int64)

    def begin(self, op: Atomic, programs: np.ndarray) -> None:
        """These programs begin an atomic: what they did before, and this, is released; what follows has acquired."""
        self.now += 2
        if op.releases:
            self.released[programs] = self.now + 1
        if op.acquires:
            self.acquired[programs] = self.now + 1

    def before(self, others: np.ndarray, since: np.ndarray, programs: np.ndarray) -> np.ndarray:
        """Whether accesses of ``others`` at the times ``since`` are ordered before what ``programs`` do now."""
        return (self.released[others] > since) & (self.acquired[programs] > since)


@dataclass
class Deferred:
    """An access that no element-wise record holds yet: no two programs share an element of it."""

    footprint: Footprint
    programs: np.ndarray
    writes: bool
    reads: bool
    time: int

    def overlaps(self, footprint: Footprint) -> bool:
        """Whether the stretches of memory between the least and the greatest index meet."""
        (low, high), (first, last) = self.footprint.bounds, footprint.bounds
        return low <= last and first <= high

    def same(self, footprint: Footprint, programs: np.ndarray) -> bool:
        """Whether each program accesses the elements that it accesses here."""
        return self.footprint.equals(footprint) and np.array_equal(self.programs, programs)


MOST_DEFERRED = 64


class AccessRecord:
    """Who accessed each unit of a stretch of memory.

    Most kernels give each chunk of programs a stretch of its own. As long as that holds, the accesses are only kept
    (``deferred``), and disjoint bounds prove that none conflicts. The first access that meets another one has all of
    them written into int32 arrays with a program number for each unit. ``reads_matter`` is false where no program
    reads this memory; then only writers are recorded. Two readers are enough: any program that writes is another one
    than the first or than the second.
    """

    def __init__(self, units: int, reads_matter: bool, order: Order | None):
        self.units, self.reads_matter, self.order = units, reads_matter, order
        self.time = 0
        self.deferred: list[Deferred] | None = []
        self.held = 0  # numbers in the footprints of those
        self._records: dict[str, np.ndarray] = {}
        self._times: dict[str, np.ndarray] = {}

    def note(self, footprint: Footprint, programs: np.ndarray, kind: Kind) -> Conflict | None:
        """Record an access by ``programs`` (int32, broadcasts to the footprint); the first conflict, if any."""
        if self.order is not None:
            self.order.now += 2 if kind != "atomic" else 0
            self.time = self.order.now
        if self.deferred is not None:
            if kind != "atomic" and footprint.distinct and self._defer(footprint, programs, kind == "write"):
                return None
            earlier, self.deferred = self.deferred, None
            now = self.time
            for access in earlier:
                self.time = access.time
                if access.writes:
                    self._note_write(access.footprint, access.programs)
                if access.reads:
                    self._note_reader(access.footprint, access.programs, "reader")
            self.time = now
        if kind == "write":
            return self._note_write(footprint, programs)
        return self._note_reader(footprint, programs, "reader" if kind == "read" else "atomic")

    def _defer(self, footprint: Footprint, programs: np.ndarray, write: bool) -> bool:
        """Keep the access for later if it meets none before, or only the same of the same programs."""
        for access in self.deferred:
            if access.overlaps(footprint):
                if not access.same(footprint, programs):
                    return False
                access.time = self.time
                access.writes |= write  # who conflicts with the reads of a writer conflicts with its writes
                return True
        self.held += footprint.held
        if len(self.deferred) == MOST_DEFERRED or self.held > self.units // 4 + 1000:  # the records would be smaller
            return False
        self.deferred.append(Deferred(footprint, programs, write, not write, self.time))
        return True

    def _record(self, name: str) -> np.ndarray:
        if name not in self._records:
            self._records[name] = np.full(self.units, NOBODY, np.int32)
            if self.order is not None:
                self._times[name] = np.zeros(self.units, np.int64)
        return self._records[name]

    def _stamp(self, name: str, footprint: Footprint) -> None:
        if self.order is not None:
            footprint.write(self._times[name], np.array(self.time))

    def _note_write(self, footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        names = ("writer", "atomic", "other_atomic", *(("reader", "other_reader") if self.reads_matter else ()))
        found = self._against_any(names, footprint, programs)
        if found is not None:
            return found
        writer = self._record("writer")
        footprint.write(writer, programs)
        self._stamp("writer", footprint)
        if footprint.distinct:
            return None
        return self._differing(footprint, footprint.read(writer) != programs, programs, writer, "wrote")

    def _note_reader(self, footprint: Footprint, programs: np.ndarray, name: str) -> Conflict | None:
        """Note a read or an atomic, of which two programs are remembered; atomics conflict with reads as well."""
        others_like_it = ("atomic", "other_atomic") if name == "reader" else ("reader", "other_reader")
        found = self._against_any(("writer", *others_like_it), footprint, programs)
        if found is not None:
            return found
        reader = self._record(name)
        first = footprint.read(reader)
        replaced = first == NOBODY
        if self.order is not None:
            times = footprint.read(self._times[name])
            replaced = replaced | self.order.before(first, times, programs)
            footprint.write(self._times[name], np.where(replaced | (first == programs), self.time, times))
        footprint.write(reader, np.where(replaced, programs, first))
        others = footprint.read(reader) != programs
        if others.any():
            lanes = np.broadcast_to(programs, others.shape)[others]
            places = Scatter(np.broadcast_to(footprint.indices(), others.shape)[others])
            places.write(self._record(f"other_{name}"), lanes)
            self._stamp(f"other_{name}", places)
        return None

    def _against_any(self, names: tuple[str, ...], footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        return next((found for name in names if (found := self._against(name, footprint, programs))), None)

    def _against(self, name: str, footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        if name not in self._records:
            return None
        record = self._records[name]
        known = footprint.read(record)
        if known.max() == NOBODY:
            return None
        differs = (known != NOBODY) & (known != programs)
        if self.order is not None and differs.any():
            differs &= ~self.order.before(known, footprint.read(self._times[name]), programs)
        return self._differing(footprint, differs, programs, record, _DID[name])

    @staticmethod
    def _differing(footprint, differs: np.ndarray, programs: np.ndarray, record: np.ndarray, did: str):
        if not differs.any():
            return None
        lane = int(np.flatnonzero(differs)[0])
        unit = int(np.broadcast_to(footprint.indices(), differs.shape).flat[lane])
        return Conflict(unit, int(np.broadcast_to(programs, differs.shape).flat[lane]), int(record[unit]), did)
