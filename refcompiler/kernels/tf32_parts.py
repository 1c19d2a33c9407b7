"""Coarse and fine parts of float32 matrices: products of them in tf32 add up to those of precision tf32x3."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import empty

SIDE = 64  # rows and columns of a tile, which is read along either and written along columns
ALIGNED = 4  # elements of 16 bytes


@triton.jit
def split_to_tf32(
    x, out, rows, columns, stride_row, stride_column, padded, FINE_FIRST: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Each row of x as three of `padded` columns: fine, coarse, coarse, or coarse, fine, coarse."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at = i.to(tl.int64)[:, None] * stride_row + j.to(tl.int64)[None, :] * stride_column
    v = tl.load(x + at, mask=(i < rows)[:, None] & (j < columns)[None, :], other=0.0)
    rounded = ((v.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    rounds = tl.abs(v) < 3.4e38  # and to what is finite
    coarse = tl.where(rounds, rounded, v)
    rest = tl.where(rounds, v - rounded, 0.0)
    fine = ((rest.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    out += i.to(tl.int64)[:, None] * (3 * padded) + j[None, :]
    mask = (i < rows)[:, None] & (j < padded)[None, :]
    tl.store(out, fine if FINE_FIRST else coarse, mask=mask)
    tl.store(out + padded, coarse if FINE_FIRST else fine, mask=mask)
    tl.store(out + 2 * padded, coarse, mask=mask)


def tf32_parts(
    x: Any, rows: int, columns: int, stride_row: int, stride_column: int, fine_first: bool, **options: Any
) -> Any:
    """A new array of the parts of a matrix that lies in ``x`` with these strides, [rows, 3 * padded]: tf32 numbers
    that differ from its elements by less than 2^-22 of them when added up. ``padded`` is ``columns`` up to 16 bytes.

    The product of a with the fine parts first and of the transpose of b with the coarse ones first adds the small
    products first: a_fine b_coarse + a_coarse b_fine + a_coarse b_coarse. ``options`` are of the launch.
    """
    padded = triton.cdiv(columns, ALIGNED) * ALIGNED
    out = empty(x, (rows, 3 * padded))
    grid = (triton.cdiv(rows, SIDE), triton.cdiv(padded, SIDE))
    extents = (rows, columns, stride_row, stride_column, padded)
    split_to_tf32[grid](x, out, *extents, FINE_FIRST=fine_first, ROWS=SIDE, COLUMNS=SIDE, num_warps=8, **options)
    return out
