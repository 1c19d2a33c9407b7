"""Elementwise oracles against fractions, the processor's f32, and mpmath."""

from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest

from oracles import OracleError, lookup
from oracles.compare import Tolerance, judge
from oracles.formats import FORMATS, to_format, ulp, widen

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng


def call(name, **operands):
    inputs = {k: v for k, v in operands.items() if isinstance(v, np.ndarray)}
    return lookup(f"oracles.elementwise:{name}")(inputs, {k: v for k, v in operands.items() if k not in inputs})


def random_bits(dtype, n, seed):
    dtype = np.dtype(dtype)
    return RNG(seed).integers(0, 2 ** (8 * dtype.itemsize), n, dtype=f"u{dtype.itemsize}").view(dtype)


def same(a, b):
    a, b = widen(a), widen(b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)]
    )


def test_f32_arithmetic_is_the_processors():
    x, y = random_bits(np.float32, 100_000, 1), random_bits(np.float32, 100_000, 2)
    with np.errstate(all="ignore"):
        for name, theirs in (("add", x + y), ("sub", x - y), ("mul", x * y), ("truediv", x / y)):
            out = call(name, x=x, y=y)["out"]
            assert out.dtype == np.float32 and same(out, theirs), name
        assert same(call("sqrt", x=x)["out"], np.sqrt(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_half_an_ulp_is_correct_rounding(dtype):
    """Also beside powers of two, where the size of an ULP changes."""
    x, y = (1 + RNG(s).integers(-40, 40, 3000) * np.finfo(dtype).eps for s in (20, 21))
    x, y = x.astype(dtype), (y * 2.0 ** RNG(22).integers(-2, 3, 3000)).astype(dtype)
    half = Tolerance("ulp", ulp=0.5)
    for name, theirs in (("add", x + y), ("mul", x * y), ("truediv", x / y)):
        refs = call(name, x=x, y=y)
        assert judge(theirs, refs, "out", half).ok
        inexact = refs["out.tail"] != 0
        for direction in (np.inf, -np.inf):
            off = np.where(inexact, np.nextafter(theirs, dtype(direction)), theirs)
            verdict = judge(off, refs, "out", half)
            # only a tie may go either way
            assert verdict.failures >= inexact.sum() * 0.4


def test_f64_arithmetic_is_the_processors_and_has_an_exact_tail():
    x, y = (RNG(s).standard_normal(300) * 2.0 ** RNG(s + 9).integers(-30, 30, 300) for s in (1, 2))
    exact = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__, "truediv": Fraction.__truediv__}
    native = {"add": x + y, "sub": x - y, "mul": x * y, "truediv": x / y}
    for name, function in exact.items():
        refs = call(name, x=x, y=y)
        assert same(refs["out"], native[name])
        for i in range(300):
            true = function(Fraction(x[i]), Fraction(y[i]))
            rest = true - Fraction(float(refs["out"][i])) - Fraction(float(refs["out.tail"][i]))
            assert abs(rest) <= abs(true) / 2**100


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@np.errstate(over="ignore")
def test_narrow_arithmetic_rounds_the_exact_result_once(dtype):
    x, y = random_bits(dtype, 4000, 3), random_bits(dtype, 4000, 4)
    finite = np.isfinite(widen(x)) & np.isfinite(widen(y)) & (widen(y) != 0)
    x, y = x[finite], y[finite]
    for name, function in (("add", Fraction.__add__), ("mul", Fraction.__mul__)):
        refs = call(name, x=x, y=y)
        assert refs["out"].dtype == dtype
        out, gap = widen(refs["out"]), ulp(widen(refs["out"]), dtype)
        for a, b, c, g in zip(widen(x).tolist(), widen(y).tolist(), out.tolist(), gap.tolist(), strict=True):
            true = function(Fraction(a), Fraction(b))
            if np.isinf(c):
                assert abs(true) >= Fraction(FORMATS["f16" if dtype == np.float16 else "bf16"].overflow)
            else:
                assert abs(true - Fraction(c)) <= Fraction(g)  # g is half a gap at powers of two, so at most 1 here
                for neighbour in (
                    float(np.nextafter(dtype(c), dtype(np.inf))),
                    float(np.nextafter(dtype(c), dtype(-np.inf))),
                ):
                    if np.isfinite(neighbour):
                        assert abs(true - Fraction(c)) <= abs(true - Fraction(neighbour))


def test_division_widens():
    half = np.array([1.0], np.float16)
    for name in ("truediv", "fdiv"):
        assert call(name, x=half, y=np.array([3.0], np.float16))["out"].dtype == np.float32
    assert call("truediv", x=np.array([1, 7], np.int64), y=np.array([3, 2], np.int64))["out"].tolist() == [
        float(np.float32(1) / np.float32(3)),
        3.5,
    ]


def test_float_remainder_is_fmod():
    x, y = (RNG(s).standard_normal(2000).astype(np.float32) * 100 for s in (5, 6))
    out = lookup("oracles.integers:mod")({"x": x, "y": y}, {})["out"]
    for a, b, c in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        quotient = Fraction(a) / Fraction(b)
        assert Fraction(c) == Fraction(a) - Fraction(b) * int(quotient)


def test_fma_rounds_once():
    x, y = (RNG(s).standard_normal(5000).astype(np.float32) for s in (7, 8))
    z = (-(x * y) * (1 + RNG(9).integers(-2, 3, 5000) * 2.0**-23)).astype(np.float32)  # cancels
    z[::3] = RNG(10).standard_normal(z[::3].size) * 2.0 ** RNG(11).integers(-60, 60, z[::3].size)
    out = call("fma", x=x, y=y, z=z)["out"]
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
    for true, c in zip(exact, out, strict=True):
        error = abs(true - Fraction(float(c)))
        assert all(error <= abs(true - Fraction(float(np.nextafter(c, np.float32(s * np.inf))))) for s in (1, -1))
    assert not same(out, x * y + z), "the rounding of the product must matter somewhere"
    double = call("fma", x=x.astype(float), y=y.astype(float) / 3, z=z.astype(float))["out"]
    assert double.tolist() == [
        float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))
        for a, b, c in zip(x, y.astype(float) / 3, z, strict=True)
    ]


