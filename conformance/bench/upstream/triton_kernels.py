"""Kernels for upstream Triton like those of its tutorials, with lists of configurations like theirs; a peer to measure.

Imported only where Triton is installed. Every kernel handles any size by masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import triton
import triton.language as tl

Arguments = Mapping[str, Any]


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (1024, 2048, 4096, 8192) for w in (4, 8)], key=["n"]
)
@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (1024, 2048, 4096, 8192) for w in (4, 8)], key=["n"]
)
@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


def add(a: Arguments) -> None:
    n = a["x"].numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a["x"], a["y"], a["out"], n)


def copy(a: Arguments) -> None:
    n = a["x"].numel()
    copy_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a["x"], a["out"], n)


ROWS = [triton.Config({}, num_warps=w) for w in (4, 8, 16, 32)]


@triton.autotune(configs=ROWS, key=["n"])
@triton.jit
def softmax_kernel(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + j, mask=j < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * n + j, e / tl.sum(e, axis=0), mask=j < n)


def softmax(a: Arguments) -> None:
    m, n = a["x"].shape
    softmax_kernel[(m,)](a["x"], a["out"], n, BLOCK=triton.next_power_of_2(n))


@triton.autotune(configs=ROWS, key=["n"])
@triton.jit
def layer_norm_kernel(x, weight, bias, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + j, mask=j < n, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / n
    centred = tl.where(j < n, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w = tl.load(weight + j, mask=j < n).to(tl.float32)
    b = tl.load(bias + j, mask=j < n).to(tl.float32)
    tl.store(out + row * n + j, centred * scale * w + b, mask=j < n)


def layer_norm(a: Arguments) -> None:
    m, n = a["x"].shape
    block = triton.next_power_of_2(n)
    layer_norm_kernel[(m,)](a["x"], a["weight"], a["bias"], a["out"], n, a["epsilon"], BLOCK=block)


@triton.autotune(configs=ROWS, key=["n"])
@triton.jit
def rms_norm_kernel(x, weight, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + j, mask=j < n, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(v * v, axis=0) / n + eps)
    tl.store(out + row * n + j, v * scale * tl.load(weight + j, mask=j < n).to(tl.float32), mask=j < n)


def rms_norm(a: Arguments) -> None:
    m, n = a["x"].shape
    rms_norm_kernel[(m,)](a["x"], a["weight"], a["out"], n, a["epsilon"], BLOCK=triton.next_power_of_2(n))


@triton.autotune(configs=ROWS, key=["n"])
@triton.jit
def row_sum_kernel(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        j = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + j, mask=j < n, other=0.0).to(tl.float32)
    tl.store(out + row, tl.sum(total, axis=0))


def row_sum(a: Arguments) -> None:
    m, n = a["x"].shape
    row_sum_kernel[(m,)](a["x"], a["out"], n, BLOCK=min(8192, triton.next_power_of_2(n)))


@triton.autotune(
    configs=[triton.Config({"R": r, "C": c}, num_warps=w) for r, c in ((32, 64), (64, 64), (64, 32)) for w in (4, 8)],
    key=["m", "n"],
)
@triton.jit
def transpose_kernel(x, out, m, n, R: tl.constexpr, C: tl.constexpr):
    i = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64)
    j = (tl.program_id(1) * C + tl.arange(0, C)).to(tl.int64)
    v = tl.load(x + i[:, None] * n + j[None, :], mask=(i[:, None] < m) & (j[None, :] < n))
    tl.store(out + j[:, None] * m + i[None, :], tl.trans(v), mask=(j[:, None] < n) & (i[None, :] < m))


def transpose(a: Arguments) -> None:
    m, n = a["x"].shape
    grid = lambda meta: (triton.cdiv(m, meta["R"]), triton.cdiv(n, meta["C"]))  # noqa: E731
    transpose_kernel[grid](a["x"], a["out"], m, n)


MATMUL = [
    triton.Config({"M": m, "N": n, "K": k, "GROUP": 8}, num_stages=s, num_warps=w)
    for m, n, k, s, w in (
        (128, 256, 64, 3, 8), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4), (64, 128, 32, 4, 4),
        (128, 32, 32, 4, 4), (64, 32, 32, 5, 2), (32, 64, 32, 5, 2), (128, 128, 64, 4, 8), (128, 128, 64, 3, 4),
        (128, 256, 64, 4, 8), (256, 128, 64, 3, 8), (16, 128, 128, 4, 4), (16, 64, 128, 5, 4), (64, 64, 64, 4, 4),
    )
]  # fmt: skip


@triton.autotune(configs=MATMUL, key=["m", "n", "k"])
@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, sam, sak, sbk, sbn, scm, scn,
    PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(m, M), tl.cdiv(n, N)
    group = pid // (GROUP * columns)
    first = group * GROUP
    height = min(rows - first, GROUP)
    row = first + (pid % (GROUP * columns)) % height
    column = (pid % (GROUP * columns)) // height
    i = (row * M + tl.arange(0, M)) % m
    j = (column * N + tl.arange(0, N)) % n
    kk = tl.arange(0, K)
    left = a + i[:, None].to(tl.int64) * sam + kk[None, :] * sak
    right = b + kk[:, None].to(tl.int64) * sbk + j[None, :] * sbn
    total = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, K)):
        x = tl.load(left, mask=kk[None, :] < k - step * K, other=0.0)
        y = tl.load(right, mask=kk[:, None] < k - step * K, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION)
        left += K * sak
        right += K * sbk
    i = (row * M + tl.arange(0, M)).to(tl.int64)
    j = column * N + tl.arange(0, N)
    place = c + i[:, None] * scm + j[None, :] * scn
    tl.store(place, total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


def precision_of(a: Arguments) -> str:
    """How f32 is multiplied: as the line's option says."""
    return str(a.get("precision", "tf32"))


