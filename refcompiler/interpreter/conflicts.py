"""Finds accesses of different programs to one element where one of them writes: the last writer and readers of each.

The order between programs is undefined, so two programs that write an element, even the same value, or one that reads
what another writes, conflict. Within one program, program order holds and nothing is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refcompiler.interpreter.footprint import Footprint, Scatter

NOBODY = -1


@dataclass(frozen=True)
class Conflict:
    """``unit`` of the records was accessed by programs ``one`` and ``other``, of which ``other`` came first."""

    unit: int
    one: int
    other: int
    other_wrote: bool


@dataclass
class Deferred:
    """An access that no element-wise record holds yet: no two programs share an element of it."""

    footprint: Footprint
    programs: np.ndarray
    writes: bool
    reads: bool

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

    def __init__(self, units: int, reads_matter: bool):
        self.units, self.reads_matter = units, reads_matter
        self.deferred: list[Deferred] | None = []
        self.held = 0  # numbers in the footprints of those
        self._records: dict[str, np.ndarray] = {}

    def note(self, footprint: Footprint, programs: np.ndarray, write: bool) -> Conflict | None:
        """Record that ``programs`` (int32, broadcasts to the footprint) write or read; the first conflict, if any."""
        if self.deferred is not None:
            if footprint.distinct and self._defer(footprint, programs, write):
                return None
            earlier, self.deferred = self.deferred, None
            for access in earlier:
                if access.writes:
                    self._note_write(access.footprint, access.programs)
                if access.reads:
                    self._note_read(access.footprint, access.programs)
        return self._note_write(footprint, programs) if write else self._note_read(footprint, programs)

    def _defer(self, footprint: Footprint, programs: np.ndarray, write: bool) -> bool:
        """Keep the access for later if it meets none before, or only the same of the same programs."""
        for access in self.deferred:
            if access.overlaps(footprint):
                if not access.same(footprint, programs):
                    return False
                access.writes |= write  # who conflicts with the reads of a writer conflicts with its writes
                return True
        self.held += footprint.held
        if len(self.deferred) == MOST_DEFERRED or self.held > self.units // 4 + 1000:  # the records would be smaller
            return False
        self.deferred.append(Deferred(footprint, programs, write, not write))
        return True

    def _record(self, name: str) -> np.ndarray:
        if name not in self._records:
            self._records[name] = np.full(self.units, NOBODY, np.int32)
        return self._records[name]

    def _note_write(self, footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        found = self._against("writer", footprint, programs)
        if found is None and self.reads_matter:
            found = self._against("reader", footprint, programs) or self._against("other_reader", footprint, programs)
        if found is not None:
            return found
        writer = self._record("writer")
        footprint.write(writer, programs)
        if footprint.distinct:
            return None
        return self._differing(footprint, footprint.read(writer) != programs, programs, writer, True)

    def _note_read(self, footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        found = self._against("writer", footprint, programs)
        if found is not None:
            return found
        reader = self._record("reader")
        first = footprint.read(reader)
        footprint.write(reader, np.where(first == NOBODY, programs, first))
        others = footprint.read(reader) != programs
        if others.any():
            lanes = np.broadcast_to(programs, others.shape)[others]
            Scatter(np.broadcast_to(footprint.indices(), others.shape)[others]).write(
                self._record("other_reader"), lanes
            )
        return None

    def _against(self, name: str, footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        if name not in self._records:
            return None
        record = self._records[name]
        known = footprint.read(record)
        if known.max() == NOBODY:
            return None
        return self._differing(footprint, (known != NOBODY) & (known != programs), programs, record, name == "writer")

    @staticmethod
    def _differing(footprint, differs: np.ndarray, programs: np.ndarray, record: np.ndarray, wrote: bool):
        if not differs.any():
            return None
        lane = int(np.flatnonzero(differs)[0])
        unit = int(np.broadcast_to(footprint.indices(), differs.shape).flat[lane])
        return Conflict(unit, int(np.broadcast_to(programs, differs.shape).flat[lane]), int(record[unit]), wrote)
