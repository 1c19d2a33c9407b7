"""Activations and softmax against mpmath, and their enclosures against f32 computations."""

import mpmath
import numpy as np
import pytest

from oracles import OracleError, lookup
from oracles.bounded import FAST, BoundedNamespace, Model
from oracles.compare import Tolerance, judge, self_check

F32 = np.float32
X = (np.random.default_rng(0).standard_normal(300) * 2.0 ** np.random.default_rng(1).integers(-6, 5, 300)).astype(F32)


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


EXACT = {
    "relu": lambda x: max(x, mpmath.mpf(0)),
    "leaky_relu": lambda x: x if x > 0 else x * mpmath.mpf(0.01),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * mpmath.ncdf(x),
}


def computed_in_f32(name, x):
    """The formula as a kernel evaluates it in f32, with a libm good to an ULP."""
    exp = np.exp(-x.astype(float)).astype(F32)
    if name == "relu":
        return np.maximum(x, F32(0))
    if name == "leaky_relu":
        return np.where(x > 0, x, x * F32(0.01))
    if name == "gelu":
        erf = np.array([mpmath.erf(float(v)) for v in x * F32(np.sqrt(0.5))], float).astype(F32)
        return F32(0.5) * x * (F32(1) + erf)
    gate = F32(1) / (F32(1) + exp)
    return gate if name == "sigmoid" else x * gate


@pytest.mark.parametrize("name", EXACT)
def test_activations(name):
    refs = lookup(f"oracles.nn:{name}")({"x": X}, {})
    with mpmath.workdps(60):
        exact = np.array([float(EXACT[name](mpmath.mpf(float(v)))) for v in X])
    # gelu in fp64 cancels for large negative arguments; relative to x it is as good as the others
    assert np.allclose(refs["out"], exact, rtol=1e-12, atol=1e-15 * np.abs(X).max() if name == "gelu" else 0)


@pytest.mark.parametrize("name", EXACT)
def test_enclosures_hold_f32_and_reject_what_is_wrong(name):
    oracle = lookup(f"oracles.nn:{name}")
    x = X[X > -4] if name == "gelu" else X  # its formula cancels below: nothing relative can be promised
    refs = oracle({"x": x}, {}, xp=BoundedNamespace(Model("f32")))
    y = computed_in_f32(name, x)
    assert judge(y, refs, "out", Tolerance("derived")).ok
    assert self_check(refs, "out", "f32", Tolerance("derived")) == []
    one_wrong = y.copy()
    one_wrong[np.argmax(np.abs(y))] *= F32(1 + 1e-5)
    assert not judge(one_wrong, refs, "out", Tolerance("derived")).ok


def test_gelu_tanh_is_the_published_formula():
    refs = lookup("oracles.nn:gelu")({"x": X}, {"approximate": "tanh"})
    x = X.astype(float)
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert np.allclose(refs["out"], tanh, rtol=1e-9, atol=1e-13)
    with pytest.raises(OracleError, match="approximate 'fast'"):
        lookup("oracles.nn:gelu")({"x": X}, {"approximate": "fast"})


def test_activations_at_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0.0], F32)
    expected = {
        "relu": [0.0, np.inf, 0.0, 0.0],
        "leaky_relu": [np.nan, np.inf, -np.inf, 0.0],
        "sigmoid": [np.nan, 1.0, 0.0, 0.5],
        "silu": [np.nan, np.inf, np.nan, 0.0],
    }
    for name, values in expected.items():
        assert np.array_equal(lookup(f"oracles.nn:{name}")({"x": x}, {})["out"], values, equal_nan=True), name
        refs = lookup(f"oracles.nn:{name}")({"x": x}, {}, xp=BoundedNamespace(Model("f32")))
        assert judge(np.array(values, F32), refs, "out", Tolerance("derived")).ok, name
    slope = lookup("oracles.nn:leaky_relu")({"x": np.array([-2.0], F32)}, {"slope": 0.25})
    assert slope["out"].tolist() == [-0.5]


