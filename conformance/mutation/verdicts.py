"""What a mutation run found: a verdict for each mutant, kill rates by area, witness and tier, and the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.instances import Selection
from conformance.model import TIERS
from conformance.mutation.catalogue import Mutant
from conformance.results import EXIT

KILLED, SURVIVED, UNSERVED = "killed", "survived", "unserved"
ERRORS = ("dead_anchor", "not_activated", "no_cases", "broken")


@dataclass(frozen=True)
class Kill:
    """One instance that went red on a mutant and was green without it."""

    instance: str
    witness: str
    tier: str
    message: str = ""


@dataclass(frozen=True)
class Verdict:
    """What happened to one mutant.

    `status`: killed, survived, unserved (this machine lacks its target), or an error of the catalogue: dead_anchor,
    not_activated (the changed statement never ran), no_cases, broken (the process failed before its first case).
    `how` a kill showed: red, crash (the process died), timeout.
    """

    mutant: Mutant
    status: str
    how: str = ""
    kills: tuple[Kill, ...] = ()
    message: str = ""
    ran: int = 0
    seconds: float = 0.0

    @property
    def unmet(self) -> tuple[str, ...]:
        """Claims of `killed_by` that no kill by the promised witness fulfils; a process that died fulfils none."""
        kept = [k.instance for k in self.kills if k.witness == self.mutant.witness]
        return tuple(p for p in self.mutant.killed_by if not any(i in Selection((p,)) for i in kept))

    def to_json(self) -> dict[str, Any]:
        m = self.mutant
        line = {"id": m.id, "area": m.area, "what": m.what, "module": m.module, "status": self.status}
        more = {
            "how": self.how,
            "witnesses": sorted({k.witness for k in self.kills}),
            "killers": [k.instance for k in self.kills],
            "unmet": list(self.unmet) if self.status == KILLED else [],
            "message": self.message,
            "ran": self.ran,
        }
        return {**line, **{k: v for k, v in more.items() if v}}


@dataclass(frozen=True)
class MutationReport:
    """The verdicts of a run. `baseline`: instances that are red without any mutant and prove nothing, with reasons."""

    verdicts: Sequence[Verdict]
    gate: float
    baseline: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def judged(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.status != UNSERVED]

    @property
    def rate(self) -> float:
        """Killed by the judged; errors of the catalogue count as not killed."""
        return _rate(self.judged)

    @property
    def survivors(self) -> list[str]:
        return [v.mutant.id for v in self.verdicts if v.status == SURVIVED]

    @property
    def errors(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.status in ERRORS]

    @property
    def exit_code(self) -> int:
        """0, or 1 for a mistake of the catalogue or a red baseline, 5 for no mutant, 12 under the gate."""
        if not self.judged:
            return EXIT["nothing"]
        if self.errors or self.baseline:
            return EXIT["failures"]
        return EXIT["kill_rate"] if self.rate < self.gate else EXIT["ok"]

    def to_json(self) -> dict[str, Any]:
        """The `mutation` block of a report."""
        judged = self.judged
        areas = dict.fromkeys(v.mutant.area for v in judged)
        return {
            "killed": sum(v.status == KILLED for v in judged),
            "total": len(judged),
            "rate": self.rate,
            "gate": self.gate,
            "by_area": {a: _counts(v for v in judged if v.mutant.area == a) for a in areas},
            "by_witness": dict(sorted(Counter(w for v in judged for w in {k.witness for k in v.kills}).items())),
            "by_gate": {tier: _rate_of_gate(judged, tier) for tier in TIERS[:2]},
            "survivors": self.survivors,
            "errors": [v.mutant.id for v in self.errors],
            "unserved": [v.mutant.id for v in self.verdicts if v.status == UNSERVED],
            "baseline_red": dict(self.baseline),
            "mutants": [v.to_json() for v in self.verdicts],
        }


def _rate(verdicts: Sequence[Verdict]) -> float:
    return sum(v.status == KILLED for v in verdicts) / len(verdicts) if verdicts else 0.0


def _counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    every = list(verdicts)
    return {"killed": sum(v.status == KILLED for v in every), "total": len(every)}


def _rate_of_gate(verdicts: Sequence[Verdict], tier: str) -> float:
    """The kill rate of the instances up to this tier alone."""
    top = TIERS.index(tier)
    killed = sum(any(TIERS.index(k.tier) <= top for k in v.kills) for v in verdicts)
    return killed / len(verdicts) if verdicts else 0.0
