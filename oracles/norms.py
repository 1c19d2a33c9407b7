"""Normalisations of rows: real values, or enclosures when called with a namespace of bounded numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.reals import REALS
from oracles.registry import Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


@oracle(inputs="x weight? bias?", params="epsilon?", bounded=True)
def layer_norm(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """(x - mean) / sqrt(mean (x - mean)^2 + epsilon) weight + bias along the last axis; epsilon is 1e-5 if left out."""
    xp = REALS if xp is None else xp
    x = xp.asarray(inputs["x"])
    distance = x - xp.mean(x, axis=-1, keepdims=True)
    spread = xp.mean(xp.square(distance), axis=-1, keepdims=True)
    return {"out": _scaled(inputs, xp, distance * xp.rsqrt(spread + float(params.get("epsilon", 1e-5))))}


@oracle(inputs="x weight?", params="epsilon?", bounded=True)
def rms_norm(inputs: Inputs, params: Params, xp: Any = None) -> Refs:
    """x / sqrt(mean x^2 + epsilon) weight along the last axis; epsilon is 1e-6 if left out."""
    xp = REALS if xp is None else xp
    x = xp.asarray(inputs["x"])
    squares = xp.mean(xp.square(x), axis=-1, keepdims=True)
    return {"out": _scaled(inputs, xp, x * xp.rsqrt(squares + float(params.get("epsilon", 1e-6))))}


def _scaled(inputs: Inputs, xp: Any, normal: Any) -> Any:
    """normal weight + bias, each where it is given."""
    if "weight" in inputs:
        normal = normal * xp.asarray(inputs["weight"])
    return normal + xp.asarray(inputs["bias"]) if "bias" in inputs else normal
