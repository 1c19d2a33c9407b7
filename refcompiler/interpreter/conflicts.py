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


class AccessRecord:
    """Who accessed each unit of a stretch of memory: int32 program numbers, allocated at the first access of a kind.

    ``reads_matter`` is false where no program reads this memory, then only writers are kept. Two readers are enough:
    any program that writes is another one than the first or than the second.
    """

    def __init__(self, units: int, reads_matter: bool):
        self.units, self.reads_matter = units, reads_matter
        self._records: dict[str, np.ndarray] = {}

    def _record(self, name: str) -> np.ndarray:
        if name not in self._records:
            self._records[name] = np.full(self.units, NOBODY, np.int32)
        return self._records[name]

    def note_write(self, footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        """Record that ``programs`` (int32, broadcasts to the footprint) write; the first conflict found, if any."""
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

    def note_read(self, footprint: Footprint, programs: np.ndarray) -> Conflict | None:
        """Record that ``programs`` read; the first conflict found, if any."""
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
