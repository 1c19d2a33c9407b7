"""Kernels that together use every lowering: vector accesses, exchanges, reductions, loops and hazards."""

import refcompiler as triton
import refcompiler.language as tl


@triton.jit
def add_vectors(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def add_rows(x, out, M, N, sx, so, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * sx + n[None, :], mask=mask, other=0.0)
    tl.store(out + m[:, None] * so + n[None, :], v + 1.0, mask=mask)


@triton.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=mask, other=0.0)
    tl.store(out + m[:, None] + n[None, :] * M, v, mask=mask)


@triton.jit
def reduce_rows_and_columns(x, rows, columns, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.arange(0, BM)
    n = tl.arange(0, BN)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N), other=0.0)
    tl.store(rows + m, tl.sum(v, axis=1), mask=m < M)
    tl.store(columns + n, tl.max(v, axis=0), mask=n < N)


@triton.jit
def softmax(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=mask, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=1)[:, None])
    tl.store(out + m[:, None] * N + n[None, :], e / tl.sum(e, axis=1)[:, None], mask=mask)


@triton.jit
def online_softmax(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    largest = -float("inf")
    total = 0.0
    for k in range(0, n, BLOCK):
        v = tl.load(x + k + i, mask=k + i < n, other=-float("inf"))
        new = tl.maximum(largest, tl.max(v, axis=0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(v - new), axis=0)
        largest = new
    for k in range(0, n, BLOCK):
        v = tl.load(x + k + i, mask=k + i < n, other=-float("inf"))
        tl.store(out + k + i, tl.exp(v - largest) / total, mask=k + i < n)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(pa, mask=(m[:, None] < M) & (k[None, :] + i < K), other=0.0)
        y = tl.load(pb, mask=(k[:, None] + i < K) & (n[None, :] < N), other=0.0)
        acc += tl.sum(x[:, :, None] * y[None, :, :], axis=1)
        pa += BK
        pb += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def total(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, BLOCK)), axis=0))


@triton.jit
def argmax_rows(x, out, index, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :])
    tl.store(index + m, tl.argmax(v, axis=1))
    tl.store(out + n, tl.min(v, axis=0))


@triton.jit
def sum_of_three(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    s = tl.sum(tl.load(x + a * (B * C) + b * C + c), axis=AXIS)
    if AXIS == 0:
        tl.store(out + tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :], s)
    elif AXIS == 1:
        tl.store(out + tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :], s)
    else:
        tl.store(out + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :], s)


@triton.jit
def reshape_and_transpose(x, out, A: tl.constexpr, B: tl.constexpr):
    w = tl.reshape(tl.load(x + tl.arange(0, A * B)), (A, B))
    tl.store(out + tl.arange(0, B), tl.sum(w, axis=0))
    tl.store(out + B + tl.arange(0, A), tl.max(tl.trans(w), axis=0))


@triton.jit
def reverse_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(x + (N - 1 - i), v)


@triton.jit
def read_after_write(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, i * 2)
    tl.store(out + i, tl.load(x + (i ^ 5)))


@triton.jit
def rotate_in_loop(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(0, n):
        v = tl.load(x + ((i + k + 1) % N))
        tl.store(x + i, v + k)


@triton.jit
def scale_in_loop(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    for _ in range(0, n):
        tl.store(x + i, tl.load(x + i) * 2)


@triton.jit
def swap_carried(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(x + N + i)
    for _ in range(n):
        c = a + b
        a = b
        b = c
    tl.store(out + i, a)
    tl.store(out + N + i, b)


@triton.jit
def scalar_accesses(x, out, n):
    s = 0.0
    for k in range(n):
        s += tl.load(x + k)
        tl.store(out + k, s)
    tl.store(out + n, tl.load(out + n - 1) * 2)


@triton.jit
def count_steps(out, a, b, c, STEP: tl.constexpr):
    k = 0
    for i in range(a, b, STEP):
        tl.store(out + k, i)
        k += 1
    for i in range(a, b, c):
        tl.store(out + k, i)
        k += 1
    tl.store(out + 63, k)


@triton.jit
def cached_copy(x, out, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr, KEEP: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < BLOCK - 4, other=2, cache_modifier=LOAD, eviction_policy=KEEP)
    tl.store(out + i, v, cache_modifier=STORE, eviction_policy=KEEP)


@triton.jit
def volatile_copy(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, volatile=True))


@triton.jit
def checked(x, n):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    tl.device_assert(v < n, "too large")
    tl.store(x + i, v + 1)


@triton.jit
def awkward_names(int, float, r, tid, threadIdx, load, shared, expf, asm, __syncthreads, _A):
    i = tl.arange(0, 64)
    v = tl.load(int + i)
    tl.store(float + i, v * r + tid + load + shared + expf + asm + __syncthreads + _A + threadIdx)
