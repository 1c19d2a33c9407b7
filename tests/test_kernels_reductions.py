"""Kernels that reduce: every axis of ranks 1 to 3, in loops, several at a time, with tuples, ties, NaN and dtypes."""

import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(11)


def whole(*shape: int, dtype="f4") -> np.ndarray:
    return RNG.integers(-9, 10, shape).astype(dtype)


def floats(*shape: int, scale: float = 2.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


@triton.jit
def every_axis(x, a0, a1, a2, all_of_it, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    v = tl.load(x + (a[:, None, None] * B + b[None, :, None]) * C + c[None, None, :])
    tl.store(a0 + b[:, None] * C + c[None, :], tl.sum(v, axis=0))
    tl.store(a1 + a[:, None] * C + c[None, :], tl.max(v, axis=1))
    tl.store(a2 + a[:, None] * B + b[None, :], tl.min(v, axis=-1))
    tl.store(all_of_it, tl.sum(v))


@pytest.mark.parametrize(
    ("shape", "warps"),
    [((1, 1, 1), (1,)), ((2, 1, 8), (4,)), ((8, 4, 1), (2,)), ((1, 64, 2), (16,)), ((4, 8, 16), (1, 32))],
)
def test_every_axis_of_three(shape, warps):
    x = whole(*shape)
    outs = {"a0": x.sum(0), "a1": x.max(1), "a2": x.min(2), "all_of_it": x.sum().reshape(1)}
    zeros = {k: np.zeros_like(v) for k, v in outs.items()}
    check(every_axis, (1,), dict(x=x, **zeros, A=shape[0], B=shape[1], C=shape[2]), outs, warps=warps)


@triton.jit
def statistics(x, out, counts, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    v = tl.load(x + rows[:, None] * N + cols[None, :], mask=inside, other=0)
    total = tl.sum(v, axis=1, keep_dims=True)
    centered = tl.where(inside, v * N - total, 0)
    squares = tl.sum(centered * centered, axis=1)
    positive = tl.sum((centered > 0).to(tl.int32), 1)
    tl.store(out + rows, squares, mask=rows < M)
    tl.store(counts + rows, positive, mask=rows < M)


@pytest.mark.parametrize("warps", [(1,), (2,), (16,)])
def test_statistics_of_rows(warps):
    x = whole(11, 13, dtype="i4")
    centered = x * 13 - x.sum(1, keepdims=True)
    outs = {"out": (centered**2).sum(1).astype("i4"), "counts": (centered > 0).sum(1).astype("i4")}
    zeros = {k: np.zeros(11, "i4") for k in outs}
    check(statistics, (3,), dict(x=x, **zeros, M=11, N=13, BM=4, BN=16), outs, warps=warps)


@triton.jit
def welford_combine(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    ratio = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * n_a * ratio, n


@triton.jit
def welford(x, mean_out, var_out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK,), tl.float32)
    m2 = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        mask = start + cols < N
        v = tl.load(x + row * N + start + cols, mask=mask, other=0.0)
        count_new = count + mask.to(tl.float32)
        delta = v - mean
        mean_new = mean + tl.where(mask, delta / tl.maximum(count_new, 1.0), 0.0)
        m2 += tl.where(mask, delta * (v - mean_new), 0.0)
        mean, count = mean_new, count_new
    mean_row, m2_row, n_row = tl.reduce((mean, m2, count), 0, welford_combine)
    tl.store(mean_out + row, mean_row)
    tl.store(var_out + row, m2_row / n_row)


@pytest.mark.parametrize(("block", "warps"), [(8, (1,)), (64, (1, 4))])
def test_welford(block, warps):
    x = floats(3, 50) + 10
    mean, var = x.mean(1, dtype="f8"), x.var(1, dtype="f8")
    zeros = {"mean_out": np.zeros(3, "f4"), "var_out": np.zeros(3, "f4")}
    bounds = {"mean_out": (mean, 1e-5), "var_out": (var, 1e-4)}
    check(welford, 3, dict(x=x, **zeros, N=50, BLOCK=block), bounds, warps=warps)


@triton.jit
def layer_norm(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        acc += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(acc, axis=0) / N
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        acc += x * x
    rstd = 1 / tl.sqrt(tl.sum(acc, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x_hat = (tl.load(X + cols, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        tl.store(Y + cols, x_hat * w + b, mask=mask)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
def test_layer_norm(dtype):
    m, n = 3, 75
    x, w, b = (floats(*s).astype(dtype) for s in ((m, n), (n,), (n,)))
    x8 = x.astype("f8")
    mean, rstd = x8.mean(1), 1 / np.sqrt(x8.var(1) + 1e-5)
    y = (x8 - mean[:, None]) * rstd[:, None] * w + b
    arguments = {"X": x, "Y": np.zeros_like(x), "W": w, "B": b, "Mean": np.zeros(m, "f4"), "Rstd": np.zeros(m, "f4")}
    wanted = {
        "Mean": (mean, 1e-6),
        "Rstd": (rstd, 1e-6),
        "Y": (y, 1e-5 + 2.0 ** -(10 if dtype == "f2" else 20) * np.abs(y)),
    }
    check(layer_norm, (m,), dict(**arguments, stride=n, N=n, eps=1e-5, BLOCK=32), wanted)


@triton.jit
def rms_norm(x, w, out, N, eps, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    m = c < N
    v = tl.load(x + r * N + c, mask=m, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=1, keep_dims=True) / N + eps)
    tl.store(out + r * N + c, v * scale * tl.load(w + c, mask=m), mask=m)


def test_rms_norm():
    x, w = floats(4, 27), floats(27)
    y = x / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 1e-6) * w
    arguments = {"x": x, "w": w, "out": np.zeros_like(x), "N": 27, "eps": 1e-6, "BLOCK": 32, "ROWS": 2}
    check(rms_norm, (2,), arguments, {"out": (y, 1e-6 * np.abs(y) + 1e-7)}, warps=(1, 8))


@triton.jit
def cross_entropy(logits, labels, loss, grad, V, IGNORE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    biggest = -float("inf")
    norm = 0.0
    for start in range(0, V, BLOCK):
        c = start + tl.arange(0, BLOCK)
        z = tl.load(logits + row * V + c, mask=c < V, other=-float("inf")).to(tl.float32)
        new = tl.maximum(biggest, tl.max(z, axis=0))
        norm = norm * tl.exp(biggest - new) + tl.sum(tl.exp(z - new), axis=0)
        biggest = new
    kept = label != IGNORE
    target = tl.load(logits + row * V + tl.where(kept, label, 0)).to(tl.float32)
    tl.store(loss + row, tl.where(kept, tl.log(norm) + biggest - target, 0.0))
    for start in range(0, V, BLOCK):
        c = start + tl.arange(0, BLOCK)
        z = tl.load(logits + row * V + c, mask=c < V, other=-float("inf")).to(tl.float32)
        p = tl.exp(z - biggest) / norm
        g = p - tl.where(c == label, 1.0, 0.0)
        tl.store(grad + row * V + c, tl.where(kept, g, 0.0), mask=c < V)


def test_cross_entropy():
    z = floats(4, 45)
    labels = np.array([3, 44, -100, 0], np.int64)
    z8 = z.astype("f8")
    p = np.exp(z8 - z8.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    one = np.arange(45)[None] == labels[:, None]
    kept = labels != -100
    loss = np.where(kept, -np.log(np.where(one, p, 1).prod(1)), 0)
    grad = np.where(kept[:, None], p - one, 0)
    arguments = {
        "logits": z,
        "labels": labels,
        "loss": np.zeros(4, "f4"),
        "grad": np.zeros_like(z),
        "V": 45,
        "IGNORE": -100,
        "BLOCK": 16,
    }
    check(cross_entropy, (4,), arguments, {"loss": (loss, 1e-5), "grad": (grad, 1e-6)})


@triton.jit
def argmax_with_ties(x, value, first, last_of_min, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :])
    best, where = tl.max(v, axis=1, return_indices=True)
    tl.store(value + m, best)
    tl.store(first + m, where)
    tl.store(last_of_min + n, tl.argmin(v, axis=0))


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "u1", "i8"])
@pytest.mark.parametrize("warps", [(1,), (8,)])
def test_argmax_takes_the_first(dtype, warps):
    x = RNG.integers(0, 3, (8, 32)).astype(dtype)
    outs = {"value": x.max(1), "first": x.argmax(1).astype("i4"), "last_of_min": x.argmin(0).astype("i4")}
    zeros = {k: np.zeros_like(v) for k, v in outs.items()}
    check(argmax_with_ties, (1,), dict(x=x, **zeros, M=8, N=32), outs, warps=warps)


@triton.jit
def top_two(a1, a2, b1, b2):
    return tl.maximum(a1, b1), tl.maximum(tl.minimum(a1, b1), tl.maximum(a2, b2))


@triton.jit
def largest_two(x, out, N: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * N + tl.arange(0, N))
    first, second = tl.reduce((v, tl.full((N,), -float("inf"), tl.float32)), axis=0, combine_fn=top_two)
    tl.store(out + tl.program_id(0) * 2, first)
    tl.store(out + tl.program_id(0) * 2 + 1, second)


@pytest.mark.parametrize(("n", "warps"), [(1, (2,)), (32, (1,)), (512, (4, 16))])
def test_two_largest(n, warps):
    x = whole(3, n)
    two = np.sort(np.concatenate([x, np.full((3, 1), -np.inf, "f4")], 1), 1)[:, ::-1][:, :2].copy()
    check(largest_two, (3,), {"x": x, "out": np.zeros((3, 2), "f4"), "N": n}, {"out": two}, warps=warps)


@triton.jit
def first_true(a_found, a_at, b_found, b_at):
    take_a = a_found & ((a_at < b_at) | ~b_found)
    return a_found | b_found, tl.where(take_a, a_at, b_at)


@triton.jit
def find(x, needle, out, N: tl.constexpr):
    i = tl.arange(0, N)
    hit = tl.load(x + i) == needle
    found, at = tl.reduce((hit, i), 0, first_true)
    tl.store(out, tl.where(found, at, -1))


def test_finding_the_first():
    x = RNG.integers(0, 20, 64).astype("i4")
    for needle in (int(x[40]), 77):
        at = int(np.flatnonzero(x == needle)[0]) if needle in x else -1
        check(find, (1,), {"x": x, "needle": needle, "out": np.zeros(1, "i4"), "N": 64}, {"out": np.array([at], "i4")})


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    bins = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n, other=-1)
        counts += tl.sum((v[:, None] == bins[None, :]).to(tl.int32), axis=0)
    tl.store(out + bins, counts)


@pytest.mark.parametrize("warps", [(1,), (4,), (16,)])
def test_histogram_by_comparisons(warps):
    x = RNG.integers(0, 16, 150).astype("i1")
    wanted = np.bincount(x, minlength=16).astype("i4")
    arguments = {"x": x, "out": np.zeros(16, "i4"), "n": 150, "BINS": 16, "BLOCK": 32}
    check(histogram, (1,), arguments, {"out": wanted}, warps=warps)


@triton.jit
def prefix_sum(x, out, n, BLOCK: tl.constexpr):
    """An inclusive prefix sum by comparisons, and a carry between blocks."""
    i = tl.arange(0, BLOCK)
    carry = 0
    for start in range(0, n, BLOCK):
        v = tl.load(x + start + i, mask=start + i < n, other=0)
        below = i[None, :] <= i[:, None]
        s = tl.sum(tl.where(below, v[None, :], 0), axis=1)
        tl.store(out + start + i, s + carry, mask=start + i < n)
        carry += tl.sum(v, axis=0)


@pytest.mark.parametrize("warps", [(1,), (4,)])
def test_prefix_sum(warps):
    x = whole(70, dtype="i4")
    arguments = {"x": x, "out": np.zeros(70, "i4"), "n": 70, "BLOCK": 16}
    check(prefix_sum, (1,), arguments, {"out": np.cumsum(x).astype("i4")}, warps=warps)


@triton.jit
def running_max(x, out, M, N: tl.constexpr):
    j = tl.arange(0, N)
    best = tl.full((N,), float("-inf"), tl.float32)
    for i in range(M):
        best = tl.maximum(best, tl.load(x + i * N + j))
        tl.store(out + i * N + j, best)
        tl.store(out + M * N + i, tl.max(best, axis=0) - tl.min(best, axis=0))


def test_running_max():
    x = whole(6, 32)
    best = np.maximum.accumulate(x, 0)
    wanted = np.concatenate([best.reshape(-1), best.max(1) - best.min(1)])
    check(running_max, (1,), {"x": x, "out": np.zeros(wanted.size, "f4"), "M": 6, "N": 32}, {"out": wanted})


@triton.jit
def reductions_of_reductions(x, out, A: tl.constexpr, B: tl.constexpr):
    a, b = tl.arange(0, A), tl.arange(0, B)
    v = tl.load(x + a[:, None] * B + b[None, :])
    rows = tl.sum(v, 1)
    cols = tl.sum(v, 0)
    tl.store(out, tl.max(rows, 0))
    tl.store(out + 1, tl.max(cols, 0))
    both = rows[:, None] * cols[None, :]
    tl.store(out + 2, tl.sum(tl.max(both, 1), 0) - tl.sum(tl.min(both, 0), 0))
    back = tl.sum(tl.trans(both) + tl.trans(v), axis=1)
    tl.store(out + 4 + b, back + cols)


@pytest.mark.parametrize("warps", [(1,), (4,), (32,)])
@pytest.mark.parametrize("shape", [(8, 16), (64, 2)])
def test_reductions_feed_reductions(shape, warps):
    x = RNG.integers(-3, 4, shape).astype("i4")
    rows, cols = x.sum(1), x.sum(0)
    both = rows[:, None] * cols[None]
    head = [rows.max(), cols.max(), both.max(1).sum() - both.min(0).sum(), 0]
    wanted = np.concatenate([head, both.sum(0) + 2 * cols]).astype("i4")
    arguments = {"x": x, "out": np.zeros_like(wanted), "A": shape[0], "B": shape[1]}
    check(reductions_of_reductions, (1,), arguments, {"out": wanted}, warps=warps)


@triton.jit
def sums_in_a_loop(x, out, rounds, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for r in range(rounds):
        total = tl.sum(v, axis=0)
        low = tl.min(v, axis=0)
        v = tl.where(v == low, total % 7, v + r)
        tl.store(out + r, total + low)
    tl.store(x + i, v)


@pytest.mark.parametrize("warps", [(1,), (8,)])
def test_sums_in_a_loop_share_memory(warps):
    x = whole(256, dtype="i4")
    v, out = x.copy(), []
    for r in range(5):
        total, low = int(v.sum()), int(v.min())
        v = np.where(v == low, int(np.fmod(total, 7)), v + r).astype("i4")
        out.append(total + low)
    arguments = {"x": x, "out": np.zeros(5, "i4"), "rounds": 5, "N": 256}
    check(sums_in_a_loop, (1,), arguments, {"x": v, "out": np.array(out, "i4")}, warps=warps)


@triton.jit
def dtypes_of_sums(i8, u8, flag, f16, f64, i64, out_i, out_u, out_b, out_f, out_d, out_l, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_i, tl.sum(tl.load(i8 + i), 0))
    tl.store(out_u, tl.sum(tl.load(u8 + i), 0))
    tl.store(out_b, tl.sum(tl.load(flag + i), 0))
    tl.store(out_f, tl.max(tl.load(f16 + i), 0))
    tl.store(out_d, tl.sum(tl.load(f64 + i), 0))
    tl.store(out_l, tl.xor_sum(tl.load(i64 + i), 0))


def test_dtypes_of_sums():
    n = 128
    ins = {
        "i8": np.full(n, -128, "i1"), "u8": np.full(n, 255, "u1"), "flag": np.ones(n, bool),
        "f16": whole(n, dtype="f2"),
        "f64": whole(n, dtype="f8") * 2.0**40, "i64": RNG.integers(-(2**63), 2**63 - 1, n),
    }  # fmt: skip
    outs = {
        "out_i": np.array([-128 * n], "i4"), "out_u": np.array([255 * n], "u4"), "out_b": np.array([n], "u4"),
        "out_f": np.array([ins["f16"].max()], "f4"), "out_d": np.array([ins["f64"].sum()]),
        "out_l": np.array([np.bitwise_xor.reduce(ins["i64"])]),
    }  # fmt: skip
    check(dtypes_of_sums, (1,), dict(**ins, **{k: np.zeros_like(v) for k, v in outs.items()}, N=n), outs)


@triton.jit
def skip_nan(x, out, index, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(index, tl.argmax(v, 0))
    tl.store(index + 1, tl.argmin(v, 0))


def test_extrema_skip_nan():
    x = whole(64)
    x[[0, 5, 63]] = np.nan
    outs = {
        "out": np.array([np.nanmax(x), np.nanmin(x)], "f4"),
        "index": np.array([np.nanargmax(x), np.nanargmin(x)], "i4"),
    }
    check(skip_nan, (1,), {"x": x, "out": np.zeros(2, "f4"), "index": np.zeros(2, "i4"), "N": 64}, outs, warps=(1, 2))


@triton.jit
def extrema_bits(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.max(v, 0).to(tl.int32, bitcast=True))
    tl.store(out + 1, tl.min(v, 0).to(tl.int32, bitcast=True))
    tl.store(out + 2, tl.maximum(tl.load(x), tl.load(x + 1)).to(tl.int32, bitcast=True))
    tl.store(out + 3, tl.minimum(tl.load(x), tl.load(x + 1)).to(tl.int32, bitcast=True))


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_extrema_order_zeros_and_skip_signaling_nan(first):
    x = np.full(64, -0.0, "f4")
    x[0], x[1], x[[5, 40]] = first, -first, 0.0
    x.view("u4")[[7, 63]] = 0x7F800001
    wanted = np.array([0, -(2**31), 0, -(2**31)], "i4")
    check(extrema_bits, (1,), {"x": x, "out": np.zeros(4, "i4"), "N": 64}, {"out": wanted}, warps=(1, 4))
