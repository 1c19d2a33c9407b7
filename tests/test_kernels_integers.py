"""Integer kernels: hashes, division, shifts by values, narrow dtypes, packed nibbles; wrap and width are exact."""

import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(19)
GOLDEN = tl.constexpr(0x9E3779B9)


def ints(*shape: int, dtype="i4") -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def cover(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


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
