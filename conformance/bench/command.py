"""The command `tilespec bench`: what is measured, on what, and what is written."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from conformance import completion
from conformance.model import PEERS
from conformance.options import Output, example, features_of, select_argument, spec_option
from conformance.results import EXIT


def _peers(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Names of peers, separated by commas."""
    names = tuple(dict.fromkeys(n.strip() for n in (value or "").split(",") if n.strip()))
    for name in names:
        if name not in PEERS:
            raise click.BadParameter(f"unknown peer {name!r}; known: {', '.join(PEERS)}")
    return names


@click.command(
    "bench",
    epilog=example(
        "tilespec bench --dry-run\ntilespec bench kernels.softmax --peers copy,compile --quick\n"
        "tilespec bench --sizes 'M=65536;N=1024' --json out/bench.json --out out/bench --check\n"
        "tilespec bench --json out/bench.json --resume --within 240\n"
        "tilespec bench --from out/rows.json --from out/products.json --out out/bench"
    ),
)
@select_argument
@click.option(
    "--peers",
    callback=_peers,
    shell_complete=completion.listed(lambda: PEERS),
    help=f"Only these, separated by commas: {', '.join(PEERS)}.",
)
@click.option("--sizes", multiple=True, metavar="NAME=VALUE;...", help="Only lines with these parameters.")
@click.option("--quick", is_flag=True, help="The few sizes that the features name for a short run.")
@click.option("--check", is_flag=True, help="Exit code 10 if a ratio is under its floor.")
@click.option("--json", "json_file", type=Output(folder=False), help="Write timings and conclusions.")
@click.option("--out", type=Output(folder=True), help="Write bench.json, bench.md and the roofline pictures.")
@click.option(
    "--from",
    "recorded",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Judge the timings of a file that --json wrote, or of several, instead of measuring; needs no GPU.",
)
@click.option(
    "--profiles",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What benchmarks/profile_lines.py wrote: bench.md then says what limits lines that are too slow.",
)
@click.option("--resume", is_flag=True, help="Keep the lines that the file of --json has, and measure the others.")
@click.option("--within", type=click.FloatRange(1), metavar="SECONDS", help="Begin no line that would end later.")
@click.option("--processes", type=click.IntRange(0), help="That compile ahead; as many as cores if left out.")
@click.option("--seconds", type=click.FloatRange(0.05), help="Of measuring, for each line.")
@click.option("--seed", type=click.IntRange(0), help="Of the inputs; another one each run if left out.")
@click.option("--dry-run", is_flag=True, help="List what would be measured.")
@spec_option
@click.pass_obj
def bench(
    console: Any, /, recorded: tuple[Path, ...], spec: Path | None, dry_run: bool, check: bool, **asked: Any
) -> None:
    """Measure kernels against their peers on this GPU.

    SELECT is a feature, a benchmark, one line of it, or any text with *: kernels.softmax, kernels.softmax/rows,
    "kernels.softmax/rows:T=f32;*". Exit code 1 if a result is wrong, 5 if nothing was measured, 16 if --within left
    lines for another run with --resume.
    """
    from conformance.bench import document, tables

    left = 0
    if asked["resume"] and asked["json_file"] is None:
        raise click.UsageError("--resume needs --json, the file that is gone on with")
    if recorded:
        made = document.read(*recorded)
        chosen = _wanted(spec, asked, made)
    else:
        chosen = _lines(spec, asked["select"], asked["sizes"], asked["quick"])
        if dry_run:
            _list(chosen, asked["peers"], console)
            sys.exit(EXIT["ok"] if chosen else EXIT["nothing"])
        made, left = _measured(chosen, asked)
    tables.show(made, console)
    _write(made, chosen, asked)
    if left:
        click.echo(f"{left} lines are left for another run with --resume", err=True)
    sys.exit(exit_code(made, check, left))


