"""The command `tilespec bench`: what is measured, on what, and what is written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from conformance.model import PEERS
from conformance.options import example, features_of, select_argument, spec_option
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
    epilog=example("tilespec bench --dry-run\ntilespec bench kernels.softmax --peers copy,compile --quick"),
)
@select_argument
@click.option("--peers", callback=_peers, help=f"Only these, separated by commas: {', '.join(PEERS)}.")
@click.option("--quick", is_flag=True, help="The few sizes that the features name for a short run.")
@click.option("--dry-run", is_flag=True, help="List what would be measured.")
@spec_option
@click.pass_obj
def bench(
    console: Any, select: tuple[str, ...], peers: tuple[str, ...], quick: bool, dry_run: bool, spec: Path | None
) -> None:
    """Measure kernels against their peers on this GPU.

    SELECT is a feature, a benchmark, one line of it, or any text with *: kernels.softmax, kernels.softmax/rows,
    "kernels.softmax/rows:T=f32;*".
    """
    from conformance import benchmarks

    features, _ = features_of(spec)
    chosen = benchmarks.collect(features, select, quick=quick)
    if dry_run:
        _list(chosen, peers, console)
        sys.exit(EXIT["ok"] if chosen else EXIT["nothing"])
    click.echo("error: no GPU can be used, so nothing was measured; --dry-run lists what would be", err=True)
    sys.exit(EXIT["nothing"])


def _list(chosen: Sequence[Any], peers: Sequence[str], console: Any) -> None:
    """One line each: what is measured, its work, against whom."""
    for line in chosen:
        against = [p for p in line.benchmark.every_peer if not peers or p in peers]
        console.print(
            f"{line.id}  {work(line)}  against {', '.join(against) or 'nothing'}", highlight=False, markup=False
        )
    console.print(f"{len(chosen)} lines")


def work(line: Any) -> str:
    """The work of one call: `268 MB`, `1100 GFLOP`."""
    return f"{line.flops / 1e9:.4g} GFLOP" if line.flops else f"{line.bytes / 1e6:.4g} MB"
