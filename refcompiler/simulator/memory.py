"""Memory under test: bytes with bounds and initial garbage, and who touched each of them since the last barrier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

GARBAGE = 0xCD
NOBODY, MANY = -1, -2
SECTOR_BYTES, BANK_LINE_BYTES, WORD_BYTES = 32, 128, 4


@dataclass
class AccessCounts:
    """Memory transactions of one launch, and the fewest that the same bytes could take per warp and access."""

    global_sectors: int = 0
    least_global_sectors: int = 0
    shared_wavefronts: int = 0
    least_shared_wavefronts: int = 0


class Memory:
    """A flat range of bytes. ``fail(what)`` raises the error of the access at hand."""

    def __init__(self, data: np.ndarray, name: str):
        self.data, self.name = data, name
        size = data.size
        self.written_in, self.writer = np.zeros(size, np.int64), np.full(size, NOBODY, np.int32)
        self.read_in, self.reader = np.zeros(size, np.int64), np.full(size, NOBODY, np.int32)

    def read(self, at: np.ndarray, size: int, threads: np.ndarray, epoch: int, fail: Callable) -> np.ndarray:
        """``size`` bytes from each offset in ``at`` for the threads beside it, as an array of shape (n, size)."""
        places = at[:, None] + np.arange(size)
        who = np.broadcast_to(threads[:, None], places.shape)
        other = (self.written_in[places] == epoch) & (self.writer[places] != who)
        if other.any():
            self._race(fail, "reads", who, "wrote", self.writer[places], other, places)
        again = (self.read_in[places] == epoch) & (self.reader[places] != who)
        self.reader[places] = np.where(again, MANY, who)
        self.read_in[places] = epoch
        shared = (self.reader[places] != who) & ~again
        self.reader[places[shared]] = MANY
        return self.data[places]

    def write(self, at: np.ndarray, values: np.ndarray, threads: np.ndarray, epoch: int, fail: Callable) -> None:
        """Store the rows of ``values`` (n, size) at the offsets."""
        places = at[:, None] + np.arange(values.shape[1])
        who = np.broadcast_to(threads[:, None], places.shape)
        other = (self.written_in[places] == epoch) & (self.writer[places] != who)
        if other.any():
            self._race(fail, "writes", who, "wrote", self.writer[places], other, places)
        other = (self.read_in[places] == epoch) & (self.reader[places] != who)
        if other.any():
            self._race(fail, "writes", who, "read", self.reader[places], other, places)
        self.writer[places] = who
        self.written_in[places] = epoch
        other = self.writer[places] != who
        if other.any():
            self._race(fail, "writes", who, "wrote", self.writer[places], other, places)
        self.data[places] = values

    def _race(self, fail: Callable, verb: str, who, past: str, whom, where, places) -> None:
        at = tuple(np.argwhere(where)[0])
        other = "several threads" if whom[at] == MANY else f"thread {whom[at]}"
        fail(
            f"thread {who[at]} {verb} byte {places[at]} of {self.name} that {other} {past}, without a barrier between",
            "simt.race",
        )


class GlobalMemory(Memory):
    """The argument arrays at their own addresses; arrays that overlap share their bytes."""

    def __init__(self, arrays: list[np.ndarray]):
        spans = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays)
        merged: list[list[int]] = []
        for start, end in spans:
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        self.starts = np.array([m[0] for m in merged] or [0], np.int64)
        self.ends = np.array([m[1] for m in merged] or [0], np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.ends - self.starts)[:-1]])
        super().__init__(np.zeros(int((self.ends - self.starts).sum()), np.uint8), "global memory")
        self.arrays = arrays
        for array in arrays:
            self.data[self._slice(array)] = array.reshape(-1).view(np.uint8)

    def _slice(self, array: np.ndarray) -> slice:
        start = int(self.offset(np.array([array.ctypes.data]))[0])
        return slice(start, start + array.nbytes)

    def offset(self, addresses: np.ndarray) -> np.ndarray:
        region = np.clip(np.searchsorted(self.starts, addresses, "right") - 1, 0, None)
        return addresses - self.starts[region] + self.offsets[region]

    def outside(self, addresses: np.ndarray, size: int) -> np.ndarray:
        """Where ``size`` bytes from an address on are not all within an array."""
        region = np.clip(np.searchsorted(self.starts, addresses, "right") - 1, 0, None)
        return (addresses < self.starts[region]) | (addresses + size > self.ends[region])

    def write_back(self) -> None:
        for array in self.arrays:
            if array.flags.writeable:
                array.reshape(-1).view(np.uint8)[:] = self.data[self._slice(array)]


def count_sectors(addresses: np.ndarray, active: np.ndarray, size: int, counts: AccessCounts) -> None:
    """Count the 32-byte sectors that each warp touches in one access; rows of ``addresses`` are threads."""
    for warp in range(0, len(addresses), 32):
        mine = np.unique(addresses[warp : warp + 32][active[warp : warp + 32]])
        if mine.size:
            touched = np.unique(np.concatenate([mine // SECTOR_BYTES, (mine + size - 1) // SECTOR_BYTES]))
            counts.global_sectors += touched.size
            counts.least_global_sectors += -(-mine.size * size // SECTOR_BYTES)


def count_wavefronts(offsets: np.ndarray, active: np.ndarray, size: int, counts: AccessCounts) -> None:
    """Count the passes over the 32 banks that each warp needs in one access of ``size`` bytes per thread."""
    lanes = 32 // max(1, size // WORD_BYTES)  # threads served together
    for first in range(0, len(offsets), lanes):
        mine = np.unique(offsets[first : first + lanes][active[first : first + lanes]])
        if mine.size:
            words = np.unique(
                np.concatenate([(mine + step) // WORD_BYTES for step in range(0, max(size, 1), WORD_BYTES)])
            )
            counts.shared_wavefronts += int(np.bincount(words % 32).max())
            counts.least_shared_wavefronts += -(-words.size // 32)
