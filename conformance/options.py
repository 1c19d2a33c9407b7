"""Options, arguments and loading that the commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from conformance import completion


class Output(click.Path):
    """A file or folder to write; refused before any work where it cannot be made."""

    def __init__(self, folder: bool) -> None:
        super().__init__(path_type=Path, file_okay=not folder, dir_okay=folder, writable=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        above = next(p for p in (path, *path.absolute().parents) if p.exists())
        if above != path and not above.is_dir():
            self.fail(f"{str(above)!r} is a file, not a folder.", param, ctx)
        if not os.access(above, os.W_OK):
            self.fail(f"{str(above)!r} is not writable.", param, ctx)
        return path


def example(text: str) -> str:
    """Help text kept as written."""
    return "\b\n" + text


def targets(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Names of targets, separated by commas."""
    from conformance.adapters import TARGETS, known

    if value is None:
        return ()
    names = tuple(dict.fromkeys(n.strip() for n in value.split(",")))
    for name in names:
        if known(name) is None and ":" not in name:
            raise click.BadParameter(f"unknown target {name!r}; known: {', '.join(TARGETS)}")
    return names


def part_of(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int]:
    """`I/N` as a pair; all of it where left out."""
    if not value:
        return (1, 1)
    left, _, right = value.partition("/")
    if not (left.isdigit() and right.isdigit() and 1 <= int(left) <= int(right)):
        raise click.BadParameter("write I/N with 1 <= I <= N, for example 1/4")
    return (int(left), int(right))


# What commands take to choose instances, and the specification they read.
select_argument = click.argument("select", nargs=-1, metavar="[SELECT]...", shell_complete=completion.ids)
spec_option = click.option(
    "--spec", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Another spec folder."
)


def features_of(spec: Path | None) -> tuple[Any, Path]:
    """Every feature and the folder they are in; prints the errors of files that cannot be read, and raises the last."""
    from conformance.loader import load_suite_with_errors, spec_root

    root = spec or spec_root()
    features, errors = load_suite_with_errors(root)
    if errors:
        for e in errors[:-1]:
            click.echo(e.render(), err=True)
        raise errors[-1]
    return features, root
