"""Reductions over one axis or all: sum, max, min, prod, argmax, argmin, xor, or, and.

`axis` left out or None reduces everything to one value (shape ``()``, or all ones with `keep_dims`). A mask
excludes elements, which then count as the operation's identity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.casts import convert
from oracles.formats import FORMATS, Format, format_of
from oracles.reals import REALS
from oracles.registry import OracleError, Refs, oracle
from oracles.twos_complement import wrap

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


def _rows(x: np.ndarray, params: Params) -> tuple[np.ndarray, tuple[int, ...]]:
    """x with the reduced elements along a last axis, and the shape of the result."""
    axis, keep = params.get("axis"), bool(params.get("keep_dims", False))
    if axis is None:
        return x.reshape(1, -1), (1,) * x.ndim if keep else ()
    if not -x.ndim <= axis < x.ndim:
        raise OracleError(f"axis {axis} of a block of rank {x.ndim}")
    moved = np.moveaxis(x, axis, -1)
    shape = list(x.shape)
    shape[axis : axis + 1 or None] = [1] if keep else []
    return moved.reshape(-1, x.shape[axis]), tuple(shape)


def _masked(inputs: Inputs, identity: Any) -> np.ndarray:
    x = inputs["x"]
    if "mask" not in inputs:
        return x
    return np.where(convert(inputs["mask"], "bool"), x, np.asarray(identity).astype(x.dtype))


def widened(fmt: Any, unsigned_stays: bool = True) -> Format:
    """The type of a sum of integers: 32 bits at least, unsigned for bool and unsigned (if those stay unsigned)."""
    fmt = format_of(fmt)
    if fmt.is_float or fmt.bits >= 32:
        return fmt
    return FORMATS["i32" if fmt.kind == "signed" or not unsigned_stays else "u32"]


def exact_sum(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of each row of fp64 terms as a correctly rounded fp64 and the rest (also rounded)."""
    sums = np.empty(len(rows)), np.empty(len(rows))
    for i, row in enumerate(rows):
        try:
            total = math.fsum(row)
            sums[0][i], sums[1][i] = total, math.fsum((*row, -total)) if math.isfinite(total) else 0.0
        except (ValueError, OverflowError):  # inf - inf, or beyond fp64
            sums[0][i], sums[1][i] = np.sum(row), 0.0
    return sums


