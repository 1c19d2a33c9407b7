"""Ratios of medians with their uncertainty: paired bootstrap over the rounds of one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 4000
CONFIDENCE = 0.95
SEED = 2026  # the same timings give the same interval


@dataclass(frozen=True)
class Ratio:
    """A ratio of speeds, and the interval that holds it with 95 % confidence."""

    value: float
    low: float
    high: float


def ratio(ours: Sequence[float], peer: Sequence[float]) -> Ratio:
    """How many times as fast as a peer we are: the peer's median time over ours.

    Times of one round stand at the same place of both. The rounds are drawn again together, because what slows a round
    down (clocks, temperature) slows both. Raises ValueError for less than three rounds.
    """
    return geometric_mean([(ours, peer)])


def geometric_mean(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Ratio:
    """The geometric mean of the ratios of several lines, each a pair of our times and the peer's."""
    generator = np.random.default_rng(SEED)
    values, resampled = [], []
    for ours, peer in pairs:
        a, b = np.asarray(ours, np.float64), np.asarray(peer, np.float64)
        if a.shape != b.shape or a.size < 3:
            raise ValueError(f"a ratio needs as many rounds of both, at least 3; found {a.size} and {b.size}")
        if not (np.isfinite(a).all() and np.isfinite(b).all() and (a > 0).all() and (b > 0).all()):
            raise ValueError("times are positive numbers")
        drawn = generator.integers(0, a.size, (RESAMPLES, a.size))
        values.append(np.log(np.median(b) / np.median(a)))
        resampled.append(np.log(np.median(b[drawn], axis=1) / np.median(a[drawn], axis=1)))
    means = np.mean(resampled, axis=0)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Ratio(*(float(np.exp(v)) for v in (np.mean(values), low, high)))


def median(times: Sequence[float]) -> float:
    """The median of times."""
    return float(np.median(np.asarray(times, np.float64)))
