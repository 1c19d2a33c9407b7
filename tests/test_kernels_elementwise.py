"""Elementwise kernels as people write them: polynomials, quantisation, hashes, mixed dtypes, blocks of any size."""

import ml_dtypes
import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(7)
GOLDEN = tl.constexpr(0x9E3779B9)


def floats(*shape: int, scale: float = 4.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def ints(*shape: int, dtype="i4") -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


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
def murmur_finalizer(h):
    h ^= h >> 16
    h *= 0x85EBCA6B
    h ^= h >> 13
    h *= 0xC2B2AE35
    h ^= h >> 16
    return h


@triton.jit
def hash_keys(keys, out, seed, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.load(keys + i, mask=i < n, other=0).to(tl.uint32, bitcast=True)
    h = k + seed.to(tl.uint32)
    for r in tl.static_range(ROUNDS):
        h = murmur_finalizer(h + r * GOLDEN)
    tl.store(out + i, h, mask=i < n)


def numpy_hash(keys: np.ndarray, seed: int, rounds: int) -> np.ndarray:
    h = [(int(k) & 0xFFFFFFFF) + seed & 0xFFFFFFFF for k in keys]
    for r in range(rounds):
        for j, v in enumerate(h):
            v = (v + r * 0x9E3779B9) & 0xFFFFFFFF
            v ^= v >> 16
            v = v * 0x85EBCA6B & 0xFFFFFFFF
            v ^= v >> 13
            v = v * 0xC2B2AE35 & 0xFFFFFFFF
            h[j] = v ^ v >> 16
    return np.array(h, np.uint32)


def test_a_hash_wraps():
    keys = ints(300)
    arguments = {"keys": keys, "out": np.zeros(300, "u4"), "seed": -17, "n": 300, "ROUNDS": 2, "BLOCK": 128}
    check(hash_keys, cover, arguments, {"out": numpy_hash(keys, -17 & 0xFFFFFFFF, 2)})


@triton.jit
def fnv(words, out, n, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = row < n
    h = tl.full((BLOCK,), 0xCBF29CE484222325, tl.uint64)
    for j in range(LENGTH):
        byte = tl.load(words + row * LENGTH + j, mask=mask, other=0)
        h = (h ^ byte.to(tl.uint64)) * 0x100000001B3
    tl.store(out + row, h, mask=mask)


def test_fnv_of_bytes():
    words = RNG.integers(0, 256, (40, 7), np.uint8)
    wanted = []
    for row in words:
        h = 0xCBF29CE484222325
        for b in row:
            h = (h ^ int(b)) * 0x100000001B3 & (1 << 64) - 1
        wanted.append(h)
    arguments = {"words": words, "out": np.zeros(40, "u8"), "n": 40, "LENGTH": 7, "BLOCK": 32}
    check(fnv, cover, arguments, {"out": np.array(wanted, "u8")})


@triton.jit
def xorshift(state, out, steps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    s = tl.load(state + i)
    for _ in range(steps):
        s ^= s << 13
        s ^= s >> 17
        s ^= s << 5
    tl.store(state + i, s)
    tl.store(out + i, (s >> 8).to(tl.float32) * (1.0 / 16777216.0))


def test_xorshift_in_place():
    state = ints(64, dtype="u4")
    s = state.astype(np.uint64)
    for _ in range(3):
        s ^= s << np.uint64(13) & np.uint64(0xFFFFFFFF)
        s ^= s >> np.uint64(17)
        s ^= s << np.uint64(5) & np.uint64(0xFFFFFFFF)
    s = s.astype(np.uint32)
    uniform = ((s >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)).astype(np.float32)
    arguments = {"state": state, "out": np.zeros(64, "f4"), "steps": 3, "BLOCK": 64}
    check(xorshift, (1,), arguments, {"state": s, "out": uniform})


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
def int4_unpack(packed, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    byte = tl.load(packed + i // 2, mask=i < n, other=0)
    nibble = (byte >> ((i & 1) * 4)) & 0xF
    tl.store(out + i, ((nibble ^ 8) - 8).to(tl.int8), mask=i < n)


def test_unpacking_nibbles():
    packed = RNG.integers(0, 256, 33, np.uint8)
    low, high = (packed & 15).astype(int), (packed >> 4).astype(int)
    nibbles = np.stack([low, high], 1).reshape(-1)
    wanted = np.where(nibbles >= 8, nibbles - 16, nibbles).astype(np.int8)[:65]
    arguments = {"packed": packed, "out": np.zeros(65, "i1"), "n": 65, "BLOCK": 32}
    check(int4_unpack, cover, arguments, {"out": wanted})


@triton.jit
def divide_and_remainder(a_ptr, b_ptr, q_ptr, r_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(a_ptr + i, mask=m, other=0)
    b = tl.load(b_ptr + i, mask=m, other=1)
    tl.store(q_ptr + i, a // b, mask=m)
    tl.store(r_ptr + i, a % b, mask=m)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_integer_division_truncates(dtype):
    n = 70
    a, b = ints(n, dtype=dtype), ints(n, dtype=dtype) // np.array(5, dtype)
    b[b == 0] = 3
    info = np.iinfo(dtype)
    a[:3], b[:3] = [info.min, info.max, info.min], [info.max, 1, 2]
    if info.min < 0:
        a[3], b[3] = info.min, -1
    quotients, remainders = [], []
    for p, d in zip(a.tolist(), b.tolist(), strict=True):
        q = abs(p) // abs(d) * (1 if (p < 0) == (d < 0) else -1)
        quotients.append(q if q <= info.max else info.min)
        remainders.append(p - q * d)
    arguments = {"a_ptr": a, "b_ptr": b, "q_ptr": np.zeros(n, dtype), "r_ptr": np.zeros(n, dtype), "n": n, "BLOCK": 64}
    wanted = {"q_ptr": np.array(quotients, dtype), "r_ptr": np.array(remainders, dtype)}
    check(divide_and_remainder, cover, arguments, wanted, warps=(1,))


@triton.jit
def shifts(x_ptr, by_ptr, left, right, s, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x, by = tl.load(x_ptr + i), tl.load(by_ptr + i)
    tl.store(left + i, (x << by) | (x << s))
    tl.store(right + i, (x >> by) ^ (x >> s))


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "i2", "u1"])
def test_shifts_by_values(dtype):
    x = ints(64, dtype=dtype)
    info = np.iinfo(dtype)
    by = (np.arange(64) % (info.bits + 2)).astype(dtype)
    left = np.array([wrapped((v << b) | (v << 3), info) for v, b in zip(x.tolist(), by.tolist(), strict=True)])
    right = np.array([wrapped((v >> b) ^ (v >> 3), info) for v, b in zip(x.tolist(), by.tolist(), strict=True)])
    zeros = np.zeros(64, dtype)
    arguments = {"x_ptr": x, "by_ptr": by, "left": zeros, "right": zeros.copy(), "s": 3, "BLOCK": 64}
    check(shifts, (1,), arguments, {"left": left.astype(dtype), "right": right.astype(dtype)}, warps=(1,))


def wrapped(v: int, info: np.iinfo) -> int:
    v &= (1 << info.bits) - 1
    return v - (1 << info.bits) if v > info.max else v


@triton.jit
def narrow_expressions(x_ptr, y_ptr, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    x, y = tl.load(x_ptr + i, mask=m, other=1), tl.load(y_ptr + i, mask=m, other=1)
    tl.store(out + i, tl.abs(x ^ y).to(tl.int32), mask=m)
    tl.store(out + n + i, ((x ^ 3) // (y | 1)).to(tl.int32), mask=m)
    tl.store(out + 2 * n + i, ((x ^ 9) % y).to(tl.int32), mask=m)
    tl.store(out + 3 * n + i, ((x & 23) << (y & 7)).to(tl.int32), mask=m)
    tl.store(out + 4 * n + i, ((x | y) << (x & 31)).to(tl.int32), mask=m)
    tl.store(out + 5 * n + i, ((x & y) >> (y & 6)).to(tl.int32) + (-(x & 113)).to(tl.int32), mask=m)
    tl.store(out + 6 * n + i, tl.maximum(x ^ 1, y & 3).to(tl.int32) * ((x ^ 12) * (y ^ 2)), mask=m)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_narrow_integers_wrap_within_expressions(dtype):
    info = np.iinfo(dtype)
    x, y = ints(60, dtype=dtype), ints(60, dtype=dtype)
    y[y == 0] = 7
    x[:4], y[:4] = [info.min, info.min ^ 3, info.max, 1], [info.max, np.array(-1).astype(dtype), info.min | 1, 2]

    def wrap(v: int) -> int:
        return wrapped(v, info)

    def divide(a: int, b: int) -> int:
        return wrap(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))

    rows = [
        [
            wrap(abs(a ^ b)),
            divide(a ^ 3, b | 1),
            abs(a ^ 9) % abs(b) * (-1 if (a ^ 9) < 0 else 1),
            wrap((a & 23) << (b & 7)),
            wrap((a | b) << (a & 31)),
            ((a & b) >> (b & 6)) + wrap(-(a & 113)),
            max(a ^ 1, b & 3) * wrap((a ^ 12) * (b ^ 2)),
        ]
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    wanted = np.array([[wrapped(v, np.iinfo("i4")) for v in row] for row in rows], "i4").T.copy()
    arguments = {"x_ptr": x, "y_ptr": y, "out": np.zeros_like(wanted), "n": 60, "BLOCK": 64}
    check(narrow_expressions, cover, arguments, {"out": wanted}, warps=(1, 4))


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
def collatz_steps(x_ptr, out_ptr, n, MAX: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1)
    steps = tl.zeros((BLOCK,), tl.int32)
    for _ in range(MAX):
        running = x > 1
        x = tl.where(running, tl.where(x % 2 == 0, x // 2, 3 * x + 1), x)
        steps += running
    tl.store(out_ptr + i, steps, mask=i < n)


def test_collatz():
    def steps(v: int) -> int:
        count = 0
        while v > 1 and count < 40:
            v, count = (v // 2 if v % 2 == 0 else 3 * v + 1), count + 1
        return count

    x = np.arange(1, 41, dtype=np.int64)
    wanted = np.array([steps(int(v)) for v in x], np.int32)
    arguments = {"x_ptr": x, "out_ptr": np.zeros(40, "i4"), "n": 40, "MAX": 40, "BLOCK": 32}
    check(collatz_steps, cover, arguments, {"out_ptr": wanted})


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
