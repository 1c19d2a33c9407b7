"""Loops: carried swaps, pointers and tuples, nests, data-dependent bounds, no rounds, and what is read afterwards."""

import itertools

import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(13)


def whole(*shape: int, dtype="f4", low=-9, high=9) -> np.ndarray:
    return RNG.integers(low, high + 1, shape).astype(dtype)


@triton.jit
def segment_sums(values, starts, out, BLOCK: tl.constexpr):
    """CSR rows: the bounds of the loop are loaded."""
    row = tl.program_id(0)
    first = tl.load(starts + row)
    last = tl.load(starts + row + 1)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(first, last, BLOCK):
        i = k + tl.arange(0, BLOCK)
        acc += tl.load(values + i, mask=i < last, other=0.0)
    tl.store(out + row, tl.sum(acc, 0))


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1"])
def test_bounds_from_memory(dtype):
    starts = np.array([0, 0, 5, 5, 42, 43, 64], dtype)
    x = whole(64)
    sums = np.array([x[a:b].sum() for a, b in itertools.pairwise(starts)], "f4")
    arguments = {"values": x, "starts": starts, "out": np.ones(6, "f4"), "BLOCK": 16}
    check(segment_sums, (6,), arguments, {"out": sums})


@triton.jit
def sparse_matvec(indptr, indices, data, x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start, stop = tl.load(indptr + row), tl.load(indptr + row + 1)
    total = 0.0
    for k in tl.range(start, stop, BLOCK, num_stages=2):
        i = k + tl.arange(0, BLOCK)
        mask = i < stop
        column = tl.load(indices + i, mask=mask, other=0)
        total += tl.sum(tl.load(data + i, mask=mask, other=0.0) * tl.load(x + column), axis=0)
    tl.store(y + row, total)


def test_sparse_matrix_times_vector():
    dense = whole(8, 20) * (RNG.random((8, 20)) < 0.4)
    dense[3] = 0
    x = whole(20)
    indptr = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype("i4")
    indices = np.nonzero(dense)[1].astype("i8")
    data = dense[dense != 0].astype("f4")
    arguments = {"indptr": indptr, "indices": indices, "data": data, "x": x, "y": np.zeros(8, "f4"), "BLOCK": 4}
    check(sparse_matvec, (8,), arguments, {"y": (dense @ x).astype("f4")})


@triton.jit
def ping_pong(a, b, n, N: tl.constexpr):
    """The pointers swap every round."""
    i = tl.arange(0, N)
    src, dst = a, b
    for _ in range(n):
        left = tl.load(src + tl.maximum(i - 1, 0))
        right = tl.load(src + tl.minimum(i + 1, N - 1))
        tl.store(dst + i, left + right)
        src, dst = dst, src


@pytest.mark.parametrize(("rounds", "warps"), [(0, (1,)), (3, (1, 4)), (4, (2,))])
def test_pointers_swap(rounds, warps):
    a, b = whole(128, dtype="i4"), whole(128, dtype="i4")
    src, dst = a.copy(), b.copy()
    keep = [src, dst]
    for _ in range(rounds):
        padded = np.pad(src, 1, mode="edge")
        dst[:] = padded[:-2] + padded[2:]
        src, dst = dst, src
    check(ping_pong, (1,), {"a": a, "b": b, "n": rounds, "N": 128}, {"a": keep[0], "b": keep[1]}, warps=warps)


@triton.jit
def strided_walk(x, out, n, step, BLOCK: tl.constexpr):
    p = x + tl.arange(0, BLOCK) * step
    q = out
    total = tl.zeros([BLOCK], tl.int64)
    for _k in range(n):
        v = tl.load(p)
        total += v
        tl.store(q + tl.arange(0, BLOCK), total)
        p += BLOCK * step
        q += BLOCK


@pytest.mark.parametrize("step", [1, 3])
def test_pointers_are_carried(step):
    x = RNG.integers(-(2**31), 2**31 - 1, 5 * 16 * step).astype("i4")
    sums = np.cumsum(x[::step].reshape(5, 16).astype("i8"), 0)
    arguments = {"x": x, "out": np.zeros((5, 16), "i8"), "n": 5, "step": step, "BLOCK": 16}
    check(strided_walk, (1,), arguments, {"out": sums})


@triton.jit
def lucas(out, n):
    a, b = 2, 1
    previous = -1
    for k in range(n):
        previous = a
        a, b = b, a + b
        tl.store(out + k, previous)
    tl.store(out + n, a)
    tl.store(out + n + 1, b)


@pytest.mark.parametrize("n", [0, 1, 50])
def test_lucas_numbers_wrap(n):
    numbers = [2, 1]
    for _ in range(n):
        numbers.append((numbers[-1] + numbers[-2] + 2**31) % 2**32 - 2**31)
    wanted = np.array(numbers, "i4")
    check(lucas, (1,), {"out": np.zeros(n + 2, "i4"), "n": n}, {"out": wanted}, warps=(1,))


@triton.jit
def rotate_three(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(x + N + i)
    c = tl.load(x + 2 * N + i)
    count = 0
    for k in range(n):
        a, b, c = c, a, b
        if N > 4:
            for j in range(k):
                a, b = b, a
                count += j
    tl.store(out + i, a)
    tl.store(out + N + i, b)
    tl.store(out + 2 * N + i, c)
    tl.store(out + 3 * N, count)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("size", [4, 64])
def test_rotations_in_nests(n, size):
    x = whole(3, size, dtype="i2")
    a, b, c, count = *x, 0
    for k in range(n):
        a, b, c = c, a, b
        if size > 4:
            for j in range(k):
                a, b = b, a
                count += j
    wanted = np.concatenate([a, b, c, [count]]).astype("i2")
    check(rotate_three, (1,), {"x": x, "out": np.zeros_like(wanted), "n": n, "N": size}, {"out": wanted}, warps=(1,))


@triton.jit
def triangular(x, out, n, N: tl.constexpr):
    """The inner bounds depend on the outer index, and the inner sum starts from the outer one."""
    i = tl.arange(0, N)
    outer = tl.zeros((N,), tl.int32)
    for a in range(n):
        inner = outer + a
        for b in range(a, n, a + 1):
            inner = inner * 3 + b
            for c in tl.static_range(2):
                inner ^= i + c
        outer += inner
    tl.store(out + i, outer + tl.load(x + i))


def test_inner_bounds_of_outer_indices():
    i, x = np.arange(32, dtype="i8"), whole(32, dtype="i4")
    outer = np.zeros(32, "i8")
    for a in range(6):
        inner = outer + a
        for b in range(a, 6, a + 1):
            inner = inner * 3 + b
            for c in range(2):
                inner = (inner.astype("i4") ^ (i + c).astype("i4")).astype("i8")
        outer = (outer + inner).astype("i4").astype("i8")
    wanted = (outer + x).astype("i4")
    check(triangular, (1,), {"x": x, "out": np.zeros(32, "i4"), "n": 6, "N": 32}, {"out": wanted})


@triton.jit
def countdown(out, start, stop, step, N: tl.constexpr):
    k = 0
    last = 100
    for i in range(start, stop, step):
        tl.store(out + k, i)
        k += 1
        last = i
    for i in range(N - 1, -1, -1):
        tl.store(out + k, i)
        k += 1
    tl.store(out + k, last)
    tl.store(out + k + 1, k)


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 0, 1), (3, 17, 5), (-4, 4, 3), (5, -5, 2), (7, 8, 100)])
def test_steps(start, stop, step):
    wanted = [*range(start, stop, step), *range(3, -1, -1)]
    last = [*range(start, stop, step)][-1] if range(start, stop, step) else 100
    wanted = np.array([*wanted, last, len(wanted)], "i4")
    arguments = {"out": np.zeros_like(wanted), "start": start, "stop": stop, "step": step, "N": 4}
    check(countdown, (1,), arguments, {"out": wanted}, warps=(1,))


