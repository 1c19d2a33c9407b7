"""`tilespec run`: sessions, progress, deviations, the gates, the table per feature, the report files, the exit code."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from conformance import report_data
from conformance.agreement import disagreements
from conformance.coverage import uncovered, unjudged
from conformance.deviations import apply_deviations, load_deviations
from conformance.model import Feature
from conformance.mutation import planting
from conformance.parallel import run_in_processes
from conformance.plan import Plan, Planned
from conformance.results import EXIT, RED, STATUSES, UNPLANNED, Result, exit_code, worst
from conformance.runner import Session, run_all

SHOWN_FAILURES = 20


def execute(plan: Plan, *, spec: Path, workers: int, console: Console) -> list[Result]:
    """Results of every planned instance, with a progress bar on a terminal."""
    results: list[Result] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        for planned in plan.targets:
            if planned.complaint:
                continue
            task = progress.add_task(planned.target, total=len(planned.instances))

            def each(result: Result, task: Any = task) -> None:
                progress.advance(task, result.kind not in UNPLANNED)

            results += _run_target(planned, spec, workers, each)
    return [*results, *disagreements(results)]


def _run_target(planned: Planned, spec: Path, workers: int, each: Callable[[Result], None]) -> list[Result]:
    if workers > 1:
        return run_in_processes(planned, spec, workers, each)
    return run_all(Session(planned.target, planned.adapter, snapshots=spec / "snapshots"), planned.instances, each)


def run(
    features: Sequence[Feature],
    plan: Plan,
    *,
    spec: Path,
    workers: int,
    tier: str | None,
    select: Sequence[str],
    part: tuple[int, int],
    console: Console,
) -> tuple[dict[str, Any], int]:
    """Run a plan and judge it as a whole: the report document and the exit code."""
    started, clock = datetime.now(UTC), time.perf_counter()
    results = execute(plan, spec=spec, workers=workers, console=console)
    deviations = load_deviations(spec / "deviations", [p.target for p in plan.targets])
    stale = apply_deviations(results, deviations, whole=not select and part == (1, 1), today=started.date())
    code, notes = judge_run(features, plan, results, stale)
    planted = planting.current()
    if planted is not None:
        for result in results:
            result.repro += f" --plant {planted.mutant.id}"
        ran = "its statement ran" if planted.reached else "its statement never ran"
        notes.append(f"planted {planted.mutant.id}: {planted.mutant.what}; {ran}")
    document = report_data.report(
        features,
        results,
        {p.target: p.info for p in plan.targets},
        expected=max(plan.expected, plan.floor),
        smoke={p.target: p.complaint for p in plan.targets},
        run={
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 2),
            "tier": tier or ("gpu" if any(p.info.device for p in plan.targets) else "pr"),
            "select": list(select),
            "shard": f"{part[0]}/{part[1]}",
            "seed_policy": "derived",
            "exit_code": code,
            "notes": notes,
            **({"planted": planted.mutant.id} if planted else {}),
        },
    )
    show(document, results, plan, console)
    return document, code


def judge_run(
    features: Sequence[Feature], plan: Plan, results: Sequence[Result], stale: Sequence[str]
) -> tuple[int, list[str]]:
    """Exit code and the sentences behind it; everything that was not judged counts against the run."""
    notes = [f"target {name} is left out: {why}" for name, why in plan.left_out.items()]
    broken = [p for p in plan.targets if p.complaint]
    if broken:
        notes += [f"target {p.target} fails its smoke test: {p.complaint}" for p in broken]
        return EXIT["smoke"], notes
    judged = [r for r in results if r.status not in ("skip", "unsupported")]
    if not plan.expected or not judged:
        return EXIT["nothing"], [*notes, "nothing was collected, so nothing is shown to conform"]
    code = exit_code(results)
    skipped = [r for r in results if r.status == "skip"]
    if code == EXIT["ok"] and skipped:
        code = EXIT["failures"]
        notes.append(f"{len(skipped)} instances were skipped, the first {skipped[0].i}: {skipped[0].message}")
    if code == EXIT["ok"] and stale:
        return EXIT["deviation"], [*notes, *stale]
    collected = sum(r.kind not in UNPLANNED for r in results)
    if code == EXIT["ok"] and collected < max(plan.expected, plan.floor):
        notes.append(f"{collected} instances were judged, fewer than the floor of {max(plan.expected, plan.floor)}")
        return EXIT["floor"], notes
    if code == EXIT["ok"] and plan.whole:
        planned = [i for p in plan.targets for i in p.instances]
        missing = [c.id for c in uncovered(features)] or unjudged(features, results, planned)
        if missing:
            notes.append(f"{len(missing)} must-clauses were judged by nothing: {', '.join(missing[:8])}")
            return EXIT["coverage"], notes
    return code, notes


def show(document: dict[str, Any], results: Sequence[Result], plan: Plan, console: Console) -> None:
    """Failures first, then the table, then one line that says it all."""
    groups = alike([r for r in results if r.status in RED])
    for group in groups[:SHOWN_FAILURES]:
        show_failure(group[0], len(group) - 1, console)
    if len(groups) > SHOWN_FAILURES:
        rest = sum(len(g) for g in groups[SHOWN_FAILURES:])
        console.print(f"... and {rest} failures of {len(groups) - SHOWN_FAILURES} more kinds; --json FILE has them all")
    console.print(table(document, [p.target for p in plan.targets]))
    for note in document["run"]["notes"]:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    counts = document["totals"]
    parts = [f"{counts[s]} {s}" for s in STATUSES if counts[s]]
    agreement = document["agreement"]
    if agreement["instances"]:
        targets, differ = ", ".join(agreement["targets"]), agreement["disagreements"]
        console.print(
            f"{targets} left the same bits in {agreement['instances'] - differ} of {agreement['instances']} instances "
            "of the exact vocabulary",
            highlight=False,
        )
    verdict = "conforms" if document["run"]["exit_code"] == 0 else f"exit code {document['run']['exit_code']}"
    seconds = document["run"]["seconds"]
    console.print(
        f"{counts['collected']} of {counts['expected']} instances in {seconds} s: {', '.join(parts)}; {verdict}"
    )


def alike(red: Sequence[Result]) -> list[list[Result]]:
    """Failures of one case on one target with the same message, numbers aside, in the order of their first."""
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for r in red:
        text = re.sub(r"[0-9a-fx.+-]*\d[0-9a-fx.+-]*", "#", r.message)
        groups.setdefault((r.i.split(":")[0], r.impl, r.status, text), []).append(r)
    return list(groups.values())


def show_failure(r: Result, others: int, console: Console) -> None:
    """One failure: where it is written, what went wrong, the difference of texts, how to repeat it."""
    where = f"{r.file}:{r.line}: " if r.file else ""
    more = f" (and {others} more like it)" if others else ""
    line = f"{where}{r.status}: {r.i} on {r.impl}{more}"
    console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    diff = str(r.ir.get("diff", "")).splitlines()[:40]
    for line in (*r.message.splitlines(), *diff):
        console.print(f"    {line}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"    {r.repro}", style="dim", highlight=False, markup=False, soft_wrap=True)


def table(document: dict[str, Any], targets: Sequence[str]) -> Table:
    """One row a feature: must-clauses judged, and for each target how many passed of how many."""
    shown = Table(box=None, pad_edge=False)
    for column in ("feature", "clauses", *targets, ""):
        shown.add_column(column, justify="right" if column not in ("feature", "") else "left", no_wrap=True)
    by_feature: dict[str, dict[str, list[str]]] = {}
    for r in document["results"]:
        by_feature.setdefault(r["i"].split("/")[0], {}).setdefault(r["impl"], []).append(r["status"])
    for feature in document["features"]:
        mine = by_feature.get(feature["id"])
        if not mine:
            continue
        must = [c for c in feature["clauses"] if c["level"] == "must"]
        judged = sum(bool(c["statuses"]) for c in must)
        cells = []
        for target in targets:
            statuses = mine.get(target, [])
            good = sum(s in ("pass", "warn", "xfail") for s in statuses)
            cells.append(f"{good}/{len(statuses)}" if statuses else "-")
        state = worst(s for statuses in mine.values() for s in statuses)
        shown.add_row(feature["id"], f"{judged}/{len(must)}", *cells, state, style="red" if state in RED else None)
    return shown
