"""Functions of the language that are written in the language."""

from __future__ import annotations

from refcompiler.frontend.builtin import composite
from refcompiler.frontend.language.math import exp, fdiv
from refcompiler.frontend.language.reduction import max, sum
from refcompiler.frontend.types import constexpr


@composite(member=True)
def cdiv(x, div):
    """x divided by `div` and rounded up, for non-negative x: (x + (div - 1)) // div. Spec: arith.division"""
    return (x + (div - 1)) // div


@composite(member=True)
def sigmoid(x):
    """1 / (1 + exp(-x)); float32 and float64. Spec: math.sigmoid"""
    return 1 / (1 + exp(-x))


@composite(member=True)
def softmax(x, dim=None, keep_dims=False, ieee_rounding=False):
    """The numerically stable softmax along `dim` (the first axis without it), of the shape of x; `keep_dims` is
    accepted and changes nothing. Spec: math.softmax"""
    axis: constexpr = 0 if dim is None else dim  # type: ignore[assignment]
    shifted = x - max(x, axis, keep_dims=True)
    numerator = exp(shifted)
    denominator = sum(numerator, axis, keep_dims=True)
    return fdiv(numerator, denominator, ieee_rounding)
