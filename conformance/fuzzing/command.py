"""What `tilespec fuzz` does: campaigns with progress, a summary, reproducers, the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from conformance import output
from conformance.adapters import TargetUnavailable
from conformance.fuzzing.campaign import Campaign, Finding, run
from conformance.fuzzing.planted import chosen
from conformance.mutation.catalogue import Mutant
from conformance.results import EXIT

SHOWN = 10


def fuzz(
    targets: Sequence[str],
    seed: int,
    first: int,
    programs: int,
    jobs: int,
    *,
    plant: str | None,
    smaller: bool,
    json_file: Path | None,
    out: Path | None,
    console: Console,
) -> int:
    """Run what the command line asks for and say what it found; the exit code."""
    if plant is None:
        campaign = _run(targets, seed, first, programs, jobs, None, smaller, console)
        campaigns, code = [campaign], EXIT["failures"] if campaign.findings else EXIT["ok"]
        show(campaign, console)
    else:
        campaigns, code = _planted(targets, seed, first, programs, jobs, chosen(plant), console)
    if out is not None:
        write(campaigns, out)
    if json_file is not None:
        documents = [c.to_json() for c in campaigns]
        output.write(json_file, json.dumps(documents[0] if plant is None else documents, indent=1) + "\n")
    return code


def _planted(
    targets: Sequence[str], seed: int, first: int, programs: int, jobs: int, mutants: Sequence[Mutant], console: Console
) -> tuple[list[Campaign], int]:
    """One campaign for each mutant, up to its first finding."""
    campaigns = []
    for mutant in mutants:
        campaign = _run(targets, seed, first, programs, jobs, mutant, False, console)
        campaigns.append(campaign)
        verdict = f"found after {campaign.programs} programs" if campaign.findings else "NOT FOUND"
        console.print(f"{mutant.id}: {verdict}: {mutant.what}", markup=False, highlight=False, soft_wrap=True)
        for finding in campaign.findings[:1]:
            first_difference = finding.differences[0]
            line = " ".join(f"{first_difference['target']}: {first_difference['message']}".split())
            console.print(f"    program {finding.index}: {line[:160]}", markup=False, highlight=False, soft_wrap=True)
    missed = [c.plant for c in campaigns if not c.findings]
    console.print(f"{len(campaigns) - len(missed)} of {len(campaigns)} planted mistakes found", highlight=False)
    return campaigns, EXIT["kill_rate"] if missed else EXIT["ok"]


def _run(
    targets: Sequence[str],
    seed: int,
    first: int,
    programs: int,
    jobs: int,
    mutant: Mutant | None,
    smaller: bool,
    console: Console,
) -> Campaign:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"seed {seed}", total=programs)

        def each(campaign: Campaign) -> None:
            found = f", {len(campaign.findings)} differ" if campaign.findings else ""
            progress.update(task, completed=campaign.programs, description=f"seed {seed}{found}")

        stop_at = 1 if mutant is not None else None
        campaign = run(targets, seed, first, programs, jobs, plant=mutant, smaller=smaller, stop_at=stop_at, each=each)
    if campaign.unserved:
        raise TargetUnavailable(campaign.unserved)
    return campaign


def show(campaign: Campaign, console: Console) -> None:
    """Findings first, then one line that says it all."""

    def say(line: str, style: str | None = None) -> None:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

    for finding in campaign.findings[:SHOWN]:
        say(f"program {finding.index}: {_sentence(finding)}", "red")
        for line in finding.source.splitlines():
            say(f"    {line}")
        say(f"    tilespec fuzz --seed {campaign.seed} --first {finding.index} --programs 1", "dim")
    if len(campaign.findings) > SHOWN:
        say(f"... and {len(campaign.findings) - SHOWN} more; --json FILE has them all")
    roles = [f"{n} {'runs' if c['runs'] else 'compiles only: ' + c['why_not']}" for n, c in campaign.claims.items()]
    say("; ".join(roles))
    operations = sum(campaign.operations.values())
    say(
        f"{campaign.programs} programs of seed {campaign.seed}, {operations} operations, in {campaign.seconds:.1f} s: "
        f"{len(campaign.findings) or 'no'} differences"
    )


def _sentence(finding: Finding) -> str:
    d = finding.differences[0]
    return f"{d['kind']}: {d['target']} against {d['against']}: {d['message']}"


def write(campaigns: Sequence[Campaign], out: Path) -> None:
    """For each finding a feature file and a script."""
    for campaign in campaigns:
        for finding in campaign.findings:
            stem = f"seed_{campaign.seed}_{finding.index}"
            for suffix, text in (("yaml", finding.case), ("py", finding.script)):
                if text:
                    output.write(out / f"{stem}.{suffix}", text)


def default_targets() -> tuple[str, ...]:
    """Every target of the reference compiler that this machine can serve."""
    from conformance.adapters import TARGETS, load

    served: list[Any] = []
    for name in TARGETS:
        try:
            load(name)
        except TargetUnavailable:
            continue
        served.append(name)
    return tuple(served)
