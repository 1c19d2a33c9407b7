"""Writes the generated parts of docs/: each stands between two marks in a page otherwise written by hand.

`python docs/generate.py` rewrites them; with `--check` it changes nothing and fails if a page is out of date.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Callable
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
PACKAGES = ("refcompiler", "conformance", "oracles")


def purpose(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


def module_map() -> str:
    """Every module of the packages with its purpose; a package's own line is that of its __init__.py."""
    lines = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py"), key=lambda path: path.with_suffix("").parts):
            name = path.relative_to(ROOT).as_posix()
            if path.name == "__init__.py":
                name = name.removesuffix("__init__.py")
            lines.append((name, purpose(path)))
    return "| module | purpose |\n| --- | --- |\n" + "".join(f"| `{n}` | {p} |\n" for n, p in sorted(lines))


# page, name of the part, what writes it
PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (("docs/architecture.md", "module map", module_map),)


def with_part(text: str, name: str, content: str) -> str:
    """`text` with the part `name` replaced; the part lies between its two marks, which must both be there."""
    begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->\n"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise click.ClickException(f"expected the lines {begin.strip()!r} and {end.strip()!r}")
    return head + begin + content + end + tail


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; fail if a page is out of date.")
def main(check: bool) -> None:
    """Rewrite the generated parts of docs/."""
    stale = False
    for page in sorted({page for page, _, _ in PARTS}):
        path = ROOT / page
        old = new = path.read_text(encoding="utf-8")
        for _, name, write in (part for part in PARTS if part[0] == page):
            new = with_part(new, name, write())
        if new == old:
            continue
        stale = True
        click.echo("".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), page, page, n=0)))
        if not check:
            path.write_text(new, encoding="utf-8")
    if check and stale:
        click.echo("docs/ is out of date: run tox -e docs", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
