"""Cases to instances: the cross product of parameters and input sets, stable ids, tiers, selection, shards."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance import model
from conformance.errors import SpecError
from conformance.expressions import ExpressionError, evaluate

# Which kinds of instance can witness a clause of a kind. Snapshots are evidence about one compiler, never a witness.
WITNESSES: Mapping[str, frozenset[str]] = {
    "semantics": frozenset({"oracle", "rewrite"}),
    "typing": frozenset({"oracle", "ssa", "invariant", "rewrite"}),
    "numerics": frozenset({"oracle"}),
    "memory": frozenset({"oracle", "negative"}),
    "error": frozenset({"negative"}),
    "ir": frozenset({"ssa", "invariant", "rewrite", "budget"}),
}


@dataclass(frozen=True)
class Instance:
    """One thing to run on one target: a case with its parameters bound, or a check of a stage, or a budget.

    `check` is the `model.Case`, `model.IrCheck` or `model.Budget`, as `kind` says; the steps of a kind know which.
    """

    id: str
    feature: model.Feature
    kind: str
    check: Any
    params: Mapping[str, model.Scalar]
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def case_id(self) -> str:
        return self.id.split(":")[0]

    @property
    def tier(self) -> str:
        return self.check.tier

    @property
    def clauses(self) -> tuple[str, ...]:
        """Ids of the clauses this witnesses: of those it covers, the ones its kind can witness."""
        return tuple(c for c in self.check.covers if self.kind in WITNESSES[self.feature.clause(c).kind])

    @property
    def requires(self) -> tuple[str, ...]:
        return (*self.feature.requires, *getattr(self.check, "requires", ()))

    @property
    def program(self) -> Any:
        """The `model.Program` that is compiled; None for a rewrite of tile text."""
        return self.check.program

    def digest(self) -> str:
        """Changes when what is asked changes: source, call, parameters, inputs, oracle, expectation."""
        return hashlib.sha256(json.dumps(_canonical(self), sort_keys=True).encode()).hexdigest()[:16]


def _canonical(instance: Instance) -> Any:
    def plain(value: Any) -> Any:
        if hasattr(value, "__dataclass_fields__"):
            return {k: plain(getattr(value, k)) for k in value.__dataclass_fields__ if k not in ("mark", "tier")}
        if isinstance(value, Mapping):
            return {str(k): plain(v) for k, v in value.items()}
        return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value

    return [instance.id, instance.kind, plain(instance.check), plain(instance.params), plain(instance.inputs)]


def instances(feature: model.Feature) -> Iterator[Instance]:
    """Every instance of a feature in file order: cases, then stage checks, then budgets."""
    for case in feature.cases:
        yield from _case_instances(feature, case)
    for check in feature.ir:
        yield from _ir_instances(feature, check)
    for budget in feature.budgets:
        yield Instance(instance_id(feature.id, budget.id, budget.at), feature, "budget", budget, dict(budget.at))


def instance_id(feature: str, case: str, params: Mapping[str, Any]) -> str:
    tail = ";".join(f"{k}={format_value(v)}" for k, v in params.items())
    return f"{feature}/{case}" + (f":{tail}" if tail else "")


def format_value(value: Any) -> str:
    """A parameter value as it stands in an id; characters with a meaning there are percent-encoded."""
    text = value.replace(", ", ",") if isinstance(value, str) else repr(value)
    return re.sub(r"[\s;:=*%\[\]/\\]", lambda m: f"%{ord(m[0]):02X}", text)


def _case_instances(feature: model.Feature, case: model.Case) -> Iterator[Instance]:
    kind = _case_kind(case)
    varying = {name: sets for name, sets in case.inputs.items() if len(sets) > 1}
    fixed = {name: sets[0] for name, sets in case.inputs.items() if len(sets) == 1}
    for params in bindings(case):
        for combination in itertools.product(*varying.values()):
            chosen = dict(zip(varying, combination, strict=True))
            shown = {**params, **chosen}
            yield Instance(instance_id(feature.id, case.id, shown), feature, kind, case, params, {**fixed, **chosen})


def _case_kind(case: model.Case) -> str:
    if case.expect.outcome == "error":
        return "negative"
    if case.transform is not None:
        return "rewrite"
    return "unpredictable" if case.expect.outcome == "unpredictable" else "oracle"


def bindings(case: model.Case) -> Iterator[dict[str, model.Scalar]]:
    """Parameter sets of a case: the product of its axes, less what `where` drops (left to drawing when it draws)."""
    axes = [[dict(zip(names, row, strict=True)) for row in rows] for names, rows in case.params]
    for combination in itertools.product(*axes):
        params = {k: v for part in combination for k, v in part.items()}
        if not case.where or (case.hypothesis and case.hypothesis.draw) or allowed(case, params):
            yield params


def allowed(case: model.Case, params: Mapping[str, Any]) -> bool:
    """Whether `where` keeps these parameters."""
    if not case.where:
        return True
    try:
        return bool(evaluate(case.where, params))
    except ExpressionError as e:
        raise SpecError("spec.expression", f"where {case.where!r}: {e.message}", mark=case.mark) from None


def _ir_instances(feature: model.Feature, check: model.IrCheck) -> Iterator[Instance]:
    kinds = [("ssa", bool(check.text)), ("invariant", bool(check.has or check.lacks or check.count))]
    kinds.append(("snapshot", check.snapshot))
    first = True
    for kind, present in kinds:
        if present:
            name = check.id if first else f"{check.id}_{kind}"
            yield Instance(instance_id(feature.id, name, check.at), feature, kind, check, dict(check.at))
            first = False


def collect(features: Iterable[model.Feature], select: Sequence[str] = (), tier: str = "nightly") -> list[Instance]:
    """Selected instances up to a tier, in feature order; drafts are left out unless selected by name."""
    top = model.TIERS.index(tier)
    chosen = Selection(select)
    result = []
    for feature in features:
        for instance in instances(feature):
            if model.TIERS.index(instance.tier) <= top and instance.id in chosen:
                result.append(instance)
    return result


def require_matches(features: Iterable[model.Feature], select: Sequence[str]) -> None:
    """Raise SpecError for the first pattern that selects nothing."""
    for pattern in Selection(select).unmatched(i.id for i in collect(features)):
        raise SpecError("select.nothing", f"no instance matches {pattern!r}", hint="tilespec list shows what there is")


class Selection:
    """A set of patterns: an area, feature, case or instance id, or any text with `*`; empty selects everything."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._tests = [self._compile(p) for p in patterns]

    @staticmethod
    def _compile(pattern: str) -> re.Pattern[str]:
        body = ".*".join(re.escape(part) for part in pattern.split("*"))
        return re.compile(f"{body}" if "*" in pattern else f"{body}(?:[./:].*)?", re.DOTALL)

    def __contains__(self, id: str) -> bool:
        return not self._tests or any(t.fullmatch(id) for t in self._tests)

    def unmatched(self, ids: Iterable[str]) -> list[str]:
        """Patterns that select nothing."""
        every = list(ids)
        return [p for p, t in zip(self.patterns, self._tests, strict=True) if not any(t.fullmatch(i) for i in every)]


def shard(chosen: Sequence[Instance], index: int, count: int) -> list[Instance]:
    """Part `index` (1-based) of `count`; instances of one case stay together because they share compilations."""
    groups = list(dict.fromkeys(i.case_id for i in chosen))
    mine = {g for n, g in enumerate(groups) if n % count == index - 1}
    return [i for i in chosen if i.case_id in mine]
