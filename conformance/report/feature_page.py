"""What a feature's page shows: clauses with their tests, cases with their instances, budgets, negatives, texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.report import charts
from conformance.report.summary import (
    Clause,
    Failure,
    Lamp,
    Row,
    failures,
    is_red,
    slack_of,
    split_instance,
)

MOST_INSTANCES = 4000  # rows of one case; red ones are always shown
MOST_FAILURES = 60
_NOT_NUMBERS = ("arch", "toolchain", "limits")


@dataclass
class Case:
    """One case: its instances, each with its result on each implementation."""

    name: str
    kinds: list[str] = field(default_factory=list)
    clauses: list[str] = field(default_factory=list)
    instances: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    lamps: dict[str, Lamp] = field(default_factory=dict)
    hidden: int = 0

    def lamp(self, impl: str) -> Lamp:
        return self.lamps.get(impl, Lamp())

    @property
    def red(self) -> int:
        return sum(lamp.red for lamp in self.lamps.values())


@dataclass(frozen=True)
class Budget:
    """The measured resources of one compiled kernel beside their limits."""

    result: Mapping[str, Any]
    params: str
    case: str
    bars: list[charts.BudgetBar]


@dataclass(frozen=True)
class Text:
    """A kernel's source, or the text of one of its stages as the specification or a snapshot has it."""

    stage: str
    program: str
    at: str
    text: str


@dataclass
class View:
    """Everything that the template reads."""

    feature: Mapping[str, Any]
    row: Row
    impls: list[str]
    cases: list[Case]
    tests: dict[str, list[Case]]
    failures: list[Failure]
    more_failures: int
    budgets: list[Budget]
    negatives: list[tuple[Case, Mapping[str, Any]]]
    histograms: dict[str, list[charts.Bar]]
    texts: list[list[Text]]


def view(feature: Mapping[str, Any], row: Row, results: Sequence[Mapping[str, Any]], impls: Sequence[str]) -> View:
    """Gather what the page of one feature shows from its results, which are in the report's order."""
    cases = _cases(results)
    red = failures(results)
    expected = feature.get("negatives", {})
    negatives = [(c, expected.get(c.name, {})) for c in cases.values() if "negative" in c.kinds]
    slacks = {i: [s for r in results if r["impl"] == i and (s := slack_of(r)) is not None] for i in impls}
    return View(
        feature=feature,
        row=row,
        impls=list(impls),
        cases=list(cases.values()),
        tests={c.id: _tests(c, cases) for c in row.clauses},
        failures=red[:MOST_FAILURES],
        more_failures=max(0, len(red) - MOST_FAILURES),
        budgets=[_budget(r) for r in results if r["kind"] == "budget" and _numbers(r)],
        negatives=negatives,
        histograms={i: bars for i, s in slacks.items() if (bars := charts.histogram(s))},
        texts=_texts(feature.get("sources", {}), feature.get("texts", [])),
    )


def _cases(results: Sequence[Mapping[str, Any]]) -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for r in results:
        name, params = split_instance(r["i"])
        case = cases.setdefault(name, Case(name))
        if r["kind"] not in case.kinds:
            case.kinds.append(r["kind"])
        case.clauses += [c for c in r["clauses"] if c not in case.clauses]
        shown = "(whole case: self-check)" if r["kind"] == "selfcheck" else params
        case.lamps.setdefault(r["impl"], Lamp()).add(r)
        if len(case.instances) >= MOST_INSTANCES and shown not in case.instances and not is_red(r):
            case.hidden += 1
            continue
        case.instances.setdefault(shown, {})[r["impl"]] = r
    return cases


def _tests(clause: Clause, cases: Mapping[str, Case]) -> list[Case]:
    """Cases of a clause: those the specification names, with or without results, then others that judged it."""
    named = [split_instance(c)[0] for c in clause.cases]
    judged = [name for name, case in cases.items() if clause.id in case.clauses and name not in named]
    return [cases.get(name, Case(name)) for name in [*named, *judged]]


def _numbers(r: Mapping[str, Any]) -> dict[str, float]:
    perf = r.get("perf", {})
    return {k: v for k, v in perf.items() if k not in _NOT_NUMBERS and isinstance(v, (int, float))}


def _budget(r: Mapping[str, Any]) -> Budget:
    """Bars of what has a limit; of everything when the report gives no limits."""
    case, params = split_instance(r["i"])
    limits = r["perf"].get("limits", {})
    numbers = _numbers(r)
    shown = {k: v for k, v in numbers.items() if k in limits} or numbers
    return Budget(r, params, case, [charts.budget_bar(k, v, limits.get(k)) for k, v in shown.items()])


def _texts(sources: Mapping[str, str], texts: Sequence[Mapping[str, Any]]) -> list[list[Text]]:
    """Each kernel's source with the texts of its first compilation beside it, then those of the others."""
    groups: list[list[Text]] = []
    for program in dict.fromkeys([*sources, *(t.get("program", "") for t in texts)]):
        by_at: dict[str, list[Text]] = {}
        for t in texts:
            if t.get("program", "") == program:
                text = Text(t["stage"], program, t.get("at", ""), t["text"])
                by_at.setdefault(text.at, []).append(text)
        mine = list(by_at.values())
        if program in sources:
            source = Text("Python", program, "", sources[program])
            mine[:1] = [[source, *(mine[0] if mine else [])]]
        groups += mine
    return groups