def without_largest(rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Each total less the term of greatest magnitude: what a lost term would leave."""
    if not rows.shape[-1]:
        return totals
    worst = np.argmax(np.nan_to_num(np.abs(rows)), axis=-1)
    return totals - np.take_along_axis(rows, worst[:, None], -1)[:, 0]


@oracle(inputs="x mask?", params="axis? keep_dims?", bounded=True)
def sum_(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """Sum. Integers: exact, wrapped at the widened type. Floats: the real sum, abs_terms, and a dropped term."""
    x = _masked(inputs, 0)
    rows, shape = _rows(x, params)
    if not format_of(x).is_float:
        fmt = widened(x)
        total = wrap(rows.astype(object).sum(-1), fmt) if rows.size else np.zeros(len(rows), fmt.dtype)
        dropped = total - (rows[:, 0].astype(fmt.dtype) if rows.shape[-1] else total)
        return {"out": total.reshape(shape), "out.dropped": dropped.reshape(shape)}
    if xp is not None:
        return {"out": xp.sum(xp.asarray(rows), axis=-1).reshape(shape)}
    wide = REALS.asarray(rows)
    total, tail = exact_sum(wide)
    parts = {
        "out": total,
        "out.tail": tail,
        "out.abs_terms": np.abs(wide).sum(-1),
        "out.dropped": without_largest(wide, total),
    }
    return {key: part.reshape(shape) for key, part in parts.items()}


@oracle(inputs="x mask?", params="axis? keep_dims?")
def prod(inputs: Inputs, params: Params) -> Refs:
    """Product. Integers: wrapped at x's type. Floats: the real product; abs_terms is its magnitude, since n factors
    in any order err by at most gamma(n - 1) of it while nothing over- or underflows."""
    x = _masked(inputs, 1)
    rows, shape = _rows(x, params)
    if not format_of(x).is_float:
        return {"out": wrap(np.multiply.reduce(rows.astype(object), -1), format_of(x)).reshape(shape)}
    wide = REALS.asarray(rows)
    total = np.prod(wide, -1)
    dropped = np.prod(wide[:, 1:], -1)
    parts = {"out": total, "out.abs_terms": np.abs(total), "out.dropped": dropped}
    return {key: part.reshape(shape) for key, part in parts.items()}


def _extreme(inputs: Inputs, params: Params, sign: int) -> tuple[Refs, Refs]:
    """Greatest (sign 1) or smallest element and its index; NaN is skipped, the leftmost of equals wins."""
    x = inputs["x"]
    fmt = format_of(x)
    rows, shape = _rows(x, params)
    if not rows.shape[-1]:
        raise OracleError("max and min need at least one element")
    # Python integers do not overflow on negation; fp64 holds every float
    keys = sign * rows.astype(np.float64 if fmt.is_float else object)
    absent = np.isnan(keys.astype(np.float64)) if fmt.is_float else np.zeros(rows.shape, bool)
    if "mask" in inputs:
        mask = np.broadcast_to(convert(inputs["mask"], "bool"), x.shape)
        absent = absent | ~_rows(mask, params)[0]
    lowest = -np.inf if fmt.is_float else -(2**65)
    filled = np.where(absent, lowest, keys)
    best = filled.max(-1)
    winners = (filled == best[:, None]).astype(bool) & ~absent
    index = np.argmax(winners, -1)
    nothing = ~winners.any(-1)
    value = np.take_along_axis(rows, index[:, None], -1)[:, 0]
    if fmt.is_float:
        value = np.where(nothing, rows.dtype.type(np.nan), value)
        value = value.astype(np.float64)
        value = value.astype((fmt if fmt.bits >= 32 else FORMATS["f32"]).dtype)
    else:
        value = value.astype(widened(fmt, unsigned_stays=False).dtype)
    ties = (winners.sum(-1) > 1) & (not params.get("tie_break_left", True))
    values = {"out": value.reshape(shape)}
    indices = {"out": index.astype(np.int32).reshape(shape), "out.unspecified": (nothing | ties).reshape(shape)}
    return values, indices


@oracle(inputs="x mask?", params="axis? keep_dims?")
def max_(inputs: Inputs, params: Params) -> Refs:
    """Greatest element; NaN only if all are NaN. 16-bit floats give f32, integers below 32 bits i32."""
    return _extreme(inputs, params, 1)[0]


@oracle(inputs="x mask?", params="axis? keep_dims?")
def min_(inputs: Inputs, params: Params) -> Refs:
    """Smallest element; types and NaN as for max."""
    return _extreme(inputs, params, -1)[0]


@oracle(inputs="x mask?", params="axis? keep_dims? tie_break_left?")
def argmax(inputs: Inputs, params: Params) -> Refs:
    """i32 index of the greatest element, leftmost of equals; NaN is skipped, unspecified if nothing else is there.

    With tie_break_left false the index is unspecified where several elements are greatest.
    """
    return _extreme(inputs, params, 1)[1]


@oracle(inputs="x mask?", params="axis? keep_dims? tie_break_left?")
def argmin(inputs: Inputs, params: Params) -> Refs:
    """i32 index of the smallest element; see argmax."""
    return _extreme(inputs, params, -1)[1]


def _bits(inputs: Inputs, params: Params, function: Any, identity: int) -> Refs:
    x = inputs["x"]
    if format_of(x).is_float:
        raise OracleError(f"a bitwise reduction of {format_of(x).name}: expected integers or bool")
    rows, shape = _rows(_masked(inputs, identity), params)
    return {"out": function.reduce(rows, axis=-1).reshape(shape)}


@oracle(inputs="x mask?", params="axis? keep_dims?")
def xor_sum(inputs: Inputs, params: Params) -> Refs:
    """Exclusive or of the elements, in their type."""
    return _bits(inputs, params, np.bitwise_xor, 0)


@oracle(inputs="x mask?", params="axis? keep_dims?")
def reduce_or(inputs: Inputs, params: Params) -> Refs:
    """Bitwise or of the elements, in their type."""
    return _bits(inputs, params, np.bitwise_or, 0)


@oracle(inputs="x mask?", params="axis? keep_dims?")
def reduce_and(inputs: Inputs, params: Params) -> Refs:
    """Bitwise and of the elements, in their type."""
    return _bits(inputs, params, np.bitwise_and, -1)


@oracle(inputs="x low", params="slack least")
def beyond(inputs: Inputs, params: Params) -> Refs:
    """Rows of x [R, C] whose extremum (the largest; the smallest if `least`) lies more than `slack` beyond low [R].

    `out` is that extremum there, low elsewhere; `more` is low * 3 (out - low) there, low elsewhere, plus out; `scaled`
    is x * 3 (out - low) in these rows, x elsewhere. `beyond` says which rows they are. Small whole numbers only.
    """
    x, low = inputs["x"], inputs["low"]
    sign = -1 if params["least"] else 1
    extremum = sign * (sign * x).max(axis=1)
    there = sign * (extremum - low) > params["slack"]
    out = np.where(there, extremum, low)
    factor = (out - low) * 3
    return {
        "out": out,
        "more": np.where(there, low * factor, low) + out,
        "scaled": np.where(there[:, None], x * factor[:, None], x),
        "extremum": extremum,
        "beyond": there.astype(np.int32),
    }
