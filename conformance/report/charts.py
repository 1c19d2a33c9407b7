"""Geometry of the small charts: status bars, histograms of error over bound, budget bars, sparklines.

Templates draw them as inline SVG; nothing here knows about markup. All lengths are in the units of the SVG's view box.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from conformance.report.history import Point, segments
from conformance.results import STATUSES

# Upper ends of the histogram's bins, as parts of the bound; 0 alone is exact, and beyond 1 the bound is broken.
BINS = ((0.0, "exact"), (1e-3, "≤ 0.1 %"), (1e-2, "≤ 1 %"), (0.1, "≤ 10 %"), (0.5, "≤ 50 %"), (1.0, "≤ bound"))


@dataclass(frozen=True)
class Piece:
    """A part of a horizontal bar: where it begins, how long it is, which status it shows, of how many."""

    x: float
    width: float
    status: str
    count: int


def status_bar(counts: Mapping[str, int], width: float = 100.0) -> list[Piece]:
    """Pieces from good to bad; every status that occurs is at least one unit wide."""
    present = [(s, counts[s]) for s in STATUSES if counts.get(s)]
    total = sum(n for _, n in present)
    raw = [max(1.0, width * n / total) for _, n in present]
    scale = width / sum(raw) if raw else 1.0
    pieces, x = [], 0.0
    for (status, n), w in zip(present, raw, strict=True):
        pieces.append(Piece(round(x, 2), round(w * scale, 2), status, n))
        x += w * scale
    return pieces


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram: label, how many, height 0 to 1, and whether it is beyond the bound."""

    label: str
    count: int
    height: float
    beyond: bool = False


def histogram(slacks: Iterable[float]) -> list[Bar]:
    """Errors over their bounds, on a logarithmic scale; empty when nothing was measured. A NaN counts as beyond."""
    counts = [0] * (len(BINS) + 1)
    for s in slacks:
        counts[next((n for n, (top, _) in enumerate(BINS) if s <= top), len(BINS))] += 1
    most = max(counts)
    if not most:
        return []
    bars = [Bar(label, n, n / most) for (_, label), n in zip(BINS, counts, strict=False)]
    return [*bars, Bar("beyond", counts[-1], counts[-1] / most, beyond=True)]


@dataclass(frozen=True)
class BudgetBar:
    """A measured number beside its limits; `used` and `low` are parts of the scale, which ends at 1."""

    name: str
    value: float
    low: float | None
    high: float | None
    used: float
    mark: float | None
    broken: bool


def budget_bar(name: str, value: float, limit: object) -> BudgetBar:
    """`limit` is a maximum, a pair of minimum and maximum, or None when the report does not say."""
    low, high = _limits(limit)
    broken = (high is not None and value > high) or (low is not None and value < low)
    scale = max(value, high or 0, low or 0) or 1
    mark = None if high is None else high / scale
    return BudgetBar(name, value, low, high, value / scale, mark, broken)


def _limits(limit: object) -> tuple[float | None, float | None]:
    if isinstance(limit, (int, float)):
        return None, limit
    if isinstance(limit, Sequence) and not isinstance(limit, str) and len(limit) == 2:
        return limit[0], limit[1]
    return None, None


@dataclass(frozen=True)
class Spark:
    """A sparkline: polylines of aligned runs, single points, and the last point."""

    lines: list[str]
    dots: list[tuple[float, float]]
    last: tuple[float, float]
    width: float
    height: float


def sparkline(points: Sequence[Point], runs: int, width: float = 96.0, height: float = 20.0) -> Spark | None:
    """Values 0 to 1 over all runs; None without points."""
    if not points:
        return None

    def place(p: Point) -> tuple[float, float]:
        x = 3 + (width - 6) * (p.run / (runs - 1) if runs > 1 else 0.5)
        y = 3 + (height - 6) * (1 - min(1.0, max(0.0, p.value)))
        return round(x, 1), round(y, 1)

    parts = segments(points)
    lines = [" ".join(f"{x},{y}" for x, y in map(place, s)) for s in parts if len(s) > 1]
    dots = [place(s[0]) for s in parts if len(s) == 1]
    return Spark(lines, dots, place(points[-1]), width, height)


def number(value: float | str | None) -> str:
    """A measured number for people: three significant digits, infinity as a sign."""
    if value is None:
        return ""
    value = float(value)
    if math.isinf(value):
        return "∞"
    if value == 0 or value != value:
        return "0" if value == 0 else "NaN"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:.1e}"
