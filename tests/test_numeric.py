"""The NumPy meaning of the scalar functions, against Python integers, Fractions, mpmath, and all f16 values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from refcompiler.dialects import numeric
from refcompiler.dialects.scalar import BY_NAME, ROWS
from refcompiler.ir.types import (
    ARITHMETIC,
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    FLOATS,
    I8,
    I16,
    I32,
    I64,
    INTS,
    U8,
    U32,
    U64,
    DType,
)

PRECISION = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
RNG = np.random.default_rng(20)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def nearest(exact: Fraction, dtype: DType) -> float:
    """``exact`` rounded to the nearest number of a float format, ties to even; computed with integers only."""
    precision, emin, emax = PRECISION[dtype.name]
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, emin) - precision + 1)
    rounded = round(magnitude / quantum) * quantum  # round() of a Fraction goes to even
    result = math.inf if rounded >= Fraction(2) ** (emax + 1) else float(rounded)
    return -result if exact < 0 else result


def bits_of(array: np.ndarray) -> np.ndarray:
    return np.asarray(array).view(f"u{np.asarray(array).dtype.itemsize}")


def same(got: np.ndarray, expected: np.ndarray, context: str = "") -> None:
    """Equal bit for bit, except that all NaNs are equal."""
    got, expected = np.atleast_1d(got), np.atleast_1d(expected)
    assert got.dtype == expected.dtype
    nan = got != got
    assert (nan == (expected != expected)).all(), context
    differ = np.flatnonzero((bits_of(got) != bits_of(expected)) & ~nan)
    assert not differ.size, f"{context} {differ[:5]}: {got[differ[:5]]} instead of {expected[differ[:5]]}"


def all_f16() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def random_bits(dtype: DType, count: int) -> np.ndarray:
    """Random bit patterns: all exponents, subnormals, infinities and NaNs are equally likely."""
    raw = RNG.integers(0, 1 << 8, (count, dtype.itemsize), dtype=np.uint8)
    return raw.view(f"u{dtype.itemsize}").reshape(-1).view(dtype.numpy)


def edges(dtype: DType) -> np.ndarray:
    """Zeros, the limits of the format and neighbours of one."""
    precision, emin, emax = PRECISION[dtype.name]
    top = (2.0 - 2.0 ** (1 - precision)) * 2.0**emax
    values = [0.0, 1.0, 1 + 2.0 ** (1 - precision), 1 - 2.0**-precision, 3.0, 2.0**emin, 2.0 ** (emin - precision + 1)]
    values += [2.0**emin - 2.0 ** (emin - precision + 1), top, 2.0 ** (emax // 2), math.inf]
    return np.array([*values, *(-v for v in values), math.nan]).astype(dtype.numpy)


def exact_result(name: str, x: float, y: float) -> Fraction:
    a, b = Fraction(x), Fraction(y)
    return {"add": a + b, "sub": a - b, "mul": a * b}[name] if name != "div" else a / b


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_float_arithmetic_rounds_once(name, dtype):
    x, y = (np.concatenate([random_bits(dtype, 1500), e]) for e in _products(edges(dtype)))
    # random exponents hardly meet: scale half of the operands into one range, down to the subnormals
    close = random_bits(dtype, 500)
    x, y = np.concatenate([x, close]), np.concatenate([y, (close * dtype.numpy.type(0.37)).astype(dtype.numpy)])
    got = BY_NAME[name].numpy(x, y)
    assert got.dtype == dtype.numpy
    for a, b, result in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        if not (math.isfinite(a) and math.isfinite(b)) or (name == "div" and b == 0):
            continue
        exact = exact_result(name, float(a), float(b))
        expected = nearest(exact, dtype)
        assert result == expected, f"{name}({a!r}, {b!r}) = {result!r}, not {expected!r}"


def _products(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(values, values)
    return x.ravel(), y.ravel()


@pytest.mark.parametrize("name", ["add", "mul", "div"])
@pytest.mark.parametrize("other", [0.333251953125, -6.1035e-05, 5.9604645e-08, 1023.5, 65504.0])
def test_f16_arithmetic_for_all_f16_values(name, other):
    x, y = all_f16(), np.float16(other)
    wide, wide_y = x.astype(np.float64), float(y)  # f64 holds sums and products of two f16 exactly
    exact = {"add": wide + wide_y, "mul": wide * wide_y, "div": wide / wide_y}[name]
    same(BY_NAME[name].numpy(x, np.array([y])), exact.astype(np.float16), f"{name} {other}")


def test_bf16_products_below_the_normal_range_round_once():
    # these products lie around the least tie of bf16, where f32 itself begins to lose bits
    x = np.ldexp(1 + np.arange(128) / 128, -67).astype(BF16.numpy)
    a, b = _products(x)
    got = numeric.mul(a, b).astype(np.float64)
    expected = [nearest(Fraction(float(p)) * Fraction(float(q)), BF16) for p, q in zip(a, b, strict=True)]
    assert got.tolist() == expected


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_once(dtype):
    x, y, z = (random_bits(dtype, 3000) for _ in range(3))
    e = edges(dtype)
    triples = np.array(list(itertools.product(e, e, e[::3])), dtype=object)
    x, y, z = (np.concatenate([v, triples[:, i].astype(dtype.numpy)]) for i, v in enumerate((x, y, z)))
    # addends that cancel the product, and ones that are far below its last bit on either side of a tie
    a, b = (RNG.standard_normal(2000).astype(dtype.numpy) for _ in range(2))
    p = (a.astype(np.float64) * b.astype(np.float64)).astype(dtype.numpy)
    x, y, z = np.concatenate([x, a, a]), np.concatenate([y, b, b]), np.concatenate([z, -p, p * dtype.numpy.type(2**-9)])
    got = numeric.fma(x, y, z)
    for a, b, c, result in zip(x.tolist(), y.tolist(), z.tolist(), got.tolist(), strict=True):
        a, b, c, result = map(float, (a, b, c, result))
        if math.isfinite(a) and math.isfinite(b) and math.isfinite(c):
            expected = nearest(Fraction(a) * Fraction(b) + Fraction(c), dtype)
            assert result == expected, f"fma({a.hex()}, {b.hex()}, {c.hex()}) = {result!r}, not {expected!r}"
        elif math.isfinite(a) and math.isfinite(b):
            assert result == c or math.isnan(c)
        else:
            expected = a * b + c
            assert result == expected or (math.isnan(result) and math.isnan(expected))


@pytest.mark.parametrize(
    ("dtype", "factors"),
    [(F16, (3, 683)), (BF16, (7, 37)), (F32, (257, 65281)), (F64, (3 * 107, 28059810762433))],
    ids=["f16", "bf16", "f32", "f64"],
)
def test_fma_at_a_tie_that_an_addend_far_below_decides(dtype, factors):
    tie = factors[0] * factors[1]  # one bit more than the format holds, and odd
    assert tie.bit_length() == PRECISION[dtype.name][0] + 1 and tie & 1
    for scale in (1.0, 2.0**-4):
        for tiny in (2.0**-24, -(2.0**-24), 0.0):
            x, y, z = (np.array([v], dtype.numpy) for v in (factors[0] * scale, float(factors[1]), tiny * 2.0**-70))
            if dtype is F16:
                z = np.array([tiny], dtype.numpy)  # its least number
            got = float(numeric.fma(x, y, z)[0])
            assert got == nearest(Fraction(tie) * Fraction(scale) + Fraction(float(z[0])), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_keeps_the_sign_of_zero(dtype):
    def fma(*xyz: float) -> float:
        return float(numeric.fma(*(np.array([v], dtype.numpy) for v in xyz))[0])

    assert math.copysign(1, fma(1.0, -1.0, 1.0)) == 1
    assert math.copysign(1, fma(-0.0, 1.0, -0.0)) == -1
    assert math.copysign(1, fma(-0.0, 1.0, 0.0)) == 1
    least = 2.0 ** (PRECISION[dtype.name][1] - PRECISION[dtype.name][0] + 1)
    assert math.copysign(1, fma(-least, least, 0.0)) == -1


def wrapped(value: int, dtype: DType) -> int:
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def truncated_quotient(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def shifted_right(x: int, y: int, bits: int) -> int:
    return x >> min(y % (1 << bits), bits)


INTEGER_MEANING = {
    "add": lambda x, y, d: x + y,
    "sub": lambda x, y, d: x - y,
    "mul": lambda x, y, d: x * y,
    "div": lambda x, y, d: truncated_quotient(x, y) if y else 0,
    "rem": lambda x, y, d: x - truncated_quotient(x, y) * y if y else 0,
    "and": lambda x, y, d: x & y,
    "or": lambda x, y, d: x | y,
    "xor": lambda x, y, d: x ^ y,
    "shl": lambda x, y, d: x << (y % (1 << d.bits)) if y % (1 << d.bits) < d.bits else 0,
    "shr": lambda x, y, d: shifted_right(x, y, d.bits),
    "maximum": lambda x, y, d: max(x, y),
    "minimum": lambda x, y, d: min(x, y),
    "umulhi": lambda x, y, d: (x % (1 << d.bits)) * (y % (1 << d.bits)) >> d.bits,
}


def integer_samples(dtype: DType) -> list[int]:
    if dtype.bits == 8:
        return list(range(dtype.min_int, dtype.max_int + 1))
    corners = [0, 1, 2, 3, 7, 10, dtype.bits - 1, dtype.bits, dtype.bits + 1, dtype.max_int, dtype.max_int - 1]
    corners += [-1, -2, -3, -7, -10, dtype.min_int, dtype.min_int + 1, 1 << (dtype.bits // 2)]
    return sorted({wrapped(v, dtype) for v in corners} | {int(v) for v in random_bits_int(dtype, 40)})


def random_bits_int(dtype: DType, count: int) -> np.ndarray:
    return RNG.integers(dtype.min_int, dtype.max_int, count, dtype=dtype.numpy, endpoint=True)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in INTEGER_MEANING for dtype in INTS if dtype in BY_NAME[name].dtypes],
    ids=lambda v: str(v),
)
def test_integers_wrap_and_divide_as_c(name, dtype):
    samples = integer_samples(dtype)
    x, y = (v.astype(dtype.numpy) for v in _products(np.array(samples, dtype.numpy)))
    expected = [wrapped(INTEGER_MEANING[name](a, b, dtype), dtype) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    same(BY_NAME[name].numpy(x, y), np.array(expected, dtype.numpy), name)
    for divisor in samples[:: max(1, len(samples) // 16)]:  # NumPy has a path of its own for one divisor
        row = np.array(samples, dtype.numpy)
        wanted = [wrapped(INTEGER_MEANING[name](a, divisor, dtype), dtype) for a in samples]
        same(BY_NAME[name].numpy(row, np.array([divisor], dtype.numpy)), np.array(wanted, dtype.numpy), f"{name} one")


@pytest.mark.parametrize("dtype", [I8, I16, I32, I64], ids=str)
def test_negation_and_absolute_value_of_the_least_integer(dtype):
    least = np.array([dtype.min_int, -5, 5], dtype.numpy)
    assert BY_NAME["neg"].numpy(least).tolist() == [dtype.min_int, 5, -5]
    assert BY_NAME["abs"].numpy(least).tolist() == [dtype.min_int, 5, 5]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum", "maximum_nan", "minimum_nan"])
def test_extrema_of_nan_and_zeros(name, dtype):
    x, y = _products(np.array([math.nan, -math.inf, -1.0, -0.0, 0.0, 1.0, math.inf]).astype(dtype.numpy))
    pick, propagate = (max if name.startswith("max") else min), name.endswith("_nan")

    def expected(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return math.nan if propagate or (math.isnan(a) and math.isnan(b)) else b if math.isnan(a) else a
        return pick(a, b, key=lambda v: (v, math.copysign(1, v)))  # -0.0 below 0.0

    wanted = [expected(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    same(BY_NAME[name].numpy(x, y), np.array(wanted).astype(dtype.numpy), name)
    for repeat in (5, 64):  # vector and scalar loops of NumPy must agree
        many = BY_NAME[name].numpy(np.repeat(x, repeat), np.repeat(y, repeat))
        same(many, np.repeat(np.array(wanted).astype(dtype.numpy), repeat), name)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_remainder_is_exact_with_the_sign_of_the_left(dtype):
    x, y = (np.concatenate([random_bits(dtype, 1000), edges(dtype)]) for _ in range(2))
    y = np.roll(y, 3)
    for a, b, got in zip(x.tolist(), y.tolist(), BY_NAME["rem"].numpy(x, y).tolist(), strict=True):
        a, b, got = float(a), float(b), float(got)
        if not math.isfinite(a) or math.isnan(b) or b == 0:
            assert math.isnan(got)
        elif math.isinf(b):
            assert got == a
        else:
            remainder = abs(Fraction(a)) % abs(Fraction(b))
            assert abs(Fraction(got)) == remainder and math.copysign(1, got) == math.copysign(1, a)


MPMATH = {
    "exp": mpmath.exp,
    "exp2": lambda v: mpmath.power(2, v),
    "log": mpmath.log,
    "log2": lambda v: mpmath.log(v, 2),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "erf": mpmath.erf,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda v: 1 / mpmath.sqrt(v),
}


@pytest.mark.parametrize("name", MPMATH)
def test_math_functions_round_correctly_in_f32_and_nearly_so_in_f64(name):
    positive = name in ("log", "log2", "sqrt", "rsqrt")
    x = np.concatenate([RNG.standard_normal(300) * s for s in (1e-30, 1e-3, 1, 10, 80)])
    x = np.abs(x) if positive else x
    for dtype, allowed in ((F32, 0.5001), (F64, 0.5 if name == "sqrt" else 1.5)):
        values = x.astype(dtype.numpy)
        got = BY_NAME[name].numpy(values)
        precision, emin, _ = PRECISION[dtype.name]
        with mpmath.workprec(300):
            for v, result in zip(values.tolist(), got.tolist(), strict=True):
                exact = MPMATH[name](mpmath.mpf(v))
                if exact == 0 or not math.isfinite(result):
                    continue
                exponent = max(emin, int(mpmath.floor(mpmath.log(abs(exact), 2))))
                error = abs(exact - mpmath.mpf(result)) / mpmath.mpf(2) ** (exponent - precision + 1)
                assert error <= allowed, f"{name}({v!r}) = {result!r} is {mpmath.nstr(error)} ulp off"


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_math_functions_at_the_limits(dtype):
    def f(name: str, *values: float) -> list[float]:
        return BY_NAME[name].numpy(np.array(values, dtype.numpy)).tolist()

    inf = math.inf
    assert f("exp", -inf, inf, 0.0, -1e9, 1e9) == [0.0, inf, 1.0, 0.0, inf]
    assert f("exp2", -inf, inf, -3.0, 10.0) == [0.0, inf, 0.125, 1024.0]
    assert f("log", 0.0, inf, 1.0) == [-inf, inf, 0.0]
    assert f("log2", 0.0, 8.0, 0.25) == [-inf, 3.0, -2.0]
    assert f("sqrt", 0.0, 4.0, inf) == [0.0, 2.0, inf]
    assert f("rsqrt", 0.0, 4.0, inf) == [inf, 0.5, 0.0]
    assert f("floor", -0.5, 1.5, -2.0) == [-1.0, 1.0, -2.0]
    assert f("ceil", -1.5, 1.5, -2.0) == [-1.0, 2.0, -2.0]
    assert math.copysign(1, f("ceil", -0.5)[0]) == -1
    assert f("erf", 0.0, inf, -inf) == [0.0, 1.0, -1.0]
    for name, value in (("log", -1.0), ("sqrt", -1.0), ("rsqrt", -1.0), ("sin", inf), ("cos", -inf), ("exp", math.nan)):
        assert math.isnan(f(name, value)[0])


def cast_of(value, source: DType, target: DType) -> int | float | bool:
    """The conversion's meaning on one Python number."""
    if target.is_bool:
        return value != 0
    if target.is_int:
        if source.is_float:
            if math.isnan(value):
                return 0
            return (
                int(min(max(value, target.min_int), target.max_int))
                if math.isfinite(value)
                else (target.max_int if value > 0 else target.min_int)
            )
        return wrapped(int(value), target)
    if isinstance(value, float) and not math.isfinite(value):
        return value
    if value == 0:
        return value * 1.0
    return nearest(Fraction(value), target)


