"""Kernels about memory and shape: gathers, in-place updates, stencils, copies, transposes, reshapes, ranks 1 to 4."""

import ml_dtypes
import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(17)


def whole(*shape: int, dtype="f4") -> np.ndarray:
    return RNG.integers(-9, 10, shape).astype(dtype)


@triton.jit
def gather_rows(table, index, out, D, BM: tl.constexpr, BD: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    row = tl.load(index + m)
    v = tl.load(table + row[:, None] * D + d, mask=(row >= 0)[:, None] & (d < D), other=-1)
    tl.store(out + m[:, None] * D + d[None, :], v, mask=d < D)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "i8"])
def test_embedding(dtype):
    table = whole(10, 20, dtype=dtype)
    index = np.array([3, 3, -1, 9, 0, 0, 7, 3], "i8")
    wanted = np.where(index[:, None] >= 0, table[np.maximum(index, 0)], np.array(-1, dtype))
    arguments = {"table": table, "index": index, "out": np.zeros_like(wanted), "D": 20, "BM": 4, "BD": 16}
    check(gather_rows, (2, 2), arguments, {"out": wanted})


@triton.jit
def permute_in_place(x, order, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(x + tl.load(order + i), v)


@pytest.mark.parametrize(("n", "warps"), [(2, (1,)), (64, (4,)), (512, (1, 8))])
def test_scatter_by_a_permutation(n, warps):
    x, order = whole(n, dtype="i2"), RNG.permutation(n).astype("i4")
    wanted = np.empty_like(x)
    wanted[order] = x
    check(permute_in_place, (1,), {"x": x, "order": order, "N": n}, {"x": wanted}, warps=warps)


@triton.jit
def chase(next_, out, steps, N: tl.constexpr):
    """Pointer jumping: each round reads what the last one wrote."""
    i = tl.arange(0, N)
    for _ in range(steps):
        hop = tl.load(next_ + i)
        far = tl.load(next_ + hop)
        tl.store(next_ + i, far)
    tl.store(out + i, tl.load(next_ + i))


@pytest.mark.parametrize("warps", [(1,), (4,)])
def test_pointer_jumping(warps):
    n = RNG.integers(0, 128, 128).astype("i4")
    wanted = n.copy()
    for _ in range(3):
        wanted = wanted[wanted]
    check(
        chase,
        (1,),
        {"next_": n, "out": np.zeros_like(n), "steps": 3, "N": 128},
        {"next_": wanted, "out": wanted},
        warps=warps,
    )


@triton.jit
def heat(u, v, H, W, alpha, BH: tl.constexpr, BW: tl.constexpr):
    y = tl.program_id(1) * BH + tl.arange(0, BH)[:, None]
    x = tl.program_id(0) * BW + tl.arange(0, BW)[None, :]
    inside = (y < H) & (x < W)
    at = u + y * W + x
    c = tl.load(at, mask=inside, other=0.0)
    up = tl.load(at - W, mask=inside & (y > 0), other=0.0)
    down = tl.load(at + W, mask=inside & (y + 1 < H), other=0.0)
    left = tl.load(at - 1, mask=inside & (x > 0), other=0.0)
    right = tl.load(at + 1, mask=inside & (x + 1 < W), other=0.0)
    tl.store(v + y * W + x, c + alpha * (up + down + left + right - 4 * c), mask=inside)


@pytest.mark.parametrize("warps", [(1,), (8,)])
def test_stencil(warps):
    u = whole(13, 21)
    p = np.pad(u, 1)
    wanted = u + np.float32(0.25) * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)
    arguments = {"u": u, "v": np.zeros_like(u), "H": 13, "W": 21, "alpha": 0.25, "BH": 4, "BW": 16}
    check(heat, (2, 4), arguments, {"v": wanted}, warps=warps)


@triton.jit
def conv1d(x, w, out, n, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.int32)
    for k in tl.static_range(K):
        at = i + k - K // 2
        acc += tl.load(x + at, mask=(at >= 0) & (at < n), other=0) * tl.load(w + k).to(tl.int32)
    tl.store(out + i, acc, mask=i < n)


def test_convolution():
    x, w = whole(45, dtype="i4"), whole(5, dtype="i1")
    wanted = np.convolve(x, w[::-1], "same").astype("i4")
    arguments = {"x": x, "w": w, "out": np.zeros(45, "i4"), "n": 45, "K": 5, "BLOCK": 16}
    check(conv1d, (3,), arguments, {"out": wanted})


