"""Memory under test: bytes with bounds, who touched each of them and when; what nothing orders is a conflict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GARBAGE = 0xCD
NOBODY, MANY = -1, -2
WARP = 32


@dataclass(frozen=True)
class Conflict:
    """Two accesses to one place, a write among them, that nothing orders. ``at`` is the index in the access arrays."""

    at: int
    other: int  # the thread that came first; MANY for several
    did: str  # what the other did
    between_ctas: bool
    missing: str = "a barrier between"  # what would have ordered them


class Order:
    """Which accesses a thread can rely on: those made no later than ``seen`` says for its group and the other's.

    Time is the number of barriers so far. Threads are numbered over the whole grid, and ``first`` is the first one
    here. A barrier of a whole CTA orders all its threads, so a group is a CTA, and only its own accesses count. Where
    warps have roles of their own and meet at named barriers (``warps_apart``, one CTA), a group is a warp. The CTAs of
    a ``cluster`` are together what one CTA is otherwise, and each of them is a group, or its warps are.
    """

    def __init__(self, first: int, threads: int, ctas: int, now: int, warps_apart: bool, cluster: int = 1):
        self.first, self.threads, self.warps_apart, self.now = first, threads, warps_apart, now + 1
        self.numbers = threads * cluster  # that a CTA, or a cluster, has for those who access memory
        self.members = WARP if warps_apart else threads  # threads of a group
        self.groups_meet = warps_apart or cluster > 1
        groups = self.numbers // self.members
        self.rows = groups if self.groups_meet else 1
        self.seen = np.full((groups, groups) if self.groups_meet else (ctas, 1), now, np.int64)

    def visible(self, who: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The time up to which accesses of threads ``other`` of the same CTA are ordered before those of ``who``."""
        if self.groups_meet:
            return self.seen[(who - self.first) // self.members, (other - self.first) // self.members]
        return self.seen[(who - self.first) // self.threads, 0]

    def row(self, who: np.ndarray) -> np.ndarray | int:
        """Which row of the readers' records belongs to these threads."""
        return (who - self.first) // self.members if self.groups_meet else 0

    def readers(self, row: int, last: np.ndarray) -> np.ndarray:
        """A thread of each group of readers whose records row ``row`` has; ``last`` are those it names."""
        return np.full(last.size, self.first + row * self.members)

    def meet(self, ctas: np.ndarray) -> None:
        """All threads of each of these CTAs have met, those of one CTA alone."""
        if not self.groups_meet:
            self.barrier(ctas)
            return
        groups = self.threads // self.members
        for cta in ctas:
            self.barrier(np.arange(cta * groups, (cta + 1) * groups))

    def barrier(self, groups: np.ndarray) -> None:
        """These CTAs, or these groups of the one CTA or cluster, have met."""
        if self.groups_meet:
            joined = self.seen[groups].max(axis=0)
            joined[groups] = self.now
            self.seen[groups] = joined
        else:
            self.seen[groups] = self.now
        self.now += 1


class Touches:
    """Who touched each granule since the last barrier that orders them: one thread, or MANY of one CTA, the last one
    that came here. Where warps are apart there is a row of records for each warp."""

    def __init__(self, granules: int, rows: int, threads: int):
        self.granules, self.threads = granules, threads
        self.last, self.at = np.full(rows * granules, NOBODY, np.int32), np.zeros(rows * granules, np.int32)
        self.cta = np.full(granules, NOBODY, np.int32)

    def note(self, places: np.ndarray, who: np.ndarray, order: Order) -> None:
        """Threads ``who`` touch the granules beside them."""
        rows, cta = places + order.row(who) * self.granules, who // self.threads
        last = self.last[rows]
        alone = (last == who) | (last == NOBODY) | (self.cta[places] != cta)
        alone |= self.at[rows] <= order.visible(who, who)
        self.cta[places] = cta
        self.last[rows] = np.where(alone, who, MANY)
        self.at[rows] = order.now
        crowd = (self.last[rows] != who) & (self.cta[places] == cta)
        self.last[rows[crowd]] = MANY

    def unordered(self, places: np.ndarray, who: np.ndarray, order: Order) -> tuple[int, int] | None:
        """The index of an access that another thread's touch is not ordered before, and that thread."""
        for row in range(order.rows):
            rows = places + row * self.granules
            last = self.last[rows]
            suspects = np.flatnonzero((last != NOBODY) & (last != who))
            if suspects.size:
                mine = who[suspects]
                other = order.readers(row, last[suspects])
                bad = self.at[rows[suspects]] > order.visible(mine, other)
                bad &= self.cta[places[suspects]] == mine // self.threads
                if bad.any():
                    at = int(suspects[bad.argmax()])
                    return at, int(last[at])
        return None


class Records:
    """The last writer of each granule of a memory, its readers since, and who changed it by atomics.

    ``apart`` says that CTAs may meet nowhere: a conflict of two of them needs no time.
    """

    def __init__(self, granules: int, rows: int, apart: bool, threads: int):
        self.threads, self.apart = threads, apart
        self.writer, self.written = np.full(granules, NOBODY, np.int32), np.zeros(granules, np.int32)
        self.readers = Touches(granules, rows, threads)
        self.changers: Touches | None = None
        self._reading_cta = np.full(granules, NOBODY, np.int32) if apart else None  # or MANY, in the whole launch

    def read(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """Threads ``who`` read the granules beside them."""
        found = self.unordered_write(places, who, order) or self._unordered_change(places, who, order)
        if found is not None:
            return found
        self.readers.note(places, who, order)
        if self._reading_cta is not None:
            cta = who // self.threads
            last = self._reading_cta[places]
            self._reading_cta[places] = np.where((last == cta) | (last == NOBODY), cta, MANY)
            self._reading_cta[places[self._reading_cta[places] != cta]] = MANY
        return None

    def write(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """Threads ``who`` write the granules beside them."""
        found = self.unordered(places, who, order) or self._unordered_change(places, who, order)
        if found is not None:
            return found
        self.writer[places] = who
        self.written[places] = order.now
        again = np.flatnonzero(self.writer[places] != who)
        return self._wrote(again, self.writer[places], who) if again.size else None

    def change(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """Threads ``who`` change the granules beside them by atomics, which may meet other atomics."""
        found = self.unordered(places, who, order)
        if self.changers is None:
            self.changers = Touches(self.readers.granules, order.rows, self.threads)
        self.changers.note(places, who, order)
        return None if found is None or found.between_ctas else found

    def unordered(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """An earlier plain access of another thread that nothing orders before a write here."""
        return self.unordered_write(places, who, order) or self._unordered_read(places, who, order)

    def unordered_write(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """An earlier store of another thread that nothing orders before an access here."""
        writer = self.writer[places]
        suspects = np.flatnonzero((writer != NOBODY) & (writer != who))
        if not suspects.size:
            return None
        w, o = who[suspects], writer[suspects]
        bad = o // self.threads != w // self.threads
        here = np.flatnonzero(~bad)
        bad &= self.apart
        bad[here] = self.written[places[suspects[here]]] > order.visible(w[here], o[here])
        return self._wrote(suspects[bad], writer, who) if bad.any() else None

    def _unordered_read(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        if self._reading_cta is not None:
            cta = self._reading_cta[places]
            bad = (cta != NOBODY) & (cta != who // self.threads)
            if bad.any():
                at = int(bad.argmax())
                return Conflict(at, MANY if cta[at] == MANY else int(cta[at]) * self.threads, "read", True)
        found = self.readers.unordered(places, who, order)
        return None if found is None else Conflict(*found, "read", False)

    def _unordered_change(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        found = None if self.changers is None else self.changers.unordered(places, who, order)
        return None if found is None else Conflict(*found, "changed", False)

    def _wrote(self, where: np.ndarray, writers: np.ndarray, who: np.ndarray) -> Conflict:
        at = int(where[0])
        other = int(writers[at])
        return Conflict(at, other, "wrote", other // self.threads != int(who[at]) // self.threads)


class Memory:
    """A flat range of bytes from address ``start``; the copy here begins ``lead`` bytes before it, so that an address
    that is aligned there is aligned here. ``records`` is None where nothing is ever written."""

    def __init__(self, start: int, nbytes: int, granule: int, records: Records | None):
        self.start, self.end, self.granule, self.records = start, start + nbytes, granule, records
        self.lead = start % 16
        self.data = np.full(-(-(self.lead + nbytes) // 128) * 128, GARBAGE, np.uint8)
        self.changed = False  # some byte has other bits since this was last set back
        self._views: dict[int, np.ndarray] = {}

    def position(self, addresses: np.ndarray) -> np.ndarray:
        return addresses - (self.start - self.lead)

    def view(self, size: int) -> np.ndarray:
        """The bytes as items of ``size`` bytes."""
        if size not in self._views:
            whole = self.data.size // size * size
            self._views[size] = self.data[:whole].view(items(size))
        return self._views[size]

    def read(self, addresses: np.ndarray, size: int, who: np.ndarray, order: Order) -> np.ndarray | Conflict:
        """``size`` bytes, as one item each, from aligned addresses inside."""
        position = self.position(addresses)
        if self.records is not None:
            found = self.records.read(*self._granules(position, size, who), order)
            if found is not None:
                return found
        return self.view(size)[position // size]

    def write(self, addresses: np.ndarray, data: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """Store one item for each address."""
        assert self.records is not None
        size = data.dtype.itemsize
        position = self.position(addresses)
        found = self.records.write(*self._granules(position, size, who), order)
        if found is None:
            self.put(position // size, data)
        return found

    def put(self, index: np.ndarray, data: np.ndarray) -> None:
        """Items at indices of their view."""
        view = self.view(data.dtype.itemsize)
        self.changed = self.changed or bool((view[index] != data).any())
        view[index] = data

    def change(self, addresses: np.ndarray, size: int, who: np.ndarray, order: Order) -> Conflict | None:
        """Atomics at the addresses: a plain access of another thread of the CTA that they race with."""
        assert self.records is not None
        return self.records.change(*self._granules(self.position(addresses), size, who), order)

    def granules(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """The numbers of the granules of ``size`` bytes from each address on."""
        return self._granules(self.position(addresses), size, addresses)[0]

    def unwritten(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Where nothing was ever stored in the ``size`` bytes from an address on."""
        assert self.records is not None
        places, _ = self._granules(self.position(addresses), size, addresses)
        return (self.records.writer[places] == NOBODY).reshape(addresses.size, -1).any(axis=1)

    def _granules(self, position: np.ndarray, size: int, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, count = position // self.granule, size // self.granule
        if count == 1:
            return first, who
        return (first[:, None] + np.arange(count)).reshape(-1), np.repeat(who, count)


def items(size: int) -> np.dtype:
    """A type of ``size`` bytes that copies bits as they are."""
    return np.dtype(f"u{size}" if size in (1, 2, 4, 8) else f"V{size}")


class GlobalMemory:
    """The argument arrays at their own addresses; arrays that overlap share their bytes.

    ``written`` are the indices of the arrays that may be stored to; nothing is recorded for the others. ``apart`` says
    that CTAs may meet nowhere: no atomic orders them.
    """

    def __init__(self, arrays: list[np.ndarray], written: set[int], granule: int, rows: int, threads: int, apart: bool):
        self.arrays = arrays
        spans = sorted(
            (a.ctypes.data, a.ctypes.data + a.nbytes, i in written) for i, a in enumerate(arrays) if a.nbytes
        )
        merged: list[tuple[int, int, bool]] = []
        for start, end, stored in spans:
            if merged and start < merged[-1][1]:
                last = merged.pop()
                start, end, stored = last[0], max(last[1], end), last[2] or stored
            merged.append((start, end, stored))
        self.regions = []
        for start, end, stored in merged:
            granules = (start % 16 + end - start) // granule + 1
            records = Records(granules, rows, apart, threads) if stored else None
            self.regions.append(Memory(start, end - start, granule, records))
        for array in arrays:
            if array.nbytes:
                region = self.region(array.ctypes.data)
                at = array.ctypes.data - region.start + region.lead
                region.data[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)

    def region(self, address: int) -> Memory:
        return next(r for r in self.regions if r.start <= address < r.end)

    def outside(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Where ``size`` bytes from an address on are not all within one array."""
        inside = np.zeros(addresses.shape, bool)
        for region in self.regions:
            inside |= (addresses >= region.start) & (addresses + size <= region.end)
        return ~inside

    def split(self, addresses: np.ndarray, size: int) -> list[tuple[Memory, np.ndarray | slice]] | None:
        """Which of the addresses lie in which region; None if one lies in none."""
        if not addresses.size:
            return []
        low, high = int(addresses.min()), int(addresses.max())
        found: list[tuple[Memory, np.ndarray | slice]] = []
        left = addresses.size
        for region in self.regions:
            if region.start <= low and high + size <= region.end:
                return [(region, slice(None))]
            if high < region.start or low >= region.end:
                continue
            mine = np.flatnonzero((addresses >= region.start) & (addresses + size <= region.end))
            if mine.size:
                found.append((region, mine))
                left -= mine.size
        return None if left else found

    def take_changes(self) -> bool:
        """Whether any byte got other bits since this was last asked."""
        changed = any(region.changed for region in self.regions)
        for region in self.regions:
            region.changed = False
        return changed

    def write_back(self) -> None:
        for array in self.arrays:
            if array.flags.writeable and array.nbytes:
                region = self.region(array.ctypes.data)
                if region.records is not None:
                    at = array.ctypes.data - region.start + region.lead
                    array.reshape(-1).view(np.uint8)[:] = region.data[at : at + array.nbytes]