def test_double_rounding_trap_of_fma():
    # the exact sum lies 2^-100 above a tie of f32; fp64 would lose it and round to even, downwards
    x, y, z = (np.array([v], np.float32) for v in (2.0**-50, 2.0**-50, 1 + 2.0**-23))
    assert call("fma", x=x, y=y, z=z)["out"][0] == np.float32(1 + 2.0**-23)
    tie = np.array([1.0 + 2.0**-12], np.float32), np.array([1.0 + 2.0**-12], np.float32)  # 1 + 2^-11 + 2^-24
    above = call("fma", x=tie[0], y=tie[1], z=np.array([2.0**-100], np.float32))["out"][0]
    assert above == np.float32(1 + 2.0**-11 + 2.0**-23)
    assert np.float32(float(tie[0][0]) * float(tie[1][0]) + 2.0**-100) == np.float32(1 + 2.0**-11)


FUNCTIONS = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "erf": mpmath.erf,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_against_mpmath(name, dtype):
    """The value with its tail is far closer than an ULP of the result's format, for arguments of every size."""
    sizes = 2.0 ** RNG(12).integers(-60, 8, 400)
    x = (RNG(13).standard_normal(400) * sizes).astype(dtype)
    if name in ("sin", "cos"):
        x[:40] = (RNG(14).standard_normal(40) * 1e6).astype(dtype)
    if name in ("log", "log2", "sqrt", "rsqrt"):
        x = np.abs(x)
    if name in ("log", "log2"):
        x[:40] = 1 + np.arange(-20, 20) * np.finfo(dtype).eps
    refs = call(name, x=x)
    assert refs["out"].dtype == dtype
    allowed = 2.0**-50 if dtype == np.float64 else 2.0**-20
    with mpmath.workprec(400):
        for v, out, tail in zip(x.tolist(), refs["out"].tolist(), refs["out.tail"].tolist(), strict=True):
            true = FUNCTIONS[name](mpmath.mpf(v))
            if true == 0 or not np.isfinite(out):
                assert out == float(true)
                continue
            assert abs(true - out - tail) <= allowed * float(ulp(float(true), dtype))
            assert abs(true - out) <= 0.5001 * float(ulp(np.nextafter(abs(out), np.inf), dtype))