@triton.jit
def strided_copy(src, dst, M, N, s0, s1, d0, d1, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(src + m[:, None] * s0 + n[None, :] * s1, mask=mask)
    tl.store(dst + m[:, None] * d0 + n[None, :] * d1, v, mask=mask)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
@pytest.mark.parametrize("transposed", [False, True])
def test_strided_copies(dtype, transposed):
    src = whole(24, 40).astype(dtype)
    dst = np.zeros((40, 24) if transposed else (24, 40), dtype)
    strides = (1, 24) if transposed else (40, 1)
    arguments = {"src": src, "dst": dst, "M": 24, "N": 40, "s0": 40, "s1": 1, "d0": strides[0], "d1": strides[1]}
    check(strided_copy, (2, 2), arguments | {"BM": 16, "BN": 32}, {"dst": src.T.copy() if transposed else src.copy()})


@triton.jit
def transpose_tile(x, out, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :])
    tl.store(out + n[:, None] * M + m[None, :], v.T + 1)


@pytest.mark.parametrize(("shape", "warps"), [((1, 8), (1,)), ((16, 2), (1, 8)), ((32, 64), (4,)), ((128, 4), (2,))])
@pytest.mark.parametrize("dtype", ["u1", "f2", "i8"])
def test_transposed_blocks(shape, warps, dtype):
    x = whole(*shape).astype(dtype)
    arguments = {"x": x, "out": np.zeros(shape[::-1], dtype), "M": shape[0], "N": shape[1]}
    check(transpose_tile, (1,), arguments, {"out": x.T + np.array(1, dtype)}, warps=warps)


