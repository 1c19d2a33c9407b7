"""`tilespec list` and `tilespec explain`: the suite as a document, as a table, and one clause or instance in words."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from conformance import model
from conformance.adapters import TARGETS
from conformance.coverage import clause_coverage
from conformance.errors import SpecError
from conformance.instances import Instance, Selection, instances


def document(features: Sequence[model.Feature], select: Sequence[str] = ()) -> dict[str, Any]:
    """What `list --json` prints; a feature is listed when any of its instances is selected."""
    chosen = Selection(select)
    entries = []
    for feature in features:
        every = [i for i in instances(feature) if i.id in chosen]
        if not every:
            continue
        entries.append(
            {
                "id": feature.id,
                "area": feature.area,
                "title": feature.title,
                "since": feature.since,
                "status": feature.status,
                "profile": feature.profile,
                "file": feature.file,
                "clauses": [
                    {"id": c.clause.id, "level": c.clause.level, "covered": c.covered}
                    for c in clause_coverage([feature])
                ],
                "cases": len({i.case_id for i in every}),
                "instances": len(every),
                "negatives": sum(i.kind == "negative" for i in every),
            }
        )
    return {"targets": list(TARGETS), "features": entries}


def show(listed: Mapping[str, Any], console: Console) -> None:
    """The table of `tilespec list`."""
    table = Table(box=None, pad_edge=False)
    for column in ("feature", "title", "status"):
        table.add_column(column, no_wrap=column != "title")
    for column in ("must", "cases", "instances", "negatives"):
        table.add_column(column, justify="right")
    for f in listed["features"]:
        must = [c for c in f["clauses"] if c["level"] == "must"]
        covered = sum(c["covered"] for c in must)
        row = (f["id"], f["title"], f["status"], f"{covered}/{len(must)}")
        table.add_row(*row, str(f["cases"]), str(f["instances"]), str(f["negatives"]))
    console.print(table)
    must = [c for f in listed["features"] for c in f["clauses"] if c["level"] == "must"]
    covered = sum(c["covered"] for c in must)
    total = sum(f["instances"] for f in listed["features"])
    console.print(
        f"{len(listed['features'])} features, {covered} of {len(must)} must-clauses with a witness, {total} instances, "
        f"targets {', '.join(listed['targets'])}"
    )


def explain(what: str, features: Sequence[model.Feature], results: Mapping[str, Any] | None) -> str:
    """A clause's sentence with its cases, or an instance with all that it runs; and what a report says about them."""
    feature_id = what.split("#")[0].split("/")[0]
    feature = next((f for f in features if f.id == feature_id), None)
    if feature is None:
        close = difflib.get_close_matches(feature_id, [f.id for f in features], 1)
        raise SpecError(
            "select.nothing", f"there is no feature {feature_id!r}", hint=f"did you mean {close[0]}?" if close else ""
        )
    if "#" in what:
        return _explain_clause(feature, what.split("#", 1)[1], results)
    found = [i for i in instances(feature) if i.id in Selection([what])]
    if not found:
        raise SpecError("select.nothing", f"no instance matches {what!r}", hint=f"tilespec list {feature_id}")
    return _explain_instance(found[0], len(found), results)


def _explain_clause(feature: model.Feature, id: str, results: Mapping[str, Any] | None) -> str:
    entry = next((c for c in clause_coverage([feature]) if c.clause.id == id), None)
    if entry is None:
        known = ", ".join(c.id for c in feature.clauses)
        raise SpecError("select.nothing", f"{feature.id} has no clause {id!r}; it has {known}")
    clause = entry.clause
    lines = [f"{entry.id} ({clause.level}, {clause.kind})", f"  {clause.text}"]
    if clause.why:
        lines.append(f"  why: {clause.why}")
    lines.append(f"  {feature.title}; {feature.file}" + (f":{clause.mark.line}" if clause.mark else ""))
    lines.append(f"  witnessed on: {', '.join(sorted(entry.targets)) or 'no target'}")
    lines += [f"    {case}" for case in entry.cases]
    for r in (results or {}).get("results", ()):
        if r["i"].startswith(feature.id + "/") and id in r["clauses"] and r["status"] != "pass":
            lines.append(f"  {r['status']} on {r['impl']}: {r['i']}: {r.get('message', '')}")
    if results:
        passed = sum(
            r["i"].startswith(feature.id + "/") and id in r["clauses"] and r["status"] == "pass"
            for r in results["results"]
        )
        lines.append(f"  {passed} results pass")
    return "\n".join(lines)


def _explain_instance(instance: Instance, count: int, results: Mapping[str, Any] | None) -> str:
    lines = [instance.id + (f"   (the first of {count})" if count > 1 else "")]
    lines.append(
        f"  {instance.feature.title}; {instance.feature.file}:{instance.check.mark.line if instance.check.mark else 0}"
    )
    for id in instance.check.covers:
        clause = instance.feature.clause(id)
        lines.append(f"  {instance.feature.id}#{id} ({clause.level}): {clause.text}")
    if instance.inputs:
        lines.append("  inputs: " + ", ".join(f"{k} = {v}" for k, v in instance.inputs.items()))
    program = instance.program
    if program is not None:
        from conformance.signatures import substitute

        lines += [
            "  kernel:",
            *(f"    {line}" for line in substitute(program.source, dict(instance.params)).splitlines()),
        ]
    if instance.kind == "budget":
        lines += [f"  limit: {text}" for text in _limits(instance.check)]
    expect = getattr(instance.check, "expect", None)
    if expect is not None and expect.outcome == "error":
        lines.append(f"  must be rejected: phase {expect.phase}, {expect.id}, at {expect.at!r}")
    for r in (results or {}).get("results", ()):
        if r["i"] == instance.id:
            lines.append(f"  {r['impl']}: {r['status']} {r.get('message', '')}".rstrip())
    lines.append(f"  run it: tilespec run '{instance.id}'")
    return "\n".join(lines)


def _limits(budget: model.Budget) -> list[str]:
    """The limits of a budget, one a line."""
    ranges = {**{k: tuple(map(str, v)) for k, v in budget.mix.items()}, **budget.counts}
    most = [f"{name} at most {value}" for name, value in budget.max.items()]
    return most + [f"{k} = {low}" if low == high else f"{k} = {low} to {high}" for k, (low, high) in ranges.items()]
