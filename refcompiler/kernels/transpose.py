"""Transpose of matrices: tiles that are read along rows and written along columns."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import check_arrays, item_bytes, matrix_extents


@triton.jit
def transpose_kernel(x, out, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    first_row, first_column = tl.program_id(1) * ROWS, tl.program_id(0) * COLUMNS
    i = tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    x += first_row.to(tl.int64) * n + first_column
    out += first_column.to(tl.int64) * m + first_row
    inside_rows, inside_columns = i < m - first_row, j < n - first_column
    v = tl.load(x + i[:, None] * n + j[None, :], mask=inside_rows[:, None] & inside_columns[None, :])
    tl.store(out + j[:, None] * m + i[None, :], tl.trans(v), mask=inside_columns[:, None] & inside_rows[None, :])


def configuration(item_bytes: int) -> dict[str, int]:
    """Tiles whose rows, read and written, are of 128 bytes and more."""
    return {"ROWS": 64, "COLUMNS": 64, "num_warps": 8 if item_bytes >= 4 else 4}


def transpose(x: Any, out: Any, extents: tuple[int, int] | None = None, **options: Any) -> Any:
    """x[i, j] into out[j, i]: contiguous matrices of one dtype, of (m, n) and (n, m) elements.

    `extents` are m and n of memory that `x` has in another shape. `options` are constexprs and options of the launch
    that replace the default ones.
    """
    m, n = extents or matrix_extents(x)
    check_arrays({"out": (out, m * n)} | ({} if extents else {"x": (x, m * n)}))
    chosen = configuration(item_bytes(x)) | options
    if m and n:
        grid = (triton.cdiv(n, chosen["COLUMNS"]), triton.cdiv(m, chosen["ROWS"]))
        transpose_kernel[grid](x, out, m, n, **chosen)
    return out
