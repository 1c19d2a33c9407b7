"""Writes the generated parts of README.md and docs/: each stands between two marks in a page written by hand.

`python docs/generate.py` rewrites them; with `--check` it changes nothing and fails if a page is out of date. A part
that this machine cannot produce stays as it is, and a line says why.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import coming_from_parts  # noqa: E402  beside this file, and needs the packages
import findings_parts  # noqa: E402
import readme_parts  # noqa: E402

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
            lines.append((f"`{name}`", purpose(path)))
    return table(("module", "purpose"), lines)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table; bars inside a cell are escaped."""
    lines = [header, ("---",) * len(header), *sorted(rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def ops() -> str:
    """Every op of the registry: its operands, its attributes with their defaults, and what it does."""
    import refcompiler.dialects  # noqa: F401  declares the ops
    from refcompiler.ir import OPS

    def operand_text(field: Any) -> str:
        return field.name + ("..." if field.variadic else "?" if field.optional else "")

    def attr_text(field: Any) -> str:
        return field.name if field.required else f"{field.name}={field.default!r}"

    rows = []
    for name, op in OPS.items():
        operands = ", ".join(operand_text(field) for field in op.operand_fields)
        attributes = ", ".join(attr_text(field) for field in op.attr_fields)
        meaning = (op.__doc__ or op.doc).strip().split("\n")[0].replace("``", "`")
        rows.append((f"`{name}`", operands, attributes, meaning))
    return table(("op", "operands", "attributes", "meaning"), rows)


def environment() -> str:
    """Every environment variable that the compiler reads."""
    from refcompiler import config

    return config.markdown_table()


# page, name of the part, what writes it
PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    *readme_parts.PARTS,
    *coming_from_parts.PARTS,
    *findings_parts.PARTS,
    ("docs/architecture.md", "module map", module_map),
    ("docs/reference.md", "ops", ops),
    ("docs/reference.md", "environment", environment),
)


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
    """Rewrite the generated parts of README.md and docs/."""
    stale = False
    for page in sorted({page for page, _, _ in PARTS}):
        path = ROOT / page
        old = new = path.read_text(encoding="utf-8")
        for _, name, write in (part for part in PARTS if part[0] == page):
            try:
                new = with_part(new, name, write())
            except readme_parts.Unavailable as lack:
                click.echo(f"{page}: part {name} is not checked: {lack}", err=True)
        if new == old:
            continue
        stale = True
        click.echo("".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), page, page, n=0)))
        if not check:
            path.write_text(new, encoding="utf-8")
    if check and stale:
        click.echo("generated parts are out of date: run tox -e docs", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
