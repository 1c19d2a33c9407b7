"""Attention and linear layers: the oracles against plain formulas, and their enclosures against computations in f32."""

import mpmath
import numpy as np
import pytest

from oracles import OracleError, lookup
from oracles.bounded import FAST, BoundedNamespace, Model
from oracles.compare import Tolerance, judge, self_check
from oracles.formats import FORMATS

F32 = np.float32
attention, linear = lookup("oracles.attention:attention"), lookup("oracles.nn:linear")


def operands(heads=4, kv_heads=2, queries=24, keys=40, depth=16, dtype="f32", seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"q": (heads, queries, depth), "k": (kv_heads, keys, depth), "v": (kv_heads, keys, depth)}
    drawn = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    drawn["v"] = rng.uniform(0.5, 2.0, shapes["v"])
    return {name: x.astype(FORMATS[dtype].dtype) for name, x in drawn.items()}


def by_rows(x, causal, scale):
    """One query after the other, in 40 digits."""
    q, k, v = (x[n].astype(float) for n in "qkv")
    group = q.shape[0] // k.shape[0]
    out, lse = np.zeros((*q.shape[:2], v.shape[-1])), np.full(q.shape[:2], -np.inf)
    with mpmath.workdps(40):
        for h in range(q.shape[0]):
            for i in range(q.shape[1]):
                seen = min(k.shape[1], max(0, i + 1 + k.shape[1] - q.shape[1])) if causal else k.shape[1]
                if not seen:
                    continue
                weights = [mpmath.exp(scale * mpmath.fdot(q[h, i], k[h // group, j])) for j in range(seen)]
                total = mpmath.fsum(weights)
                columns = v[h // group, :seen].T
                out[h, i] = [float(mpmath.fdot(weights, column) / total) for column in columns]
                lse[h, i] = float(mpmath.log(total))
    return out, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(5, 9), (9, 5), (1, 7)])
def test_attention_is_its_definition(causal, queries, keys):
    x = operands(queries=queries, keys=keys)
    refs = attention(x, {"causal": causal, "softmax_scale": 0.3})
    out, lse = by_rows(x, causal, 0.3)
    assert np.allclose(refs["out"], out, rtol=1e-12, atol=0)
    assert np.allclose(refs["lse"], lse, rtol=1e-12, atol=1e-13)


def test_attention_without_keys():
    refs = attention(operands(keys=0), {})
    assert (refs["out"] == 0).all() and (refs["lse"] == -np.inf).all()


def test_attention_refuses_heads_that_do_not_divide():
    with pytest.raises(OracleError, match="attention of shapes"):
        attention(operands(heads=3), {})


def online_in_f32(x, scale, block, p_dtype):
    """Blocks of keys one after the other, in f32, probabilities stored in `p_dtype`."""
    q, k, v = (x[n].astype(F32) for n in "qkv")
    group = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, group, 0), np.repeat(v, group, 0)
    c = F32(scale * np.log2(np.e))
    largest, total = np.full((*q.shape[:2], 1), -np.inf, F32), np.zeros((*q.shape[:2], 1), F32)
    acc = np.zeros((*q.shape[:2], v.shape[-1]), F32)
    for j in range(0, k.shape[1], block):
        scores = q @ k[:, j : j + block].swapaxes(1, 2)
        new = np.maximum(largest, scores.max(-1, keepdims=True))
        p, keep = np.exp2(scores * c - new * c), np.exp2(largest * c - new * c)
        total = total * keep + p.sum(-1, keepdims=True)
        acc = acc * keep + p.astype(p_dtype).astype(F32) @ v[:, j : j + block]
        largest = new
    return acc / total, (largest * c + np.log2(total))[..., 0] * F32(np.log(2))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_enclosure_of_attention_holds_the_online_form_and_rejects_what_is_wrong(dtype):
    x = operands(dtype=dtype)
    depth = 40 + 32 * 3
    refs = attention(x, {"softmax_scale": 0.25}, xp=BoundedNamespace(Model("f32", FAST, depth=lambda n: depth)))
    out, lse = online_in_f32(x, 0.25, 16, FORMATS[dtype].dtype)
    out = out.astype(FORMATS[dtype].dtype)
    assert judge(out, refs, "out", Tolerance("derived")).ok
    assert judge(lse, refs, "lse", Tolerance("derived")).ok
    assert self_check(refs, "out", dtype, Tolerance("derived")) == []
    assert self_check(refs, "lse", "f32", Tolerance("derived")) == []
    out[1, 2, 3] *= out.dtype.type(1.03)
    assert not judge(out, refs, "out", Tolerance("derived")).ok


def test_a_nan_among_the_keys_reaches_the_queries_that_see_it():
    x = operands(heads=1, kv_heads=1, queries=6, keys=6)
    x["k"][0, 3, 0] = np.nan
    for xp in (None, BoundedNamespace(Model("f32"))):
        refs = attention(x, {"causal": True}, xp=xp)
        assert np.isnan(refs["out"]).all(-1)[0].tolist() == [False] * 3 + [True] * 3


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: max(x, mpmath.mpf(0)),
    "gelu": lambda x: x * mpmath.ncdf(x),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_linear(name):
    rng = np.random.default_rng(0)
    x = {"a": rng.standard_normal((7, 11)), "b": rng.standard_normal((11, 5)), "bias": rng.standard_normal(5)}
    x = {key: value.astype(F32) for key, value in x.items()}
    exact = np.vectorize(lambda v: float(ACTIVATIONS[name](mpmath.mpf(v))))
    product = np.matmul(x["a"].astype(float), x["b"].astype(float)) + x["bias"]
    assert np.allclose(linear(x, {"activation": name})["out"], exact(product), rtol=1e-12, atol=1e-13)
    refs = linear(x, {"activation": name}, xp=BoundedNamespace(Model("f32")))
    y = exact(product).astype(F32)
    assert judge(y, refs, "out", Tolerance("derived")).ok
    y[2, 3] += F32(0.001)
    assert not judge(y, refs, "out", Tolerance("derived")).ok


def test_linear_refuses_an_unknown_activation():
    with pytest.raises(OracleError, match="activation 'swish'"):
        linear({"a": np.zeros((2, 2), F32), "b": np.zeros((2, 2), F32)}, {"activation": "swish"})
