"""Elementwise kernels as people write them: polynomials, quantisation, activations, mixed dtypes, any block."""

import ml_dtypes
import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(7)


def floats(*shape: int, scale: float = 4.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def cover(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


@triton.jit
def horner(x_ptr, out_ptr, n, c0, c1, c2, c3, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = ((c3 * x + c2) * x + c1) * x + c0
    tl.store(out_ptr + offs, y, mask=mask)


@pytest.mark.parametrize(("block", "warps"), [(1, (1,)), (2, (4,)), (8, (1, 16)), (2048, (32,))])
def test_horner(block, warps):
    n = 3 * block - block // 2
    x = RNG.integers(-5, 6, n).astype(np.float32)
    out = ((2 * x - 3) * x + 7) * x + 1
    check(
        horner,
        cover,
        {"x_ptr": x, "out_ptr": np.zeros(n, "f4"), "n": n, "c0": 1.0, "c1": 7.0, "c2": -3.0, "c3": 2.0, "BLOCK": block},
        {"out_ptr": out},
        warps=warps,
    )


def test_one_block_of_16384():
    n = 16384 - 5
    x = RNG.integers(-5, 6, n).astype(np.float32)
    arguments = {
        "x_ptr": x,
        "out_ptr": np.zeros(n, "f4"),
        "n": n,
        "c0": 0.0,
        "c1": 1.0,
        "c2": 0.0,
        "c3": 0.0,
        "BLOCK": 16384,
    }
    check(horner, (1,), arguments, {"out_ptr": x.copy()}, warps=(16,))


@triton.jit
def quantize(x_ptr, q_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    top = tl.max(tl.abs(x), axis=0)
    scale = tl.where(top > 0, top / 127.0, 1.0)
    q = tl.floor(x / scale + 0.5)
    q = tl.clamp(q, -127.0, 127.0)
    tl.store(q_ptr + i, q.to(tl.int8), mask=i < n)
    tl.store(scale_ptr, scale)


@triton.jit
def dequantize(q_ptr, scale_ptr, x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(q_ptr + i, mask=i < n) * tl.load(scale_ptr), mask=i < n)


@pytest.mark.parametrize("zero", [False, True])
def test_quantize(zero):
    n = 100
    x = np.zeros(n, "f4") if zero else floats(n)
    top = np.abs(x).max()
    scale = np.float32(top / np.float32(127)) if top > 0 else np.float32(1)
    q = np.clip(np.floor(x / scale + np.float32(0.5)), -127, 127).astype(np.int8)
    arguments = {"x_ptr": x, "q_ptr": np.zeros(n, "i1"), "scale_ptr": np.zeros(1, "f4"), "n": n, "BLOCK": 128}
    check(quantize, (1,), arguments, {"q_ptr": q, "scale_ptr": np.array([scale])})
    arguments = {"q_ptr": q, "scale_ptr": np.array([scale]), "x_ptr": np.zeros(n, "f4"), "n": n, "BLOCK": 16}
    check(dequantize, cover, arguments, {"x_ptr": q.astype("f4") * scale})


@triton.jit
def cast_and_store(x_ptr, f16, bf16, f64, i8, u32, flag, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    x = tl.load(x_ptr + i, mask=m)
    tl.store(f16 + i, x, mask=m)
    tl.store(bf16 + i, x, mask=m)
    tl.store(f64 + i, x, mask=m)
    tl.store(i8 + i, x, mask=m)
    tl.store(u32 + i, x.to(tl.uint32), mask=m)
    tl.store(flag + i, x > 0, mask=m)


@pytest.mark.parametrize("warps", [(1,), (8,)])
def test_one_load_and_six_stores(warps):
    n = 77
    x = floats(n, scale=100)
    x = np.clip(x, -128, 127)
    outs = {
        "f16": x.astype(np.float16),
        "bf16": x.astype(ml_dtypes.bfloat16),
        "f64": x.astype(np.float64),
        "i8": np.trunc(x).astype(np.int8),
        "u32": np.maximum(np.trunc(x), 0).astype(np.uint32),
        "flag": x > 0,
    }
    arguments = dict(x_ptr=x, **{k: np.zeros_like(v) for k, v in outs.items()}, n=n, BLOCK=64)
    check(cast_and_store, cover, arguments, outs, warps=warps)


@triton.jit
def bool_algebra(a_ptr, b_ptr, conj, disj, excl, neg, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + i, mask=m, other=False)
    b = tl.load(b_ptr + i, mask=m, other=True)
    tl.store(conj + i, a and b, mask=m)
    tl.store(disj + i, a | b, mask=m)
    tl.store(excl + i, a ^ b, mask=m)
    tl.store(neg + i, not a, mask=m)


def test_arrays_of_bool():
    a, b = RNG.integers(0, 2, 50).astype(bool), RNG.integers(0, 2, 50).astype(bool)
    outs = {"conj": a & b, "disj": a | b, "excl": a ^ b, "neg": ~a}
    arguments = dict(a_ptr=a, b_ptr=b, **{k: np.zeros(50, bool) for k in outs}, n=50, BLOCK=16)
    check(bool_algebra, cover, arguments, outs)


@triton.jit
def gelu(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@triton.jit
def silu(x, beta=1.0):
    return x * tl.sigmoid(beta * x)


@triton.jit
def apply_activation(x, NAME: tl.constexpr):
    if NAME == "gelu":
        return gelu(x)
    elif NAME == "silu":
        return silu(x)
    elif NAME == "swish":
        return silu(x, beta=1.5)
    else:
        tl.static_assert(NAME is None, "an unknown activation")
        return x


@triton.jit
def activate(x_ptr, out_ptr, n, *, ACTIVATION: tl.constexpr = None, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.float32)
    y = apply_activation(x, ACTIVATION)
    tl.store(out_ptr + i, y, mask=i < n)


@pytest.mark.parametrize("name", ["gelu", "silu", "swish", None])
def test_activations_by_name(name):
    from math import erf, exp

    x = floats(130).astype(np.float16)
    reference = {
        "gelu": lambda v: 0.5 * v * (1 + erf(v / 2**0.5)),
        "silu": lambda v: v / (1 + exp(-v)),
        "swish": lambda v: v / (1 + exp(-1.5 * v)),
        None: float,
    }[name]
    y = np.array([reference(float(v)) for v in x])
    arguments = {"x_ptr": x, "out_ptr": np.zeros(130, "f4"), "n": 130, "ACTIVATION": name}
    check(activate, (3,), arguments, {"out_ptr": (y, 4e-6 * np.abs(y) + 4e-6 * (name == "gelu") * np.abs(x))})


@triton.jit
def i64_offsets(x_ptr, out_ptr, stride, base, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK).to(tl.int64)
    m = i < n
    address = x_ptr + (i * stride - base)
    tl.store(out_ptr + i, tl.load(address, mask=m, other=-1.0))


def test_offsets_of_64_bits():
    x = floats(40)
    stride, base = 2**33 + 5, 0  # all addresses but the first are far away, and masked off
    out = np.full(8, -1, "f4")
    out[:1] = x[:1]
    arguments = {"x_ptr": x, "out_ptr": np.zeros(8, "f4"), "stride": stride, "base": base, "n": 1, "BLOCK": 8}
    check(i64_offsets, (1,), arguments, {"out_ptr": out})


@triton.jit
def far_and_back(x_ptr, out_ptr, far, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    p = x_ptr + far
    q = p + i * 3
    tl.store(out_ptr + i, tl.load(q - far))


def test_far_pointers_come_back():
    x = floats(64)
    for far in (2**31 + 7, 2**40, 12):
        arguments = {"x_ptr": x, "out_ptr": np.zeros(16, "f4"), "far": far, "BLOCK": 16}
        check(far_and_back, (1,), arguments, {"out_ptr": x[: 16 * 3 : 3]}, warps=(1,))


@triton.jit
def adam(p, g, m, v, n, lr, beta1, beta2, eps, step: tl.constexpr, BLOCK: tl.constexpr = 128):
    """One step in place on three arrays."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    grad = tl.load(g + i, mask=mask, other=0.0)
    m1 = beta1 * tl.load(m + i, mask=mask, other=0.0) + (1 - beta1) * grad
    v1 = beta2 * tl.load(v + i, mask=mask, other=0.0) + (1 - beta2) * grad * grad
    tl.store(m + i, m1, mask=mask)
    tl.store(v + i, v1, mask=mask)
    m_hat = m1 / (1 - 0.9**step)
    v_hat = v1 / (1 - 0.999**step)
    tl.store(p + i, tl.load(p + i, mask=mask) - lr * m_hat / (tl.sqrt(v_hat) + eps), mask=mask)


def test_adam_in_place():
    n = 200
    p, g, m = floats(n), floats(n), floats(n, scale=0.1)
    v = np.abs(floats(n, scale=0.1))
    beta1, beta2 = float(np.float32(0.9)), float(np.float32(0.999))
    m1 = beta1 * m.astype("f8") + (1 - beta1) * g
    v1 = beta2 * v.astype("f8") + (1 - beta2) * g.astype("f8") ** 2
    p1 = p - 0.01 * (m1 / (1 - 0.9**3)) / (np.sqrt(v1 / (1 - 0.999**3)) + 1e-8)
    arguments = {
        "p": p,
        "g": g,
        "m": m,
        "v": v,
        "n": n,
        "lr": 0.01,
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-8,
        "step": 3,
    }
    wanted = {"m": (m1, 1e-6 * (np.abs(m) + np.abs(g))), "v": (v1, 1e-5 * v1), "p": (p1, 1e-6 * np.abs(p) + 1e-5)}
    check(adam, (2,), arguments, wanted)


@triton.jit
def bits_of_a_float(x_ptr, sign, exponent, mantissa, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    bits = tl.load(x_ptr + i).to(tl.int32, bitcast=True)
    tl.store(sign + i, bits < 0)
    tl.store(exponent + i, (bits >> 23 & 0xFF) - 127)
    tl.store(mantissa + i, bits & 0x7FFFFF)


def test_bits_of_a_float():
    x = np.concatenate([floats(13), np.array([0.0, -0.0, np.inf], "f4")])
    bits = x.view(np.uint32).astype(np.int64)
    outs = {
        "sign": bits >> 31 == 1,
        "exponent": ((bits >> 23 & 255) - 127).astype("i2"),
        "mantissa": (bits & 0x7FFFFF).astype("u4"),
    }
    arguments = dict(x_ptr=x, **{k: np.zeros_like(v) for k, v in outs.items()}, BLOCK=16)
    check(bits_of_a_float, (1,), arguments, outs)
