"""The generated parts of docs/coming-from-*.md: tables whose sentences and answers are the specification's own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from conformance import parity
from conformance.loader import load_suite

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "reports" / "parity.json"

# What differs, how it is there, the clause that says how it is here.
MYTRITON = (
    ("NumPy arrays", "compile only", "program.arguments#C5"),
    ("dtypes of arrays", "float32", "program.arguments#E8"),
    ("integer arguments", "int32, silently narrowed", "program.arguments#C3"),
    ("arrays with gaps", "refused", "ext.mytriton#E3"),
    ("`/` of integers", "truncates, unless both are constexpr", "arith.division#C7"),
    ("`//` and `%`", "refused", "arith.division#C1"),
    ("loads", "happen at their first use", "memory.order#C1"),
    ("values carried by a loop", "assigned one after another", "control.for_range#C3"),
    ("names after a loop at run time", "have the value from before the loop", "control.for_range#E6"),
    ("names after an unrolled loop", "removed, or the value from before", "control.static_range#C5"),
    ("`static_range` of a value known at run time", "becomes a loop at run time", "control.static_range#E1"),
    ("`tl.max`, `tl.min` of NaN", "drop it", "ext.mytriton#C3"),
    ("integer overflow in folding", "none: unbounded", "arith.overflow#C1"),
    ("a block stored through a scalar pointer", "accepted: racing writes", "memory.store#E4"),
    ("extents", "1 to 1024, one width in a kernel", "ext.any_extent#C6"),
    ("extents in a reduction", "a power of two", "ext.mytriton#C10"),
    ("`if` at run time", "refused", "control.if#C1"),
    ("`while`", "refused", "control.while#C1"),
    ("comparisons", "`<` alone", "compare.comparisons#C1"),
    ("names of parameters", "some break the generated code", "language.names#C1"),
    ("a grid of 0", "refused", "program.grid#C5"),
    ("two programs that touch one element", "unnoticed", "memory.order#E1"),
    ("an access outside of an array", "unnoticed", "memory.store#E7"),
)
TRITON = (
    ("`//`, `%` of two bools", "computes with them", "arith.division#E1"),
    ("`<<`, `>>` of two bools", "computes with them", "arith.shift#E1"),
    ("a shift by the width or more", "undefined", "arith.shift#C3"),
    ("integer division by zero", "undefined", "arith.division#C4"),
    ("the least integer divided by -1", "undefined", "arith.division#C3"),
    ("`/` of f32", "approximate, 2 ULP", "arith.division#C5"),
    ("a float beyond an integer's range", "undefined", "cast.numeric#C5"),
    ("pointers cast to integers and back", "accepted", "cast.numeric#E1"),
    ("`fp_downcast_rounding`", "'rtne' or 'rtz'", "cast.numeric#E4"),
    ("arithmetic and comparison of float8", "of two operands of one type, or with wider floats", "cast.fp8#E1"),
    ("a condition of `tl.where` that is not bool", "accepted, with a warning", "select.where#E1"),
    ("`tl.full` with a literal that the dtype cannot hold", "wraps", "creation.full#E5"),
    ("`tl.arange` from below zero", "refused", "creation.arange#C7"),
    ("`tl.empty`", "does not exist", "creation.empty#C2"),
    ("masked-off lanes without `other`", "undefined", "memory.load#E8"),
    ("an unspecified value that reaches memory", "undefined", "memory.store#E8"),
    ("an access outside of an array", "undefined", "memory.load#E7"),
    ("two programs that touch one element", "undefined", "memory.order#E1"),
    ("one store that writes two values to one place", "undefined", "memory.store#E10"),
    ("zeros in `tl.maximum`, `tl.minimum`", "either zero", "select.extrema#C4"),
    ("the condition of an assertion", "any integer", "control.assert#E1"),
    ("the index after a loop at run time", "a value that is not Python's", "control.for_range#E6"),
    ("a loop down over an unsigned type", "wraps", "control.for_range#E9"),
    ("Python's `abs`, `round`, `sum` on constexprs", "not defined", "control.constexpr#C11"),
    ("`lambda` and `def` inside a kernel", "refused", "language.functions#C1"),
    ("dicts", "refused", "language.structures#C2"),
    ("sets and `in`", "refused", "language.structures#C3"),
    ("comprehensions", "lists with one `for`", "language.structures#C4"),
    ("`a, *b = t`", "refused", "language.structures#C5"),
    ("`zip`, `enumerate`, `map` ...", "not defined", "language.structures#C6"),
    ("`del`", "refused", "language.structures#C8"),
    ("loops over tuples and other sequences", "refused", "control.sequences#C1"),
    ("extents that are no power of two", "refused", "ext.any_extent#C1"),
    ("the order in which scans combine floats", "unspecified", "scan.associative_scan#C6"),
    ("an index of `tl.gather` outside of the block", "undefined", "shape.gather#E6"),
    ("`tl.cat` with `can_reorder`", "any order", "shape.cat#C2"),
    ("`tl.sort` along another axis", "the last one only", "sort.sort#C2"),
    ("NaN in `tl.sort`", "elements are lost", "sort.sort#C3"),
    ("`tl.topk` of types below 32 bits", "widened", "sort.topk#C3"),
)


def differences(rows: Iterable[tuple[str, str, str]], other: str) -> str:
    """A table of what is different; what is said of this language is the sentence of the clause."""
    sentences = {f"{f.id}#{c.id}": c.text for f in load_suite(ROOT / "spec") for c in f.clauses}
    lines = [f"| | {other} | here | clause |", "| --- | --- | --- | --- |"]
    for subject, there, clause in rows:
        if clause not in sentences:
            raise click.ClickException(f"docs/coming_from_parts.py: there is no clause {clause}")
        here = sentences[clause].replace("|", "\\|")
        lines.append(f"| {subject} | {there} | {here} | `{clause}` |")
    return "\n".join(lines) + "\n"


def faults() -> str:
    """The numbered faults of mytriton with the answers of every target."""
    evidence = parity.read_evidence(EVIDENCE)
    machines = "".join(f"- `{target}`: {machine}\n" for target, machine in evidence["targets"].items())
    return f"{parity.markdown(parity.rows(ROOT / 'spec'), evidence['rows'])}\nThe targets answered here:\n\n{machines}"


def absent() -> str:
    """What `tl` of the law has and this edition has not."""
    from refcompiler import language
    from refcompiler.frontend.attributes import NOT_YET

    return ", ".join(f"`{name}`" for name in sorted(NOT_YET) if not hasattr(language, name)) + ".\n"


PARTS = (
    ("docs/coming-from-mytriton.md", "differences", lambda: differences(MYTRITON, "in mytriton")),
    ("docs/coming-from-mytriton.md", "faults", faults),
    ("docs/coming-from-triton.md", "differences", lambda: differences(TRITON, "in Triton 3.9")),
    ("docs/coming-from-triton.md", "absent", absent),
)
