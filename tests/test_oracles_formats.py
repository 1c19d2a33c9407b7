"""Number formats: limits, correct rounding and ULPs against fractions, for every 16-bit value."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from oracles.formats import FORMATS, format_of, round_to, to_format, ulp, widen

FLOATS = ["f16", "bf16", "f32", "f64"]


def ladder(fmt):
    """Every non-negative finite value of a 16-bit format, ascending, as fp64."""
    values = widen(np.arange(2**16, dtype=np.uint16).view(fmt.dtype))
    return np.unique(values[np.isfinite(values) & (values >= 0)])


@pytest.mark.parametrize("name", FLOATS)
def test_limits_are_those_of_the_dtype(name):
    fmt = FORMATS[name]
    info = ml_dtypes.finfo(fmt.dtype)
    assert (fmt.max, fmt.min) == (float(info.max), float(info.min))
    assert fmt.min_normal == float(info.smallest_normal)
    assert fmt.min_subnormal == float(info.smallest_subnormal)
    assert fmt.u == float(info.eps) / 2
    assert fmt.bits == info.bits == 8 * fmt.dtype.itemsize


@pytest.mark.parametrize("name", [n for n, f in FORMATS.items() if f.kind in ("signed", "unsigned")])
def test_limits_of_integers(name):
    info = np.iinfo(FORMATS[name].dtype)
    assert (FORMATS[name].min, FORMATS[name].max, FORMATS[name].bits) == (info.min, info.max, info.bits)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_rounding_at_every_tie_and_beside_it(name):
    fmt = FORMATS[name]
    steps = ladder(fmt)
    low, high = steps[:-1], steps[1:]
    middle = (low + high) / 2
    assert all(Fraction(m) * 2 == Fraction(a) + Fraction(b) for m, a, b in zip(middle, low, high, strict=True))
    even = np.where(low.astype(fmt.dtype).view(np.uint16) % 2 == 0, low, high)
    for sign in (1, -1):
        assert np.array_equal(round_to(sign * middle, fmt), sign * even)
        assert np.array_equal(round_to(sign * np.nextafter(middle, 0), fmt), sign * low)
        assert np.array_equal(round_to(sign * np.nextafter(middle, np.inf), fmt), sign * high)
    assert np.array_equal(round_to(steps, fmt), steps)


@pytest.mark.parametrize("name", FLOATS[:3])
def test_overflow_starts_half_a_gap_beyond_the_largest(name):
    fmt = FORMATS[name]
    assert round_to(np.nextafter(fmt.overflow, 0), fmt) == fmt.max
    assert round_to(fmt.overflow, fmt) == np.inf and round_to(-fmt.overflow, fmt) == -np.inf
    assert Fraction(fmt.overflow) - Fraction(fmt.max) == Fraction(float(ulp(fmt.max, fmt))) / 2
    assert round_to(1e308, fmt) == np.inf


def test_rounding_to_f32_and_f16_is_the_processors():
    bits = np.random.default_rng(0).integers(0, 2**64, 200_000, dtype=np.uint64)
    near = np.random.default_rng(1).standard_normal(200_000) * 2.0 ** np.random.default_rng(2).integers(
        -160, 130, 200_000
    )
    with np.errstate(all="ignore"):
        for x in (bits.view(np.float64), near):
            for name, dtype in (("f32", np.float32), ("f16", np.float16)):
                ours, theirs = to_format(x, name), x.astype(dtype)
                assert np.array_equal(ours, theirs, equal_nan=True)
                assert np.array_equal(np.signbit(ours), np.signbit(theirs))


def test_bf16_is_rounded_once_not_through_f32():
    x = 1 + 2.0**-8 + 2.0**-40  # just above a tie that f32 would round down to
    assert float(to_format(x, "bf16")) == 1 + 2.0**-7
    assert float(np.float64(x).astype(ml_dtypes.bfloat16)) == 1.0, "otherwise this test shows nothing"


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_ulp_is_the_gap_around_and_the_nearest_gap_on_a_value(name):
    fmt = FORMATS[name]
    steps = ladder(fmt)
    gaps = np.diff(steps)
    assert np.array_equal(ulp((steps[:-1] + steps[1:]) / 2, fmt), gaps)
    assert np.array_equal(ulp(-steps[1:], fmt), gaps), "the gap below is never the larger one"
    assert ulp(0, fmt) == fmt.min_subnormal
    assert ulp(fmt.max * 2, fmt) == gaps[-1]
    assert np.isnan(ulp(np.nan, fmt))


def test_names():
    assert format_of("fp16") is format_of(np.float16) is format_of(np.zeros(2, np.float16)) is FORMATS["f16"]
    assert format_of("i1") is format_of(np.bool_) is FORMATS["bool"]
    assert format_of(ml_dtypes.bfloat16) is format_of(np.dtype(ml_dtypes.bfloat16)) is FORMATS["bf16"]
    for unknown in ("f8", "float", np.complex64, np.zeros(1, "U3")):
        with pytest.raises(ValueError, match="no number format"):
            format_of(unknown)