def test_sigmoid_where_its_exponential_overflows():
    x = np.array([-100.0, -89.0, -88.0, 0.0], F32)
    refs = lookup("oracles.nn:sigmoid")({"x": x}, {}, xp=BoundedNamespace(Model("f32")))
    with np.errstate(over="ignore"):
        y = computed_in_f32("sigmoid", x)
    assert y[0] == 0.0 and judge(y, refs, "out", Tolerance("derived")).ok
    assert not judge(np.array([1e-30, *y[1:]], F32), refs, "out", Tolerance("derived")).ok


# ------------------------------------------------------------------------------------- softmax
SOFTMAX = "oracles.nn:softmax"
ROWS = (np.random.default_rng(2).standard_normal((6, 50)) * 4).astype(F32)


def test_softmax_against_mpmath():
    out = lookup(SOFTMAX)({"x": ROWS}, {})["out"]
    with mpmath.workdps(50):
        for row, y in zip(ROWS.tolist(), out, strict=True):
            e = [mpmath.exp(v) for v in row]
            assert np.allclose(y, [float(v / mpmath.fsum(e)) for v in e], rtol=1e-13, atol=0)


def test_softmax_along_another_axis_and_shifted():
    columns = lookup(SOFTMAX)({"x": ROWS}, {"axis": 0})["out"]
    assert np.allclose(columns, lookup(SOFTMAX)({"x": ROWS.T}, {})["out"].T, rtol=1e-14)
    assert np.allclose(columns.sum(0), 1, rtol=1e-14)
    far = lookup(SOFTMAX)({"x": ROWS.astype(float) + 1e6}, {})["out"]
    assert np.allclose(far, lookup(SOFTMAX)({"x": ROWS}, {})["out"], rtol=1e-8)


def test_softmax_at_special_values():
    x = np.array([[1, -np.inf, 1], [1, np.nan, 0], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 0]], F32)
    refs = lookup(SOFTMAX)({"x": x}, {}, xp=BoundedNamespace(Model("f32")))
    assert refs["out"][0].tolist() == [0.5, 0, 0.5]
    assert np.isnan(refs["out"][1]).all() and np.isnan(refs["out"][2]).all() and np.isnan(refs["out"][3, 0])
    good = np.array([[0.5, 0, 0.5], [np.nan] * 3, [np.nan] * 3, [np.nan] * 3], F32)
    assert judge(good, refs, "out", Tolerance("derived")).ok
    wrong = good.copy()
    wrong[0, 1] = 1e-3
    assert not judge(wrong, refs, "out", Tolerance("derived")).ok


@pytest.mark.parametrize("dtype", [F32, np.float16])
@pytest.mark.parametrize("fast", [False, True])
def test_the_derived_bound_of_softmax_separates_right_from_wrong(dtype, fast):
    model = Model("f32", ulp=FAST) if fast else Model("f32")
    x = ROWS.astype(dtype)
    refs = lookup(SOFTMAX)({"x": x}, {}, xp=BoundedNamespace(model))
    rule = Tolerance("derived")
    wide = x.astype(F32)
    z = wide - wide.max(1, keepdims=True)
    power = z * F32(1.4426950408889634) if fast else z
    e = (np.exp2 if fast else np.exp)(power.astype(float)).astype(F32)
    y = (e / e.sum(1, keepdims=True)).astype(dtype)
    verdict = judge(y, refs, "out", rule)
    assert verdict.ok and 0 < verdict.max_err_over_bound <= 1
    assert self_check(refs, "out", dtype, rule, stale=np.full_like(x, 7)) == []
    lost_max = np.exp(wide) / np.exp(wide)[:, 1:].sum(1, keepdims=True)
    assert not judge(lost_max.astype(dtype), refs, "out", rule).ok


def test_log_softmax():
    refs = lookup("oracles.nn:log_softmax")({"x": ROWS}, {}, xp=BoundedNamespace(Model("f32")))
    assert np.allclose(refs["out"], np.log(lookup(SOFTMAX)({"x": ROWS}, {})["out"]), rtol=1e-12)
    z = ROWS - ROWS.max(1, keepdims=True)
    total = np.exp(z.astype(float)).astype(F32).sum(1, keepdims=True)
    y = z - np.log(total.astype(float)).astype(F32)
    assert judge(y.astype(F32), refs, "out", Tolerance("derived")).ok
    assert self_check(refs, "out", "f32", Tolerance("derived")) == []