def matmul(a: Arguments) -> None:
    x, y, out = a["a"], a["b"], a["out"]
    m, k, n = x.shape[0], x.shape[1], y.shape[1]
    grid = lambda meta: (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)  # noqa: E731
    strides = (*x.stride(), *y.stride(), *out.stride())
    matmul_kernel[grid](x, y, out, m, n, k, *strides, PRECISION=precision_of(a))


ATTENTION = [
    triton.Config({"M": m, "N": n}, num_stages=s, num_warps=w)
    for m, n, s, w in (
        (64, 32, 3, 4), (64, 64, 3, 4), (64, 128, 3, 4), (64, 64, 4, 4), (128, 32, 3, 4), (128, 32, 3, 8),
        (128, 64, 3, 4), (128, 64, 3, 8), (128, 64, 4, 8), (128, 64, 2, 8), (128, 128, 2, 8), (128, 128, 3, 8),
    )
]  # fmt: skip


@triton.autotune(configs=ATTENTION, key=["tq", "tk", "D", "CAUSAL"])
@triton.jit
def attention_kernel(
    q, k, v, out, scale, heads, group, tq, tk,
    D: tl.constexpr, CAUSAL: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    kv = (head // heads) * (heads // group) + (head % heads) // group
    i = block * M + tl.arange(0, M)
    d = tl.arange(0, D)
    x = tl.load(q + head * tq * D + i[:, None] * D + d[None, :], mask=i[:, None] < tq, other=0.0)
    k += kv * tk * D
    v += kv * tk * D
    largest = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    shift = tk - tq
    end = min(tk, (block + 1) * M + shift) if CAUSAL else tk
    for start in range(0, end, N):
        j = start + tl.arange(0, N)
        y = tl.load(k + j[None, :] * D + d[:, None], mask=j[None, :] < tk, other=0.0)
        s = tl.dot(x, y) * scale
        seen = j[None, :] < tk
        if CAUSAL:
            seen = seen & (j[None, :] <= i[:, None] + shift)
        s = tl.where(seen, s, -1.0e30)
        now = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        factor = tl.exp2(largest - now)
        total = total * factor + tl.sum(p, 1)
        acc = acc * factor[:, None]
        z = tl.load(v + j[:, None] * D + d[None, :], mask=j[:, None] < tk, other=0.0)
        acc = tl.dot(p.to(z.dtype), z, acc)
        largest = now
    acc = acc / total[:, None]
    tl.store(out + head * tq * D + i[:, None] * D + d[None, :], acc.to(out.dtype.element_ty), mask=i[:, None] < tq)


def attention(a: Arguments) -> None:
    """q [B, H, T, D], k and v [B, H / group, S, D], contiguous."""
    q, k = a["q"], a["k"]
    batch, heads, tq, d = q.shape
    scale = d**-0.5 * 1.4426950408889634
    grid = lambda meta: (triton.cdiv(tq, meta["M"]), batch * heads)  # noqa: E731
    causal = bool(a.get("causal", False))
    attention_kernel[grid](
        q, k, a["v"], a["out"], scale, heads, heads // k.shape[1], tq, k.shape[2], D=d, CAUSAL=causal
    )


OPERATIONS: dict[str, Callable[[Arguments], None]] = {
    "add": add,
    "copy": copy,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "row_sum": row_sum,
    "transpose": transpose,
    "matmul": matmul,
    "attention": attention,
}