def exit_code(made: dict[str, Any], check: bool, left: int = 0) -> int:
    """Of a judged document: wrong results before lines that are left, and these before missed floors, which count when
    asked for."""
    if left and not made["verdict"]["wrong"]:
        return EXIT["unfinished"]
    if not made["lines"]:
        return EXIT["nothing"]
    verdict = made["verdict"]
    if verdict["wrong"]:
        return EXIT["failures"]
    return EXIT["budgets"] if check and verdict["slow"] else EXIT["ok"]


def _lines(spec: Path | None, select: Sequence[str], sizes: Sequence[str], quick: bool) -> list[Any]:
    from conformance import benchmarks
    from conformance.errors import SpecError

    features, _ = features_of(spec)
    chosen = benchmarks.collect(features, select, quick=quick)
    for text in sizes:
        wanted = set(text.split(";"))
        chosen = [line for line in chosen if wanted <= set(line.label.split(";"))]
    if not chosen and (sizes or select):
        raise SpecError("select.nothing", f"no line has {', '.join(sizes)}", hint="tilespec bench --dry-run lists them")
    return chosen


def _list(chosen: Sequence[Any], peers: Sequence[str], console: Any) -> None:
    """One line each: what is measured, its work, against whom."""
    for line in chosen:
        against = ", ".join(_chosen_peers(line, peers)) or "nothing"
        console.print(f"{line.id}  {work(line)}  against {against}", highlight=False, markup=False)
    console.print(f"{len(chosen)} lines")


def _chosen_peers(line: Any, peers: Sequence[str]) -> list[str]:
    """The peers of a line, or those that the command names."""
    return [p for p in PEERS if p in peers] if peers else list(line.benchmark.every_peer)


def work(line: Any) -> str:
    """The work of one call: `268 MB`, `1100 GFLOP`."""
    return f"{line.flops / 1e9:.4g} GFLOP" if line.flops else f"{line.bytes / 1e6:.4g} MB"


def _measured(chosen: Sequence[Any], asked: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The judged document, and how many lines were left unmeasured."""
    from conformance.bench import document, machine

    try:
        machine.need_gpu()
    except machine.NoGpu as lack:
        click.echo(f"error: no GPU can be used, so nothing was measured: {lack}", err=True)
        click.echo("  --dry-run lists what would be measured; --from FILE judges recorded timings", err=True)
        sys.exit(EXIT["nothing"])
    from conformance.bench import campaign, preparing

    file = asked["json_file"]
    return campaign.measure(
        campaign.Plan(
            lines=[(line, _chosen_peers(line, asked["peers"])) for line in chosen],
            seconds=asked["seconds"] or (campaign.QUICK_SECONDS if asked["quick"] else campaign.SECONDS),
            seed=asked["seed"] if asked["seed"] is not None else time.time_ns() % 1_000_000,
            processes=preparing.processes() if asked["processes"] is None else asked["processes"],
            select=asked["select"],
            quick=asked["quick"],
            say=lambda text: click.echo(text, err=True),
            kept=document.read(file)["lines"] if asked["resume"] and file.exists() else (),
            within=asked["within"],
            file=file,
        )
    )


def _wanted(spec: Path | None, asked: dict[str, Any], made: dict[str, Any]) -> list[Any]:
    """What the specification has of the benchmarks that are selected now, or else were when they were recorded."""
    from conformance.errors import SpecError

    select = asked["select"] or made["run"]["select"]
    try:
        return _lines(spec, select, asked["sizes"], asked["quick"] or made["run"].get("quick", False))
    except SpecError:  # measured by another specification
        return []


def _write(made: dict[str, Any], wanted: Sequence[Any], asked: dict[str, Any]) -> None:
    from conformance import output
    from conformance.bench import document, profiles, tables

    json_file, out = asked["json_file"], asked["out"]
    if json_file is not None:
        document.write(made, json_file)
    if out is not None:
        from conformance.bench import roofline

        profiled = profiles.read(asked["profiles"]) if asked["profiles"] else []
        document.write(made, out / "bench.json")
        output.write(out / "bench.md", tables.markdown(made, wanted, profiled))
        for path in roofline.draw(made, out):
            click.echo(f"wrote {path}")
