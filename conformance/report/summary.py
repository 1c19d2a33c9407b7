"""The numbers of a report, computed once: per feature, per clause, per implementation, and what makes a run void."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from conformance.results import RED, STATUSES, UNPLANNED, worst

# The four ways a feature is judged, and the kinds of results that belong to each.
WITNESSES: Mapping[str, frozenset[str]] = {
    "ir": frozenset({"ssa", "invariant", "snapshot", "rewrite"}),
    "oracle": frozenset({"oracle", "unpredictable", "selfcheck", "agreement", "compile"}),
    "budgets": frozenset({"budget"}),
    "negatives": frozenset({"negative"}),
}
_WITNESS_OF = {kind: name for name, kinds in WITNESSES.items() for kind in kinds}
_NUMBERS = re.compile(r"\b(?:0x[0-9a-f]+|[0-9a-f]{8,})\b|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_PICTURES = {c: 0x2400 + c for c in range(32) if chr(c) not in "\t\n\r"}
GOOD = frozenset({"pass", "warn"})
NOT_JUDGED = frozenset({"skip", "unsupported"})


@dataclass
class Lamp:
    """Results of one feature on one implementation by one way of judging."""

    counts: Counter[str] = field(default_factory=Counter)
    compiled: int = 0

    def add(self, result: Mapping[str, Any]) -> None:
        if only_compiled(result):
            self.compiled += 1
        else:
            self.counts[result["status"]] += 1

    @property
    def total(self) -> int:
        return self.counts.total() + self.compiled

    @property
    def red(self) -> int:
        return sum(n for s, n in self.counts.items() if s in RED)

    @property
    def state(self) -> str:
        """`none` (no result), `compiled` (compiled and never run), or the worst status."""
        if not self.total:
            return "none"
        judged = [s for s in self.counts if s not in NOT_JUDGED]
        if judged or not self.compiled:
            return worst(judged or self.counts)
        return "compiled"


@dataclass
class Clause:
    """One clause with the results that judged it, and the red ones of its cases, by implementation."""

    feature: str
    id: str
    level: str
    kind: str
    text: str
    covered: bool
    cases: tuple[str, ...]
    counted: bool
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def full_id(self) -> str:
        return f"{self.feature}#{self.id}"

    @property
    def demanded(self) -> bool:
        """Whether it needs a witness: a must-clause of a stable feature."""
        return self.level == "must" and self.counted

    @property
    def state(self) -> str:
        """The worst status of what judged it; `uncovered` (must, and no case) or `unjudged` without a result."""
        judged = [s for counts in self.counts.values() for s in counts if s not in NOT_JUDGED]
        if judged:
            return worst(judged)
        return "uncovered" if self.level == "must" and not self.covered else "unjudged"


@dataclass
class Row:
    """One feature's numbers."""

    id: str
    area: str
    title: str
    status: str
    profile: str
    clauses: list[Clause]
    lamps: dict[str, dict[str, Lamp]]
    counts: Counter[str] = field(default_factory=Counter)
    compiled: int = 0
    slack: float | None = None
    ms: float = 0.0

    @property
    def must(self) -> int:
        return sum(c.level == "must" for c in self.clauses)

    @property
    def covered(self) -> int:
        """Must-clauses that some case on some target can witness."""
        return sum(c.level == "must" and c.covered for c in self.clauses)

    @property
    def judged(self) -> int:
        """Must-clauses that a result of this run judged, none of them red."""
        return sum(c.level == "must" and c.state in STATUSES and c.state not in RED for c in self.clauses)

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def red(self) -> int:
        return sum(n for s, n in self.counts.items() if s in RED)

    @property
    def state(self) -> str:
        """The worst state of its lamps; `none` when nothing ran."""
        states = {lamp.state for lamps in self.lamps.values() for lamp in lamps.values()} - {"none"}
        judged = states - NOT_JUDGED - {"compiled"}
        return worst(judged) if judged else min(states, default="none")


@dataclass
class Implementation:
    """One implementation's numbers."""

    id: str
    info: Mapping[str, Any]
    counts: Counter[str] = field(default_factory=Counter)
    compiled: int = 0

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def score(self) -> float | None:
        """Passed of judged, 0 to 1; compilations alone, skipped and unsupported instances judge nothing."""
        passed = sum(self.counts[s] for s in GOOD) - self.compiled
        judged = sum(n for s, n in self.counts.items() if s not in NOT_JUDGED) - self.compiled
        return passed / judged if judged else None


@dataclass(frozen=True)
class Alarm:
    """Why a run does not count (`void`), or what a reader must know about it."""

    void: bool
    text: str


