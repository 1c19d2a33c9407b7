"""Scans along one axis: running sums and products, other running combinations, one element after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oracles.formats import format_of
from oracles.reals import REALS
from oracles.reduction import widened
from oracles.registry import OracleError, Refs, oracle
from oracles.twos_complement import wrap

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


def _steps(x: np.ndarray, params: Params) -> np.ndarray:
    """x with the scanned elements along a leading axis, in the order in which they are met."""
    axis = params.get("axis", 0)
    if not -x.ndim <= axis < x.ndim:
        raise OracleError(f"axis {axis} of a block of rank {x.ndim}")
    moved = np.moveaxis(x, axis, 0)
    return moved[::-1] if params.get("reverse", False) else moved


def _placed(results: np.ndarray, params: Params) -> np.ndarray:
    """The inverse of `_steps`."""
    ordered = results[::-1] if params.get("reverse", False) else results
    return np.moveaxis(ordered, 0, params.get("axis", 0))


def _integers(steps: np.ndarray, function: Callable[[Any, Any], Any], fmt: Any) -> np.ndarray:
    """Running combinations of Python integers, wrapped at the end."""
    running = [steps[0].astype(object)]
    for step in steps[1:]:
        running.append(function(running[-1], step.astype(object)))
    return np.stack([wrap(r, fmt) for r in running])


@oracle(inputs="x", params="axis? reverse?")
def cumsum(inputs: Inputs, params: Params) -> Refs:
    """Running sum. Integers: exact, wrapped at the widened type. Floats: the real sums, abs_terms, and sums that lack
    the first term."""
    x = inputs["x"]
    steps = _steps(x, params)
    if not format_of(x).is_float:
        fmt = widened(x)
        total = _integers(steps, lambda a, b: a + b, fmt)
        return {"out": _placed(total, params)}
    wide = REALS.asarray(steps)
    high, low = wide[0], np.zeros_like(wide[0])
    sums, tails = [high], [low]
    for step in wide[1:]:  # the sum as a pair of fp64: `low` collects what each addition rounds away
        total, lost = _two_sum(high, step)
        high, low = total, np.where(np.isfinite(total), low + lost, 0.0)
        rounded, tail = _two_sum(high, low)
        sums.append(np.where(low == 0, high, rounded))
        tails.append(np.where(low == 0, 0.0, tail))
    out = np.stack(sums)
    parts = {"out": out, "out.tail": np.stack(tails), "out.abs_terms": np.cumsum(np.abs(wide), 0)}
    parts["out.dropped"] = out - wide[:1]
    return {key: _placed(part, params) for key, part in parts.items()}


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum, and exactly what the rounding took away."""
    total = a + b
    taken = total - a
    return total, (a - (total - taken)) + (b - taken)


@oracle(inputs="x", params="axis? reverse?")
def cumprod(inputs: Inputs, params: Params) -> Refs:
    """Running product. Integers: wrapped at the widened type. Floats: the real products; abs_terms is their magnitude,
    since n factors in any order err by at most gamma(n - 1) of it while nothing over- or underflows."""
    x = inputs["x"]
    steps = _steps(x, params)
    if not format_of(x).is_float:
        return {"out": _placed(_integers(steps, lambda a, b: a * b, widened(x)), params)}
    out = np.cumprod(REALS.asarray(steps), 0)
    return {"out": _placed(out, params), "out.abs_terms": _placed(np.abs(out), params)}


@oracle(inputs="x", params="axis? reverse?")
def cumsum_by_halving(inputs: Inputs, params: Params) -> Refs:
    """Running sum of floats in their own format, every bit: the first 2^k elements and the others are summed apart, k
    as large as possible, and each result of those that are met second is the last of the first plus itself."""
    x = inputs["x"]
    axis, reverse = params.get("axis", 0), bool(params.get("reverse", False))

    def scanned(part: np.ndarray) -> np.ndarray:
        if len(part) == 1:
            return part
        half = 1 << (len(part) - 1).bit_length() - 1
        low, high = scanned(part[:half]), scanned(part[half:])
        if reverse:
            return np.concatenate([(high[0] + low).astype(part.dtype), high])
        return np.concatenate([low, (low[-1] + high).astype(part.dtype)])

    return {"out": np.moveaxis(scanned(np.moveaxis(x, axis, 0)), 0, axis)}


def _running(inputs: Inputs, params: Params, function: Callable[[Any, Any], Any]) -> Refs:
    """A running combination, one element after the other."""
    steps = _steps(inputs["x"], params)
    results = [steps[0]]
    for step in steps[1:]:
        results.append(function(results[-1], step))
    return {"out": _placed(np.stack(results), params)}


@oracle(inputs="x", params="axis? reverse?")
def cummax(inputs: Inputs, params: Params) -> Refs:
    """Running maximum; NaN is skipped."""
    return _running(inputs, params, np.fmax if format_of(inputs["x"]).is_float else np.maximum)


@oracle(inputs="x", params="axis? reverse?")
def last_not_zero(inputs: Inputs, params: Params) -> Refs:
    """Each zero replaced by the nearest element before it that is none: a combination that does not commute."""
    return _running(inputs, params, lambda left, right: np.where(right != 0, right, left))


@oracle(inputs="a b", params="axis? reverse?", outputs="a b")
def recurrence(inputs: Inputs, params: Params) -> Refs:
    """The linear recurrence h = a[i] * h + b[i] from h = 0, and the products of a; integers wrap at their type."""
    fmt = format_of(inputs["a"])
    factors, terms = _steps(inputs["a"], params), _steps(inputs["b"], params)
    product, state = factors[0].astype(object), terms[0].astype(object)
    products, states = [product], [state]
    for factor, term in zip(factors[1:].astype(object), terms[1:].astype(object), strict=True):
        product, state = product * factor, state * factor + term
        products.append(product)
        states.append(state)
    return {
        "a": _placed(np.stack([wrap(p, fmt) for p in products]), params),
        "b": _placed(np.stack([wrap(s, fmt) for s in states]), params),
    }