def test_functions_at_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0], np.float32)
    expected = {
        "exp": [np.nan, np.inf, 0.0, 1.0, 1.0],
        "log": [np.nan, np.inf, np.nan, -np.inf, -np.inf, np.nan],
        "sqrt": [np.nan, np.inf, np.nan, 0.0, -0.0, np.nan],
        "sin": [np.nan, np.nan, np.nan, 0.0, -0.0],
        "erf": [np.nan, 1.0, -1.0, 0.0, -0.0],
        "rsqrt": [np.nan, 0.0, np.nan, np.inf],
        "floor": [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0],
    }
    for name, values in expected.items():
        for dtype in (np.float32, np.float64):
            out = call(name, x=x.astype(dtype))["out"][: len(values)]
            assert same(out, np.array(values)), name
    with pytest.raises(OracleError, match="expected a float"):
        call("exp", x=np.array([1]))


def test_a_correctly_rounded_function_passes_half_an_ulp():
    x = RNG(15).standard_normal(1000).astype(np.float32) * 20
    refs = call("exp", x=x)
    exact = to_format(np.exp(x.astype(np.float64)), "f32")
    assert judge(exact, refs, "out", Tolerance("ulp", ulp=0.5001)).ok
    off = np.nextafter(exact, np.float32(np.inf))
    assert not judge(off, refs, "out", Tolerance("ulp", ulp=0.5001)).ok
    assert judge(off, refs, "out", Tolerance("ulp", ulp=2)).ok


def test_comparisons_with_nan():
    x, y = np.array([np.nan, 1.0, np.nan, 0.0]), np.array([1.0, np.nan, np.nan, -0.0])
    for name in ("lt", "le", "gt", "ge", "eq"):
        assert call(name, x=x, y=y)["out"].tolist() == [False, False, False, name in ("le", "ge", "eq")]
    assert call("ne", x=x, y=y)["out"].tolist() == [True, True, True, False]


def test_extrema():
    x, y = np.array([np.nan, 1.0, np.nan, 3.0], np.float32), np.array([1.0, np.nan, np.nan, -2.0], np.float32)
    assert same(call("maximum", x=x, y=y)["out"], np.array([1.0, 1.0, np.nan, 3.0]))
    assert same(call("minimum", x=x, y=y)["out"], np.array([1.0, 1.0, np.nan, -2.0]))
    assert same(call("maximum", x=x, y=y, propagate_nan="ALL")["out"], np.array([np.nan, np.nan, np.nan, 3.0]))
    assert call("maximum", x=np.array([-1], np.int32), y=np.array([1], np.uint32))["out"].tolist() == [2**32 - 1]
    assert call("minimum", x=np.array([7], np.uint8), y=3)["out"].dtype == np.uint8
    with pytest.raises(OracleError, match="propagate_nan"):
        call("maximum", x=x, y=y, propagate_nan="SOME")
    refs = call("clamp", x=np.array([-5.0, 0.5, 5.0, np.nan], np.float32), lo=-1.0, hi=1.0)
    assert same(refs["out"], np.array([-1.0, 0.5, 1.0, -1.0])) and not refs["out.unspecified"].any()


def test_where_promotes_its_arms():
    cond = np.array([True, False])
    assert call("where", cond=cond, x=np.array([1, 2], np.int8), y=0.5)["out"].tolist() == [1.0, 0.5]
    assert call("where", cond=np.array([2, 0]), x=np.array([1, 2], np.int8), y=np.array([7, 8]))["out"].tolist() == [
        1,
        8,
    ]


def test_signs():
    x = np.array([0.0, -0.0, 1.5, -np.inf], BF16)
    assert same(call("neg", x=x)["out"], np.array([-0.0, 0.0, -1.5, np.inf]))
    assert same(call("abs", x=x)["out"], np.array([0.0, 0.0, 1.5, np.inf]))


def test_broadcasting_and_literals():
    x = np.arange(3, dtype=np.float16)[:, None]
    out = call("add", x=x, y=np.arange(4, dtype=np.float32))["out"]
    assert out.shape == (3, 4) and out.dtype == np.float32
    assert call("mul", x=x, y=2)["out"].dtype == np.float16
    assert call("mul", x=x, y=np.int32(2))["out"].dtype == np.float16
    assert call("sub", x=1.0, y=np.array([3], np.int32))["out"].tolist() == [-2.0]


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_fma_adds_an_infinity_to_a_product_that_overflows(infinity):
    huge = np.array([1e300, -1e300, 2.0])
    got = lookup("oracles.elementwise:fma")({"x": huge, "y": np.full(3, 1e300), "z": np.full(3, infinity)}, {})
    assert np.array_equal(got["out"], np.full(3, infinity))