class Summary:
    """Every number of one report document."""

    def __init__(self, report: Mapping[str, Any]) -> None:
        self.report = report
        self.rows: dict[str, Row] = {f["id"]: _row(f, report["implementations"]) for f in report["features"]}
        self.implementations = {i["id"]: Implementation(i["id"], i) for i in report["implementations"]}
        self.counts: Counter[str] = Counter()
        self.compiled = 0
        self.asked = 0  # without the self-checks, which nobody plans
        self.strangers: Counter[str] = Counter()
        for result in report["results"]:
            self._add(result)

    def _add(self, result: Mapping[str, Any]) -> None:
        status, impl, compiled = result["status"], result["impl"], only_compiled(result)
        self.counts[status] += 1
        self.compiled += compiled
        self.asked += result["kind"] not in UNPLANNED
        if impl not in self.implementations:
            self.strangers[f"implementation {impl!r}"] += 1
        else:
            self.implementations[impl].counts[status] += 1
            self.implementations[impl].compiled += compiled
        row = self.rows.get(feature_of(result["i"]))
        if row is None:
            self.strangers[f"feature {feature_of(result['i'])!r}"] += 1
            return
        row.counts[status] += 1
        row.compiled += compiled
        row.ms += float(result.get("ms", {}).get("total", 0.0))
        lamps = row.lamps.setdefault(impl, {w: Lamp() for w in WITNESSES})
        lamps[_WITNESS_OF[result["kind"]]].add(result)
        if (slack := slack_of(result)) is not None:
            row.slack = max(slack, row.slack or 0.0)
        wanted, case = set(result["clauses"]), result["i"].partition(":")[0]
        for clause in row.clauses:
            # What crashed or timed out judged no clause; the clauses of its case are in doubt all the same.
            if clause.id in wanted or (status in RED and case in clause.cases):
                clause.counts.setdefault(impl, Counter())[status] += 1

    @cached_property
    def clauses(self) -> list[Clause]:
        return [c for row in self.rows.values() for c in row.clauses]

    @property
    def must(self) -> int:
        """Clauses that need a witness."""
        return sum(c.demanded for c in self.clauses)

    @property
    def covered(self) -> int:
        return sum(c.demanded and c.covered for c in self.clauses)

    @property
    def judged_clauses(self) -> int:
        """Clauses that need a witness and had one in this run, none of them red."""
        return sum(c.demanded and c.state in STATUSES and c.state not in RED for c in self.clauses)

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def expected(self) -> int:
        return int(self.report["totals"]["expected"])

    @property
    def red(self) -> int:
        return sum(n for s, n in self.counts.items() if s in RED)

    @property
    def score(self) -> float | None:
        """Passed of judged over all implementations; lost instances count as not passed."""
        passed = sum(self.counts[s] for s in GOOD) - self.compiled
        judged = sum(n for s, n in self.counts.items() if s not in NOT_JUDGED) - self.compiled
        judged += max(0, self.expected - self.asked)
        return passed / judged if judged else None

    @property
    def slack(self) -> float | None:
        return max((r.slack for r in self.rows.values() if r.slack is not None), default=None)

    @cached_property
    def alarms(self) -> list[Alarm]:
        return [*(Alarm(True, t) for t in _void(self)), *(Alarm(False, t) for t in _notes(self))]

    @property
    def void(self) -> bool:
        return any(a.void for a in self.alarms)

    @property
    def verdict(self) -> str:
        """`failed` (something is red), `incomplete` (void for another reason), or `passed`."""
        if self.red:
            return "failed"
        return "incomplete" if self.void else "passed"

    @property
    def sentence(self) -> str:
        """The verdict in one line of plain text."""
        impls = ", ".join(self.implementations) or "no implementation"
        words = [f"{self.red:,} of {self.total:,} instances red" if self.red else f"{self.total:,} instances, none red"]
        if self.compiled:
            words.append(f"{self.compiled:,} compiled only")
        words.append(f"{self.covered} of {self.must} must-clauses covered")
        return f"{'; '.join(words)}; on {impls}"


def rows(report: Mapping[str, Any]) -> list[Row]:
    """Per-feature numbers of a report, in its order; the terminal's table and the pages show these."""
    return list(Summary(report).rows.values())


def feature_of(instance: str) -> str:
    """The feature's id in a case or instance id."""
    return instance.split("/", 1)[0]


def split_instance(instance: str) -> tuple[str, str]:
    """Case (without the feature) and parameters of an instance id."""
    case, _, params = instance.split("/", 1)[-1].partition(":")
    return case, params


