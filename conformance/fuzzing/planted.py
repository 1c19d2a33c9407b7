"""Ten mistakes of ten kinds that a campaign must find: mutants of the mutation catalogue, planted one at a time."""

from __future__ import annotations

from fnmatch import fnmatchcase

from conformance.errors import SpecError
from conformance.mutation.catalogue import DeadAnchor, Mutant, check, load_catalogue

# The mutant -> the first program of SEED that finds it.
# When the generator changes, `tilespec fuzz --plant all` says which.
SEED = 3
PLANTED: dict[str, int] = {
    "M-FRONT-06": 0,  # loops: the results are bound to the carried names in reverse
    "M-FRONT-12": 0,  # broadcasting: an axis is inserted at the wrong end
    "M-FOLD-01": 129,  # folding: -0.0 is lost
    "M-FOLD-09": 9,  # common subexpressions: two loads become one across a store
    "M-FOLD-13": 0,  # loop-invariant code: a load moves past the stores of its loop
    "M-INTERP-01": 22,  # casts: a float out of range wraps instead of saturating
    "M-EMIT-14": 326,  # wide accesses: one mask serves several elements
    "M-LAYOUT-05": 81,  # shuffles: a lane keeps its own value
    "M-RED-09": 93,  # reductions: the partial results of other warps are left out
    "M-BAR-03": 0,  # barriers: none between a store and a load by another thread
}


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
