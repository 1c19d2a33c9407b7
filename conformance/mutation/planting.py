"""`tilespec run --plant`: one mistake of the catalogue in the compiler of this process and of its workers."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import SpecError
from conformance.mutation.catalogue import DeadAnchor, Mutant, check, load_catalogue
from conformance.mutation.patching import install


@dataclass(frozen=True)
class Planted:
    """The mutant in the compiler of this process. Processes that it starts find its artifact cache in their
    environment, and leave the file ``mark`` there once the changed statement runs."""

    mutant: Mutant
    folder: Path

    @property
    def mark(self) -> Path:
        return self.folder / "reached"

    @property
    def reached(self) -> bool:
        """Whether the changed statement ran in any process."""
        return self.mark.exists()


_current: list[Planted] = []


def current() -> Planted | None:
    """What is planted in this process."""
    return _current[0] if _current else None


def plant(id: str) -> Planted:
    """Put a mutant of the catalogue into the compiler, which must not be imported yet.

    Its artifacts go to a new cache folder, which ends with this process: no right kernel is taken from the cache for
    a wrong one, on any target, nor the other way round. Raises SpecError for an unknown or dead mutant.
    """
    planted = Planted(_mutant(id), Path(tempfile.mkdtemp(prefix="tilespec-plant-")))
    atexit.register(shutil.rmtree, planted.folder, ignore_errors=True)
    os.environ["TILESPEC_CACHE_DIR"] = str(planted.folder / "cache")  # noqa: TID251  for this process and its workers
    _install(planted)
    return planted


def join(planted: Planted | None) -> None:
    """In a worker: plant what the process that started it has planted."""
    if planted is not None:
        _install(planted)


def _install(planted: Planted) -> None:
    mutant = planted.mutant
    if "refcompiler" in sys.modules:
        raise SpecError("mutation.late", f"{mutant.id} cannot be planted: the compiler is imported already")
    install(mutant.module, mutant.find, mutant.replace, planted.mark.touch)
    _current[:] = [planted]


def _mutant(id: str) -> Mutant:
    rows = {m.id: m for m in load_catalogue()}
    if id not in rows:
        areas = ", ".join(dict.fromkeys(m.area for m in rows.values()))
        hint = f"ids are in conformance/mutation/catalogue.yaml; areas: {areas}"
        raise SpecError("mutation.select", f"there is no mutant {id!r}", hint=hint)
    try:
        check(rows[id])
    except DeadAnchor as e:
        raise SpecError("mutation.dead", f"{id} cannot be planted: {e}") from None
    return rows[id]
