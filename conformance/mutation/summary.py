"""What `tilespec mutate` prints: a line for each mutant, kill rates by area and witness, and what is left to do."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from conformance.mutation.verdicts import KILLED, MutationReport, Verdict

_STYLE = {KILLED: None, "unserved": "dim"}
MAX_SHOWN = 10


def line(verdict: Verdict) -> str:
    """One mutant in one line: what became of it, and the instance that found it first."""
    if verdict.status != KILLED:
        return f"{verdict.mutant.id} {verdict.status}{': ' if verdict.message else ''}{verdict.message}"
    by = verdict.kills[0].instance if verdict.kills else verdict.message
    return f"{verdict.mutant.id} {verdict.how} {by}"


def show(report: MutationReport, console: Console) -> None:
    """The kill table, the rates, and everything that keeps the run from being green."""
    table = Table(box=None, pad_edge=False)
    for column in ("mutant", "area", "what is wrong", "killed by", "witness"):
        table.add_column(column, no_wrap=column == "mutant")
    for v in report.verdicts:
        cases = list(dict.fromkeys(k.instance.split(":")[0] for k in v.kills))
        killers = ", ".join(cases[:3]) + (f" and {len(cases) - 3} more" if len(cases) > 3 else "")
        found = killers or (v.how if v.status == KILLED else v.status)
        witnesses = ", ".join(sorted({k.witness for k in v.kills}))
        table.add_row(v.mutant.id, v.mutant.area, v.mutant.what, found, witnesses, style=_STYLE.get(v.status, "red"))
    console.print(table)
    _rates(report, console)
    _trouble(report, console)


def _rates(report: MutationReport, console: Console) -> None:
    block = report.to_json()
    rates = [f"{name} {c['killed']}/{c['total']}" for name, c in block["by_area"].items()]
    witnesses = [f"{name} {n}" for name, n in block["by_witness"].items()]
    _print(console, f"by area: {', '.join(rates)}")
    _print(console, f"mutants each witness kills: {', '.join(witnesses) or 'none'}")
    rate = f"{report.rate:.1%}, gate {report.gate:.0%}"
    _print(console, f"{block['killed']} of {block['total']} mutants killed ({rate}) in {report.seconds:.0f} s")


def _trouble(report: MutationReport, console: Console) -> None:
    for v in report.verdicts:
        if v.status not in (KILLED, "survived"):
            _print(console, f"{v.mutant.id} {v.status}: {v.message}")
        elif v.status == KILLED and v.unmet:
            _print(console, f"{v.mutant.id} is killed, but not as claimed by {', '.join(v.unmet)} ({v.mutant.witness})")
    if report.survivors:
        _print(console, f"survivors: {', '.join(report.survivors)}")
    for instance, why in list(report.baseline.items())[:MAX_SHOWN]:
        _print(console, f"red without a mutant: {instance}: {why}")


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)
