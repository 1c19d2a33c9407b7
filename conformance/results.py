"""What a run found: one result for each instance and target, totals, and the exit code they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

# From good to bad; a summary takes the worst.
STATUSES = ("pass", "warn", "xfail", "skip", "unsupported", "xpass", "fail", "timeout", "crash", "error")
RED = frozenset({"fail", "xpass", "crash", "error", "timeout"})
# Kinds of results that no instance asks for: a case that cannot fail, targets that do not agree.
UNPLANNED = frozenset({"selfcheck", "agreement"})
EXIT = {
    "ok": 0,
    "failures": 1,
    "usage": 2,
    "internal": 3,
    "nothing": 5,
    "budgets": 10,
    "deviation": 11,
    "kill_rate": 12,
    "coverage": 13,
    "smoke": 14,
    "floor": 15,
    "unfinished": 16,
}


@dataclass
class Result:
    """The outcome of one instance on one implementation.

    `kind` is what was done: an instance kind, `compile` when a target could only compile an oracle case (it then
    witnesses no clause), or one of `UNPLANNED`. `clauses` are those witnessed. `numerics`, `ir` and `perf` hold
    measurements. `bits` has a digest of each output where every target must give the same bits.
    """

    i: str
    impl: str
    status: str
    kind: str
    clauses: tuple[str, ...] = ()
    message: str = ""
    file: str = ""
    line: int = 0
    ms: dict[str, float] = field(default_factory=dict)
    numerics: dict[str, Any] = field(default_factory=dict)
    ir: dict[str, Any] = field(default_factory=dict)
    perf: dict[str, Any] = field(default_factory=dict)
    bits: dict[str, str] = field(default_factory=dict)
    repro: str = ""

    def to_json(self) -> dict[str, Any]:
        """The report's form: empty fields left out, and of a pass only what is worth keeping."""
        plain = asdict(self)
        plain["clauses"] = list(self.clauses)
        if self.status == "pass":
            plain.update(file="", line=0, repro="", message="" if self.kind == "compile" else self.message)
            plain["ms"] = {k: v for k, v in self.ms.items() if k == "total"}
            plain["numerics"] = {k: v for k, v in self.numerics.items() if k == "max_err_over_bound"}
        keep = ("i", "impl", "status", "kind", "clauses")
        return {k: v for k, v in plain.items() if k in keep or v not in ("", 0, {}, ())}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        return cls(**{**data, "clauses": tuple(data["clauses"])})


def totals(results: Iterable[Result], expected: int) -> dict[str, int]:
    """Counts by status, with how many were expected and collected."""
    counts = dict.fromkeys(STATUSES, 0)
    for r in results:
        counts[r.status] += 1
    collected = sum(counts.values())
    return {"expected": expected, "collected": collected, **counts}


def worst(statuses: Iterable[str]) -> str:
    """The worst of several statuses; `pass` for none."""
    return max(statuses, key=STATUSES.index, default="pass")


def exit_code(results: Iterable[Result]) -> int:
    """Exit code of the results alone: nothing, failures, deviations gone, budgets exceeded, or fine."""
    every = list(results)
    if not every:
        return EXIT["nothing"]
    red = [r for r in every if r.status in RED]
    if not red:
        return EXIT["ok"]
    if all(r.status == "xpass" for r in red):
        return EXIT["deviation"]
    return EXIT["budgets"] if all(r.kind == "budget" and r.status == "fail" for r in red) else EXIT["failures"]
