"""Which clauses have a witness: from the specification alone, and from the results of a run.

A witness of a clause is an instance that covers it, whose kind can judge that kind of clause, on a target that can run
that kind of instance. Snapshots and compile-only runs witness nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance import model
from conformance.adapters import TARGETS
from conformance.instances import Instance, instances
from conformance.results import Result


@dataclass
class ClauseCoverage:
    """One clause, the cases that can witness it, and on which targets."""

    feature: model.Feature
    clause: model.Clause
    cases: list[str] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return f"{self.feature.id}#{self.clause.id}"

    @property
    def covered(self) -> bool:
        return bool(self.targets)

    @property
    def demanded(self) -> bool:
        """Must-clauses of stable features need a witness."""
        return self.clause.level == "must" and self.feature.status == "stable"


def clause_coverage(
    features: Iterable[model.Feature], targets: Mapping[str, frozenset[str]] | None = None
) -> list[ClauseCoverage]:
    """Every clause with its possible witnesses; `targets` maps target names to the instance kinds they can run."""
    kinds = targets if targets is not None else {t.name: t.kinds for t in TARGETS.values()}
    found: list[ClauseCoverage] = []
    for feature in features:
        table = {c.id: ClauseCoverage(feature, c) for c in feature.clauses}
        for instance in instances(feature):
            able = {name for name, can in kinds.items() if instance.kind in can}
            for clause in instance.clauses:
                if able and _judges(instance, feature, clause):
                    entry = table[clause]
                    entry.targets |= able
                    if instance.case_id not in entry.cases:
                        entry.cases.append(instance.case_id)
        found += table.values()
    return found


def _judges(instance: Instance, feature: model.Feature, clause: str) -> bool:
    """An error clause is witnessed by a case that expects exactly it, or what its own feature has no name for: the
    clause of another feature or a slug. A case that expects one error of a feature says nothing about its others."""
    if clause[0] != "E":
        return True
    expected = instance.check.expect.id
    return expected == f"{feature.id}#{clause}" or not expected.startswith(f"{feature.id}#")


def uncovered(features: Iterable[model.Feature]) -> list[ClauseCoverage]:
    """Demanded clauses that no known target can witness."""
    return [c for c in clause_coverage(features) if c.demanded and not c.covered]


def witnessed(results: Iterable[Result]) -> dict[str, set[str]]:
    """Clause id to the statuses of the results that judged it."""
    found: dict[str, set[str]] = {}
    for r in results:
        feature = r.i.split("/")[0]
        for clause in r.clauses:
            found.setdefault(f"{feature}#{clause}", set()).add(r.status)
    return found


def unjudged(features: Sequence[model.Feature], results: Sequence[Result], planned: Iterable[Instance]) -> list[str]:
    """Demanded clauses with planned witnesses of which none was judged (all unsupported, skipped or lost)."""
    seen = witnessed(results)
    planned_clauses = {f"{i.feature.id}#{c}" for i in planned for c in i.clauses}
    return [c.id for c in clause_coverage(features) if c.demanded and c.id in planned_clauses and not seen.get(c.id)]
