"""Layer normalisation of rows, forward: the variance from distances to the mean, or by Welford's update."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import item_bytes, rows_and_columns
from refcompiler.kernels.rows import is_resident, row_configuration


@triton.jit
def layer_norm_kernel(x, weight, bias, out, stride, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    col = tl.arange(0, BLOCK)
    mask = col < n
    v = tl.load(x + row + col, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight + col, mask=mask).to(tl.float32)
    b = tl.load(bias + col, mask=mask).to(tl.float32)
    mean = tl.sum(v, axis=0) / n
    distance = tl.where(mask, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(distance * distance, axis=0) / n + epsilon)
    tl.store(out + row + col, distance * scale * w + b, mask=mask)


@triton.jit
def layer_norm_looped_kernel(x, weight, bias, out, stride, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    x += row
    out += row
    col = tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK,), tl.float32)
    spread = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    rounds = 0.0
    for start in range(0, n, BLOCK):
        mask = start + col < n
        v = tl.load(x + start + col, mask=mask, other=0.0).to(tl.float32)
        rounds += 1.0
        before = v - mean
        after = tl.where(mask, mean + before * (1.0 / rounds), mean)
        spread = tl.where(mask, spread + before * (v - after), spread)
        count = tl.where(mask, rounds, count)
        mean = after
    center = tl.sum(mean * count, axis=0) / n
    distance = mean - center
    scale = tl.rsqrt(tl.sum(spread + distance * distance * count, axis=0) / n + epsilon)
    for start in range(0, n, BLOCK):
        mask = start + col < n
        v = tl.load(x + start + col, mask=mask).to(tl.float32)
        w = tl.load(weight + start + col, mask=mask).to(tl.float32)
        b = tl.load(bias + start + col, mask=mask).to(tl.float32)
        tl.store(out + start + col, (v - center) * scale * w + b, mask=mask)


def layer_norm(x: Any, weight: Any, bias: Any, out: Any, epsilon: float = 1e-5, **options: Any) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias along the last axis, into `out`.

    `x` and `out` are contiguous arrays of one shape, `weight` and `bias` have one element per column. `options` are
    constexprs and options of the launch that replace the default ones.
    """
    rows, columns, stride = rows_and_columns(x)
    if rows and columns:
        kernel = layer_norm_kernel if is_resident(columns, options) else layer_norm_looped_kernel
        chosen = row_configuration(columns, item_bytes(x)) | options
        kernel[(rows,)](x, weight, bias, out, stride, columns, float(epsilon), **chosen)
    return out