def slack_of(result: Mapping[str, Any]) -> float | None:
    """Largest error over its bound, 0 to infinity; None when nothing was measured."""
    value = result.get("numerics", {}).get("max_err_over_bound")
    return None if value is None else float(value)


def visible(text: str) -> str:
    """Control characters, which neither HTML nor Markdown can hold, as their pictures."""
    return text.translate(_PICTURES)


def only_compiled(result: Mapping[str, Any]) -> bool:
    """Whether the instance compiled and was never run, so that it judged nothing."""
    return result["kind"] == "compile" and result["status"] in GOOD


def is_red(result: Mapping[str, Any]) -> bool:
    return result["status"] in RED


def repro(result: Mapping[str, Any]) -> str:
    """The command that repeats a result."""
    return result.get("repro") or f"tilespec run '{result['i']}' --target {result['impl']}"


def percent(score: float | None) -> str:
    """Rounded down, so that 100 % means all."""
    if score is None:
        return "none judged"
    if score >= 1:
        return "100 %"
    return f"{math.floor(score * 1000) / 10:.1f} %"


@dataclass
class Failure:
    """Red results that say the same about one case on one implementation."""

    first: Mapping[str, Any]
    instances: list[str]

    @property
    def feature(self) -> str:
        return feature_of(self.first["i"])


def failures(results: Iterable[Mapping[str, Any]]) -> list[Failure]:
    """Red results grouped by case, implementation, status and message (numbers aside), in order of appearance."""
    groups: dict[tuple[str, ...], Failure] = {}
    for r in results:
        if is_red(r):
            key = (r["i"].partition(":")[0], r["impl"], r["status"], r["kind"], _NUMBERS.sub("#", r.get("message", "")))
            groups.setdefault(key, Failure(r, [])).instances.append(r["i"])
    return list(groups.values())


def _row(feature: Mapping[str, Any], implementations: Iterable[Mapping[str, Any]]) -> Row:
    clauses = [
        Clause(
            feature["id"], c["id"], c["level"], c["kind"], c["text"], c["covered"], tuple(c["cases"]),
            counted=feature["status"] == "stable",
        )
        for c in feature["clauses"]
    ]  # fmt: skip
    lamps = {i["id"]: {w: Lamp() for w in WITNESSES} for i in implementations}
    profile = feature.get("profile", "core")
    return Row(feature["id"], feature["area"], feature["title"], feature["status"], profile, clauses, lamps)


def _void(s: Summary) -> Iterable[str]:
    """Reasons why the run does not count. Each is what a broken harness or a wrong command would look like."""
    totals = s.report["totals"]
    if planted := s.report["run"].get("planted"):
        yield f"The mistake {planted} was planted in the reference compiler."
    if not s.total:
        yield "Nothing was collected: there is not one result."
    elif s.asked < s.expected:
        lost = s.expected - s.asked
        yield f"{lost:,} of {s.expected:,} expected results are missing."
    if totals["collected"] != s.total or any(totals.get(k, 0) != s.counts[k] for k in STATUSES):
        yield "The totals in the report differ from its results."
    for name, n in sorted(s.strangers.items()):
        yield f"{n:,} results belong to {name}, which the report does not list."
    if not s.implementations:
        yield "No implementation took part."
    for i in s.implementations.values():
        if not i.total:
            yield f"{i.id} has no results."
        elif all(status in NOT_JUDGED for status in i.counts):
            yield f"{i.id} judged nothing: every instance is skipped or unsupported."
        if i.info["smoke"] != "pass":
            yield f"{i.id} failed its smoke test: {i.info['smoke']}"
    if missing := s.must - s.covered:
        yield f"{missing} must-clauses of stable features have no case."
    if s.report["suite"]["dirty"]:
        yield "The working tree had changes that no commit holds."


def _notes(s: Summary) -> Iterable[str]:
    run = s.report["run"]
    if run["select"]:
        yield f"Only a part of the suite was selected: {', '.join(run['select'])}."
    if run["shard"] not in ("", "1/1"):
        yield f"This is shard {run['shard']} of the suite."
    for i in s.implementations.values():
        if i.total and not i.info["runs"]:
            why = i.info.get("why_not") or "no reason given"
            yield f"{i.id} compiled and did not run: {why}"
    if not s.report["suite"]["commit"]:
        yield "The commit is unknown."
    said = [i.info["smoke"] for i in s.implementations.values() if i.info["smoke"] != "pass"]
    yield from (note for note in run.get("notes", ()) if not any(complaint in note for complaint in said))
