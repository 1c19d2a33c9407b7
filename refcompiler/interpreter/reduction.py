"""Reductions as a tree of elementwise combinations: the halves of an axis are combined until one element is left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from refcompiler.dialects.scalar import BY_NAME
from refcompiler.dialects.tile.reduction import Combination, Reduce
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs, complete
from refcompiler.interpreter.values import Dense, Numbers, Val, rank_up

Step = Callable[[list[np.ndarray], list[np.ndarray]], list[np.ndarray]]


@interprets("reduce")
def reduce(programs: Programs, op: Reduce, *blocks: Numbers) -> Val | tuple[Val, ...]:
    axis = op.axis + 1
    extent = op.blocks[0].type.shape[op.axis]
    for block in blocks:
        programs.reject_poison(op, "reduce.reduce#E6", "an element of the reduction", programs.live(block.poison))
    arrays = [full_axis(b.data, axis, extent) for b in blocks]
    step = combination(programs, op)
    results = tuple(Dense(np.take(a, 0, axis)) for a in tree(step, arrays, axis, extent))
    return results if len(results) > 1 else results[0]


def combination(programs: Programs, op: Combination) -> Step:
    """What combines arrays of left with arrays of right elements."""
    if op.body is None:
        combine = BY_NAME[op.combine].numpy
        return lambda left, right: [combine(left[0], right[0])]

    def step(left: list[np.ndarray], right: list[np.ndarray]) -> list[np.ndarray]:
        ndim, operands = left[0].ndim, [Dense(a) for a in (*left, *right)]
        return [rank_up(v.data, ndim) for v in complete(programs.run(op.body, operands))]

    return step


def full_axis(array: np.ndarray, axis: int, extent: int) -> np.ndarray:
    """``array`` with ``extent`` elements along ``axis``, also where it held one for all."""
    if array.shape[axis] == extent:
        return array
    return np.broadcast_to(array, (*array.shape[:axis], extent, *array.shape[axis + 1 :]))


def tree(step, arrays: list[np.ndarray], axis: int, extent: int) -> list[np.ndarray]:
    """Combine element i with element i + h for the largest power of two h below the extent, until one is left."""
    while extent > 1:
        half = 1 << (extent - 1).bit_length() - 1
        pairs = extent - half
        left = [section(a, axis, 0, pairs) for a in arrays]
        right = [section(a, axis, half, extent) for a in arrays]
        combined = step(left, right)
        if pairs < half:
            middle = [section(a, axis, pairs, half) for a in arrays]
            combined = [joined(c, m, axis, pairs) for c, m in zip(combined, middle, strict=True)]
        else:
            combined = [full_axis(c, axis, half) for c in combined]
        arrays, extent = combined, half
    return arrays


def section(array: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    return array[(slice(None),) * axis + (slice(start, stop),)]


def joined(front: np.ndarray, back: np.ndarray, axis: int, pairs: int) -> np.ndarray:
    shape = np.broadcast_shapes(*((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (front, back)))
    parts = [
        np.broadcast_to(a, (*shape[:axis], n, *shape[axis + 1 :]))
        for a, n in ((front, pairs), (back, back.shape[axis]))
    ]
    return np.concatenate(parts, axis)
