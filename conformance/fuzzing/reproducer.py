"""A failing program as files: a feature file whose case fails until the compiler is right, and a script of its own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from conformance.dtypes import bits
from conformance.fuzzing.differential import Difference, initial
from conformance.fuzzing.evaluation import evaluate
from conformance.fuzzing.nodes import Program
from conformance.fuzzing.rendering import ENTRY, number, source


def as_case(program: Program, difference: Difference, seed: int, index: int) -> str:
    """The text of a feature file; its expected values are those of the evaluation of the program as it was drawn."""
    before = initial(program)
    after = evaluate(program, before)
    signature = []
    for a in program.arrays:
        role = "" if a.role == "in" else f" {a.role}"
        hint = ":16" if a.aligned else ""
        signature.append(f'"{a.name}: *{a.dtype}{hint}[{before[a.name].size}]{role}"')
    for s in program.scalars:
        hint = f":{s.hint}" if s.hint else ""
        signature.append(f'"{s.name}: {s.dtype}{hint} = {number(s.value).strip("()")}"')
    lines = [
        f"# {_one_line(difference)}",
        f"# tilespec fuzz --seed {seed} --first {index} --programs 1",
        "schema: 1",
        f"id: fuzz.seed_{seed}_{index}",
        f"title: Program {index} of seed {seed}",
        "status: stable",
        "since: 0.1.0",
        "clauses:",
        '  - {id: C1, level: must, kind: semantics, text: "TODO: the rule that this program breaks"}',
        "program:",
        "  source: |",
        *(f"    {line}" if line else "" for line in source(program).splitlines()),
        f"  entry: {ENTRY}",
        f"  signature: [{', '.join(signature)}]",
        f"  grid: [{', '.join(map(str, program.grid))}]",
        f"  options: {_options(program)}",
        "  oracle:",
        *(f"    {a.name}: 'bits(\"{a.dtype}\", {_every(after[a.name])})'" for a in program.arrays if a.role != "in"),
        "numerics: {mode: exact}",
        "cases:",
        "  - id: found",
        "    covers: [C1]",
        "    inputs:",
        *(f'      {a.name}: "bits({_patterns(before[a.name])})"' for a in program.arrays if a.role != "out"),
    ]
    return "\n".join(lines) + "\n"


def _options(program: Program) -> str:
    shown = ", ".join(f"{k}: {str(v).lower()}" for k, v in program.options.items())
    return "{" + shown + "}"


def _one_line(difference: Difference) -> str:
    return " ".join(str(difference).split())[:200]


def _patterns(array: np.ndarray) -> str:
    """Bit patterns in memory order; a tail that repeats is left out, since the list is taken around."""
    words = [int(b) for b in bits(array)]
    period = next(p for p in (1, 2, 4, 8, 16, len(words)) if p == len(words) or _repeats(words, p))
    return ", ".join(map(str, words[:period]))


def _repeats(words: list[int], period: int) -> bool:
    return len(words) % period == 0 and words == words[:period] * (len(words) // period)


def as_script(program: Program, difference: Difference, seed: int, index: int) -> str:
    """A Python file that runs the kernel on NumPy arrays and prints where the outcome is not what it should be."""
    before = initial(program)
    after = evaluate(program, before)
    lines = [
        f'"""{_one_line(difference)}\n\nFound by: tilespec fuzz --seed {seed} --first {index} --programs 1\n"""',
        "import ml_dtypes",
        "import numpy as np",
        "import refcompiler as triton",
        "import refcompiler.language as tl",
        "",
        "",
        source(program),
        "",
        *(_array(a.name, before[a.name]) for a in program.arrays),
        f"{ENTRY}[{program.grid}]({', '.join(_arguments(program))})",
    ]
    for a in program.arrays:
        if a.role != "in":
            lines += [_array("wanted", after[a.name]), f'print("{a.name}", {_wrong(a.name)})']
    return "\n".join(lines) + "\n"


def _array(name: str, array: np.ndarray) -> str:
    width = array.dtype.itemsize
    dtype = "ml_dtypes.bfloat16" if array.dtype.name == "bfloat16" else f'np.dtype("{array.dtype.name}")'
    return f'{name} = np.array([{_every(array)}], "u{width}").view({dtype})'


def _every(array: np.ndarray) -> str:
    return ", ".join(str(int(b)) for b in bits(array))


def _wrong(name: str) -> str:
    same = f"({name} == wanted) | (({name} != {name}) & (wanted != wanted))"
    return f'"agrees" if ({same}).all() else f"differs at {{np.flatnonzero(~({same}))}}"'


def _arguments(program: Program) -> Iterable[str]:
    yield from (a.name for a in program.arrays)
    yield from (number(s.value) for s in program.scalars)
    yield from (f"{k}={v}" for k, v in program.options.items())
