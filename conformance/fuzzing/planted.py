"""Ten mistakes of ten kinds that a campaign must find: mutants of the mutation catalogue, planted one at a time."""

from __future__ import annotations

from fnmatch import fnmatchcase

from conformance.errors import SpecError
from conformance.mutation.catalogue import DeadAnchor, Mutant, check, load_catalogue

PLANTED: tuple[str, ...] = ()


def chosen(name: str) -> list[Mutant]:
    """`all` for the ten, else one mutant of the catalogue by id; each checked against the source as it is."""
    rows = {m.id: m for m in load_catalogue()}
    ids = list(PLANTED) if name == "all" else [i for i in rows if fnmatchcase(i, name)]
    if not ids:
        raise SpecError(
            "fuzz.plant", f"no mutant is called {name!r}", hint=f"give an id such as {next(iter(rows))}, or all"
        )
    for i in ids:
        try:
            check(rows[i])
        except DeadAnchor as e:
            raise SpecError("fuzz.plant", f"{i} cannot be planted: {e}") from e
    return [rows[i] for i in ids]