def cast_samples(dtype: DType) -> np.ndarray:
    if dtype.is_bool:
        return np.array([False, True])
    if not dtype.is_float:
        ties = [(1 << k) + (1 << (k - 8)) + d for k in range(9, dtype.bits - 1) for d in (-1, 0, 1)]
        ties += [(1 << k) + (1 << (k - 24)) + d for k in range(25, dtype.bits - 1) for d in (-1, 0, 1)]
        signed = [-t for t in ties] if dtype.is_signed else []
        return np.array([*integer_samples(dtype), *ties, *signed], dtype.numpy)
    limits = [s * 2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for d in (-1, -0.5, 0, 0.5, 1)]
    middles = np.array(
        [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-30, 65519.99, 65520.0]
    )
    scaled = [middles * 2.0**k for k in (0, 10, -20, -130)]
    return np.concatenate(
        [random_bits(dtype, 800), edges(dtype), np.array(limits).astype(dtype.numpy)]
        + [m.astype(dtype.numpy) for m in scaled]
        + [-middles.astype(dtype.numpy)]
    )


@pytest.mark.parametrize("target", ARITHMETIC, ids=str)
@pytest.mark.parametrize("source", ARITHMETIC, ids=str)
def test_casts_round_once_wrap_and_saturate(source, target):
    x = cast_samples(source)
    got = numeric.cast(x, source, target)
    assert got.dtype == target.numpy
    expected = [cast_of(float(v) if source.is_float else int(v), source, target) for v in x]
    wanted = (
        np.array(expected, np.float64).astype(target.numpy) if target.is_float else np.array(expected, target.numpy)
    )
    same(got, wanted, f"{source} to {target}")


