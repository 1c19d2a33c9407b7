"""What the scalar functions mean, in NumPy: two's complement wrap, C division, single-rounding fma, PTX conversions.

Every function takes arrays of one dtype that broadcast and returns an array of the result dtype. None raises or warns;
callers hold ``np.errstate(all="ignore")``. NumPy does arithmetic of f16 and bf16 in f32 and rounds again; for sums,
products and quotients that gives what one rounding gives (24 >= 2p + 2 bits, and no tie of a subnormal comes near).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np

from refcompiler.ir.types import BF16, FLOATS8, DType

# Significant bits of each float format, the hidden one included.
_LARGEST8 = {np.dtype(ml_dtypes.float8_e4m3fn): 448.0, np.dtype(ml_dtypes.float8_e5m2): 57344.0}
PRECISION = {np.dtype(np.float16): 11, np.dtype(ml_dtypes.bfloat16): 8, np.dtype(np.float32): 24}

add, sub, mul = np.add, np.subtract, np.multiply


def _is_float(x: np.ndarray) -> bool:
    return x.dtype == np.float64 or x.dtype in PRECISION


def div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Floats: IEEE division. Integers: toward zero; INT_MIN / -1 wraps, x / 0 gives 0 (the value is unpredictable)."""
    if _is_float(x):
        return np.divide(x, y)
    quotient = np.floor_divide(x, y)  # NumPy gives 0 for x // 0 and INT_MIN for INT_MIN // -1
    if x.dtype.kind == "u" or (x.min(initial=0) >= 0 and y.min(initial=0) >= 0):
        return quotient
    rounded_down = ((x < 0) != (y < 0)) & (y != 0) & (quotient * y != x)
    return quotient + rounded_down.astype(x.dtype)


def rem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """C remainder: x - trunc(x / y) * y; the sign of x. Integers: x % 0 gives 0, INT_MIN % -1 is 0."""
    return np.fmod(x, y)


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """x * y + z with one rounding."""
    if x.dtype == np.float64:
        return _fma_f64(x, y, z)
    product, z = np.asarray(x.astype(np.float64) * y.astype(np.float64)), z.astype(np.float64)  # the product is exact
    total = np.asarray(product + z)
    result = np.asarray(_narrow(total, x.dtype))
    # Rounding twice matters only where f64 rounded onto the middle between two numbers of the result's format: there,
    # and at numbers of the format, so many low bits are zero. Those inexact sums are rounded to odd first.
    low_bits = (1 << (52 - PRECISION[x.dtype])) - 1
    suspects = np.flatnonzero((total.view(np.int64) & low_bits) == 0)
    if suspects.size:
        a, b = (np.broadcast_to(v, total.shape).reshape(-1)[suspects] for v in (product, z))
        error = _sum_error(a, b, total.reshape(-1)[suspects])
        inexact = np.flatnonzero(error)
        lanes = suspects[inexact]
        result = np.array(result, order="C")
        result.reshape(-1)[lanes] = _narrow(_to_odd(total.reshape(-1)[lanes], error[inexact]), x.dtype)
    return result


