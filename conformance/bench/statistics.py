"""Ratios of medians with their uncertainty: paired bootstrap over the rounds of one process."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 2026  # the same timings give the same interval


@dataclass(frozen=True)
class Ratio:
    """A ratio of speeds, and the interval that holds it with 95 % confidence."""

    value: float
    low: float
    high: float


def ratio(ours: Sequence[float], peer: Sequence[float], key: str = "") -> Ratio:
    """How many times as fast as a peer we are: the peer's median time over ours.

    Times of one round stand at the same place of both. The rounds are drawn again together, because what slows a round
    down (clocks, temperature) slows both. `key` names the line: other lines draw other rounds. Raises ValueError for
    less than three rounds.
    """
    return geometric_mean([(ours, peer)], [key])


def geometric_mean(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], keys: Sequence[str] = ()) -> Ratio:
    """The geometric mean of the ratios of several lines, each a pair of our times and the peer's, with its key."""
    values, resampled = [], []
    for number, (ours, peer) in enumerate(pairs):
        if len(ours) != len(peer) or len(ours) < 3:
            raise ValueError(f"a ratio needs as many rounds of both, at least 3; found {len(ours)} and {len(peer)}")
        key = keys[number] if keys else str(number)
        mine, theirs = _medians(tuple(ours), key), _medians(tuple(peer), key)
        values.append(theirs[0] - mine[0])
        resampled.append(theirs[1] - mine[1])
    means = np.mean(resampled, axis=0)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    value = np.mean(values)
    # The median of what is drawn again leans to one side; over many lines by more than the interval is wide.
    return Ratio(*(float(np.exp(v)) for v in (value, min(low, value), max(high, value))))


@lru_cache(maxsize=4096)
def _medians(times: tuple[float, ...], key: str) -> tuple[float, np.ndarray]:
    """The logarithm of the median, and those of the medians of rounds drawn again."""
    array = np.asarray(times, np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("times are positive numbers")
    return float(np.log(np.median(array))), np.log(np.median(array[_drawn(array.size, key)], axis=1))


@lru_cache(maxsize=2)
def _drawn(count: int, key: str) -> np.ndarray:
    """Places of rounds, for each resample of a line."""
    return np.random.default_rng([SEED, zlib.crc32(key.encode())]).integers(0, count, (RESAMPLES, count))


def median(times: Sequence[float]) -> float:
    """The median of times."""
    return float(np.median(np.asarray(times, np.float64)))
