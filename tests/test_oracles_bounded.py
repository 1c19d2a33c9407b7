"""Bounded numbers are sound (true f32 and f16 computations in any order stay inside) and not useless."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from oracles import OracleError
from oracles.bounded import FAST, PRECISE, Bounded, BoundedNamespace, Model, Ulp
from oracles.formats import format_of, round_to, to_format, ulp
from oracles.reals import REALS

F32 = np.float32
SEEDS = st.integers(0, 2**32 - 1)


def inside(computed, bounded):
    """Every computed element lies in its interval; a free interval allows NaN, a NaN interval demands it."""
    y = np.asarray(computed).astype(np.float64)
    nan = np.isnan(bounded.lower)
    fits = (y >= bounded.lower) & (y <= bounded.upper)
    good = np.where(nan, np.isnan(y), fits | bounded.free)
    assert good.all(), (
        f"{(~good).sum()} outside, e.g. {y[~good][:3]} not in "
        f"[{bounded.lower[~good][:3]}, {bounded.upper[~good][:3]}], value {bounded.value[~good][:3]}"
    )


def wild(rng, shape, spread=20):
    """f32 values of very different magnitudes, with zeros, subnormals and near overflow."""
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread, shape)
    special = rng.choice([0.0, -0.0, 1.0, 1e-45, -1e-40, 1.2e-38, 3e38, -3e38, 2.0**64], shape)
    return np.where(rng.random(shape) < 0.2, special, x).astype(F32)


def sum_in_random_order(x, rng):
    """Sum along the last axis in f32: shuffled, then by pairs, serially, or in lanes, at random."""
    x = x[..., rng.permutation(x.shape[-1])].astype(F32)
    style = rng.integers(3)
    if style == 0:
        while x.shape[-1] > 1:
            half = x.shape[-1] // 2
            rest = x[..., 2 * half :]
            x = np.concatenate([x[..., :half] + x[..., half : 2 * half], rest], -1)
        return x[..., 0]
    lanes = 1 if style == 1 else 8
    total = np.zeros((*x.shape[:-1], lanes), F32)
    for start in range(0, x.shape[-1], lanes):
        part = x[..., start : start + lanes]
        total[..., : part.shape[-1]] += part
    answer = total[..., 0]
    for lane in range(1, lanes):
        answer = answer + total[..., lane]
    return answer


def with_ulp_errors(exact, limit, rng, dtype=F32):
    """fp64 results in a format, in error by at most `limit` ULP at random (rounding takes 1 of them)."""
    fmt = format_of(dtype)
    finite = np.isfinite(exact)
    noise = rng.uniform(-1, 1, np.shape(exact)) * (limit - 1) * ulp(np.where(finite, exact, 1.0), fmt)
    return to_format(np.where(finite, exact + noise, exact), fmt)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS)
def test_arithmetic_contains_f32(seed):
    rng = np.random.default_rng(seed)
    xp = BoundedNamespace(Model("f32"))
    a, b, c, d = (wild(rng, 64) for _ in range(4))
    A, B, C, D = map(xp.asarray, (a, b, c, d))
    with np.errstate(all="ignore"):
        inside(a + b, A + B)
        inside(a * b, A * B)
        inside(a * b + c, A * B + C)
        inside((a * b.astype(float) + c).astype(F32), A * B + C)  # contracted to one rounding
        inside((a - b) * (c + d), (A - B) * (C + D))
        inside((a + b) / (c - d), (A + B) / (C - D))
        inside(a / (b * c), A / (B * C))
        inside(-(a + b) * d, -(A + B) * D)
        inside(np.abs(a - b) - c, abs(A - B) - C)
        inside(np.sqrt(np.abs(a * b)), xp.sqrt(abs(A * B)))
        inside(1 / (1 + a * a), 1 / (1 + A * A))
        inside(np.maximum(a - b, c), xp.maximum(A - B, C))
        inside(np.fmin(a - b, c), xp.fmin(A - B, C))
        inside(np.floor(a * b), xp.floor(A * B))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS, st.integers(1, 300))
def test_sums_contain_every_order(seed, n):
    rng = np.random.default_rng(seed)
    xp = BoundedNamespace(Model("f32"))
    x = wild(rng, (6, n))
    with np.errstate(all="ignore"):
        s = xp.sum(xp.asarray(x), axis=-1)
        for _ in range(4):
            inside(sum_in_random_order(x, rng), s)
        y = (np.abs(x) + F32(1)) * F32(0.1)
        t = xp.sum((abs(xp.asarray(x)) + 1) * 0.1, axis=-1)
        for _ in range(4):
            inside(sum_in_random_order(y, rng), t)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(["exp", "exp2", "log", "log2", "sin", "cos", "erf", "tanh", "rsqrt", "sqrt"]))
def test_functions_contain_every_result_of_their_class(seed, name):
    rng = np.random.default_rng(seed)
    rows = {**PRECISE, name: Ulp(3)}
    xp = BoundedNamespace(Model("f32", ulp=rows))
    a, b = wild(rng, 256, 6), wild(rng, 256, 6)
    with np.errstate(all="ignore"):
        argument = a + b
        exact = getattr(REALS, name)(argument.astype(np.float64))
        computed = with_ulp_errors(exact, 3, rng)
        if name in ("exp", "exp2", "sqrt"):  # no implementation returns a negative number
            computed = np.maximum(computed, F32(0))
        inside(computed, getattr(xp, name)(xp.asarray(a) + b))


def softmax(xp, x):
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def softmax_f32(x, rng, fast):
    z = (x - x.max(-1, keepdims=True)).astype(F32)
    e = np.exp(z.astype(np.float64))
    limit = (2 + 1.173 * np.abs(np.where(np.isfinite(z), z, 0))) if fast else 2
    e = np.maximum(with_ulp_errors(e, limit, rng), 0)
    e = np.where(np.isneginf(z), F32(0), e)
    return e / sum_in_random_order(e, rng)[..., None]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS, st.integers(1, 200), st.booleans(), st.sampled_from([1.0, 10.0, 60.0]))
def test_softmax_is_contained_and_the_bound_is_useful(seed, n, fast, scale):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((5, n)) * scale).astype(F32)
    x[:, 1:][rng.random((5, n - 1)) < 0.1] = -np.inf
    xp = BoundedNamespace(Model("f32", ulp=FAST if fast else PRECISE))
    y = softmax(xp, xp.asarray(x))
    for _ in range(3):
        with np.errstate(all="ignore"):
            inside(softmax_f32(x, rng, fast), y)
    assert y.useless() == 0
    assert np.allclose(y.value, softmax(np, x.astype(float)), rtol=1e-12)
    normal = y.value > 1e-30
    assert (y.bound[normal] <= (n + 200) * 2.0**-22 * y.value[normal]).all()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SEEDS, st.integers(2, 300))
def test_layer_norm_is_contained(seed, n):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((4, n)) * 3 + 1).astype(F32)
    w, b = rng.standard_normal((2, n)).astype(F32)
    xp = BoundedNamespace(Model("f32"))
    X, eps = xp.asarray(x), 1e-3
    centred = X - xp.mean(X, axis=-1, keepdims=True)
    y = centred * xp.rsqrt(xp.mean(xp.square(centred), axis=-1, keepdims=True) + eps) * w + b
    for reciprocal in (False, True):
        mean = sum_in_random_order(x, rng) / F32(n)
        c = x - mean[:, None]
        total = sum_in_random_order(c * c, rng)
        var = total * (F32(1) / F32(n)) if reciprocal else total / F32(n)
        r = with_ulp_errors(1 / np.sqrt((var + F32(eps)).astype(float)), 2, rng)
        inside(c * r[:, None] * w + b, y)
    assert y.useless() < 0.02


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS, st.integers(1, 80))
def test_matmul_contains_every_order(seed, k):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((5, k)).astype(F32), rng.standard_normal((k, 7)).astype(F32)
    xp = BoundedNamespace(Model("f32"))
    c = xp.matmul(a, b)
    d = xp.matmul(xp.asarray(a) * 0.3, b)
    for _ in range(3):
        inside(sum_in_random_order(a[:, None, :] * b.T[None], rng), c)
        inside(sum_in_random_order((a * F32(0.3))[:, None, :] * b.T[None], rng), d)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS)
def test_ambiguous_branches_cover_both_arms(seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(200).astype(F32) for _ in range(2))
    b[:50] = F32(0.1) * a[:50]  # the two sides of the condition differ by roundings only
    xp = BoundedNamespace(Model("f32"))
    A, B = xp.asarray(a), xp.asarray(b)
    y = xp.where(A * 0.1 < B, A + 1, B - 5)
    inside(np.where(a * F32(0.1) < b, a + F32(1), b - F32(5)), y)
    inside(np.where(a.astype(float) * 0.1 < b, a + F32(1), b - F32(5)), y)
    unsure = ~(A * 0.1 < B).sure
    assert unsure[:50].all() and not unsure[50:].all()


def test_overflow_is_an_interval_up_to_infinity():
    xp = BoundedNamespace(Model("f32"))
    x = xp.asarray(np.array([-100.0, -88.0, 0.0, 100.0], F32))
    s = 1 / (1 + xp.exp(-x))
    assert s.lower[0] <= 0.0 and s.upper[0] < 1e-38  # exp(100) is infinite in f32, its reciprocal zero
    assert s.upper[3] >= 1 and s.lower[3] > 0.999
    certain = xp.asarray(np.array([3e38], F32)) * 2
    assert certain.value[0] == pytest.approx(6e38)
    assert round_to(certain.lower, "f32")[0] == certain.upper[0] == np.inf
    inside(np.array([3e38], F32), certain * 0.5)  # the product may be fused with what follows


@np.errstate(all="ignore")
def test_specials():
    xp = BoundedNamespace(Model("f32"))
    inf, nan = xp.asarray(np.array([np.inf])), xp.asarray(np.array([np.nan]))
    for demands_nan in (
        inf - inf,
        inf * 0.0,
        nan + 1,
        xp.exp(nan),
        xp.maximum(nan, 1.0),
        xp.log(xp.asarray([-1.0])),
    ):
        assert np.isnan(demands_nan.lower).all() and np.isnan(demands_nan.upper).all()
    assert xp.fmax(nan, 1.0).lower[0] == xp.fmax(nan, 1.0).upper[0] == 1
    assert (inf + 1).lower[0] == np.inf
    maybe = xp.asarray(np.array([0.1])) * 3 - xp.asarray(np.array([0.3]))  # straddles zero
    assert xp.sqrt(maybe).free.all() and (1 / maybe).free.all()
    assert not (nan < 1).value.any() and (nan < 1).sure.all() and (nan != 1).value.all()
    assert xp.sum(xp.asarray(np.array([1.0, np.inf, -2.0]))).lower == np.inf
    assert np.isnan(xp.sum(xp.asarray(np.array([-np.inf, np.inf]))).lower)


def test_exact_operations_add_nothing():
    xp = BoundedNamespace(Model("f32"))
    x = np.array([-2.0, -0.0, 1e-45, 3.5], F32)
    X = xp.asarray(x)
    for y in (-X, abs(X), xp.where(x > 0, X, 0.0), xp.maximum(X, 0.0), xp.max(X), X - X):
        assert (y.bound == 0).all()


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_arithmetic_of_narrow_formats(dtype):
    rng = np.random.default_rng(7)
    fmt = format_of(dtype)
    xp = BoundedNamespace(Model(fmt.name))
    a, b, c = (rng.standard_normal(2000).astype(dtype) for _ in range(3))

    def stored(x):
        return to_format(x, fmt).astype(np.float64)

    A, B, C = map(xp.asarray, (a, b, c))
    a, b, c = (x.astype(np.float64) for x in (a, b, c))
    inside(stored(stored(a * b) + c), A * B + C)
    inside(stored(stored(a + b) / stored(c * c + 1)), (A + B) / (C * C + 1))


def test_casts_round_both_ends():
    xp = BoundedNamespace(Model("f32"))
    x = np.random.default_rng(3).standard_normal(500).astype(F32)
    y = xp.cast(xp.asarray(x) * 3, "bf16")
    inside((x * F32(3)).astype(bfloat16), y)
    with pytest.raises(OracleError, match="wider"):
        xp.cast(x, "f64")


def test_flushed_results_are_inside_only_under_a_flushing_model():
    x = np.array([1e-20], F32)
    for flush in (True, False):
        xp = BoundedNamespace(Model("f32", flush=flush))
        y = xp.asarray(x) * x * 8.0
        assert (y.lower[0] <= 0 <= y.upper[0]) == flush


def test_a_model_without_the_row_is_an_error():
    xp = BoundedNamespace(Model("f32", ulp={}))
    with pytest.raises(OracleError, match="no accuracy row for 'exp'"):
        xp.exp(1.0)
    with pytest.raises(OracleError, match="no error bound"):
        BoundedNamespace(Model("bf16")).sum(np.ones(256))


def test_bounded_is_a_value_of_its_model():
    x = BoundedNamespace(Model("f16")).asarray(0.1)
    assert isinstance(x, Bounded) and x.value == 0.1 and x.lower == x.upper == float(np.float16(0.1))
