"""Softmax of rows: each row read once while it fits in registers, else once from memory and once from the cache."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import item_bytes, rows_and_columns
from refcompiler.kernels.rows import is_resident, row_configuration


@triton.jit
def softmax_kernel(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    col = tl.arange(0, BLOCK)
    mask = col < n
    v = tl.load(x + row + col, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row + col, e * (1.0 / tl.sum(e, axis=0)), mask=mask)


@triton.jit
def softmax_looped_kernel(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    x += row
    out += row
    col = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        v = tl.load(x + start + col, mask=start + col < n, other=-float("inf")).to(tl.float32)
        distance = tl.where(v == largest, 0.0, v - largest)
        e = tl.exp(-tl.abs(distance))
        total = tl.where(v > largest, total * e + 1.0, total + e)
        largest = tl.maximum(largest, v)
    m = tl.max(largest, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(largest - m), axis=0)
    for start in range(0, n, BLOCK):
        mask = start + col < n
        v = tl.load(x + start + col, mask=mask).to(tl.float32)
        tl.store(out + start + col, tl.exp(v - m) * scale, mask=mask)


def softmax(x: Any, out: Any, **options: Any) -> Any:
    """e^(x - max x) / sum e^(x - max x) along the last axis, into `out`: contiguous arrays of one shape.

    `options` are constexprs and options of the launch that replace the default ones.
    """
    rows, columns, stride = rows_and_columns(x)
    if rows and columns:
        kernel = softmax_kernel if is_resident(columns, options) else softmax_looped_kernel
        kernel[(rows,)](x, out, stride, columns, **(row_configuration(columns, item_bytes(x)) | options))
    return out
