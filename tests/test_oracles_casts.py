"""Conversions against Python integers and fractions, exhaustively for 8 and 16 bits."""

from fractions import Fraction

import numpy as np
import pytest

from oracles import OracleError, lookup
from oracles.casts import convert
from oracles.formats import FORMATS, widen

INTEGERS = [n for n, f in FORMATS.items() if f.kind in ("signed", "unsigned")]
NARROW = [n for n in INTEGERS if FORMATS[n].bits <= 16]


def every(fmt):
    return np.arange(2**fmt.bits, dtype=f"u{fmt.bits // 8}").view(fmt.dtype)


def edges(name):
    """Values of a wide integer format around its limits and around the ties of every float format."""
    fmt = FORMATS[name]
    near = {
        s * (2**k) + (2**j) * t + d
        for k in range(fmt.bits)
        for j in (0, k - 8, k - 11, k - 24)
        if j >= 0
        for s in (1, -1)
        for t in (0, 1, 3)
        for d in (-1, 0, 1)
    }
    near |= {fmt.min, fmt.max, fmt.max - 1, 0}
    return np.array(sorted(v for v in near if fmt.min <= v <= fmt.max), dtype=object)


def nearest(value, fmt):
    """An integer rounded to nearest even to the precision of a float format, in integer arithmetic."""
    size, drop = abs(value), max(abs(value).bit_length() - fmt.p, 0)
    quotient, rest = size >> drop, size & ((1 << drop) - 1)
    half = (1 << drop) >> 1
    up = drop and (rest > half or (rest == half and quotient & 1))
    rounded = (quotient + bool(up)) << drop
    number = float(rounded) if rounded <= int(fmt.max) else np.inf
    return -number if value < 0 else number


@pytest.mark.parametrize("source", NARROW)
@pytest.mark.parametrize("target", INTEGERS)
def test_integer_to_integer_wraps(source, target):
    x, fmt = every(FORMATS[source]), FORMATS[target]
    y = convert(x, target)
    assert y.dtype == fmt.dtype
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        assert (a - b) % 2**fmt.bits == 0 and fmt.min <= b <= fmt.max


@pytest.mark.parametrize("source", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64"])
def test_integer_to_float_rounds_once(source, target):
    fmt, values = FORMATS[target], edges(source)
    y = convert(values.astype(FORMATS[source].dtype), target)
    assert y.dtype == fmt.dtype
    assert y.astype(np.float64).tolist() == [nearest(int(v), fmt) for v in values]


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("target", INTEGERS)
def test_float_to_integer_saturates(source, target):
    x, fmt = every(FORMATS[source]), FORMATS[target]
    y = convert(x, target)
    assert y.dtype == fmt.dtype
    for a, b in zip(widen(x).tolist(), y.tolist(), strict=True):
        if a != a:
            assert b == 0
        elif abs(a) == np.inf:
            assert b == (fmt.max if a > 0 else fmt.min)
        else:
            assert b == min(max(int(a), fmt.min), fmt.max)


@pytest.mark.parametrize("target", INTEGERS)
def test_wide_float_to_integer_at_the_limits(target):
    fmt = FORMATS[target]
    limits = [float(fmt.min), float(fmt.max), 2.0**63, 2.0**64, -(2.0**63), 1e300, -1e300, -0.99, 0.99]
    x = np.array([v for m in limits for v in (m, np.nextafter(m, np.inf), np.nextafter(m, -np.inf))])
    for a, b in zip(x.tolist(), convert(x, target).tolist(), strict=True):
        assert b == min(max(int(a), fmt.min), fmt.max)


@pytest.mark.parametrize("name", [n for n in FORMATS if n != "bool"])
def test_to_bool_is_different_from_zero(name):
    values = np.array([0, 1, 2]).astype(FORMATS[name].dtype)
    assert convert(values, "bool").tolist() == [False, True, True]
    if FORMATS[name].is_float:
        assert convert(np.array([np.nan, -0.0, np.inf]).astype(FORMATS[name].dtype), "bool").tolist() == [
            True,
            False,
            True,
        ]
    assert convert(np.array([True, False]), name).astype(float).tolist() == [1, 0]


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64"])
def test_narrow_float_to_float(source, target):
    x, fmt = every(FORMATS[source]), FORMATS[target]
    wide, y = widen(x), widen(convert(x, target))
    assert np.array_equal(np.isnan(wide), np.isnan(y))
    finite = np.isfinite(wide) & np.isfinite(y)
    if fmt.bits > 16:
        assert np.array_equal(wide, y, equal_nan=True)
    for a, b in zip(wide[finite][::7].tolist(), y[finite][::7].tolist(), strict=True):
        up, down = (np.nextafter(fmt.dtype.type(b), fmt.dtype.type(s * np.inf)) for s in (1, -1))
        error = abs(Fraction(a) - Fraction(b))
        assert all(error <= abs(Fraction(a) - Fraction(float(n))) for n in (up, down) if np.isfinite(float(n)))


def test_oracles():
    x = np.array([1.5, -1.5], np.float32)
    assert lookup("oracles.casts:cast")({"x": x}, {"dtype": "i8"})["out"].tolist() == [1, -1]
    assert lookup("oracles.casts:bitcast")({"x": x}, {"dtype": "u32"})["out"].tolist() == [0x3FC00000, 0xBFC00000]
    with pytest.raises(OracleError, match="widths differ"):
        lookup("oracles.casts:bitcast")({"x": x}, {"dtype": "i64"})
