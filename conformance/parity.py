"""The table of mytriton's known faults: each number, what judges it here, and what each target answered."""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance import yaml_text
from conformance.adapters import TARGETS
from conformance.errors import SpecError
from conformance.instances import Instance
from conformance.loader import spec_root, validate

# From bad to good; a cell shows the worst answer. A target without a GPU compiles a case, and has witnessed less.
CELLS = ("fail", "not run", "compiled", "pass")


@dataclass(frozen=True)
class Row:
    """A number of the table: the program, what mytriton did with it, and who judges it.

    ``instances`` are patterns of instance ids, ``tests`` ids of pytest functions with a parameter for the target.
    ``became`` says which parts of the first pattern's programs mytriton turned into what.
    """

    number: str
    kind: str
    what: str
    was: str
    instances: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    became: Mapping[str, str] = field(default_factory=dict)


def rows(root: Path | None = None) -> tuple[Row, ...]:
    """The rows of `spec/parity/mytriton.yaml`, in order. Raises SpecError with the place of a mistake."""
    root = root or spec_root()
    path = root / "parity" / "mytriton.yaml"
    document = yaml_text.load(path, path.as_posix())
    validate(document, root / "schema" / "parity.schema.json")
    return tuple(
        Row(**{**row, **{key: tuple(row.get(key, ())) for key in ("instances", "tests")}})
        for row in document.data["rows"]
    )


def selection(table: Iterable[Row]) -> list[str]:
    """The selections of instances that the table names, each once."""
    return sorted({pattern for row in table for pattern in row.instances})


def named(row: Row, instances: Iterable[Instance]) -> list[Instance]:
    """The instances that a row names. Raises SpecError for a pattern that matches none."""
    every = list(instances)
    found: dict[str, Instance] = {}
    for pattern in row.instances:
        matching = [i for i in every if _matches(i.id, pattern)]
        if not matching:
            raise SpecError("parity.instance", f"{row.number}: no instance matches {pattern!r}", "spec/parity")
        found.update((i.id, i) for i in matching)
    return list(found.values())


def _matches(id: str, pattern: str) -> bool:
    return id == pattern or id.startswith(pattern + ":") or fnmatchcase(id, pattern)


# --------------------------------------------------------------------------- what targets answered
def evidence(
    table: Sequence[Row], instances: Sequence[Instance], reports: Sequence[Mapping[str, Any]], suites: Sequence[str]
) -> dict[str, Any]:
    """What `reports` (documents of `tilespec run --json`) and `suites` (JUnit texts of pytest) say of each row.

    A later document replaces what an earlier one said of the same instance and target. ``questions`` tells which
    feature files, by a digest of their text, the answers are about.
    """
    answers = {(r["i"], r["impl"]): _answer(r["status"], r["kind"]) for d in reports for r in d["results"]}
    tests = {key: cell for text in suites for key, cell in _tested(text).items()}
    judged = {}
    for row in table:
        mine = named(row, instances)
        cells = {}
        for target in TARGETS:
            found = [answers[i.id, target] for i in mine if (i.id, target) in answers]
            found += [tests[test, target] for test in row.tests if (test, target) in tests]
            missing = (row.instances and not any((i.id, target) in answers for i in mine)) or any(
                (test, target) not in tests for test in row.tests
            )
            cells[target] = worst([*found, "not run"] if missing else found)
        judged[row.number] = cells
    machines = {i["id"]: i["device"] or i["why_not"] or "runs here" for d in reports for i in d["implementations"]}
    return {"targets": machines, "questions": questions(table, instances), "rows": judged}


def questions(table: Iterable[Row], instances: Sequence[Instance]) -> dict[str, str]:
    """A digest of the text of each feature file that the table names, by feature."""
    files = {i.feature.id: Path(i.feature.file) for row in table for i in named(row, instances)}
    return {id: hashlib.sha256(files[id].read_bytes()).hexdigest()[:16] for id in sorted(files)}


def _answer(status: str, kind: str) -> str:
    if status != "pass":
        return "not run" if status in ("skip", "unsupported") else "fail"
    return "compiled" if kind == "compile" else "pass"


def _tested(junit: str) -> dict[tuple[str, str], str]:
    """The cells of tests by (id, target): a test says by the property `judged` that it could only compile."""
    cells: dict[tuple[str, str], str] = {}
    for case in ElementTree.fromstring(junit).iter("testcase"):
        name, _, parameters = case.get("name", "").rstrip("]").partition("[")
        target = next((part for part in parameters.split("-") if part in TARGETS), None)
        if target is None:
            continue
        properties = {p.get("name"): p.get("value") for p in case.iter("property")}
        outcome = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "")
        cell = {"": properties.get("judged") or "pass", "skipped": "not run"}.get(outcome, "fail")
        module = case.get("classname", "").replace(".", "/") + ".py"
        key = (f"{module}::{name}", target)
        cells[key] = worst([cell, cells.get(key, cell)])
    return cells


def worst(cells: Sequence[str]) -> str:
    """The worst of several cells; `not run` for none."""
    return min(cells, key=CELLS.index, default="not run")


# --------------------------------------------------------------------------- the table as text
def markdown(table: Sequence[Row], judged: Mapping[str, Mapping[str, str]]) -> str:
    """The table for people: what each program did in mytriton, what judges it here, each target's answer."""
    targets = list(TARGETS)
    lines = ["| # | program | in mytriton | kind | judged by | " + " | ".join(targets) + " |"]
    lines.append("| --- " * (5 + len(targets)) + "|")
    for row in table:
        witnesses = "<br>".join(f"`{w}`" for w in (*row.instances, *row.tests))
        cells = judged.get(row.number, {})
        texts = [row.number, row.what, row.was, row.kind, witnesses, *(cells.get(t, "not run") for t in targets)]
        lines.append("| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |")
    return "\n".join(lines) + "\n"


def read_evidence(path: Path) -> dict[str, Any]:
    """The committed answers; empty where there are none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"targets": {}, "rows": {}}