@triton.jit
def wide_bounds(out, start, count):
    k = 0
    for i in range(start, start + count):
        tl.store(out + k, i)
        k += 1


def test_bounds_of_64_bits():
    start = 2**33 + 1
    wanted = np.arange(start, start + 3)
    check(wide_bounds, (1,), {"out": np.zeros(3, "i8"), "start": start, "count": 3}, {"out": wanted}, warps=(1,))


@triton.jit
def newton_sqrt(x, out, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=1.0)
    g = v
    old = g
    for _ in tl.static_range(ROUNDS):
        old = g
        g = 0.5 * (g + v / g)
    tl.store(out + i, g, mask=i < n)
    tl.store(out + n + i, old, mask=i < n)


def test_newton():
    x = np.array([4.0, 2.0, 100.0, 0.25, 7.0], "f4")
    g = x.copy()
    for _ in range(4):
        old, g = g, np.float32(0.5) * (g + x / g)
    wanted = np.concatenate([g, old])
    arguments = {"x": x, "out": np.zeros(10, "f4"), "n": 5, "ROUNDS": 4, "BLOCK": 8}
    check(newton_sqrt, (1,), arguments, {"out": (wanted, 1e-6 * wanted)})


@triton.jit
def horner_from_memory(x, coefficients, out, degree, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    y = tl.zeros((BLOCK,), tl.float64)
    c = coefficients + degree
    for _ in range(degree + 1):
        y = y * v + tl.load(c)
        c -= 1
    tl.store(out + i, y, mask=i < n)


def test_a_pointer_walks_backwards():
    x, c = whole(20, dtype="f8", low=-3, high=3), whole(5, dtype="f8")
    y = sum(c[k] * x**k for k in range(5))
    arguments = {"x": x, "coefficients": c, "out": np.zeros(20), "degree": 4, "n": 20, "BLOCK": 8}
    check(horner_from_memory, (3,), arguments, {"out": y})


@triton.jit
def online_softmax_rows(x, out, N, BM: tl.constexpr, BN: tl.constexpr):
    """Two carried blocks, a carried pointer block, several rows a program."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    m = tl.full((BM,), -float("inf"), tl.float32)
    s = tl.zeros((BM,), tl.float32)
    p = x + rows[:, None] * N + cols[None, :]
    for start in range(0, N, BN):
        v = tl.load(p, mask=(start + cols < N)[None, :], other=-float("inf"))
        new = tl.maximum(m, tl.max(v, 1))
        s = s * tl.exp(m - new) + tl.sum(tl.exp(v - new[:, None]), 1)
        m = new
        p += BN
    for start in range(0, N, BN):
        mask = (start + cols < N)[None, :]
        v = tl.load(x + rows[:, None] * N + (start + cols)[None, :], mask=mask)
        tl.store(out + rows[:, None] * N + (start + cols)[None, :], tl.exp(v - m[:, None]) / s[:, None], mask=mask)


@pytest.mark.parametrize(("bm", "bn", "warps"), [(1, 16, (1,)), (4, 8, (4,)), (2, 64, (2,))])
def test_online_softmax_of_rows(bm, bn, warps):
    x = (RNG.standard_normal((4, 37)) * 5).astype("f4")
    e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True)
    arguments = {"x": x, "out": np.zeros_like(x), "N": 37, "BM": bm, "BN": bn}
    check(online_softmax_rows, (4 // bm,), arguments, {"out": (y, 1e-5 * y)}, warps=warps)


@triton.jit
def attention(q, k, v, o, L, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Attention with an online softmax; the products by broadcasting and sum."""
    m_i = tl.full([BM], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_d = tl.arange(0, D)
    query = tl.load(q + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < L, other=0.0)
    hi = tl.minimum((tl.program_id(0) + 1) * BM, L) if CAUSAL else L
    for start in range(0, hi, BN):
        offs_n = start + tl.arange(0, BN)
        key = tl.load(k + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < L, other=0.0)
        qk = tl.sum(query[:, None, :] * key[None, :, :], axis=2) * scale
        qk = tl.where((offs_n < L)[None, :], qk, float("-inf"))
        if CAUSAL:
            qk = tl.where(offs_m[:, None] >= offs_n[None, :], qk, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(qk - m_new[:, None])
        value = tl.load(v + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < L, other=0.0)
        acc = acc * alpha[:, None] + tl.sum(p[:, :, None] * value[None, :, :], axis=1)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    tl.store(o + offs_m[:, None] * D + offs_d[None, :], acc / l_i[:, None], mask=offs_m[:, None] < L)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    length, d = 13, 8
    q, k, v = (RNG.standard_normal((length, d)).astype("f4") for _ in range(3))
    s = q.astype("f8") @ k.T * 0.25
    if causal:
        s[np.triu_indices(length, 1)] = -np.inf
    p = np.exp(s - s.max(1, keepdims=True))
    o = p / p.sum(1, keepdims=True) @ v
    arguments = {"q": q, "k": k, "v": v, "o": np.zeros_like(q), "L": length, "scale": 0.25, "D": d, "BM": 4, "BN": 8}
    check(attention, (4,), arguments | {"CAUSAL": causal}, {"o": (o, 2e-5)})


@triton.jit
def bisect(sorted_x, keys, out, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Binary search by a loop of loads at computed places."""
    i = tl.arange(0, BLOCK)
    key = tl.load(keys + i)
    low = tl.zeros((BLOCK,), tl.int32)
    high = tl.full((BLOCK,), n, tl.int32)
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        right = tl.load(sorted_x + middle, mask=low < high, other=0) < key
        low, high = tl.where((low < high) & right, middle + 1, low), tl.where((low < high) & ~right, middle, high)
    tl.store(out + i, low)


def test_binary_search():
    x, keys = np.sort(whole(37, dtype="i4", low=0, high=50)), whole(64, dtype="i4", low=-2, high=53)
    wanted = np.searchsorted(x, keys).astype("i4")
    arguments = {"sorted_x": x, "keys": keys, "out": np.zeros(64, "i4"), "n": 37, "ROUNDS": 6, "BLOCK": 64}
    check(bisect, (1,), arguments, {"out": wanted})


@triton.jit
def persistent(x, out, tiles, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i) * tile)


def test_a_persistent_grid():
    x = whole(7, 16, dtype="i4")
    wanted = x * np.arange(7, dtype="i4")[:, None]
    check(persistent, (3,), {"x": x, "out": np.zeros_like(x), "tiles": 7, "BLOCK": 16}, {"out": wanted})


@triton.jit
def rotated(out, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b, c, turned = n, n + 1, n + 2, tl.load(x + i)
    while a + b + c < 40 * n:
        a, b, c = b, c, a + 10
        turned = tl.flip(turned)
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3 + i, turned)


@pytest.mark.parametrize("block", [4, 256])
def test_a_while_loop_carries_all_values_at_once(block):
    """What a slot holds before and after the condition is one variable in CUDA C++."""
    a, b, c, x = 3, 4, 5, whole(block, dtype="i4")
    turned = x
    while a + b + c < 120:
        a, b, c, turned = b, c, a + 10, turned[::-1]
    arguments = {"out": np.zeros(3 + block, "i4"), "x": x, "n": 3, "BLOCK": block}
    check(rotated, (1,), arguments, {"out": np.array([a, b, c, *turned], "i4")})
