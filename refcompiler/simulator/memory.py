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
    wrote: bool  # what the other did
    between_ctas: bool


class Order:
    """Which accesses a thread can rely on: those made no later than ``seen`` says for its group and the other's.

    Time is the number of barriers so far. Threads are numbered over the whole grid, and ``first`` is the first one
    here. A barrier of a whole CTA orders all its threads, so a group is a CTA, and only its own accesses count. Where
    warps have roles of their own and meet at named barriers (``warps_apart``, one CTA), a group is a warp.
    """

    def __init__(self, first: int, threads: int, ctas: int, now: int, warps_apart: bool):
        self.first, self.threads, self.warps_apart, self.now = first, threads, warps_apart, now + 1
        warps = threads // WARP
        self.rows = warps if warps_apart else 1
        self.seen = np.full((warps, warps) if warps_apart else (ctas, 1), now, np.int64)

    def visible(self, who: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The time up to which accesses of threads ``other`` of the same CTA are ordered before those of ``who``."""
        if self.warps_apart:
            return self.seen[(who - self.first) // WARP, (other - self.first) // WARP]
        return self.seen[(who - self.first) // self.threads, 0]

    def row(self, who: np.ndarray) -> np.ndarray | int:
        """Which row of the readers' records belongs to these threads."""
        return (who - self.first) // WARP if self.warps_apart else 0

    def barrier(self, groups: np.ndarray) -> None:
        """These CTAs, or these warps of the one CTA, have met."""
        if self.warps_apart:
            joined = self.seen[groups].max(axis=0)
            joined[groups] = self.now
            self.seen[groups] = joined
        else:
            self.seen[groups] = self.now
        self.now += 1


class Records:
    """The last writer and the readers since of each granule of a memory; ``between_ctas`` tells CTAs apart, which
    may meet nowhere."""

    def __init__(self, granules: int, rows: int, between_ctas: bool, threads: int):
        self.between_ctas = between_ctas
        self.granules, self.threads = granules, threads
        self.writer, self.written = np.full(granules, NOBODY, np.int32), np.zeros(granules, np.int32)
        self.reader, self.read_at = np.full(rows * granules, NOBODY, np.int32), np.zeros(rows * granules, np.int32)
        self.reading_cta = np.full(granules, NOBODY, np.int32) if between_ctas else None

    def read(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """Threads ``who`` read the granules beside them."""
        found = self._unordered_write(places, who, order)
        if found is not None:
            return found
        rows = places + order.row(who) * self.granules
        last = self.reader[rows]
        past = self.read_at[rows] <= order.visible(who, who)
        self.reader[rows] = np.where(past | (last == who) | (last == NOBODY), who, MANY)
        self.read_at[rows] = order.now
        shared = self.reader[rows] != who
        self.reader[rows[shared]] = MANY
        if self.reading_cta is not None:
            cta = who // self.threads
            last = self.reading_cta[places]
            self.reading_cta[places] = np.where((last == cta) | (last == NOBODY), cta, MANY)
            self.reading_cta[places[self.reading_cta[places] != cta]] = MANY
        return None

    def write(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """Threads ``who`` write the granules beside them."""
        found = self.unordered(places, who, order)
        if found is not None:
            return found
        self.writer[places] = who
        self.written[places] = order.now
        again = np.flatnonzero(self.writer[places] != who)
        return self._conflict(again, self.writer[places], True, who) if again.size else None

    def unordered(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        """An earlier access of another thread that nothing orders before a write here."""
        return self._unordered_write(places, who, order) or self._unordered_read(places, who, order)

    def _unordered_write(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        writer = self.writer[places]
        suspects = np.flatnonzero((writer != NOBODY) & (writer != who))
        if not suspects.size:
            return None
        w, o = who[suspects], writer[suspects]
        bad = o // self.threads != w // self.threads
        here = np.flatnonzero(~bad)
        bad &= self.between_ctas
        bad[here] = self.written[places[suspects[here]]] > order.visible(w[here], o[here])
        return self._conflict(suspects[bad], writer, True, who) if bad.any() else None

    def _unordered_read(self, places: np.ndarray, who: np.ndarray, order: Order) -> Conflict | None:
        if self.reading_cta is not None:
            cta = self.reading_cta[places]
            bad = (cta != NOBODY) & (cta != who // self.threads)
            if bad.any():
                at = int(bad.argmax())
                return Conflict(at, MANY if cta[at] == MANY else int(cta[at]) * self.threads, False, True)
        for row in range(order.rows):
            rows = places + row * self.granules
            reader = self.reader[rows]
            suspects = np.flatnonzero((reader != NOBODY) & (reader != who))
            if suspects.size:
                other = np.full(suspects.size, order.first + row * WARP)
                bad = self.read_at[rows[suspects]] > order.visible(who[suspects], other)
                if bad.any():
                    return self._conflict(suspects[bad], reader, False, who)
        return None

    def _conflict(self, where: np.ndarray, others: np.ndarray, wrote: bool, who: np.ndarray) -> Conflict:
        at = int(where[0])
        other = int(others[at])
        return Conflict(at, other, wrote, other != MANY and other // self.threads != int(who[at]) // self.threads)


class Memory:
    """A flat range of bytes from address ``start``; the copy here begins ``lead`` bytes before it, so that an address
    that is aligned there is aligned here. ``records`` is None where nothing is ever written."""

    def __init__(self, start: int, nbytes: int, granule: int, records: Records | None):
        self.start, self.end, self.granule, self.records = start, start + nbytes, granule, records
        self.lead = start % 16
        self.data = np.full(-(-(self.lead + nbytes) // 128) * 128, GARBAGE, np.uint8)
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
            self.view(size)[position // size] = data
        return found

    def meets(self, addresses: np.ndarray, size: int, who: np.ndarray, order: Order) -> Conflict | None:
        """A plain access of another thread of the CTA that an atomic here would race with."""
        assert self.records is not None
        found = self.records.unordered(*self._granules(self.position(addresses), size, who), order)
        return None if found is None or found.between_ctas else found

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
                at = int(region.position(array.ctypes.data))
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

    def write_back(self) -> None:
        for array in self.arrays:
            if array.flags.writeable and array.nbytes:
                region = self.region(array.ctypes.data)
                if region.records is not None:
                    at = int(region.position(array.ctypes.data))
                    array.reshape(-1).view(np.uint8)[:] = region.data[at : at + array.nbytes]
