"""`tilespec mutate`: switch one mutant of the reference compiler on at a time and see which cases turn red.

SSA and snapshot comparison are off, so that a kill shows wrong meaning and not merely other text. A mutant whose code
was never reached is an error, not a survivor.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from conformance import model
from conformance.adapters import load
from conformance.errors import SpecError
from conformance.instances import Instance, collect
from conformance.results import EXIT, RED
from conformance.runner import Session, collect_for, run_instance

TEXT_KINDS = frozenset({"ssa", "snapshot", "invariant", "rewrite"})


@dataclass
class Outcome:
    """What became of one mutant: the first case that killed it, its witness kind, and how many instances ran."""

    id: str
    title: str
    target: str
    killed_by: str = ""
    kind: str = ""
    ran: int = 0
    reached: bool = True
    others: list[str] = field(default_factory=list)


def run(
    features: Sequence[model.Feature],
    select: Sequence[str],
    only: Sequence[str],
    gate: float,
    json_file: Path | None,
    console: Console,
) -> int:
    """Run the catalogue; exit code 12 below the gate."""
    from conformance.adapters import mutants

    catalogue = [m for m in mutants.CATALOGUE if not only or m.id in only]
    if not catalogue:
        raise SpecError(
            "select.nothing", f"no mutant {', '.join(only)}", hint=", ".join(m.id for m in mutants.CATALOGUE)
        )
    chosen = [i for i in collect(features, select, "pr") if i.kind not in TEXT_KINDS]
    outcomes = []
    for mutant in catalogue:
        outcomes.append(try_mutant(mutant, chosen))
        o = outcomes[-1]
        console.print(
            f"{o.id}: {o.killed_by or ('survives' if o.reached else 'never reached')}", markup=False, highlight=False
        )
    show(outcomes, console)
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps([vars(o) for o in outcomes], indent=1) + "\n", encoding="utf-8")
    rate = sum(bool(o.killed_by) for o in outcomes) / len(outcomes)
    return EXIT["ok"] if rate >= gate and all(o.reached for o in outcomes) else EXIT["kill_rate"]


def try_mutant(mutant, chosen: Sequence[Instance]) -> Outcome:
    """Run instances with the mutant on until one is red; those named in the mutant's features come first."""
    outcome = Outcome(mutant.id, mutant.title, mutant.target)
    with mutant.active() as activity:
        session = Session(mutant.target, load(mutant.target), snapshots=None, law=False)
        for instance in sorted(collect_for(chosen, session.info), key=lambda i: mutant.id not in i.feature.kills):
            result = run_instance(session, instance)
            outcome.ran += 1
            if result.status in RED:
                outcome.killed_by, outcome.kind = instance.id, instance.kind
                break
        outcome.reached = activity.reached
    return outcome


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """The table of kills, and the rate."""
    table = Table(box=None, pad_edge=False)
    for column in ("mutant", "what", "target", "killed by", "witness"):
        table.add_column(column)
    for o in outcomes:
        table.add_row(o.id, o.title, o.target, o.killed_by or "-", o.kind, style=None if o.killed_by else "red")
    console.print(table)
    killed = sum(bool(o.killed_by) for o in outcomes)
    console.print(f"{killed} of {len(outcomes)} mutants killed")
