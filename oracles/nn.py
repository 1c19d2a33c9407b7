"""Activations and softmax: real values, or enclosures when called with a namespace of bounded numbers.

Each is one formula over the namespace `xp`. Where a kernel may evaluate another formula of the same
function, the enclosure is that of the formula here; its ULP rows say how much the functions in it may err.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oracles.reals import REALS
from oracles.registry import OracleError, Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


def _elementwise(inputs: Inputs, xp: Any, function: Callable[[Any, Any], Any]) -> Refs:
    xp = REALS if xp is None else xp
    return {"out": function(xp, xp.asarray(inputs["x"]))}


@oracle(inputs="x", bounded=True)
def relu(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """max(x, 0); NaN gives 0, as maximum skips NaN."""
    return _elementwise(inputs, xp, lambda xp, x: xp.fmax(x, 0.0))


@oracle(inputs="x", params="slope?", bounded=True)
def leaky_relu(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """x where x > 0, else slope x; slope is 0.01 if left out, NaN stays NaN."""
    slope = float(params.get("slope", 0.01))
    return _elementwise(inputs, xp, lambda xp, x: xp.where(x > 0, x, x * slope))


def _sigmoid(xp: Any, x: Any) -> Any:
    return 1.0 / (1.0 + xp.exp(-x))


@oracle(inputs="x", bounded=True)
def sigmoid(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """1 / (1 + e^-x)."""
    return _elementwise(inputs, xp, _sigmoid)


@oracle(inputs="x", bounded=True)
def silu(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """x sigmoid(x)."""
    return _elementwise(inputs, xp, lambda xp, x: x * _sigmoid(xp, x))


@oracle(inputs="x", params="approximate?", bounded=True)
def gelu(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """x (1 + erf(x / sqrt 2)) / 2; with approximate "tanh": x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.

    The tanh form is computed as x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is the same function.
    """
    mode = params.get("approximate", "none")
    if mode not in ("none", "tanh"):
        raise OracleError(f"approximate {mode!r}; expected none or tanh")

    def exact(xp: Any, x: Any) -> Any:
        return 0.5 * x * (1.0 + xp.erf(x * math.sqrt(0.5)))

    def approximate(xp: Any, x: Any) -> Any:
        return x * _sigmoid(xp, (x + 0.044715 * (x * x * x)) * (2 * math.sqrt(2 / math.pi)))

    return _elementwise(inputs, xp, exact if mode == "none" else approximate)


@oracle(inputs="x", params="axis?", bounded=True)
def softmax(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """e^(x - max x) / sum e^(x - max x) along `axis` (the last if left out). A NaN, or a row of -inf, gives NaN."""
    axis = int(params.get("axis", -1))
    reals = xp is None
    xp = REALS if reals else xp
    x = xp.asarray(inputs["x"])
    e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    total = xp.sum(e, axis=axis, keepdims=True)
    refs = {"out": e / total}
    if reals:
        # without the second largest term of the sum (the largest is 1 and rarely the one that is lost)
        second = np.sort(e, axis=axis).take([max(e.shape[axis] - 2, 0)], axis=axis)
        refs["out.dropped"] = e / (total - second)
    return refs


@oracle(inputs="x", params="axis?", bounded=True)
def log_softmax(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """(x - max x) - log sum e^(x - max x) along `axis` (the last if left out)."""
    axis = int(params.get("axis", -1))
    xp = REALS if xp is None else xp
    x = xp.asarray(inputs["x"])
    shifted = x - xp.max(x, axis=axis, keepdims=True)
    return {"out": shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))}


def _activation(name: str) -> Callable[[Any, Any], Any]:
    formulas: dict[str, Callable[[Any, Any], Any]] = {
        "none": lambda xp, x: x,
        "relu": lambda xp, x: xp.where(x < 0.0, 0.0, x),
        "gelu": lambda xp, x: 0.5 * x * (1.0 + xp.erf(x * math.sqrt(0.5))),
        "silu": lambda xp, x: x / (1.0 + xp.exp(-x)),
    }
    if name not in formulas:
        raise OracleError(f"activation {name!r}; expected one of {', '.join(formulas)}")
    return formulas[name]


@oracle(inputs="a b bias?", params="activation?", bounded=True)
def linear(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """activation(a b + bias), a [..., M, K], b [..., K, N], bias [N]; none (the default), relu, gelu or silu.

    NaN stays NaN in each of them. gelu is the one of erf.
    """
    a, b, bias = inputs["a"], inputs["b"], inputs.get("bias")
    activation = _activation(str(params.get("activation", "none")))
    reals = xp is None
    xp = REALS if reals else xp

    def result(x: Any) -> Any:
        return activation(xp, x if bias is None else x + xp.asarray(bias))

    product = xp.matmul(xp.asarray(a), xp.asarray(b))
    refs = {"out": result(product)}
    if reals and a.shape[-1]:
        lost = np.argmax(np.abs(REALS.asarray(a)).max(axis=tuple(range(a.ndim - 1)), initial=0))
        term = REALS.asarray(a)[..., lost, None] * REALS.asarray(b)[..., None, lost, :]
        refs["out.dropped"] = result(product - term)
    return refs
