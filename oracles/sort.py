"""Sorting along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.formats import format_of
from oracles.registry import Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


def _sorted(inputs: Inputs, params: Params) -> np.ndarray:
    """The elements in order, by Python's sort: NaN is the greatest, -0.0 less than 0.0."""
    x = inputs["x"]
    axis = params.get("axis", -1)
    moved = np.moveaxis(x, axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    is_float = format_of(x).is_float

    def key(element: Any) -> tuple:
        if not is_float:
            return (int(element),)
        value = float(element)
        return (True, 0.0, False) if np.isnan(value) else (False, value, not np.signbit(value))

    out = np.stack(
        [np.array(sorted(row, key=key, reverse=bool(params.get("descending", False))), x.dtype) for row in rows]
    )
    return np.moveaxis(out.reshape(moved.shape), -1, axis)


@oracle(inputs="x", params="axis? descending?")
def sort(inputs: Inputs, params: Params) -> Refs:
    """All elements in order."""
    return {"out": _sorted(inputs, params)}


@oracle(inputs="x", params="k axis? descending")
def topk(inputs: Inputs, params: Params) -> Refs:
    """The first k elements of the order."""
    return {"out": np.take(_sorted(inputs, params), range(params["k"]), params.get("axis", -1))}
