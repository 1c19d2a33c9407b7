"""What contestants left in memory, against the oracle in fp64, at places drawn after the timing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformance import tolerance
from conformance.bench import arrays
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
    try:
        status, why, slack = _judge(line, sets[0], c.last.get(0), seed)
    except Unjudgeable as error:
        return "wrong", f"cannot be judged: {error}", None
    if status == "wrong" and c.name not in ("ours", "mlir") and slack is not None and slack <= PEERS_MAY:
        return "right", f"outside our bound: {why}", slack
    return status, why, slack


def _judge(line: Line, arguments: Any, result: Any, seed: int) -> tuple[str, str, float | None]:
    chosen = arrays.places(line, seed)
    names: dict[str, Any] = {
        **line.params,
        **line.scalars,
        **line.options,
        **{f"{e}_at": at for e, at in chosen.items()},
    }
    host = {name: arrays.sampled(line, name, arguments[name], chosen) for name in line.shapes}
    outputs = list(line.outputs)
    before = {name: _poisoned(host[name]) for name in outputs}
    initial = {**host, **before}
    names.update({e: len(at) for e, at in chosen.items()})
    bench = line.benchmark
    refs = tolerance.references(bench.oracle, bench.numerics, before, initial, names)
    worst = 0.0
    for name in outputs:
        got = host[name]
        if result is not None and len(outputs) == 1 and result is not arguments[name]:
            got = arrays.sampled(line, name, result.to(arguments[name].dtype).view(line.shapes[name]), chosen)
        limits = tolerance.tolerance(bench.numerics, name, line.dtypes[name], {**names, **initial})
        found = tolerance.compare(got, refs, name, limits, before[name])
        worst = max(worst, float(found.max_err_over_bound))
        if not found.ok:
            return "wrong", found.message.splitlines()[0], worst if np.isfinite(worst) else None
    return "right", "", worst


def _poisoned(array: np.ndarray) -> np.ndarray:
    """An array of the same shape as it was before the call."""
    if array.dtype in [d.numpy for d in DTYPES.values() if d.is_float]:
        return np.full(array.shape, np.nan, array.dtype)
    return np.full(array.nbytes, 0x5A, np.uint8).view(array.dtype).reshape(array.shape)
