"""Layer normalisation of rows, forward: the variance from distances to the mean, or by Welford's update."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import item_bytes, rows_and_columns
from refcompiler.kernels.rows import row_configuration


@triton.jit
def layer_norm_kernel(x, weight, bias, out, stride, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    col = tl.arange(0, BLOCK)
    mask = col < n
    v = tl.load(x + row + col, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    w = tl.load(weight + col, mask=mask, eviction_policy="evict_last").to(tl.float32)
    b = tl.load(bias + col, mask=mask, eviction_policy="evict_last").to(tl.float32)
    share = 1.0 / n
    distance = tl.where(mask, v - tl.sum(v, axis=0) * share, 0.0)
    scale = tl.rsqrt(tl.sum(distance * distance, axis=0) * share + epsilon)
    tl.store(out + row + col, distance * scale * w + b, mask=mask)


@triton.jit
def layer_norm_long_kernel(x, weight, bias, out, stride, n, epsilon, BLOCK: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    x += row
    out += row
    held = tl.arange(0, BLOCK)
    v = tl.load(x + held).to(tl.float32)
    col = tl.arange(0, STEP)
    mean = tl.zeros((STEP,), tl.float32)
    spread = tl.zeros((STEP,), tl.float32)
    count = tl.zeros((STEP,), tl.float32)
    rounds = 0.0
    for start in range(BLOCK, n, STEP):
        mask = start + col < n
        u = tl.load(x + start + col, mask=mask, other=0.0).to(tl.float32)
        rounds += 1.0
        before = u - mean
        after = tl.where(mask, mean + before * (1.0 / rounds), mean)
        spread = tl.where(mask, spread + before * (u - after), spread)
        count = tl.where(mask, rounds, count)
        mean = after
    share = 1.0 / n
    center = (tl.sum(v, axis=0) + tl.sum(mean * count, axis=0)) * share
    v -= center
    mean -= center
    squares = tl.sum(v * v, axis=0) + tl.sum(spread + mean * mean * count, axis=0)
    scale = tl.rsqrt(squares * share + epsilon)
    y = v * scale * tl.load(weight + held).to(tl.float32) + tl.load(bias + held).to(tl.float32)
    tl.store(out + held, y)
    for start in range(BLOCK, n, STEP):
        mask = start + col < n
        u = tl.load(x + start + col, mask=mask).to(tl.float32)
        w = tl.load(weight + start + col, mask=mask).to(tl.float32)
        b = tl.load(bias + start + col, mask=mask).to(tl.float32)
        tl.store(out + start + col, (u - center) * scale * w + b, mask=mask)


def layer_norm(x: Any, weight: Any, bias: Any, out: Any, epsilon: float = 1e-5, **options: Any) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias along the last axis, into `out`.

    `x` and `out` are contiguous arrays of one shape, `weight` and `bias` have one element per column. `options` are
    constexprs and options of the launch that replace the default ones.
    """
    rows, columns, stride = rows_and_columns(x)
    if rows and columns:
        chosen = row_configuration(columns, item_bytes(x), options)
        kernel = layer_norm_long_kernel if "STEP" in chosen else layer_norm_kernel
        kernel[(rows,)](x, weight, bias, out, stride, columns, float(epsilon), **chosen)
    return out
