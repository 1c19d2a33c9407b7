"""What contestants left in memory, against the oracle in fp64, at places drawn after the timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance import tolerance
from conformance.bench import arrays, sampling
from conformance.benchmarks import Line
from conformance.dtypes import DTYPES
from conformance.tolerance import Unjudgeable

if TYPE_CHECKING:
    from conformance.bench.measuring import Contestant

PEERS_MAY = 64.0  # times our bound: theirs is another, and one that computes something else is off by far more


class Expected:
    """What a line must leave at the chosen places, by its oracle: computed once, for everybody who does the work.

    `host` has the inputs in host memory, taken at those places. Raises Unjudgeable.
    """

    def __init__(self, line: Line, host: Mapping[str, np.ndarray], chosen: sampling.Places) -> None:
        self.line, bench = line, line.benchmark
        names: dict[str, Any] = {**line.params, **line.scalars, **line.options}
        names |= {f"{extent}_at": at for extent, at in chosen.items()} | {e: len(at) for e, at in chosen.items()}
        self.before = {name: _poisoned(_shape(line, name, chosen), line.dtypes[name]) for name in line.outputs}
        initial = {**host, **self.before}
        self.refs = tolerance.references(bench.oracle, bench.numerics, self.before, initial, names)
        self.limits = {
            name: tolerance.tolerance(bench.numerics, name, line.dtypes[name], {**names, **initial})
            for name in line.outputs
        }

    def judge(self, left: Mapping[str, np.ndarray]) -> tuple[str, str, float | None]:
        """Status, reason, and the largest error over its bound, of outputs as they were left, at the chosen places."""
        worst = 0.0
        for name in self.line.outputs:
            try:
                found = tolerance.compare(left[name], self.refs, name, self.limits[name], self.before[name])
            except Unjudgeable as error:
                return "wrong", f"cannot be judged: {error}", None
            worst = max(worst, float(found.max_err_over_bound))
            if not found.ok:
                return "wrong", found.message.splitlines()[0], worst if np.isfinite(worst) else None
        return "right", "", worst


class Verifier:
    """Looks at what the contestants of a line leave, at places drawn when it is made: after the timing."""

    def __init__(self, line: Line, sets: Sequence[Any], seed: int) -> None:
        self.line, self.sets = line, sets
        self.chosen = sampling.places(line, seed)
        self._expected: Expected | None = None

    def verify(self, c: Contestant) -> tuple[str, str, float | None]:
        """Status, reason, and the largest error over its bound.

        All of them write into the same outputs, so each does once more what was timed, on poisoned outputs.
        """
        import torch

        line = self.line
        if c.name == "copy":
            return "right", "", None
        for arguments in self.sets:
            for output in line.outputs:
                arrays.poison(arguments[output])
        assert c.run is not None
        c.run(0)
        torch.cuda.synchronize()
        left = dict(self.sets[0])
        if (result := c.last.get(0)) is not None and len(line.outputs) == 1:
            (output,) = line.outputs
            left[output] = result.to(left[output].dtype).view(line.shapes[output])
        try:
            expected = self._expected or Expected(line, self._sampled(self.sets[0], set(line.shapes)), self.chosen)
        except Unjudgeable as error:
            return "wrong", f"cannot be judged: {error}", None
        self._expected = expected
        status, why, slack = expected.judge(self._sampled(left, set(line.outputs)))
        if status == "wrong" and c.name not in ("ours", "mlir") and slack is not None and slack <= PEERS_MAY:
            return "right", f"outside our bound: {why}", slack
        return status, why, slack

    def _sampled(self, arguments: Mapping[str, Any], names: set[str]) -> dict[str, np.ndarray]:
        return {n: arrays.sampled(self.line, n, arguments[n], self.chosen) for n in self.line.shapes if n in names}


def _shape(line: Line, name: str, chosen: sampling.Places) -> tuple[int, ...]:
    """The shape of an array at the chosen places."""
    found = sampling.axes(line, name, chosen)
    return tuple(len(found[axis]) if axis in found else extent for axis, extent in enumerate(line.shapes[name]))


def _poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array as it was before the call."""
    kind = DTYPES[dtype].numpy
    if DTYPES[dtype].is_float:
        return np.full(shape, np.nan, kind)
    return np.full((*shape, kind.itemsize), 0x5A, np.uint8).view(kind)[..., 0]
