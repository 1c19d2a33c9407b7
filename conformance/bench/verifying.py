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


def verify(line: Line, c: Contestant, sets: Sequence[Any], seed: int) -> tuple[str, str, float | None]:
    """Status, reason, and the largest error over its bound, of what a contestant leaves.

    All of them write into the same outputs, so each does once more what was timed, on poisoned outputs.
    """
    import torch

    if c.name == "copy":
        return "right", "", None
    for arguments in sets:
        for output in line.outputs:
            arrays.poison(arguments[output])
    assert c.run is not None
    c.run(0)
    torch.cuda.synchronize()
    chosen = sampling.places(line, seed)
    left = dict(sets[0])
    if (result := c.last.get(0)) is not None and len(line.outputs) == 1:
        (output,) = line.outputs
        left[output] = result.to(left[output].dtype).view(line.shapes[output])
    host = {name: arrays.sampled(line, name, left[name], chosen) for name in line.shapes}
    status, why, slack = judge(line, host, chosen)
    if status == "wrong" and c.name not in ("ours", "mlir") and slack is not None and slack <= PEERS_MAY:
        return "right", f"outside our bound: {why}", slack
    return status, why, slack


def judge(line: Line, host: Mapping[str, np.ndarray], chosen: sampling.Places) -> tuple[str, str, float | None]:
    """The same of arrays in host memory, taken at the chosen places: inputs as they were, outputs as they were left."""
    bench = line.benchmark
    names: dict[str, Any] = {**line.params, **line.scalars, **line.options}
    names |= {f"{extent}_at": at for extent, at in chosen.items()} | {e: len(at) for e, at in chosen.items()}
    before = {name: _poisoned(host[name]) for name in line.outputs}
    initial = {**host, **before}
    worst = 0.0
    try:
        refs = tolerance.references(bench.oracle, bench.numerics, before, initial, names)
        for name in line.outputs:
            limits = tolerance.tolerance(bench.numerics, name, line.dtypes[name], {**names, **initial})
            found = tolerance.compare(host[name], refs, name, limits, before[name])
            worst = max(worst, float(found.max_err_over_bound))
            if not found.ok:
                return "wrong", found.message.splitlines()[0], worst if np.isfinite(worst) else None
    except Unjudgeable as error:
        return "wrong", f"cannot be judged: {error}", None
    return "right", "", worst


def _poisoned(array: np.ndarray) -> np.ndarray:
    """An array of the same shape as it was before the call."""
    if array.dtype in [d.numpy for d in DTYPES.values() if d.is_float]:
        return np.full(array.shape, np.nan, array.dtype)
    return np.full(array.nbytes, 0x5A, np.uint8).view(array.dtype).reshape(array.shape)
