"""What a launch cost: memory transactions by NVIDIA's rules, barriers, shuffles and instructions, all for warps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

WARP, SECTOR_BYTES, LINE_BYTES, BANKS, WORD_BYTES = 32, 32, 128, 32, 4


@dataclass
class Counts:
    """Totals of one launch.

    A request is one memory instruction of one warp with at least one active thread. A sector is 32 bytes of global
    memory, a line 128; each request counts those it touches. ``least_sectors`` would do if the bytes lay side by side
    from a sector's start on. A wavefront is one pass over the 32 banks of shared memory; ``bank_conflicts`` are the
    wavefronts that a request needs beyond those for its bytes (a quarter of the warp at a time for 16 bytes a thread,
    half for 8). ``requests_by_bytes`` has the bytes of one thread's access. Barriers count once for each CTA, shuffles
    and instructions once for each warp and register.
    """

    load_requests: int = 0
    load_sectors: int = 0
    load_lines: int = 0
    store_requests: int = 0
    store_sectors: int = 0
    store_lines: int = 0
    least_sectors: int = 0
    shared_load_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_load_conflicts: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    shared_store_conflicts: int = 0
    barriers: int = 0
    shuffles: int = 0
    requests_by_bytes: Counter[int] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)

    @property
    def sectors(self) -> int:
        return self.load_sectors + self.store_sectors

    @property
    def requests(self) -> int:
        return self.load_requests + self.store_requests

    @property
    def bank_conflicts(self) -> int:
        return self.shared_load_conflicts + self.shared_store_conflicts

    @property
    def efficiency(self) -> float:
        """The share of the sectors moved that the bytes asked for need; 1.0 without any."""
        return self.least_sectors / self.sectors if self.sectors else 1.0

    def to_json(self) -> dict[str, float]:
        """Every count by name, the derived ones too."""
        plain = {k: v for k, v in vars(self).items() if isinstance(v, int)}
        derived = {
            "sectors": self.sectors,
            "lines": self.load_lines + self.store_lines,
            "requests": self.requests,
            "sectors_per_request": self.sectors / self.requests if self.requests else 0.0,
            "efficiency": self.efficiency,
            "bank_conflicts": self.bank_conflicts,
        }
        widths = {f"requests_of_{size}_bytes": n for size, n in sorted(self.requests_by_bytes.items())}
        classes = {f"{name}_instructions": n for name, n in sorted(self.instructions.items())}
        return {**plain, **derived, **widths, **classes}

    def global_access(self, addresses: np.ndarray, active: np.ndarray | None, size: int, store: bool) -> None:
        """One access of ``size`` bytes for each thread; ``addresses`` and ``active`` are (accesses, threads)."""
        rows = _by_warp(addresses, active, WARP)
        if rows is None:
            return
        distinct = _steps(rows)
        self.least_sectors += int((-(-distinct * size // SECTOR_BYTES)).sum())
        sectors, lines = int(_steps(rows // SECTOR_BYTES).sum()), int(_steps(rows // LINE_BYTES).sum())
        if size > SECTOR_BYTES:  # no machine has one; counted as if split
            sectors, lines = int((distinct * (size // SECTOR_BYTES)).sum()), sectors
        self.requests_by_bytes[size] += len(rows)
        if store:
            self.store_requests += len(rows)
            self.store_sectors += sectors
            self.store_lines += lines
        else:
            self.load_requests += len(rows)
            self.load_sectors += sectors
            self.load_lines += lines

    def shared_access(self, offsets: np.ndarray, active: np.ndarray | None, size: int, store: bool) -> None:
        """The same for byte offsets in the shared memory of a CTA."""
        requests = _by_warp(offsets, active, WARP)
        if requests is None:
            return
        passes = _by_warp(offsets, active, WARP * WORD_BYTES // max(size, WORD_BYTES))
        assert passes is not None
        words = passes[:, :, None] // WORD_BYTES + np.arange(max(1, size // WORD_BYTES))
        wavefronts = _bank_passes(np.sort(words.reshape(len(passes), -1), axis=1))
        if store:
            self.shared_store_requests += len(requests)
            self.shared_store_wavefronts += wavefronts
            self.shared_store_conflicts += wavefronts - len(passes)
        else:
            self.shared_load_requests += len(requests)
            self.shared_load_wavefronts += wavefronts
            self.shared_load_conflicts += wavefronts - len(passes)


def _by_warp(places: np.ndarray, active: np.ndarray | None, threads: int) -> np.ndarray | None:
    """The places of ``threads`` threads a row, sorted; idle threads repeat an active one, rows without one are left
    out. None where no row is left."""
    rows = places.reshape(-1, threads)
    if active is not None:
        alive = active.reshape(-1, threads)
        kept = alive.any(axis=1)
        rows, alive = rows[kept], alive[kept]
        if not len(rows):
            return None
        some = np.take_along_axis(rows, alive.argmax(axis=1)[:, None], axis=1)
        rows = np.where(alive, rows, some)
    if (rows[:, 1:] < rows[:, :-1]).any():
        rows = np.sort(rows, axis=1)
    return rows


def _steps(rows: np.ndarray) -> np.ndarray:
    """How many different numbers each sorted row has."""
    return (rows[:, 1:] != rows[:, :-1]).sum(axis=1) + 1


def _bank_passes(words: np.ndarray) -> int:
    """Passes over the banks for rows of sorted words: the most different words that any bank is asked for."""
    new = np.ones(words.shape, bool)
    new[:, 1:] = words[:, 1:] != words[:, :-1]
    banks = words % BANKS + np.arange(len(words))[:, None] * BANKS
    return int(np.bincount(banks[new], minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1).sum())
