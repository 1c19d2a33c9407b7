"""Functions of the language that are written in the language."""

from __future__ import annotations

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin, composite
from refcompiler.frontend.context import describe, here
from refcompiler.frontend.language.arguments import static_int, static_shape
from refcompiler.frontend.language.control import range
from refcompiler.frontend.language.math import exp, fdiv, where
from refcompiler.frontend.language.program import arange, zeros
from refcompiler.frontend.language.reduction import max, sum
from refcompiler.frontend.types import constexpr, int32
from refcompiler.ir import Value
from refcompiler.ir.types import BOOL, element_of, shape_of


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


@builtin(member=True)
def histogram(input, num_bins, mask=None):
    """How often each of 0 to `num_bins` - 1 occurs in `input` where `mask` is true, int32; other values do not count.

    Spec: reduce.histogram
    """
    c = here()
    rank = len(shape_of(input.type)) if isinstance(input, Value) else 0
    if rank != 1 or semantics.is_pointer(input) or not semantics.dtype_of(input).is_int:
        message = f"histogram takes a rank-1 block of integers, found {describe(input)}"
        raise c.error("reduce.histogram#E1", message, "input")
    if mask is not None and not (isinstance(mask, Value) and element_of(mask.type) is BOOL):
        raise c.error("reduce.histogram#E2", f"mask must be bool, found {describe(mask)}", "mask")
    (bins,) = static_shape(c, static_int(c, num_bins, "num_bins"), "num_bins")
    return c.inline(_counts, [input, bins, mask], "input")


@composite
def _counts(values, num_bins, mask):
    bins = arange(0, num_bins)
    counts = zeros([num_bins], int32)
    for bin in range(num_bins):
        hit = values == bin
        if mask is not None:
            hit = hit & mask
        counts = where(bins == bin, sum(hit.to(int32), 0), counts)
    return counts