@triton.jit
def permute4(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    i = tl.arange(0, A * B * C * D)
    v = tl.reshape(tl.load(x + i), (A, B, C, D))
    w = tl.permute(v, (2, 0, 3, 1))
    tl.store(out + i, tl.ravel(w))
    s = tl.sum(tl.max(w, axis=1), axis=0)
    d, b = tl.arange(0, D), tl.arange(0, B)
    tl.store(out + A * B * C * D + d[:, None] * B + b[None, :], s)


@pytest.mark.parametrize(("shape", "warps"), [((2, 4, 8, 2), (1, 4)), ((1, 2, 1, 16), (2,)), ((4, 4, 4, 4), (16,))])
def test_rank_four(shape, warps):
    x = whole(*shape, dtype="i4")
    w = x.transpose(2, 0, 3, 1)
    wanted = np.concatenate([w.reshape(-1), w.max(1).sum(0).reshape(-1)]).astype("i4")
    names = dict(zip("ABCD", shape, strict=True))
    check(permute4, (1,), {"x": x, "out": np.zeros_like(wanted), **names}, {"out": wanted}, warps=warps)


@triton.jit
def bitonic_step(v, i, j: tl.constexpr, k: tl.constexpr, N: tl.constexpr):
    """Exchange partners at distance j, by a reshape to pairs."""
    pairs = tl.reshape(v, (N // (2 * j), 2, j))
    side = tl.arange(0, 2)[None, :, None]
    low = tl.min(pairs, axis=1, keep_dims=True)
    high = tl.max(pairs, axis=1, keep_dims=True)
    up = tl.reshape((i & k) == 0, (N // (2 * j), 2, j))
    return tl.reshape(tl.where((side == 0) == up, low, high), (N,))


@triton.jit
def bitonic_sort(x, out, N: tl.constexpr, LOG: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for a in tl.static_range(1, LOG + 1):
        for b in tl.static_range(a - 1, -1, -1):
            v = bitonic_step(v, i, 1 << b, 1 << a, N)
    tl.store(out + i, v)


@pytest.mark.parametrize(("log", "warps"), [(1, (1,)), (4, (1, 2)), (6, (4,))])
def test_bitonic_sort_by_reshapes(log, warps):
    x = whole(1 << log, dtype="i4")
    check(
        bitonic_sort,
        (1,),
        {"x": x, "out": np.zeros_like(x), "N": 1 << log, "LOG": log},
        {"out": np.sort(x)},
        warps=warps,
    )


@triton.jit
def hadamard(x, N: tl.constexpr, LOG: tl.constexpr):
    """The butterfly in place, a barrier's worth of dependence between steps."""
    i = tl.arange(0, N)
    for s in tl.static_range(LOG):
        v = tl.load(x + i)
        w = tl.load(x + (i ^ (1 << s)))
        tl.store(x + i, tl.where((i >> s) & 1 == 0, v + w, w - v))


@pytest.mark.parametrize("warps", [(1,), (8,)])
def test_hadamard_in_place(warps):
    x = whole(256, dtype="i4")
    h = np.array([[1]])
    while h.size < 256 * 256:
        h = np.block([[h, h], [h, -h]])
    check(hadamard, (1,), {"x": x, "N": 256, "LOG": 8}, {"x": (h @ x).astype("i4")}, warps=warps)


@triton.jit
def batched_matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    z = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + z * (M * K) + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + z * (K * N) + k[None, :, None] * N + n[None, None, :])
    p = tl.sum(x[:, :, :, None] * y[:, None, :, :], axis=2)
    tl.store(c + z * (M * N) + m[None, :, None] * N + n[None, None, :], p)


@pytest.mark.parametrize("warps", [(1,), (4,)])
def test_batched_matmul(warps):
    a, b = whole(2, 8, 4), whole(2, 4, 16)
    arguments = {"a": a, "b": b, "c": np.zeros((2, 8, 16), "f4"), "M": 8, "N": 16, "K": 4, "B": 2}
    check(batched_matmul, (1,), arguments, {"c": a @ b}, warps=warps)


@triton.jit
def matvec(a, x, y, M, N, alpha, beta, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    pa = a + rows[:, None] * N + tl.arange(0, BN)[None, :]
    px = x + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for n in range(0, N, BN):
        inside = n + tl.arange(0, BN) < N
        acc += tl.load(pa, mask=(rows < M)[:, None] & inside[None, :], other=0) * tl.load(px, mask=inside, other=0)
        pa += BN
        px += BN
    old = tl.load(y + rows, mask=rows < M, other=0)
    tl.store(y + rows, alpha * tl.sum(acc, axis=1) + beta * old, mask=rows < M)


@pytest.mark.parametrize("dtype", ["f4", "bf16", "i4"])
def test_matrix_times_vector_in_place(dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.dtype(dtype)
    a, x, y = (RNG.integers(-3, 4, s).astype(kind) for s in ((9, 21), (21,), (9,)))
    wanted = (2 * (a.astype("f4") @ x.astype("f4")) - y.astype("f4")).astype(kind)
    arguments = {"a": a, "x": x, "y": y, "M": 9, "N": 21, "alpha": 2.0, "beta": -1.0, "BM": 4, "BN": 8}
    check(matvec, (3,), arguments, {"y": wanted})


@triton.jit
def outer_and_trace(x, y, out, trace, N: tl.constexpr):
    i = tl.arange(0, N)
    m = tl.load(x + i)[:, None] * tl.load(y + i)[None, :]
    tl.store(out + i[:, None] * N + i[None, :], m)
    tl.store(trace, tl.sum(tl.where(i[:, None] == i[None, :], m, 0)))


def test_outer_product():
    x, y = whole(16, dtype="i4"), whole(16, dtype="i8")
    m = np.outer(x, y)
    arguments = {"x": x, "y": y, "out": np.zeros((16, 16), "i8"), "trace": np.zeros(1, "i8"), "N": 16}
    check(outer_and_trace, (1,), arguments, {"out": m, "trace": np.array([np.trace(m)])})


@triton.jit
def grid_of_three(out, counts):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(axis=2)
    nx, ny = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + (z * ny + y) * nx + x, x + 10 * y + 100 * z)
    tl.store(counts + 0, tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2), mask=x + y + z == 0)


@pytest.mark.parametrize("grid", [(1,), (5,), (2, 3), (3, 1, 4)])
def test_grids(grid):
    nx, ny, nz = (*grid, 1, 1)[:3]
    z, y, x = np.mgrid[:nz, :ny, :nx]
    wanted = (x + 10 * y + 100 * z).astype("i4")
    arguments = {"out": np.zeros_like(wanted), "counts": np.zeros(1, "i4")}
    check(grid_of_three, grid, arguments, {"out": wanted, "counts": np.array([nx * ny * nz], "i4")}, warps=(1,))


@triton.jit
def flip_and_roll(x, out, shift, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + (N - 1 - i), tl.load(x + i))
    tl.store(out + N + (i + shift) % N, tl.load(x + i))
    tl.store(out + 2 * N + 2 * i, tl.load(x + i))
    tl.store(out + 2 * N + 2 * i + 1, -tl.load(x + (i ^ 1)))


@pytest.mark.parametrize("n", [2, 32, 256])
def test_flip_roll_interleave(n):
    x = whole(n)
    swapped = -x.reshape(-1, 2)[:, ::-1].reshape(-1)
    wanted = np.concatenate([x[::-1], np.roll(x, 3), np.stack([x, swapped], 1).reshape(-1)])
    arguments = {"x": x, "out": np.zeros_like(wanted), "shift": 3, "N": n}
    check(flip_and_roll, (1,), arguments, {"out": wanted}, warps=(4,))


@triton.jit
def masks_by_broadcast(x, rows, cols, out, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    keep_row = tl.load(rows + m)
    keep_col = tl.load(cols + n)
    v = tl.load(x + m[:, None] * N + n, mask=keep_row[:, None], other=100)
    tl.store(out + m[:, None] * N + n, v, mask=keep_col)
    tl.store(out + M * N + m, tl.sum(v, 1), mask=keep_row)
    tl.store(out + M * N + M, 7, mask=False)


def test_masks_broadcast():
    x = whole(8, 16, dtype="i4")
    rows, cols = RNG.integers(0, 2, 8).astype(bool), RNG.integers(0, 2, 16).astype(bool)
    out = np.full(8 * 16 + 9, -5, "i4")
    v = np.where(rows[:, None], x, 100)
    wanted = out.copy()
    wanted[:128] = np.where(cols, v, -5).reshape(-1)
    wanted[128:136] = np.where(rows, v.sum(1), -5)
    check(masks_by_broadcast, (1,), {"x": x, "rows": rows, "cols": cols, "out": out, "M": 8, "N": 16}, {"out": wanted})


@triton.jit
def accumulate_into(x, out, n):
    tl.store(out, 0)
    for k in range(n):
        tl.store(out, tl.load(out) + tl.load(x + k))
        tl.store(x + k, tl.load(out))


def test_a_scalar_in_memory():
    x = whole(9, dtype="i8")
    sums = np.cumsum(x)
    check(accumulate_into, (1,), {"x": x, "out": np.zeros(1, "i8"), "n": 9}, {"x": sums, "out": sums[-1:]})


@triton.jit
def replicated(x, out, N: tl.constexpr):
    """A small block on many threads, stored, read back elsewhere, and stored again."""
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, v + 1)
    w = tl.load(out + (N - 1 - i))
    tl.store(out + i, w * 2)
    tl.store(x + i, tl.load(out + i) + v)


@pytest.mark.parametrize(("n", "warps"), [(1, (1, 4)), (2, (4,)), (8, (2,)), (64, (8,))])
def test_small_blocks_on_many_threads(n, warps):
    x = whole(n, dtype="i4")
    out = (x[::-1] + 1) * 2
    check(replicated, (1,), {"x": x, "out": np.zeros_like(x), "N": n}, {"out": out, "x": out + x}, warps=warps)


@triton.jit
def many_transposes(x, sums, ROUNDS: tl.constexpr, N: tl.constexpr):
    """More exchanges than shared memory has room for at a time."""
    i = tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + i[None, :])
    for r in tl.static_range(ROUNDS):
        v = tl.trans(v) * (r % 3) + v
        tl.store(sums + r * N + i, tl.sum(v, axis=r % 2))
    tl.store(x + i[:, None] * N + i[None, :], v)


@pytest.mark.parametrize(("rounds", "warps"), [(6, (8,)), (20, (1, 4))])
def test_many_exchanges_share_bytes(rounds, warps):
    x, sums = whole(16, 16, dtype="i4"), []
    v = x.copy()
    for r in range(rounds):
        v = v.T * np.int32(r % 3) + v
        sums.append(v.sum(r % 2, dtype="i4"))
    arguments = {"x": x, "sums": np.zeros((rounds, 16), "i4"), "ROUNDS": rounds, "N": 16}
    check(many_transposes, (1,), arguments, {"x": v, "sums": np.array(sums)}, warps=warps)
