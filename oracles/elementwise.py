"""Arithmetic, comparisons, selection and math functions, elementwise with NumPy broadcasting.

Results of + - * / sqrt fma and casts are rounded once to the format the language computes in, so they are
exact references; for floats ``out.tail`` holds what that rounding cut off, so that ULP limits are measured
from the true value. Math functions likewise: fp64 for the formats below f64, mpmath for f64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from oracles import twos_complement
from oracles.casts import convert
from oracles.formats import FORMATS, Format, format_of, to_format
from oracles.promotion import pair, promote, typed
from oracles.reals import REALS
from oracles.registry import Oracle, OracleError, Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


def rounded(value: np.ndarray, fmt: Format, tail: np.ndarray | None = None) -> Refs:
    """A real result (fp64, plus a tail for f64) as a reference: rounded to `fmt`, with what the rounding cut off."""
    out = to_format(value, fmt)
    wide = out.astype(np.float64)
    rest = np.where(np.isfinite(wide), value - wide, 0.0)
    return {"out": out, "out.tail": rest if tail is None else tail}


def operand(name: str, inputs: Inputs, params: Params) -> Any:
    return inputs[name] if name in inputs else params[name]


def operands(inputs: Inputs, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """x and y, from the inputs or else from the parameters, as typed arrays."""
    return pair(operand("x", inputs, params), operand("y", inputs, params))


# ------------------------------------------------------------------------------------- arithmetic
def _f64_tail(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, exact: Callable[[Fraction, Fraction], Fraction]
) -> np.ndarray:
    """exact(x, y) - out for f64 operands, in rational arithmetic; 0 where something is not finite."""

    def one(a: float, b: float, c: float) -> float:
        if not np.isfinite([a, b, c]).all():
            return 0.0
        return float(exact(Fraction(a), Fraction(b)) - Fraction(c))

    return np.vectorize(one, otypes=[np.float64])(x, y, out)


def _arithmetic(inputs: Inputs, params: Params, operator: str, real: Any, exact: Any) -> Refs:
    """One of + - * /: wraps for integers, one rounding for floats."""
    x, y = operands(inputs, params)
    fmt = promote(x, y, operator)
    if not fmt.is_float:
        return {"out": twos_complement.ring(real, x, y, fmt)}
    a, b = (convert(v, fmt).astype(np.float64) for v in (x, y))
    value = real(a, b)
    return rounded(value, fmt, _f64_tail(a, b, value, exact) if fmt.name == "f64" else None)


@oracle(operands="x y")
def add(inputs: Inputs, params: Params) -> Refs:
    """x + y in the promoted format."""
    return _arithmetic(inputs, params, "+", np.add, lambda a, b: a + b)


@oracle(operands="x y")
def sub(inputs: Inputs, params: Params) -> Refs:
    """x - y in the promoted format."""
    return _arithmetic(inputs, params, "-", np.subtract, lambda a, b: a - b)


@oracle(operands="x y")
def mul(inputs: Inputs, params: Params) -> Refs:
    """x * y in the promoted format."""
    return _arithmetic(inputs, params, "*", np.multiply, lambda a, b: a * b)


@oracle(operands="x y")
def truediv(inputs: Inputs, params: Params) -> Refs:
    """x / y: f32 for integers and 16-bit floats; out is the correctly rounded quotient."""

    def exact(a: Fraction, b: Fraction) -> Fraction:
        return a / b if b else Fraction(0)

    return _arithmetic(inputs, params, "/", np.divide, exact)


@oracle(operands="x y")
def fdiv(inputs: Inputs, params: Params) -> Refs:
    """tl.fdiv(x, y): as x / y, of floats only."""
    x, y = operands(inputs, params)
    if not (format_of(x).is_float and format_of(y).is_float):
        raise OracleError(f"fdiv of {format_of(x).name} and {format_of(y).name}: both operands must be floats")
    return truediv(inputs, params)


# ------------------------------------------------------------------------------------- sign
@oracle(inputs="x")
def neg(inputs: Inputs, params: Params) -> Refs:
    """-x: the sign bit of a float, 0 - x with wrap for integers."""
    x = inputs["x"]
    fmt = format_of(x)
    return {"out": np.negative(x) if fmt.is_float else twos_complement.wrap(-twos_complement.as_integers(x, fmt), fmt)}


@oracle(inputs="x")
def abs_(inputs: Inputs, params: Params) -> Refs:
    """|x|; the lowest integer wraps to itself; unsigned and bool unchanged."""
    x = inputs["x"]
    fmt = format_of(x)
    return {"out": np.abs(x) if fmt.is_float else twos_complement.wrap(abs(twos_complement.as_integers(x, fmt)), fmt)}


# ------------------------------------------------------------------------------------- comparisons
def _comparison(inputs: Inputs, params: Params, function: Any) -> Refs:
    x, y = operands(inputs, params)
    fmt = promote(x, y)
    return {"out": function(convert(x, fmt), convert(y, fmt))}


@oracle(operands="x y")
def lt(inputs: Inputs, params: Params) -> Refs:
    """x < y in the promoted format; false if either is NaN."""
    return _comparison(inputs, params, np.less)


@oracle(operands="x y")
def le(inputs: Inputs, params: Params) -> Refs:
    """x <= y; false if either is NaN."""
    return _comparison(inputs, params, np.less_equal)


@oracle(operands="x y")
def gt(inputs: Inputs, params: Params) -> Refs:
    """x > y; false if either is NaN."""
    return _comparison(inputs, params, np.greater)


@oracle(operands="x y")
def ge(inputs: Inputs, params: Params) -> Refs:
    """x >= y; false if either is NaN."""
    return _comparison(inputs, params, np.greater_equal)


@oracle(operands="x y")
def eq(inputs: Inputs, params: Params) -> Refs:
    """x == y; false if either is NaN."""
    return _comparison(inputs, params, np.equal)


@oracle(operands="x y")
def ne(inputs: Inputs, params: Params) -> Refs:
    """x != y; true if either is NaN."""
    return _comparison(inputs, params, np.not_equal)


# ------------------------------------------------------------------------------------- selection
def _extremum(inputs: Inputs, params: Params, skipping: Any, propagating: Any) -> Refs:
    x, y = operands(inputs, params)
    fmt = promote(x, y)
    mode = params.get("propagate_nan", "NONE")
    if mode not in ("NONE", "ALL"):
        raise OracleError(f"propagate_nan {mode!r}; expected NONE or ALL")
    a, b = convert(x, fmt), convert(y, fmt)
    if not fmt.is_float:
        return {"out": propagating(a, b)}
    function = skipping if mode == "NONE" else propagating
    return {"out": to_format(function(a.astype(np.float64), b.astype(np.float64)), fmt)}


@oracle(operands="x y", params="propagate_nan?")
def maximum(inputs: Inputs, params: Params) -> Refs:
    """The greater; propagate_nan NONE (default): the other operand of a NaN, ALL: NaN. The sign of a zero is free."""
    return _extremum(inputs, params, np.fmax, np.maximum)


@oracle(operands="x y", params="propagate_nan?")
def minimum(inputs: Inputs, params: Params) -> Refs:
    """The smaller; NaN as for `maximum`."""
    return _extremum(inputs, params, np.fmin, np.minimum)


@oracle(operands="x lo hi", params="propagate_nan?")
def clamp(inputs: Inputs, params: Params) -> Refs:
    """min(max(x, lo), hi); a NaN in x gives lo, or NaN with propagate_nan ALL. Unspecified where lo > hi."""
    x, lo = pair(operand("x", inputs, params), operand("lo", inputs, params))
    hi = typed(operand("hi", inputs, params), x)
    raised = _extremum({"x": x, "y": lo}, params, np.fmax, np.maximum)["out"]
    out = _extremum({"x": raised, "y": hi}, params, np.fmin, np.minimum)["out"]
    return {"out": out, "out.unspecified": np.broadcast_to(lo > hi, out.shape)}


@oracle(inputs="cond", operands="x y")
def where(inputs: Inputs, params: Params) -> Refs:
    """x where cond, else y, in the promoted format."""
    x, y = operands(inputs, params)
    fmt = promote(x, y)
    return {"out": np.where(convert(inputs["cond"], "bool"), convert(x, fmt), convert(y, fmt))}


# ------------------------------------------------------------------------------------- floating point
@oracle(operands="x y z")
def fma(inputs: Inputs, params: Params) -> Refs:
    """x y + z with one rounding, in the promoted format."""
    x, y = operands(inputs, params)
    z = typed(operand("z", inputs, params), x)
    fmt = promote(convert(x, promote(x, y)), z)
    a, b, c = np.broadcast_arrays(*(convert(v, fmt).astype(np.float64) for v in (x, y, z)))
    if fmt.name != "f64":
        product = a * b  # exact: at most 48 bits
        total, rest = _two_sum(product, c)
        return rounded(_to_odd(total, rest), fmt)
    value = np.array([_fma64(*v) for v in zip(a.ravel(), b.ravel(), c.ravel(), strict=True)]).reshape(a.shape)
    return {"out": value}


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and its rounding error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _to_odd(total: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """total + rest rounded to odd in fp64, so that a later rounding to fewer bits is that of the exact sum."""
    even = (np.ascontiguousarray(total).view(np.uint64).reshape(total.shape) & np.uint64(1)) == 0
    inexact = np.isfinite(total) & np.isfinite(rest) & (rest != 0)
    toward = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where(inexact & even, toward, total)


def _fma64(a: float, b: float, c: float) -> float:
    if np.isfinite([a, b]).all() and np.isinf(c):
        return c  # a * b is finite, also where its rounded value would not be
    if not np.isfinite([a, b, c]).all():
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return float(np.copysign(np.inf, float(np.sign(exact.numerator))))


def _whole_number(name: str, function: Any) -> Oracle:
    def compute(inputs: Inputs, params: Params) -> Refs:
        x = inputs["x"]
        if not format_of(x).is_float:
            raise OracleError(f"{name} of {format_of(x).name}: expected a float")
        return {"out": to_format(function(x.astype(np.float64)), format_of(x))}

    return _registered(compute, name, f"{name}(x), exact.")


def _function(name: str, real: Any, precise: Any, text: str) -> Oracle:
    """The oracle of a math function: fp64 for the formats up to f32 (16-bit ones compute in f32), mpmath for f64."""

    def compute(inputs: Inputs, params: Params) -> Refs:
        x = inputs["x"]
        if not format_of(x).is_float:
            raise OracleError(f"{name} of {format_of(x).name}: expected a float")
        if format_of(x).name != "f64":
            return rounded(real(x.astype(np.float64)), FORMATS["f32"])
        value = real(x)
        pairs = [_with_tail(precise, v, a) for v, a in zip(value.ravel(), x.ravel(), strict=True)]
        out, tail = (np.array(part, np.float64).reshape(x.shape) for part in zip(*pairs, strict=True))
        return {"out": out, "out.tail": tail}

    return _registered(compute, name, text)


def _with_tail(precise: Any, value: float, x: float) -> tuple[float, float]:
    """precise(x) as the nearest fp64 and the rest; fp64's own answer at zero, poles and infinities."""
    if not np.isfinite(value) or not np.isfinite(x) or x == 0:
        return float(value), 0.0
    with mpmath.workprec(160):
        exact = precise(mpmath.mpf(float(x)))
        nearest = float(exact)
        return nearest, float(exact - mpmath.mpf(nearest))


def _registered(compute: Any, name: str, text: str) -> Oracle:
    compute.__name__, compute.__doc__ = name, text
    return oracle(inputs="x")(compute)


floor = _whole_number("floor", np.floor)
ceil = _whole_number("ceil", np.ceil)
exp = _function("exp", np.exp, mpmath.exp, "e to the power x.")
exp2 = _function("exp2", np.exp2, lambda x: mpmath.power(2, x), "2 to the power x.")
log = _function("log", np.log, mpmath.log, "Natural logarithm; NaN below zero, -inf at zero.")
log2 = _function("log2", np.log2, lambda x: mpmath.log(x, 2), "Base-2 logarithm.")
sin = _function("sin", np.sin, mpmath.sin, "Sine of radians.")
cos = _function("cos", np.cos, mpmath.cos, "Cosine of radians.")
sqrt = _function("sqrt", np.sqrt, mpmath.sqrt, "Square root, correctly rounded (tl.sqrt and tl.sqrt_rn).")
rsqrt = _function("rsqrt", REALS.rsqrt, lambda x: 1 / mpmath.sqrt(x), "1 / sqrt(x).")
erf = _function("erf", REALS.erf, mpmath.erf, "Error function.")
