"""Sums of rows, of columns and of whole arrays in f32, in an order that depends on the shape alone."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import FLOATS, check_arrays, count, empty, item_bytes, rows_and_columns


@triton.jit
def row_sum_kernel(x, out, stride, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = the sum of x[i, j] over j, for ROWS rows at a time, BLOCK columns at a time."""
    first = tl.program_id(0).to(tl.int64) * ROWS
    x += first * stride
    i = tl.arange(0, ROWS)
    j = tl.arange(0, BLOCK)
    inside = i < m - first
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, n, BLOCK):
        mask = inside[:, None] & (start + j < n)[None, :]
        total += tl.load(x + start + (i[:, None] * stride + j[None, :]), mask=mask, other=0.0).to(tl.float32)
    tl.store(out + first + i, tl.sum(total, axis=1), mask=inside)


@triton.jit
def column_sum_kernel(x, out, stride, m, n, part, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """out[p, j] = the sum of x[i, j] over the rows i of part p, of `part` rows."""
    first = tl.program_id(1) * part
    left = tl.minimum(m - first, part)
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = tl.arange(0, ROWS)[:, None]
    x += first.to(tl.int64) * stride
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, left, ROWS):
        mask = (start + row < left) & (col < n)
        total += tl.load(x + start.to(tl.int64) * stride + row * stride + col, mask=mask, other=0.0).to(tl.float32)
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(1).to(tl.int64) * n + j, tl.sum(total, axis=0), mask=j < n)


@triton.jit
def sum_kernel(x, out, n, part, BLOCK: tl.constexpr):
    """out[p] = the sum of the elements of part p, of `part` elements."""
    first = tl.program_id(0).to(tl.int64) * part
    left = tl.minimum(n - first, part).to(tl.int32)
    x += first
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, left, BLOCK):
        total += tl.load(x + start + i, mask=start + i < left, other=0.0).to(tl.float32)
    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))


PARTS = 528  # programs that share the work of one sum: four for each of the 132 SMs of an H200


def row_sum(x: Any, out: Any, **options: Any) -> Any:
    """The sum of each row of a contiguous array along its last axis, in f32, into `out` of one element per row.

    `options`, here and below, are constexprs and options of the launch that replace the default ones.
    """
    rows, columns, stride = rows_and_columns(x)
    check_arrays({"x": (x, rows * columns), "out": (out, rows)}, FLOATS)
    block = min(triton.next_power_of_2(max(columns, 1)), 16384 // item_bytes(x))
    together = max(1, min(8, 16384 // (block * item_bytes(x))))  # short rows: each in a warp of its own
    chosen = {"ROWS": together, "BLOCK": block, "num_warps": 8} | options
    if rows:
        row_sum_kernel[(triton.cdiv(rows, chosen["ROWS"]),)](x, out, stride, rows, columns, **chosen)
    return out


def column_sum(x: Any, out: Any, **options: Any) -> Any:
    """The sum of each column of a contiguous matrix, in f32, into `out` of one element per column."""
    rows, columns, stride = rows_and_columns(x)
    check_arrays({"x": (x, rows * columns), "out": (out, columns)}, FLOATS)
    chosen = {"ROWS": 16, "BLOCK": 512 // item_bytes(x), "num_warps": 4} | options
    if not columns:
        return out
    strips = triton.cdiv(columns, chosen["BLOCK"])
    parts = max(1, min(triton.cdiv(PARTS, strips), triton.cdiv(rows, 4 * chosen["ROWS"])))
    part = triton.cdiv(triton.cdiv(rows, parts), chosen["ROWS"]) * chosen["ROWS"]
    partial = out if parts == 1 else empty(x, (parts, columns), "float32")
    column_sum_kernel[(strips, parts)](x, partial, stride, rows, columns, part, **chosen)
    if parts > 1:
        last = chosen | {"ROWS": 64, "BLOCK": 32}
        column_sum_kernel[(triton.cdiv(columns, 32), 1)](partial, out, columns, parts, columns, parts, **last)
    return out


def total_sum(x: Any, out: Any, **options: Any) -> Any:
    """The sum of all elements of a contiguous array, in f32, into `out` of one element."""
    n = count(x)
    check_arrays({"x": (x, n), "out": (out, 1)}, FLOATS)
    chosen = {"BLOCK": 32768 // item_bytes(x), "num_warps": 16} | options
    parts = max(1, min(PARTS, triton.cdiv(n, chosen["BLOCK"])))
    part = triton.cdiv(triton.cdiv(n, parts), chosen["BLOCK"]) * chosen["BLOCK"]
    partial = out if parts == 1 else empty(x, (parts,), "float32")
    sum_kernel[(parts,)](x, partial, n, part, **chosen)
    if parts > 1:
        sum_kernel[(1,)](partial, out, parts, 1024, **(chosen | {"BLOCK": 1024}))
    return out
