"""Layer normalisation of rows, forward; what registers do not hold of a row is summed as distances to their mean.

The variance of such a row is the mean square of those deviations less the square of their mean. Where a share f of the
row is held, the square that is taken away is at most (1 - f) / f times the variance: with a half held one bit is lost.
"""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import FLOATS, check_arrays, rows_and_columns
from refcompiler.kernels.rows import ROWS_OF_128_KIB, ROWS_OF_256_KIB, extent, programs, row_configuration

TUNED = {
    (2, 1024): {"num_warps": 1},
    (2, 8192): {"num_warps": 8, "maxnreg": 80},
    (4, 8192): {"num_warps": 16, "maxnreg": 64},
    (2, 16384): {"BLOCK": 8192, "num_warps": 8, "STEP": 4096},
    (2, 32768): {"BLOCK": 8192, "num_warps": 16, "STEP": 8192, "num_stages": 1, "maxnreg": 64},
    (4, 32768): {"BLOCK": 16384, "num_warps": 16, "STEP": 8192, "num_stages": 1},
    (2, 65536): {"BLOCK": 16384, "num_warps": 32, "STEP": 16384, "num_stages": 1},
    (4, 65536): {"BLOCK": 16384, "num_warps": 16, "STEP": 16384, "num_stages": 1},
}
WHOLE = {
    (2, 2048): {"ROWS": 2, "num_warps": 2, "num_stages": 3},
    (2, 4096): {"ROWS": 2, "num_warps": 8, "num_stages": 3},
    (2, 8192): {"ROWS": 2, "num_warps": 8, "num_stages": 3},
    (2, 16384): {"ROWS": 4, "num_warps": 8, "num_stages": 2},
    (2, 32768): {"ROWS": 4, "num_warps": 16, "num_stages": 2},
    (2, 65536): ROWS_OF_128_KIB,
    (4, 16384): {"ROWS": 4, "num_warps": 16, "num_stages": 2, "HELD": False},
    (4, 32768): ROWS_OF_128_KIB,
    (4, 65536): ROWS_OF_256_KIB,
}


@triton.jit
def layer_norm_kernel(x, weight, bias, out, stride, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    col = tl.arange(0, BLOCK)
    mask = col < n
    v = tl.load(x + row + col, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
    w = tl.load(weight + col, mask=mask).to(tl.float32)
    b = tl.load(bias + col, mask=mask).to(tl.float32)
    share = 1.0 / n
    distance = tl.where(mask, v - tl.sum(v, axis=0) * share, 0.0)
    scale = tl.rsqrt(tl.sum(distance * distance, axis=0) * share + epsilon)
    tl.store(out + row + col, distance * scale * w + b, mask=mask, eviction_policy="evict_first")


@triton.jit
def layer_norm_rows_kernel(x, weight, bias, out, rows, stride, n, epsilon, BLOCK: tl.constexpr, HELD: tl.constexpr):
    col = tl.arange(0, BLOCK)
    mask = col < n
    if HELD:
        w = tl.load(weight + col, mask=mask)
        b = tl.load(bias + col, mask=mask)
    share = 1.0 / n
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        first = row.to(tl.int64) * stride
        v = tl.load(x + first + col, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        distance = tl.where(mask, v - tl.sum(v, axis=0) * share, 0.0)
        scale = tl.rsqrt(tl.sum(distance * distance, axis=0) * share + epsilon)
        if not HELD:
            w = tl.load(weight + col, mask=mask)
            b = tl.load(bias + col, mask=mask)
        y = distance * scale * w.to(tl.float32) + b.to(tl.float32)
        tl.store(out + first + col, y, mask=mask, eviction_policy="evict_first")


@triton.jit
def layer_norm_long_kernel(x, weight, bias, out, stride, n, epsilon, BLOCK: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    x += row
    out += row
    held = tl.arange(0, BLOCK)
    v = tl.load(x + held, eviction_policy="evict_first").to(tl.float32)
    center = tl.sum(v, axis=0) * (1.0 / BLOCK)
    v -= center
    col = tl.arange(0, STEP)
    distances = tl.zeros((STEP,), tl.float32)
    squares = tl.zeros((STEP,), tl.float32)
    for start in range(BLOCK, n, STEP):
        mask = start + col < n
        u = tl.load(x + start + col, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        distance = tl.where(mask, u - center, 0.0)
        distances += distance
        squares += distance * distance
    share = 1.0 / n
    rest = (tl.sum(v, axis=0) + tl.sum(distances, axis=0)) * share
    spread = (tl.sum(v * v, axis=0) + tl.sum(squares, axis=0)) * share - rest * rest
    scale = tl.rsqrt(spread + epsilon)
    y = (v - rest) * scale * tl.load(weight + held).to(tl.float32) + tl.load(bias + held).to(tl.float32)
    tl.store(out + held, y, eviction_policy="evict_first")
    mean = center + rest
    for start in range(BLOCK, n, STEP):
        mask = start + col < n
        u = tl.load(x + start + col, mask=mask, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(weight + start + col, mask=mask).to(tl.float32)
        b = tl.load(bias + start + col, mask=mask).to(tl.float32)
        tl.store(out + start + col, (u - mean) * scale * w + b, mask=mask, eviction_policy="evict_first")


def layer_norm(x: Any, weight: Any, bias: Any, out: Any, epsilon: float = 1e-5, **options: Any) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias along the last axis, into `out`.

    `x` and `out` are contiguous arrays of one shape, `weight` and `bias` have one element per column. `options` are
    constexprs and options of the launch that replace the default ones.
    """
    rows, columns, stride = rows_and_columns(x)
    check_arrays(
        {"x": (x, rows * columns), "weight": (weight, columns), "bias": (bias, columns), "out": (out, rows * columns)},
        FLOATS,
    )
    if not rows or not columns:
        return out
    chosen = row_configuration(columns, x, out, options, TUNED, WHOLE)
    n, several = extent(columns, chosen["BLOCK"]), programs(chosen, rows, x)
    if several:
        layer_norm_rows_kernel[(several,)](x, weight, bias, out, rows, n, n, float(epsilon), **{"HELD": True, **chosen})
    else:
        kernel = layer_norm_long_kernel if "STEP" in chosen else layer_norm_kernel
        kernel[(rows,)](x, weight, bias, out, stride, n, float(epsilon), **chosen)
    return out
