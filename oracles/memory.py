"""Models of loads and stores: masks, `other`, gather and scatter, what is written and what is left alone.

Indices count elements of the flattened array; an index array has the shape of the block that is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.casts import convert
from oracles.formats import format_of
from oracles.program import extents
from oracles.registry import OracleError, Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


def _mask(inputs: Inputs, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(convert(inputs.get("mask", np.True_), "bool"), shape)


def _inside(index: np.ndarray, mask: np.ndarray, size: int) -> np.ndarray:
    """The index with masked-off lanes at 0, after checking that active ones lie in the array."""
    active = index[mask]
    if active.size and (active.min() < 0 or active.max() >= size):
        raise OracleError(f"active index {active.min()}..{active.max()} leaves an array of {size} elements")
    return np.where(mask, index, 0).astype(np.int64)


def _masked(values: np.ndarray, mask: np.ndarray, other: Any) -> Refs:
    if other is None:
        return {"out": values, "out.unspecified": ~mask}
    return {"out": np.where(mask, values, convert(np.asarray(other), format_of(values)))}


def _other(inputs: Inputs, params: Params) -> Any:
    return inputs.get("other", params.get("other"))


@oracle(inputs="x mask? other?", params="other?")
def load(inputs: Inputs, params: Params) -> Refs:
    """tl.load at x's own positions: x where mask, else `other` in x's type; unspecified there without `other`."""
    x = inputs["x"]
    shape = np.broadcast_shapes(x.shape, inputs["mask"].shape) if "mask" in inputs else x.shape
    return _masked(np.broadcast_to(x, shape), _mask(inputs, shape), _other(inputs, params))


@oracle(inputs="x index mask? other?", params="other?")
def gather(inputs: Inputs, params: Params) -> Refs:
    """tl.load(x + index, mask, other): out has the shape of index. An active index outside x is an OracleError."""
    x, index = inputs["x"].ravel(), inputs["index"]
    mask = _mask(inputs, index.shape)
    return _masked(x[_inside(index, mask, x.size)], mask, _other(inputs, params))


@oracle(inputs="x mask?", params="n?")
def store(inputs: Inputs, params: Params) -> Refs:
    """tl.store of x at its own positions where mask and (if given) the flat position is below n; the rest is kept."""
    x = inputs["x"]
    written = _mask(inputs, x.shape)
    if "n" in params:
        written = written & (np.arange(x.size).reshape(x.shape) < params["n"])
    return {"out": x, "out.written": written}


@oracle(inputs="x index mask?", params="shape")
def scatter(inputs: Inputs, params: Params) -> Refs:
    """tl.store(out + index, x, mask) into an array of `shape`.

    Where several lanes write different values to one element, that element is written and unspecified.
    """
    index, shape = inputs["index"], extents(params["shape"])
    x = np.broadcast_to(inputs["x"], index.shape)
    mask, size = _mask(inputs, index.shape), int(np.prod(shape))
    where = _inside(index, mask, size)[mask]
    out, written, clash = np.zeros(size, x.dtype), np.zeros(size, bool), np.zeros(size, bool)
    for position, value in zip(where, x[mask], strict=True):
        clash[position] |= written[position] and out[position].tobytes() != value.tobytes()
        out[position], written[position] = value, True
    parts = {"out": out, "out.written": written, "out.unspecified": clash}
    return {key: part.reshape(shape) for key, part in parts.items()}


def _box(params: Params) -> tuple[np.ndarray, np.ndarray]:
    """The flat index of each element of a box, and whether it lies inside the array that the box is cut from."""
    block = extents(params["block"])
    index, inside = np.zeros(block, np.int64), np.ones(block, bool)
    for axis, (start, stride, size) in enumerate(
        zip(params["offsets"], params["strides"], params["extents"], strict=True)
    ):
        along = int(start) + np.arange(block[axis], dtype=np.int64)
        along = along.reshape([-1 if other == axis else 1 for other in range(len(block))])
        index = index + along * int(stride)
        inside = inside & (along >= 0) & (along < int(size))
    return index, inside


@oracle(inputs="x", params="extents strides offsets block padding?")
def load_box(inputs: Inputs, params: Params) -> Refs:
    """desc.load(offsets): the box of shape `block` of the array at x; `padding` (0 by default) outside of it."""
    x = inputs["x"].ravel()
    index, inside = _box(params)
    return _masked(x[_inside(index, inside, x.size)], inside, params.get("padding", 0))


@oracle(inputs="x", params="extents strides offsets block shape")
def store_box(inputs: Inputs, params: Params) -> Refs:
    """desc.store(offsets, x) into the array of `extents` and `strides` at the start of `shape` elements."""
    index, inside = _box(params)
    x = np.broadcast_to(inputs["x"].reshape(index.shape), index.shape)
    shape = extents(params["shape"])
    out, written = np.zeros(int(np.prod(shape)), x.dtype), np.zeros(int(np.prod(shape)), bool)
    where = _inside(index, inside, out.size)[inside]
    out[where], written[where] = x[inside], True
    return {"out": out.reshape(shape), "out.written": written.reshape(shape)}