def test_every_float_cast_of_all_f16():
    x = all_f16()
    finite = np.isfinite(x.astype(np.float64))
    assert (numeric.cast(x, F16, F64)[finite] == x.astype(np.float64)[finite]).all()
    back = numeric.cast(numeric.cast(x, F16, F32), F32, F16)
    same(back, x)
    bf16 = numeric.cast(x, F16, BF16).astype(np.float64)
    expected = [nearest(Fraction(float(v)), BF16) for v in x[finite]]
    assert bf16[finite].tolist() == expected


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_rows_keep_the_dtype_and_take_arrays_of_any_rank(row):
    for dtype in row.dtypes:
        operands = [np.array(v, dtype.numpy) for v in (1, 1, 0)][: row.arity]
        scalar = row.numpy(*operands)
        block = row.numpy(*(np.broadcast_to(o, (2, 3)) for o in operands))
        assert np.asarray(scalar).dtype == block.dtype == (BOOL.numpy if row.result == "bool" else dtype.numpy)
        assert np.asarray(scalar).shape == () and block.shape == (2, 3)
        assert (block == scalar).all()


@pytest.mark.parametrize("dtype", [I8, U8, I32, U32, I64, U64, F16, BF16, F32, F64, BOOL], ids=str)
def test_comparisons(dtype):
    values = [0, 1] if dtype.is_bool else [0, 1, 2, 3]
    values += [-1, dtype.min_int] if dtype.kind == "int" else [-0.0, math.nan, -1.5] if dtype.is_float else []
    x, y = _products(np.array(values).astype(dtype.numpy))
    python = {"lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "eq": "__eq__", "ne": "__ne__"}
    kind = float if dtype.is_float else int
    for name, method in python.items():
        expected = [getattr(kind(a), method)(kind(b)) for a, b in zip(x, y, strict=True)]
        assert BY_NAME[f"cmp_{name}"].numpy(x, y).tolist() == expected


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_fma_adds_an_infinity_to_a_product_that_overflows(infinity):
    huge = np.array([1e300, -1e300, 2.0])
    assert np.array_equal(numeric.fma(huge, np.full(3, 1e300), np.full(3, infinity)), np.full(3, infinity))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("size", [1, 3, 40])
def test_extrema_skip_signaling_nan(dtype, size):
    three = np.full(size, 3, dtype)
    signaling = np.full(size, np.inf, dtype)
    bits = signaling.view(f"u{signaling.itemsize}")
    bits += np.ones(1, bits.dtype)  # the smallest payload, quiet bit clear
    for function in (numeric.maximum, numeric.minimum):
        assert (function(three, signaling) == 3).all() and (function(signaling, three) == 3).all()
        assert np.isnan(function(signaling, signaling)).all()
