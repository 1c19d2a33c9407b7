"""The catalogue of mutants: rows of YAML to `Mutant`s, each checked against the source that it changes."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from conformance import yaml_text
from conformance.errors import Mark, SpecError
from conformance.loader import validate

HERE = Path(__file__).parent
CATALOGUE = HERE / "catalogue.yaml"
SCHEMA = HERE / "catalogue.schema.json"


class DeadAnchor(Exception):
    """A mutant whose text does not occur exactly once in its module, or whose wrong text is no Python."""


@dataclass(frozen=True)
class Mutant:
    """One mistake: in `module`, `find` (which occurs once) becomes `replace`.

    `killed_by` are selections of instances that must notice it, on `target`, by `witness`: exact or bound (against an
    oracle), negative (a demanded error), transform (text after passes), invariant (`has`, `lacks`, `count`), budget, or
    emulator (generated code run without a GPU).
    """

    id: str
    area: str
    what: str
    module: str
    find: str
    replace: str
    killed_by: tuple[str, ...]
    witness: str
    target: str = "interp"
    mark: Mark | None = None

    def to_json(self) -> dict[str, object]:
        """What a child process needs to apply it."""
        return {"id": self.id, "module": self.module, "find": self.find, "replace": self.replace}


@dataclass(frozen=True)
class Patch:
    """The wrong source of a module, and the line (from 1) on which it first differs from the right one."""

    source: str
    line: int


def load_catalogue(path: Path = CATALOGUE) -> tuple[Mutant, ...]:
    """Every mutant of a catalogue file, in file order; raises SpecError with the place of the first mistake."""
    document = yaml_text.load(path, path.name)
    validate(document, SCHEMA)
    mutants: dict[str, Mutant] = {}
    for i, row in enumerate(document.data["mutants"]):
        place = ("mutants", i)
        if row["id"] in mutants:
            raise document.error("mutation.id", f"mutant {row['id']} appears twice", (*place, "id"))
        if row["find"] == row["replace"]:
            raise document.error("mutation.same", "find and replace are the same text", (*place, "replace"))
        fields = {**row, "killed_by": tuple(row["killed_by"])}
        mutants[row["id"]] = Mutant(**fields, mark=document.values[place])
    return tuple(mutants.values())


@cache
def source_path(module: str) -> Path:
    """The source file of a compiler module, found without importing it."""
    package, *rest = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SpecError("mutation.module", f"there is no package {package}")
    stem = Path(next(iter(spec.submodule_search_locations)), *rest)
    for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
        if candidate.is_file():
            return candidate
    raise DeadAnchor(f"there is no module {module}")


def patch(find: str, replace: str, source: str) -> Patch:
    """`source` with its one occurrence of `find` replaced; raises DeadAnchor."""
    count = source.count(find)
    if count != 1:
        raise DeadAnchor(f"the text to find occurs {count} times instead of once: {find.strip()!r}")
    start = source.index(find)
    same = next(
        (i for i, (a, b) in enumerate(zip(find, replace, strict=False)) if a != b), min(len(find), len(replace))
    )
    wrong = source[:start] + replace + source[start + len(find) :]
    if replace.strip():  # stay inside what replaced it, also where its end was only removed
        place = start + max(0, min(same, len(replace.rstrip()) - 1))
    else:  # a statement is gone: the one before it stands for it
        place = max(0, len(wrong[:start].rstrip()) - 1)
    return Patch(wrong, wrong.count("\n", 0, place) + 1)


def check(mutant: Mutant) -> Patch:
    """The patch of a mutant against the source as it is; raises DeadAnchor."""
    path = source_path(mutant.module)
    found = patch(mutant.find, mutant.replace, path.read_text(encoding="utf-8"))
    try:
        compile(found.source, str(path), "exec", dont_inherit=True)
    except SyntaxError as e:
        raise DeadAnchor(f"the wrong text is no Python: {e}") from None
    return found
