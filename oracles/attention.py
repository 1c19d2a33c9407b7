"""Attention: softmax(q k^T) v over the visible keys, real or enclosed, with the logarithm of the softmax's sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.formats import format_of
from oracles.reals import REALS
from oracles.registry import OracleError, Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]

LOG2_E = math.log2(math.e)


def visible(queries: int, keys: int, causal: bool, place: np.ndarray | None = None) -> np.ndarray:
    """Which keys each query sees, [queries, keys]. The last query stands at the last key; causal: up to its own.
    ``place`` is the key that each query stands at instead.

    >>> visible(2, 3, True).astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    place = np.arange(queries) + (keys - queries) if place is None else np.asarray(place)
    place = place[:, None]
    return (np.arange(keys)[None, :] <= place) | (not causal)


@oracle(inputs="q k v", params="softmax_scale? causal? place?", outputs="out lse", bounded=True)
def attention(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """out = softmax(scale q k^T) v, lse = ln sum e^(scale q k^T), over the keys that each query sees.

    q [..., Hq, Tq, D], k and v [..., Hk, Tk, D]; head h of q attends to head h // (Hq / Hk) of k and v. The scale is
    1 / sqrt D if left out; `place` is the key that each query stands at, if not the last at the last. A query that
    sees no key gives 0 and -inf. Probabilities are stored in the dtype of v.
    """
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    if q.ndim != k.ndim or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1] or q.shape[-3] % k.shape[-3]:
        raise OracleError(f"attention of shapes {q.shape}, {k.shape}, {v.shape}")
    heads = np.arange(q.shape[-3]) // (q.shape[-3] // k.shape[-3])
    k, v = k[..., heads, :, :], v[..., heads, :, :]
    seen = visible(q.shape[-2], k.shape[-2], bool(params.get("causal")), params.get("place"))
    mask = np.broadcast_to(seen, (*q.shape[:-1], k.shape[-2]))
    if not k.shape[-2]:
        return {"out": np.zeros((*q.shape[:-1], v.shape[-1])), "lse": np.full(q.shape[:-1], -np.inf)}
    scale = float(params.get("softmax_scale", q.shape[-1] ** -0.5))
    reals = xp is None
    xp = REALS if reals else xp
    out, lse, shares = _online(xp, q, k, v, mask, scale)
    refs = {"out": out, "lse": lse}
    if reals and k.shape[-2] > 1:
        # without the second largest share (the largest is the maximum's, and rarely the one that is lost)
        second = np.argsort(shares, axis=-1)[..., -2:-1]
        share = np.take_along_axis(shares, second, -1)
        refs["out.dropped"] = (out - share * np.take_along_axis(xp.asarray(v), second, -2)) / (1.0 - share)
        refs["lse.dropped"] = lse + np.log1p(-share[..., 0])
    return refs


def _online(xp: Any, q: Any, k: Any, v: Any, mask: np.ndarray, scale: float) -> tuple[Any, Any, Any]:
    """out, lse and the shares of the keys, by powers of two as kernels compute them."""
    scores = xp.where(mask, xp.matmul(xp.asarray(q), xp.swapaxes(xp.asarray(k), -1, -2)), -np.inf)
    largest = xp.max(scores, axis=-1, keepdims=True)
    shift = xp.where(mask.any(-1, keepdims=True), largest, 0.0) * (scale * LOG2_E)
    e = xp.exp2(scores * (scale * LOG2_E) - shift)
    total = xp.sum(e, axis=-1, keepdims=True)
    some = xp.where(mask.any(-1, keepdims=True), total, 1.0)
    out = xp.matmul(xp.scaled_cast(e, format_of(v)), xp.asarray(v)) / some
    lse = (shift + xp.log2(total)) * math.log(2.0)
    return out, lse[..., 0], e / some
