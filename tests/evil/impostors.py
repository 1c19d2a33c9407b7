"""Evil implementations: each is wrong in one way that a conformance suite must never let pass."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from conformance.adapters import Ran, Rejected, Unsupported, Valid
from tests.evil.honest import Honest


def outputs(arguments):
    return [a.value for a in arguments if a.name == "out"]


class Zeros(Honest):
    """Every output is zero."""

    def run(self, compiled, grid, arguments):
        for out in outputs(arguments):
            out[...] = 0
        return Ran()


class StaleBuffer(Honest):
    """Does nothing and says it ran."""

    def run(self, compiled, grid, arguments):
        return Ran()


class PreviousResult(Honest):
    """Answers with the result of the previous run of that size."""

    def __init__(self):
        self.last = {}

    def run(self, compiled, grid, arguments):
        answer = super().run(compiled, grid, arguments)
        for out in outputs(arguments) if isinstance(answer, Ran) else []:
            mine = out.copy()
            out[...] = self.last.get(out.nbytes, np.roll(mine, 1)).view(out.dtype)
            self.last[out.nbytes] = mine
        return answer


class NanEverywhere(Honest):
    """Every float output is NaN, every other its largest value."""

    def run(self, compiled, grid, arguments):
        for out in outputs(arguments):
            out[...] = np.iinfo(out.dtype).max if out.dtype.kind in "iu" else np.nan
        return Ran()


class WritesOutOfBounds(Honest):
    """Right results, and one byte written just past each output."""

    def run(self, compiled, grid, arguments):
        answer = super().run(compiled, grid, arguments)
        for a in arguments:
            if a.name == "out":
                a.storage[a.offset + a.value.nbytes] ^= 0xFF
        return answer


class WritesMaskedLanes(Honest):
    """Stores every lane of a copy, masked or not."""

    def copy(self, values, constexprs):
        values["out"][:] = values["x"]


class EditsInputs(Honest):
    """Right results, and one input element changed afterwards."""

    def run(self, compiled, grid, arguments):
        answer = super().run(compiled, grid, arguments)
        for a in arguments:
            if a.name == "x":
                a.storage[a.offset] ^= 1
        return answer


class AcceptsEverything(Honest):
    """Never reports an error."""

    def compile(self, request):
        if "BLOCK" in dict(request.constexprs) and dict(request.constexprs)["BLOCK"] % 32:
            return Valid(handle=None)
        return super().compile(request)

    def run(self, compiled, grid, arguments):
        return Ran() if 0 in grid else super().run(compiled, grid, arguments)


class RejectsEverything(Honest):
    """Reports the right error for every program, right or wrong."""

    def compile(self, request):
        if "tl.arange(0, BLOCK)" in request.source:
            return self.reject_extent(request)
        return Rejected("type", "memory.copy#E1", "power of two", None)


class RejectsElsewhere(Honest):
    """Right error, wrong place."""

    def reject_extent(self, request):
        answer = super().reject_extent(request)
        line, col, end_line, end_col = answer.span
        return replace(answer, span=(line, col, end_line, end_col - 1))


class ClaimsUnsupported(Honest):
    """Claims the core profile and answers that it is unsupported."""

    def compile(self, request):
        return Unsupported("core", "not yet")


class ClaimsNothing(Honest):
    """Claims no profile, so that nothing would be asked of it."""

    claims = replace(Honest.claims, profiles=())


class Crashes(Honest):
    """Raises in the middle of a run."""

    def run(self, compiled, grid, arguments):
        raise SystemError("segmentation fault")


class NonDeterministic(Honest):
    """Adds in another order each time: within the bound, not the same bits."""

    def __init__(self):
        self.turn = 0

    def row_sum(self, values, constexprs):
        self.turn += 1
        x = values["x"].astype(np.float32)
        x = x[:, ::-1] if self.turn % 2 else x
        values["out"][:] = np.add.accumulate(x, axis=1, dtype=np.float32)[:, -1]


class DropsATerm(Honest):
    """A sum that forgets the last element of a row."""

    def row_sum(self, values, constexprs):
        values["out"][:] = values["x"][:, :-1].astype(np.float32).sum(axis=1)


class WrongSsa(Honest):
    """Right results from other SSA than the specification's."""

    def tile(self, request, extent):
        return super().tile(request, extent).replace("start=0", "start=1")


class Exits(Honest):
    """Ends the whole process on one kernel, as a segmentation fault would."""

    def row_sum(self, values, constexprs):
        if constexprs["N"] == 128:
            os._exit(9)
        super().row_sum(values, constexprs)


class Hangs(Honest):
    """Never returns from one kernel."""

    def row_sum(self, values, constexprs):
        while constexprs["N"] == 128:
            pass
        super().row_sum(values, constexprs)


class FindsNoErrors(Honest):
    """Claims no error phase at all."""

    claims = replace(Honest.claims, phases=())


EVIL = (
    Zeros,
    StaleBuffer,
    PreviousResult,
    NanEverywhere,
    WritesOutOfBounds,
    WritesMaskedLanes,
    EditsInputs,
    AcceptsEverything,
    RejectsEverything,
    RejectsElsewhere,
    ClaimsUnsupported,
    ClaimsNothing,
    Crashes,
    NonDeterministic,
    DropsATerm,
    WrongSsa,
)
