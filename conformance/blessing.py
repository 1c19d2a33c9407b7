"""`tilespec bless`: rewrites snapshots of later stages, deletes unused ones, shows every difference; never the law."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from conformance import model
from conformance.adapters import TARGETS, TargetUnavailable, load
from conformance.floors import counts, raise_floors
from conformance.instances import collect, require_matches
from conformance.results import EXIT
from conformance.runner import Session, collect_for, run_instance
from conformance.snapshots import snapshot_path, unused


def run(features: Sequence[model.Feature], spec: Path, select: Sequence[str], console: Console) -> int:
    """Bless the selected snapshots on every target that gives their stages; exit code."""
    folder = spec / "snapshots"
    require_matches(features, select)
    every = collect(features, select)
    chosen = [i for i in every if i.kind in ("snapshot", "ssa")]
    changed, failed, done = 0, 0, set()
    numbers: dict[str, dict[str, int]] = {}
    for name in TARGETS:
        try:
            session = Session(name, load(name), snapshots=folder, bless=True)
        except TargetUnavailable as e:
            console.print(f"target {name} is left out: {e}", highlight=False, markup=False)
            continue
        numbers[name] = counts(every, session.info)
        for instance in collect_for(chosen, session.info):
            if instance.id in done:
                continue
            done.add(instance.id)
            path = folder / snapshot_path(instance)
            before = path.read_text(encoding="utf-8") if path.is_file() else ""
            result = run_instance(session, instance)
            if result.status != "pass":
                failed += 1
                console.print(
                    f"{result.status}: {instance.id}: {result.message}", style="red", markup=False, highlight=False
                )
                console.print(result.ir.get("diff", ""), markup=False, highlight=False)
            elif result.message == "blessed":
                changed += 1
                show_change(before, path.read_text(encoding="utf-8"), path, console)
    if not select and not failed:
        changed += _delete_unused(features, folder, console)
        console.print(f"{raise_floors(spec, numbers)} floors raised")
    console.print(f"{changed} snapshots changed, {failed} checks failed")
    return EXIT["failures"] if failed else EXIT["ok"]


def show_change(before: str, after: str, path: Path, console: Console) -> None:
    """A unified diff, or the size of a new file."""
    if not before:
        console.print(f"new {path.name}: {len(after.splitlines())} lines", markup=False, highlight=False)
        return
    import difflib

    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), path.name, path.name, lineterm="", n=2):
        style = {"+": "green", "-": "red"}.get(line[:1])
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def _delete_unused(features: Sequence[model.Feature], folder: Path, console: Console) -> int:
    used = {snapshot_path(i) for i in collect(features) if i.kind == "snapshot"}
    leftover = unused(folder, used) if folder.is_dir() else []
    for path in leftover:
        path.unlink()
        console.print(f"deleted {path.name}: no check reads it", markup=False, highlight=False)
    return len(leftover)
