"""What the scalar functions mean, in NumPy: two's complement wrap, C division, single-rounding fma, PTX conversions.

Every function takes arrays of one dtype and returns an array of the result dtype; none raises or warns, callers hold
``np.errstate(all="ignore")``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from refcompiler.ir.types import DType

add, sub, mul = np.add, np.subtract, np.multiply


def _is_float(x: np.ndarray) -> bool:
    return not np.issubdtype(x.dtype, np.integer) and x.dtype != np.bool_


def div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Floats: IEEE division. Integers: toward zero; INT_MIN / -1 wraps, x / 0 gives 0 (the value is unpredictable)."""
    if _is_float(x):
        return np.divide(x, y)
    quotient = np.floor_divide(x, y)  # NumPy gives 0 for x // 0 and INT_MIN for INT_MIN // -1
    if np.issubdtype(x.dtype, np.signedinteger):
        inexact = quotient * y != x
        quotient = np.where(inexact & ((x < 0) != (y < 0)) & (y != 0), quotient + x.dtype.type(1), quotient)
    return quotient.astype(x.dtype, copy=False)


def rem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """C remainder: x - trunc(x / y) * y; the sign of x. Integers: x % 0 gives 0, INT_MIN % -1 is 0."""
    return np.fmod(x, y)


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z with one rounding, for f16, bf16 and f32 through f64 rounded to odd, for f64 by double-double."""
    if x.dtype == np.float64:
        return _fma_f64(x, y, z)
    product = x.astype(np.float64) * y.astype(np.float64)  # exact: twice 24 bits fit in 53
    total = product + z
    return _to_odd(total, _sum_error(product, z.astype(np.float64), total)).astype(x.dtype)


def _sum_error(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The exact rounding error of ``total = a + b`` (Knuth's two-sum)."""
    virtual = total - a
    return (a - (total - virtual)) + (b - virtual)


def _to_odd(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """``value`` with its last bit made odd where it was rounded by ``error``: a second rounding is then exact."""
    bits = np.ascontiguousarray(value).view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    toward_zero = (error > 0) != (value > 0)
    # rounded away from the exact sum: step back by one unit, which is odd; else set the last bit
    return np.where(inexact, np.where(toward_zero, bits - 1, bits + 1), bits).view(np.float64)


def _fma_f64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    import math

    if hasattr(math, "fma"):
        one = math.fma
    else:
        from fractions import Fraction

        def one(a: float, b: float, c: float) -> float:
            if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
                return a * b + c
            exact = Fraction(a) * Fraction(b) + Fraction(c)
            if exact == 0:
                return a * b + c  # the sign of zero follows the rounded operations
            try:
                return float(exact)
            except OverflowError:
                return math.inf if exact > 0 else -math.inf

    shape = np.broadcast_shapes(x.shape, y.shape, z.shape)
    flat = (np.broadcast_to(a, shape).ravel() for a in (x, y, z))
    return np.fromiter((one(*map(float, t)) for t in zip(*flat, strict=True)), np.float64).reshape(shape)


def _bits(dtype: np.dtype) -> int:
    return dtype.itemsize * 8


def shl(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x << y; 0 where y, read as unsigned, is not below the width."""
    unsigned = y.astype(f"u{y.dtype.itemsize}", copy=False)
    inside = unsigned < _bits(x.dtype)
    return np.where(inside, np.left_shift(x, np.where(inside, y, 0)), 0).astype(x.dtype, copy=False)


def shr(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x >> y; where y, read as unsigned, is not below the width: 0, or all sign bits for signed x."""
    unsigned = y.astype(f"u{y.dtype.itemsize}", copy=False)
    width = _bits(x.dtype)
    if np.issubdtype(x.dtype, np.signedinteger):
        return np.right_shift(x, np.minimum(unsigned, width - 1).astype(x.dtype, copy=False))
    inside = unsigned < width
    return np.where(inside, np.right_shift(x, np.where(inside, y, 0)), 0).astype(x.dtype, copy=False)


def umulhi(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The high half of the product of both operands read as unsigned."""
    width = _bits(x.dtype)
    unsigned = f"u{x.dtype.itemsize}"
    a, b = x.astype(unsigned, copy=False), y.astype(unsigned, copy=False)
    if width == 32:
        return ((a.astype(np.uint64) * b) >> np.uint64(32)).astype(np.uint32).astype(x.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    carry = a0 * b1 + (middle & low)
    return (a1 * b1 + (middle >> half) + (carry >> half)).astype(x.dtype)


def absolute(x: np.ndarray) -> np.ndarray:
    """|x|; clears the sign bit of floats, the least integer stays."""
    return np.abs(x) if x.dtype.kind != "u" else x


def maximum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger operand; the other one where one is NaN."""
    return np.fmax(x, y)


def minimum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller operand; the other one where one is NaN."""
    return np.fmin(x, y)


def through_f64(function: Callable) -> Callable:
    """``function`` computed in f64 and rounded: NumPy's own f32 version errs by some ULP that depend on the CPU."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        return function(x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)

    evaluate.__name__ = function.__name__
    return evaluate


@through_f64
def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)


@through_f64
def erf(x: np.ndarray) -> np.ndarray:
    """The error function, by the C library element by element."""
    import math

    return np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def cast(x: np.ndarray, source: DType, target: DType) -> np.ndarray:
    """Numeric conversion: integers wrap; float to integer goes toward zero, saturates, takes NaN to 0 (PTX cvt.rzi)."""
    if target.is_bool:
        return x != 0
    if source.is_float and target.is_int:
        return _float_to_int(x, target)
    if source.is_float and target.is_float and source.bits > 32 and target.bits < 32:
        return _f64_to_16(x, target)
    return x.astype(target.numpy, copy=False)


def _float_to_int(x: np.ndarray, target: DType) -> np.ndarray:
    wide = np.trunc(x.astype(np.float64, copy=False))
    low, high = float(target.min_int), float(target.max_int)  # float(2**63 - 1) is 2**63
    inside = (wide >= low) & (wide < high if target.bits == 64 else wide <= high)
    out = np.where(inside, wide, 0).astype(target.numpy)
    out = np.where(wide > low, np.where(inside, out, target.max_int), out).astype(target.numpy)
    out = np.where(wide < low, np.array(target.min_int, target.numpy), out)
    return np.where(np.isnan(wide), np.array(0, target.numpy), out)


def _f64_to_16(x: np.ndarray, target: DType) -> np.ndarray:
    """f64 to a 16-bit float with one rounding: through f32 rounded to odd."""
    single = x.astype(np.float32)
    bits = single.view(np.int32)
    back = single.astype(np.float64)
    away = np.abs(back) > np.abs(x)
    inexact = (back != x) & np.isfinite(single) & (bits & 1 == 0)
    return (
        np.where(inexact, np.where(away, bits - 1, bits + 1), bits)
        .astype(np.int32)
        .view(np.float32)
        .astype(target.numpy)
    )