def _sum_error(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The exact rounding error of ``total = a + b`` (Knuth's two-sum)."""
    virtual = total - a
    return (a - (total - virtual)) + (b - virtual)


def _to_odd(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """f64 or f32 ``value`` with its last bit made odd where the exact number is ``value + error`` and differs from it.

    What was rounded to odd so can be rounded again, to at least two bits less, as if it had been exact.
    """
    integer = np.int64 if value.dtype == np.float64 else np.int32
    bits: np.ndarray = value.view(integer)
    inexact = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    away = (error > 0) == np.signbit(value)
    # rounded away from the exact number: step back by one unit, which is odd; else set the last bit
    return (bits + np.where(inexact, np.where(away, -1, 1), 0).astype(integer)).view(value.dtype)


def _narrow(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """f64 rounded once to a narrower format; ml_dtypes would round to bf16 through f32."""
    if dtype != BF16.numpy:
        return x.astype(dtype)
    single = x.astype(np.float32)
    return _to_odd(single, np.where(np.isfinite(single), x - single, 0)).astype(dtype)


_SPLITTER = 134217729.0  # 2**27 + 1


def _product_error(x: np.ndarray, y: np.ndarray, product: np.ndarray) -> np.ndarray:
    """The exact rounding error of ``product = x * y`` (Dekker), where nothing in it over- or underflows."""
    halves = []
    for factor in (x, y):
        scaled = factor * _SPLITTER
        high = scaled - (scaled - factor)
        halves.append((high, factor - high))
    (x1, x0), (y1, y0) = halves
    return x0 * y0 - (((product - x1 * y1) - x0 * y1) - x1 * y0)


def _fma_f64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Boldo and Melquiond's sum of an exact product and a number through rounding to odd; Fractions near the limits."""
    x, y, z = np.broadcast_arrays(x, y, z)
    product = np.asarray(x * y)
    error = _product_error(x, y, product)
    high = z + error
    low = _sum_error(z, error, high)
    total = product + high
    rest = _sum_error(product, high, total)
    tail = np.asarray(low + rest)
    result = total + _to_odd(tail, _sum_error(low, rest, tail))
    simple = ~(np.isfinite(x) & np.isfinite(y) & np.isfinite(z)) | (x == 0) | (y == 0)
    result = np.array(np.where(simple, product + z, result), order="C")  # where simple, nothing is rounded twice
    # An infinite z decides: x * y is finite, also where its rounded value would not be.
    result = np.where(np.isfinite(x) & np.isfinite(y) & np.isinf(z), z, result)
    ex, ey, ez = (np.frexp(v)[1] for v in (x, y, z))
    near_limit = (abs(ex + ey) > 900) | (abs(ez) > 900) | (abs(ex) > 960) | (abs(ey) > 960)
    for lane in np.flatnonzero(near_limit & ~simple):
        result.reshape(-1)[lane] = _exact_fma(*(float(v.reshape(-1)[lane]) for v in (x, y, z)))
    return result


def _exact_fma(x: float, y: float, z: float) -> float:
    """x * y + z of finite numbers, x and y not zero, with one rounding."""
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return 0.0  # x * y cannot be zero, so this is a difference of equal numbers
    try:
        rounded = float(exact)
    except OverflowError:
        rounded = math.inf
    return -abs(rounded) if exact < 0 else rounded


def shl(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x << y; 0 where y, read as unsigned, is not below the width."""
    inside = _as_unsigned(y) < _width(x)
    if inside.all():
        return np.left_shift(x, y)
    return np.where(inside, np.left_shift(x, np.where(inside, y, 0)), 0).astype(x.dtype, copy=False)


def shr(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x >> y; where y, read as unsigned, is not below the width: 0, or all sign bits for signed x."""
    amount = np.minimum(_as_unsigned(y), _width(x) - 1).astype(x.dtype, copy=False)
    shifted = np.right_shift(x, amount)
    if x.dtype.kind == "i":
        return shifted
    return np.where(_as_unsigned(y) < _width(x), shifted, 0).astype(x.dtype, copy=False)


def _width(x: np.ndarray) -> int:
    return x.dtype.itemsize * 8


def _as_unsigned(x: np.ndarray) -> np.ndarray:
    return x.astype(f"u{x.dtype.itemsize}", copy=False)


def umulhi(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The high half of the product of both operands read as unsigned, 32 or 64 bits wide."""
    a, b = _as_unsigned(x), _as_unsigned(y)
    if _width(x) == 32:
        return ((a.astype(np.uint64) * b) >> np.uint64(32)).astype(np.uint32).astype(x.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    carry = a0 * b1 + (middle & low)
    return (a1 * b1 + (middle >> half) + (carry >> half)).astype(x.dtype)


def absolute(x: np.ndarray) -> np.ndarray:
    """|x|; clears the sign bit of floats, the least integer stays."""
    return np.abs(x) if x.dtype.kind != "u" else x


def _extremum(function: np.ufunc, zero: Callable[[np.ndarray, np.ndarray], np.ndarray], doc: str) -> Callable:
    """``function`` as PTX has it, where NumPy's result depends on the CPU and the size: -0.0 is below +0.0, and a
    signaling NaN is a NaN like any other, so that fmax and fmin give the other operand."""
    skips_nan = function in (np.fmax, np.fmin)

    def evaluate(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        result = function(x, y)
        if _is_float(x):
            zeros = result == 0
            if zeros.any():
                result = np.where(zeros & (x == y), zero(x, y), result)
            if skips_nan and (lost := np.isnan(result)).any():
                result = np.where(lost, np.where(np.isnan(x), y, x), result)
        return result

    evaluate.__name__, evaluate.__doc__ = function.__name__, doc
    return evaluate


def _larger_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x + y  # -0.0 only if both are


def _smaller_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -(-x + -y)  # +0.0 only if both are


maximum = _extremum(np.fmax, _larger_zero, "The larger operand; the other one where one is NaN.")
minimum = _extremum(np.fmin, _smaller_zero, "The smaller operand; the other one where one is NaN.")
maximum_nan = _extremum(np.maximum, _larger_zero, "The larger operand; NaN where either is.")
minimum_nan = _extremum(np.minimum, _smaller_zero, "The smaller operand; NaN where either is.")


def through_f64(function: Callable) -> Callable:
    """``function`` computed in f64 and rounded: NumPy's own f32 version errs by some ULP that depend on the CPU."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        return function(x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)

    evaluate.__name__, evaluate.__doc__ = function.__name__, function.__doc__
    return evaluate


@through_f64
def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)


@through_f64
def erf(x: np.ndarray) -> np.ndarray:
    """The error function, by the C library element by element."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def exp2_ftz(x: np.ndarray) -> np.ndarray:
    """2 to the power x; a result below the smallest normal number is 0."""
    y = through_f64(np.exp2)(x)
    return np.where(y < np.finfo(y.dtype).smallest_normal, y.dtype.type(0), y)


TF32_DROPPED_BITS = 13


def round_tf32(x: np.ndarray) -> np.ndarray:
    """f32 rounded to 11 significant bits, ties away from zero (PTX cvt.rna.tf32.f32); NaN and infinity stay."""
    bits = np.asarray(x, order="C").view(np.uint32)
    rounded = (bits + np.uint32(1 << TF32_DROPPED_BITS - 1)) & np.uint32(-(1 << TF32_DROPPED_BITS) & 0xFFFFFFFF)
    return np.where(np.isfinite(x), rounded.view(np.float32), x)


def cast(x: np.ndarray, source: DType, target: DType) -> np.ndarray:
    """Numeric conversion with one rounding, to nearest even; integers wrap; bool is x != 0.

    Float to integer goes toward zero, saturates and takes NaN to 0 (PTX cvt.rzi). What is beyond the largest float8,
    infinity included, becomes that (PTX cvt.satfinite).
    """
    if target in FLOATS8:
        return _to_float8(x, target.numpy)
    if source in FLOATS8:
        x = x.astype(np.float32)
    if target.is_bool:
        return x != 0
    if source.is_float and target.is_int:
        return _float_to_int(x, target)
    if target is BF16 and source.bits > 16:
        return _to_bf16(x, source)
    return x.astype(target.numpy, copy=False)


def _float_to_int(x: np.ndarray, target: DType) -> np.ndarray:
    wide = x.astype(np.float64, copy=False)
    if target.bits < 64:
        clipped = np.clip(wide, target.min_int, target.max_int)  # both limits are f64 numbers
        return np.where(np.isnan(wide), 0, clipped).astype(target.numpy)
    low, end = float(target.min_int), float(target.max_int + 1)  # max_int itself is none
    inside = (wide >= low) & (wide < end)
    out = np.where(inside, wide, 0).astype(target.numpy)
    outside = np.where(wide >= end, target.numpy.type(target.max_int), target.numpy.type(target.min_int))
    return np.where(inside | np.isnan(wide), out, outside)


def _to_float8(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if x.dtype == dtype:
        return x
    wide = x.astype(np.float64)
    single = wide.astype(np.float32)
    odd = _to_odd(single, np.where(np.isfinite(single), wide - single, 0))
    return np.clip(odd, -_LARGEST8[dtype], _LARGEST8[dtype]).astype(dtype)  # NaN stays


def _to_bf16(x: np.ndarray, source: DType) -> np.ndarray:
    if source.is_float:
        return _narrow(x, BF16.numpy) if source.bits == 64 else x.astype(BF16.numpy)
    if source.bits == 64:
        # f64 does not hold 64 bits: round to odd at bit 16, which leaves 48 bits, where that loses bits that matter
        sixteen = x.dtype.type(16)
        odd = ((x >> sixteen) | ((x & 0xFFFF) != 0).astype(x.dtype)) << sixteen
        small = (x < (1 << 32)) & (x > -(1 << 32)) if source.is_signed else x < (1 << 32)
        x = np.where(small, x, odd)
    return _narrow(x.astype(np.float64), BF16.numpy)
