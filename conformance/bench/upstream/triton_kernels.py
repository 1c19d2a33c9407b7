"""Kernels for upstream Triton like those of its tutorials, with lists of configurations like theirs; a peer to measure.

Imported only where Triton is installed. Every kernel handles any size by masks, of up to 2^31 elements in a matrix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner

from conformance.bench.upstream import triton_attention

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
        (128, 256, 128, 3, 8), (256, 128, 128, 3, 8), (256, 64, 128, 4, 4), (64, 256, 128, 4, 4), (128, 128, 128, 4, 4),
        (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (128, 32, 64, 4, 4),
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
    left = a + i[:, None] * sam + kk[None, :] * sak
    right = b + kk[:, None] * sbk + j[None, :] * sbn
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


OPERATIONS: dict[str, Callable[[Arguments], None]] = {
    "add": add,
    "copy": copy,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "row_sum": row_sum,
    "transpose": transpose,
    "matmul": matmul,
    "attention": triton_attention.attention,
}


def compile_share(operation: str, a: Arguments, share: int, shares: int) -> None:
    """Compile every `shares`-th of the configurations that tuning will try, from `share` on, into Triton's cache;
    nothing is launched. One that does not compile is left to the tuner, which knows what to do with it."""
    tuners = [t for m in (globals(), vars(triton_attention)) for t in m.values() if isinstance(t, Autotuner)]
    for tuner in tuners:
        tuner.run = _compiling(tuner, share, shares)
    try:
        OPERATIONS[operation](a)
    finally:
        for tuner in tuners:
            del tuner.run


def _compiling(tuner: Autotuner, share: int, shares: int) -> Callable[..., None]:
    """What stands in for a tuner's `run`."""

    def run(*args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        for config in tuner.prune_configs(kwargs)[share::shares]:
            options = config.all_kwargs()
            with contextlib.suppress(Exception):
                if config.pre_hook:
                    config.pre_hook({**tuner.nargs, **kwargs, **options})
                tuner.fn.warmup(*args, grid=grid, **kwargs, **options)

    return run
