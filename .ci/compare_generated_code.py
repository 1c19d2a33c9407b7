"""Shows what a change does to generated code: compiles every case of the spec in two checkouts and compares.

    python .ci/compare_generated_code.py compare BASE HEAD --out DIR [--summary FILE]

Each case is compiled by the command line of its own checkout, so that the comparison needs nothing but the
stable command `tilespec compile`. A case that must be rejected is compared by its error message.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from ruamel.yaml import YAML

STAGES = "tile,tile_opt,simt,cuda"
SUMMARY_BYTES = 900_000  # a step summary may hold 1 MiB


@dataclass(frozen=True)
class Difference:
    """One text of one case that is not the same in both checkouts."""

    name: str
    diff: str

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.diff.splitlines()[2:])

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.diff.splitlines()[2:])


def case_ids(tree: Path) -> list[str]:
    """`area.name/case` for every case of the checkout, sorted."""
    found = []
    for path in sorted((tree / "spec/features").rglob("*.yaml")):
        feature = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        found += [f"{feature['id']}/{case['id']}" for case in feature["cases"]]
    return found


def emit(tree: Path, out: Path) -> None:
    """Compile every case of the checkout `tree` into `out`/area.name/case/, with one process for each core."""
    workers = os.cpu_count() or 1
    cases = case_ids(tree)
    environment = os.environ | {"PYTHONPATH": str(tree.resolve())}
    command = [sys.executable, str(Path(__file__).resolve()), "compile", str(out.resolve())]
    running = [
        subprocess.Popen([*command, *cases[first::workers]], cwd=tree, env=environment)
        for first in range(min(workers, len(cases)))
    ]
    failed = [process.wait() for process in running]
    if any(failed):
        raise click.ClickException(f"the cases of {tree} could not be compiled")


def compile_case(case: str, out: Path) -> None:
    """Write one file per stage into `out`, or error.txt with the message where the compiler rejects the case."""
    from conformance.cli import main as tilespec  # that of the checkout on PYTHONPATH

    out.mkdir(parents=True, exist_ok=True)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            tilespec(["compile", case, "--emit", STAGES, "--out", str(out)])
        except SystemExit as end:
            if end.code:
                message = said.getvalue().replace(str(Path.cwd()), "")
                _, internal, reason = message.rpartition("\nerror: internal")  # a traceback has lines that move
                (out / "error.txt").write_text((internal + reason).lstrip() or message, encoding="utf-8")


def lines(path: Path) -> list[str]:
    """The lines of a file; none where it does not exist."""
    return path.read_text(encoding="utf-8").splitlines(True) if path.is_file() else []


def compare(base: Path, head: Path) -> list[Difference]:
    """The texts under two folders that differ, are new or are gone, sorted by name."""
    names = {p.relative_to(root).as_posix() for root in (base, head) for p in root.rglob("*") if p.is_file()}
    found = []
    for name in sorted(names):
        old, new = (lines(root / name) for root in (base, head))
        if old != new:
            found.append(Difference(name, "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))))
    return found


def markdown(differences: list[Difference], limit: int = SUMMARY_BYTES) -> str:
    """A table of what changed and the diffs, as many as `limit` bytes hold; it says how many are left out."""
    if not differences:
        return "### Generated code\nNo case compiles to other SSA or CUDA than before.\n"
    text = f"### Generated code\n{len(differences)} texts differ.\n\n"
    text += "| case and stage | + | - |\n| --- | ---: | ---: |\n"
    text += "".join(f"| `{d.name}` | {d.added} | {d.removed} |\n" for d in differences)
    for shown, d in enumerate(differences):
        details = f"\n<details><summary>{d.name}</summary>\n\n````diff\n{d.diff}````\n</details>\n"
        if len((text + details).encode()) > limit:
            return f"{text}\n{len(differences) - shown} diffs are left out here; the artifact has them all.\n"
        text += details
    return text


@click.group()
def main() -> None:
    """Compare the code that two checkouts generate."""


@main.command("compile")
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("cases", nargs=-1)
def compile_command(out: Path, cases: tuple[str, ...]) -> None:
    """Compile CASES with the checkout of the current folder."""
    for case in cases:
        compile_case(case, out / case)


@main.command("compare")
@click.argument("base", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("head", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the texts and the diff.")
@click.option("--summary", type=click.Path(path_type=Path), help="Markdown file to append the summary to.")
def compare_command(base: Path, head: Path, out: Path, summary: Path | None) -> None:
    """Compile every case in the checkouts BASE and HEAD and compare the texts."""
    for tree, name in ((base, "base"), (head, "head")):
        emit(tree, out / name)
    differences = compare(out / "base", out / "head")
    (out / "generated-code.diff").write_text("".join(d.diff for d in differences), encoding="utf-8")
    text = markdown(differences)
    if summary:
        with summary.open("a", encoding="utf-8") as file:
            file.write(text)
    else:
        click.echo(text)


if __name__ == "__main__":
    main()
