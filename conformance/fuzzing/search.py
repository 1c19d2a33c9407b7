"""One program of a campaign: drawn from its seed and index, judged, and made as small as Hypothesis can if it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import strategies

from conformance.fuzzing.choices import BACKEND, Stream
from conformance.fuzzing.differential import Difference
from conformance.fuzzing.generator import Generator
from conformance.fuzzing.nodes import Program
from conformance.fuzzing.rendering import source

ATTEMPTS = 400  # programs judged while one failing program is made smaller

Judge = Callable[[Program], list[Difference]]


@strategies.composite
def programs(draw: Any) -> Program:
    """Random kernels over the whole vocabulary, with their launches."""
    return Generator(draw).program()


@dataclass(frozen=True)
class Outcome:
    """The program that was drawn, or the smallest that fails like it, and its differences."""

    program: Program
    differences: tuple[Difference, ...]
    attempts: int


class _Differs(Exception):
    """What Hypothesis sees of a failing program: the same exception for the same kind of difference."""


def draw(seed: int, index: int) -> Program:
    """The program of a seed and an index, on every machine the same."""
    return search(seed, index, lambda program: []).program


def search(seed: int, index: int, judge: Judge, *, smaller: bool = True) -> Outcome:
    """Draw and judge one program; with `smaller` a failing one is shrunk while it fails on the same target."""
    trial = _Trial(judge)
    phases = (hypothesis.Phase.generate, hypothesis.Phase.shrink) if smaller else (hypothesis.Phase.generate,)
    settings = hypothesis.settings(
        max_examples=2,  # the simplest program, which is always the same and is passed over, and one of the stream
        backend=BACKEND,
        database=None,
        deadline=None,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    @settings
    @hypothesis.given(programs())
    def judged(program: Program) -> None:
        trial.judged(program)

    Stream.start(seed, index)
    try:
        judged()
    except (_Differs, hypothesis.errors.Flaky):
        pass
    if trial.fault is not None:  # Hypothesis takes what does not happen twice for flaky
        raise trial.fault
    program, differences = trial.smallest or (trial.first, [])
    return Outcome(program, tuple(differences), trial.attempts)


class _Trial:
    """What the test function does: judges each program once, and only the failure that came first counts."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.calls = self.attempts = 0
        self.wanted: tuple[str, str] | None = None
        self.known: dict[str, list[Difference]] = {}
        self.smallest: tuple[Program, list[Difference]] | None = None
        self.fault: Exception | None = None  # of the judge, not of what it judges

    def judged(self, program: Program) -> None:
        if self.fault is not None:
            raise self.fault
        self.calls += 1
        if self.calls == 1:
            return
        if self.calls == 2:
            self.first = program
        differences = self._differences(program)
        if not any(self.wanted == (d.kind, d.target) for d in differences):
            return
        if self.smallest is None or len(source(program)) <= len(source(self.smallest[0])):
            self.smallest = (program, differences)
        raise _Differs

    def _differences(self, program: Program) -> list[Difference]:
        arrays = [(a.contents, a.region, a.aligned) for a in program.arrays]
        scalars = [(s.value, s.hint) for s in program.scalars]
        key = f"{source(program)}\n{program.grid}{program.options}{arrays}{scalars}"
        if key not in self.known:
            if self.attempts > ATTEMPTS:
                return []
            self.attempts += 1
            try:
                self.known[key] = self.judge(program)
            except Exception as fault:
                fault.add_note(source(program))
                self.fault = fault
                raise
            if self.wanted is None and self.known[key]:
                self.wanted = (self.known[key][0].kind, self.known[key][0].target)
        return self.known[key]
