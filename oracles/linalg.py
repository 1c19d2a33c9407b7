"""Matrix products in fp64, with the absolute terms of the dot bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.formats import format_of
from oracles.reals import REALS
from oracles.reduction import exact_sum, without_largest
from oracles.registry import OracleError, Refs, oracle
from oracles.twos_complement import wrap

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


@oracle(inputs="a b addend?", bounded=True)
def matmul(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """a @ b (+ addend), a [..., M, K], b [..., K, N]. Integers wrap at 32 or 64 bits; floats give the real sum."""
    a, b, c = inputs["a"], inputs["b"], inputs.get("addend")
    if a.ndim < 2 or a.ndim != b.ndim or a.shape[-1] != b.shape[-2]:
        raise OracleError(f"matmul of shapes {a.shape} and {b.shape}")
    if xp is not None:
        product = xp.matmul(xp.asarray(a), xp.asarray(b))
        return {"out": product if c is None else product + xp.asarray(c)}
    if not format_of(a).is_float:
        product = np.matmul(a.astype(object), b.astype(object))
        wide = max(format_of(a).bits, format_of(b).bits) > 32
        return {"out": wrap(product if c is None else product + c.astype(object), "i64" if wide else "i32")}
    wide_a, wide_b = REALS.asarray(a), REALS.asarray(b)
    if "f64" in (format_of(a).name, format_of(b).name):
        return _matmul_f64(wide_a, wide_b, c)
    out, terms = np.matmul(wide_a, wide_b), np.matmul(np.abs(wide_a), np.abs(wide_b))
    lost = np.argmax(np.abs(wide_a).max(axis=tuple(range(a.ndim - 1)), initial=0)) if a.shape[-1] else None
    refs = {"out": out, "out.abs_terms": terms}
    if lost is not None:
        refs["out.dropped"] = out - wide_a[..., lost, None] * wide_b[..., None, lost, :]
    if c is not None:
        wide_c = REALS.asarray(c)
        refs = {k: v + (np.abs(wide_c) if k == "out.abs_terms" else wide_c) for k, v in refs.items()}
    return refs


@oracle(inputs="x")
def tf32_parts(inputs: Inputs, params: Params) -> Refs:
    """Each row of f32 `x` in three: its numbers to 11 significant bits, ties away from zero, what these lack, to 11
    bits again, and the first once more; the second one first if `fine_first`. Zeros fill each to `padded` columns."""
    x = REALS.asarray(inputs["x"])
    finite = np.isfinite(x)
    coarse = np.where(finite, _significant(x, 11), x)
    fine = np.where(finite, _significant(np.subtract(x, coarse, out=np.zeros_like(x), where=finite), 11), 0)
    first = [fine, coarse] if params["fine_first"] else [coarse, fine]
    parts = np.stack([*first, coarse], axis=1)
    return {"out": np.pad(parts, ((0, 0), (0, 0), (0, int(params["padded"]) - x.shape[1])))}


def _significant(x: np.ndarray, bits: int) -> np.ndarray:
    """x rounded to so many significant bits, ties away from zero."""
    fraction, exponent = np.frexp(np.abs(x))
    return np.copysign(np.ldexp(np.floor(np.ldexp(fraction, bits) + 0.5), exponent - bits), x)


@oracle(inputs="x y z")
def scores(inputs: Inputs, params: Params) -> Refs:
    """s = 2 (x @ y) + z for each row, of small integers: `top` the maxima of its rows, `total` the sums of its columns,
    `out` each element less the maximum of its row."""
    s = 2 * (REALS.asarray(inputs["x"]) @ REALS.asarray(inputs["y"])) + REALS.asarray(inputs["z"])
    top = s.max(axis=1)
    return {"out": s - top[:, None], "top": top, "total": s.sum(axis=0)}


def _matmul_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Refs:
    """fp64 operands: each product split without error, all parts summed exactly."""
    x, y = np.broadcast_arrays(a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
    product, rest = _two_product(x, y)
    shape = product.shape[:-1]
    parts = [product, rest] if c is None else [product, rest, np.broadcast_to(REALS.asarray(c), shape)[..., None]]
    rows = np.concatenate(parts, -1).reshape(-1, sum(p.shape[-1] for p in parts))
    total, tail = exact_sum(rows)
    refs = {
        "out": total,
        "out.tail": tail,
        "out.abs_terms": np.abs(rows).sum(-1),
        "out.dropped": without_largest(rows, total),
    }
    return {key: part.reshape(shape) for key, part in refs.items()}


def _two_product(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x y as a rounded product and its error (Dekker); the error is 0 where the split would overflow."""

    def split(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scaled = v * 134217729.0  # 2^27 + 1
        high = scaled - (scaled - v)
        return high, v - high

    product = x * y
    (xh, xl), (yh, yl) = split(x), split(y)
    rest = xl * yl - (((product - xh * yh) - xl * yh) - xh * yl)
    return product, np.where(np.isfinite(rest), rest, 0.0)
