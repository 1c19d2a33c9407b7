"""Root mean square normalisation of rows, forward."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import FLOATS, check_arrays, rows_and_columns
from refcompiler.kernels.rows import ROWS_OF_128_KIB, ROWS_OF_256_KIB, extent, programs, row_configuration

TUNED = {
    (4, 8192): {"num_warps": 16, "maxnreg": 64},
    (2, 16384): {"num_warps": 16, "maxnreg": 64},
    (2, 32768): {"BLOCK": 8192, "num_warps": 16, "STEP": 8192, "num_stages": 1, "maxnreg": 64},
    (4, 32768): {"BLOCK": 16384, "num_warps": 32, "STEP": 16384, "num_stages": 1},
    (2, 65536): {"BLOCK": 16384, "num_warps": 32, "STEP": 16384, "num_stages": 1},
    (4, 65536): {"BLOCK": 16384, "num_warps": 32, "STEP": 16384, "num_stages": 1},
}
WHOLE = {
    (2, 8192): {"ROWS": 2, "num_warps": 8, "num_stages": 2, "HELD": False},
    (2, 16384): {"ROWS": 2, "num_warps": 8, "num_stages": 2},
    (4, 16384): {"ROWS": 2, "num_warps": 16, "num_stages": 2},
    (2, 32768): {"ROWS": 2, "num_warps": 16, "num_stages": 2},
    (4, 32768): ROWS_OF_128_KIB,
    (2, 65536): ROWS_OF_128_KIB,
    (4, 65536): ROWS_OF_256_KIB,
}


@triton.jit
def rms_norm_kernel(x, weight, out, stride, n, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    col = tl.arange(0, BLOCK)
    mask = col < n
    v = tl.load(x + row + col, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
    w = tl.load(weight + col, mask=mask).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) * (1.0 / n) + epsilon)
    tl.store(out + row + col, v * scale * w, mask=mask, eviction_policy="evict_first")


@triton.jit
def rms_norm_rows_kernel(x, weight, out, rows, stride, n, epsilon, BLOCK: tl.constexpr, HELD: tl.constexpr):
    col = tl.arange(0, BLOCK)
    mask = col < n
    if HELD:
        w = tl.load(weight + col, mask=mask)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        first = row.to(tl.int64) * stride
        v = tl.load(x + first + col, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        scale = tl.rsqrt(tl.sum(v * v, axis=0) * (1.0 / n) + epsilon)
        if not HELD:
            w = tl.load(weight + col, mask=mask)
        tl.store(out + first + col, v * scale * w.to(tl.float32), mask=mask, eviction_policy="evict_first")


@triton.jit
def rms_norm_long_kernel(x, weight, out, stride, n, epsilon, BLOCK: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    x += row
    out += row
    held = tl.arange(0, BLOCK)
    v = tl.load(x + held, eviction_policy="evict_first").to(tl.float32)
    col = tl.arange(0, STEP)
    squares = tl.zeros((STEP,), tl.float32)
    for start in range(BLOCK, n, STEP):
        u = tl.load(x + start + col, mask=start + col < n, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += u * u
    total = tl.sum(v * v, axis=0) + tl.sum(squares, axis=0)
    scale = tl.rsqrt(total * (1.0 / n) + epsilon)
    tl.store(out + held, v * scale * tl.load(weight + held).to(tl.float32), eviction_policy="evict_first")
    for start in range(BLOCK, n, STEP):
        mask = start + col < n
        u = tl.load(x + start + col, mask=mask, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(weight + start + col, mask=mask).to(tl.float32)
        tl.store(out + start + col, u * scale * w, mask=mask, eviction_policy="evict_first")


def rms_norm(x: Any, weight: Any, out: Any, epsilon: float = 1e-6, **options: Any) -> Any:
    """x / sqrt(mean x^2 + epsilon) * weight along the last axis, into `out`.

    `x` and `out` are contiguous arrays of one shape, `weight` has one element per column. `options` are constexprs and
    options of the launch that replace the default ones.
    """
    rows, columns, stride = rows_and_columns(x)
    check_arrays({"x": (x, rows * columns), "weight": (weight, columns), "out": (out, rows * columns)}, FLOATS)
    if not rows or not columns:
        return out
    chosen = row_configuration(columns, x, out, options, TUNED, WHOLE)
    n, several = extent(columns, chosen["BLOCK"]), programs(chosen, rows, x)
    if several:
        rms_norm_rows_kernel[(several,)](x, weight, out, rows, n, n, float(epsilon), **{"HELD": True, **chosen})
    else:
        kernel = rms_norm_long_kernel if "STEP" in chosen else rms_norm_kernel
        kernel[(rows,)](x, weight, out, stride, n, float(epsilon), **chosen)
    return out
