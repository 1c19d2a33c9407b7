"""The launching function of attention, on NumPy arrays."""

import numpy as np
import pytest

from oracles import lookup
from refcompiler.errors import LaunchError
from refcompiler.kernels.attention import attention, configuration

SMALL = {"BM": 16, "BN": 16, "num_warps": 4}
RNG = np.random.default_rng(0)
ORACLE = lookup("oracles.attention:attention")


def operands(batch=2, heads=4, kv_heads=2, queries=20, keys=33, depth=16, dtype=np.float16):
    q = RNG.standard_normal((batch, heads, queries, depth)).astype(dtype)
    k, v = (RNG.standard_normal((batch, kv_heads, keys, depth)).astype(dtype) for _ in range(2))
    return q, k, v


def check(q, k, v, got, lse=None, **params):
    refs = ORACLE({"q": q, "k": k, "v": v}, params)
    assert np.allclose(got.astype(float), refs["out"], rtol=4e-3, atol=4e-3)
    if lse is not None:
        assert np.allclose(lse, refs["lse"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth", [16, 20, 64])
def test_attention(causal, depth):
    q, k, v = operands(depth=depth)
    lse = np.empty(q.shape[:3], np.float32)
    check(q, k, v, attention(q, k, v, lse=lse, causal=causal, **SMALL), lse, causal=causal)


def test_heads_beside_each_other_in_a_row():
    q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in operands())
    out = np.empty((2, 20, 4, 16), np.float16).swapaxes(1, 2)
    assert attention(q, k, v, out, causal=True, softmax_scale=0.5, **SMALL) is out
    check(q, k, v, out, causal=True, softmax_scale=0.5)


def test_the_default_configuration():
    q, k, v = operands(1, 1, 1, 150, 140, 64)
    check(q, k, v, attention(q, k, v, causal=True), causal=True)


def test_no_keys_and_no_queries():
    q, k, v = operands(keys=0)
    assert (attention(q, k, v, **SMALL) == 0).all()
    assert attention(*operands(queries=0)).shape == (2, 4, 0, 16)


@pytest.mark.parametrize("change, message", [
    ({"kv_heads": 3}, "q, k, v and out have shapes"),
    ({"softmax_scale": 0.0}, "the scale must be positive"),
    ({"softmax_scale": -1.0}, "the scale must be positive"),
    ({"lse": np.empty((2, 4, 7), np.float32)}, "lse is a contiguous array of shape"),
    ({"out": np.empty((2, 4, 7, 16), np.float16)}, "q, k, v and out have shapes"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(change, message):
    q, k, v = operands(kv_heads=change.pop("kv_heads", 2))
    with pytest.raises(LaunchError, match=message):
        attention(q, k, v, **change)


def test_dtypes_that_differ_or_are_not_served_are_refused_at_the_call():
    q, k, v = operands()
    with pytest.raises(LaunchError, match="dtypes f16, f32 and f16; expected one of") as caught:
        attention(q, k.astype(np.float32), v)
    assert caught.value.span is None
    with pytest.raises(LaunchError, match="dtypes f64, f64 and f64"):
        attention(*(x.astype(np.float64) for x in (q, k, v)))
    with pytest.raises(LaunchError, match="attention has no option `scale`"):
        attention(q, k, v, scale=2.0)


def test_columns_that_are_not_contiguous_are_refused():
    q, k, v = operands(depth=32)
    with pytest.raises(LaunchError, match="elements of a row of q are 2 apart"):
        attention(q[..., ::2], k[..., ::2], v[..., ::2])


@pytest.mark.parametrize(("arch", "boxes"), [("sm_80", False), ("sm_90a", False), ("sm_90a", True)])
def test_configurations_fit_shared_memory(arch, boxes):
    for depth in (64, 128, 256):
        c = configuration(depth, 2, arch, boxes)
        stages = c["num_stages"] if arch == "sm_80" else 2  # rings have as many slots as there is room for
        blocks = c["BM"] * depth * 2 + stages * 2 * c["BN"] * depth * 2
        assert blocks <= {"sm_80": 163, "sm_90a": 227}[arch] * 1024
