"""Shape manipulation: expand_dims, broadcast_to, reshape, transposition. Values and bits are moved, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.program import extents
from oracles.registry import OracleError, Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


@oracle(inputs="x", params="axis")
def expand_dims(inputs: Inputs, params: Params) -> Refs:
    """x with an axis of extent 1 at `axis`, counted in the result; `x[:, None]` is axis 1 of a vector."""
    return {"out": np.expand_dims(inputs["x"], params["axis"])}


@oracle(inputs="x", params="shape")
def broadcast_to(inputs: Inputs, params: Params) -> Refs:
    """x with its axes of extent 1 repeated to `shape`; the ranks are equal (no padding on the left)."""
    x, shape = inputs["x"], extents(params["shape"])
    if x.ndim != len(shape):
        raise OracleError(f"broadcast_to from rank {x.ndim} to rank {len(shape)}: the ranks must be equal")
    return {"out": np.broadcast_to(x, shape).copy()}


@oracle(inputs="x", params="shape")
def reshape(inputs: Inputs, params: Params) -> Refs:
    """x in row-major order with another shape of as many elements."""
    shape = extents(params["shape"])
    if int(np.prod(shape)) != inputs["x"].size:
        raise OracleError(f"reshape of {inputs['x'].size} elements to {shape}")
    return {"out": inputs["x"].reshape(shape)}


@oracle(inputs="x", params="order?")
def trans(inputs: Inputs, params: Params) -> Refs:
    """x with its axes in `order`; the last two exchanged if it is left out."""
    x = inputs["x"]
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return {"out": x.transpose(extents(params["order"], "order") if "order" in params else order)}


@oracle(inputs="x index", params="axis")
def gather(inputs: Inputs, params: Params) -> Refs:
    """The element of x at the place that index says along the axis, and at the same place along the others."""
    x, index, axis = inputs["x"], inputs["index"].astype(np.int64), params["axis"]
    places = list(np.indices(index.shape))
    places[axis] = index
    return {"out": x[tuple(places)]}


@oracle(inputs="x y")
def join(inputs: Inputs, params: Params) -> Refs:
    """x and y along a new last axis."""
    return {"out": np.stack([inputs["x"], inputs["y"]], -1)}


@oracle(inputs="x y")
def interleave(inputs: Inputs, params: Params) -> Refs:
    """x and y by turns along the last axis."""
    x = inputs["x"]
    out = np.empty((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    out[..., 0::2], out[..., 1::2] = x, inputs["y"]
    return {"out": out}


@oracle(inputs="x y", params="dim?")
def cat(inputs: Inputs, params: Params) -> Refs:
    """x, then y along an axis."""
    return {"out": np.concatenate([inputs["x"], inputs["y"]], params.get("dim", 0))}


@oracle(inputs="x", params="dim")
def flip(inputs: Inputs, params: Params) -> Refs:
    """x with the order along an axis turned round."""
    return {"out": np.flip(inputs["x"], params["dim"])}
