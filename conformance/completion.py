"""What a shell offers after TAB: names in lists with commas, and ids of features, cases and clauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[Any]]


def listed(words: Callable[[], Iterable[str]]) -> Completer:
    """For an option that takes some of these words, with commas between them."""

    def complete(ctx: click.Context, param: click.Parameter, begun: str) -> list[Any]:
        before, comma, last = begun.rpartition(",")
        return [before + comma + word for word in words() if word.startswith(last)]

    return complete


def targets() -> Iterable[str]:
    from conformance.adapters import TARGETS

    return TARGETS


def ids(ctx: click.Context, param: click.Parameter, begun: str) -> list[Any]:
    """Features; after `/` the cases of one, after `#` its clauses."""
    from conformance.errors import SpecError
    from conformance.loader import load_feature, spec_root

    root = ctx.params.get("spec") or spec_root()
    files = {f"{path.parent.name}.{path.stem}": path for path in sorted(Path(root, "features").glob("*/*.yaml"))}
    name = begun.partition("#")[0].partition("/")[0]
    if name == begun or name not in files:
        return [id for id in files if id.startswith(begun)]
    try:
        feature = load_feature(files[name], root)
    except SpecError:
        return []
    inner = [f"{name}#{c.id}" for c in feature.clauses] + [f"{name}/{c.id}" for c in feature.cases]
    return [id for id in inner if id.startswith(begun)]


def files_and_ids(ctx: click.Context, param: click.Parameter, begun: str) -> list[Any]:
    """As `ids`; where none begins like that, the shell's own files."""
    return ids(ctx, param, begun) or [CompletionItem(begun, type="file")]
