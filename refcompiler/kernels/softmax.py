"""Softmax of rows: what registers hold of a row is read once, the rest once from memory and once from the cache."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import FLOATS, check_arrays, rows_and_columns
from refcompiler.kernels.rows import ROWS_OF_128_KIB, extent, programs, row_configuration

TUNED = {
    (2, 16384): {"num_warps": 8, "maxnreg": 80},
    (4, 16384): {"num_warps": 16, "maxnreg": 64},
    (2, 32768): {"num_warps": 16},
    (4, 32768): {"num_warps": 16},
    (4, 65536): {"BLOCK": 16384, "num_warps": 16, "STEP": 8192},
}
WHOLE = {
    (2, 32768): {"ROWS": 4, "num_warps": 16, "num_stages": 2},
    (2, 65536): ROWS_OF_128_KIB,
    (4, 65536): {"num_warps": 4, "num_ctas": 8},
}


@triton.jit
def softmax_kernel(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    col = tl.arange(0, BLOCK)
    mask = col < n
    v = tl.load(x + row + col, mask=mask, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
    e = tl.exp2((v - tl.max(v, axis=0)) * 1.4426950408889634)
    tl.store(out + row + col, e * (1.0 / tl.sum(e, axis=0)), mask=mask, eviction_policy="evict_first")


@triton.jit
def softmax_rows_kernel(x, out, rows, stride, n, BLOCK: tl.constexpr):
    col = tl.arange(0, BLOCK)
    mask = col < n
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        first = row.to(tl.int64) * stride
        v = tl.load(x + first + col, mask=mask, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
        e = tl.exp2((v - tl.max(v, axis=0)) * 1.4426950408889634)
        tl.store(out + first + col, e * (1.0 / tl.sum(e, axis=0)), mask=mask, eviction_policy="evict_first")


@triton.jit
def softmax_long_kernel(x, out, stride, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    x += row
    out += row
    held = tl.arange(0, BLOCK)
    v = tl.load(x + held, eviction_policy="evict_first").to(tl.float32)
    col = tl.arange(0, STEP)
    largest = tl.full((STEP,), -float("inf"), tl.float32)
    total = tl.zeros((STEP,), tl.float32)
    for start in range(BLOCK, n, STEP):
        mask = start + col < n
        u = tl.load(x + start + col, mask=mask, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
        distance = tl.where(u == largest, 0.0, u - largest)
        e = tl.exp2(tl.abs(distance) * -1.4426950408889634)
        total = tl.where(u > largest, total * e + 1.0, total + e)
        largest = tl.maximum(largest, u)
    m = tl.maximum(tl.max(v, axis=0), tl.max(largest, axis=0))
    e = tl.exp2((v - m) * 1.4426950408889634)
    rest = total * tl.exp2((largest - m) * 1.4426950408889634)
    scale = 1.0 / (tl.sum(e, axis=0) + tl.sum(rest, axis=0))
    tl.store(out + held, e * scale, eviction_policy="evict_first")
    for start in range(BLOCK, n, STEP):
        mask = start + col < n
        u = tl.load(x + start + col, mask=mask, eviction_policy="evict_first").to(tl.float32)
        y = tl.exp2((u - m) * 1.4426950408889634) * scale
        tl.store(out + start + col, y, mask=mask, eviction_policy="evict_first")


def softmax(x: Any, out: Any, **options: Any) -> Any:
    """e^(x - max x) / sum e^(x - max x) along the last axis, into `out`: contiguous arrays of one shape.

    `options` are constexprs and options of the launch that replace the default ones.
    """
    rows, columns, stride = rows_and_columns(x)
    check_arrays({"x": (x, rows * columns), "out": (out, rows * columns)}, FLOATS)
    if not rows or not columns:
        return out
    chosen = {"enable_reflect_ftz": True} | row_configuration(columns, x, out, options, TUNED, WHOLE)
    n, several = extent(columns, chosen["BLOCK"]), programs(chosen, rows, x)
    if several:
        softmax_rows_kernel[(several,)](x, out, rows, n, n, **chosen)
    else:
        kernel = softmax_long_kernel if "STEP" in chosen else softmax_kernel
        kernel[(rows,)](x, out, stride, n, **chosen)
    return out
