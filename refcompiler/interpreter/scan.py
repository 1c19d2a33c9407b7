"""Scans as a tree of elementwise combinations: runs of elements double until one run is left."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.tile.reduction import Scan
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.reduction import combination, full_axis
from refcompiler.interpreter.values import Dense, Numbers, Val


@interprets("scan")
def scan(programs: Programs, op: Scan, *blocks: Numbers) -> Val | tuple[Val, ...]:
    axis, extent = op.axis + 1, op.blocks[0].type.shape[op.axis]
    for block in blocks:
        poison = programs.live(block.poison)
        programs.reject_poison(op, "scan.associative_scan#E6", "an element of the scan", poison)
    step = combination(programs, op)
    arrays = [full_axis(b.data, axis, extent) for b in blocks]
    index = np.arange(extent)
    half = 1
    while half < extent:
        start = index // (2 * half) * (2 * half)
        if op.reverse:  # the lower half takes what the upper half begins with
            takes = start + half
            seconds = (index & half == 0) & (takes < extent)
        else:
            takes = start + half - 1
            seconds = index & half != 0
        at = np.flatnonzero(seconds)
        combined = step([np.take(a, takes[at], axis) for a in arrays], [np.take(a, at, axis) for a in arrays])
        arrays = [replaced(a, axis, at, new) for a, new in zip(arrays, combined, strict=True)]
        half *= 2
    results = tuple(Dense(a) for a in arrays)
    return results if len(results) > 1 else results[0]


def replaced(array: np.ndarray, axis: int, at: np.ndarray, new: np.ndarray) -> np.ndarray:
    """``array`` with the elements at indices ``at`` of the axis replaced; other axes grow where ``new`` has more."""
    others = np.broadcast_shapes(
        *((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (array, new)),
    )
    result = np.array(np.broadcast_to(array, (*others[:axis], array.shape[axis], *others[axis + 1 :])))
    result[(slice(None),) * axis + (at,)] = new
    return result
