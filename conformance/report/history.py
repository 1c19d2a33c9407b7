"""Several runs beside each other: which may be compared, how each feature went, what changed since the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.report.summary import GOOD, NOT_JUDGED, RED, Summary, feature_of, slack_of
from conformance.results import UNPLANNED

DRIFT = 2.0  # a slack that grows by this factor is shown ...
DRIFT_FROM = 0.1  # ... when it reaches this part of the bound


@dataclass(frozen=True)
class Run:
    """One report as a point of the history."""

    document: Mapping[str, Any]
    summary: Summary

    @property
    def key(self) -> tuple[str, ...]:
        """Runs with equal keys asked the same questions; only their numbers may be joined by a line."""
        run = self.document["run"]
        digest = self.document["suite"]["spec_digest"]
        return (digest, run["tier"], run["shard"], *sorted(run["select"]))

    @property
    def counts(self) -> bool:
        return not self.summary.void


@dataclass(frozen=True)
class Change:
    """One instance on one implementation in two runs; an absent one has the status `absent`."""

    instance: str
    impl: str
    before: str
    after: str
    slack_before: float | None = None
    slack_after: float | None = None

    @property
    def worse(self) -> bool:
        return self.after in RED and self.before not in RED

    @property
    def better(self) -> bool:
        return self.before in RED and self.after not in RED


@dataclass
class Comparison:
    """What two runs do not have in common, worst first."""

    added: list[Change] = field(default_factory=list)
    removed: list[Change] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    drifted: list[Change] = field(default_factory=list)
    unchanged: int = 0

    @property
    def regressions(self) -> int:
        return sum(c.worse for c in (*self.added, *self.changed))

    @property
    def repairs(self) -> int:
        return sum(c.better for c in self.changed)


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Instances added, removed, with another status, or with an error that grew towards its bound."""
    old, new = _by_key(before["results"]), _by_key(after["results"])
    found = Comparison()
    for key, r in new.items():
        instance, impl, _ = key
        if key not in old:
            found.added.append(Change(instance, impl, "absent", r["status"], None, slack_of(r)))
            continue
        change = Change(instance, impl, old[key]["status"], r["status"], slack_of(old[key]), slack_of(r))
        if change.before != change.after:
            found.changed.append(change)
        elif _drifted(change):
            found.drifted.append(change)
        else:
            found.unchanged += 1
    found.removed = [
        Change(i, impl, r["status"], "absent", slack_of(r))
        for (i, impl, k), r in old.items()
        if (i, impl, k) not in new
    ]
    for changes in (found.added, found.removed, found.changed):
        changes.sort(key=lambda c: (not c.worse, c.better))
    found.drifted.sort(key=lambda c: -(c.slack_after or 0.0))
    return found


def _by_key(results: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    return {(r["i"], r["impl"], r["kind"] if r["kind"] in UNPLANNED else ""): r for r in results}


def _drifted(c: Change) -> bool:
    if c.slack_before is None or c.slack_after is None or c.slack_after < DRIFT_FROM:
        return False
    return c.slack_after > DRIFT * c.slack_before


@dataclass(frozen=True)
class Point:
    """One run's value of one feature on one implementation, 0 to 1."""

    run: int
    value: float
    key: tuple[str, ...]


@dataclass
class Course:
    """How one feature went on one implementation: share of judged instances passed, and largest error over bound."""

    passed: list[Point] = field(default_factory=list)
    slack: list[Point] = field(default_factory=list)


def courses(runs: Sequence[Run], impl: str) -> dict[str, Course]:
    """Feature id to its course over the runs that count and judged it on this implementation; slack ends at 1."""
    found: dict[str, Course] = {}
    for n, run in enumerate(runs):
        if not run.counts:
            continue
        judged: dict[str, list[Mapping[str, Any]]] = {}
        for r in run.document["results"]:
            if r["impl"] == impl and r["status"] not in NOT_JUDGED and r["kind"] != "compile":
                judged.setdefault(feature_of(r["i"]), []).append(r)
        for feature, results in judged.items():
            course = found.setdefault(feature, Course())
            good = sum(r["status"] in GOOD for r in results)
            course.passed.append(Point(n, good / len(results), run.key))
            slacks = [s for r in results if (s := slack_of(r)) is not None]
            if slacks:
                course.slack.append(Point(n, min(1.0, max(slacks)), run.key))
    return found


def segments(points: Sequence[Point]) -> list[list[Point]]:
    """Neighbouring points of aligned runs; a line joins the points of one segment and never two segments."""
    found: list[list[Point]] = []
    for p in points:
        if found and found[-1][-1].key == p.key:
            found[-1].append(p)
        else:
            found.append([p])
    return found
