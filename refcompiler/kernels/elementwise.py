"""Copy and sum of arrays of any length, at the rate of memory."""

from __future__ import annotations

from typing import Any

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.kernels.arrays import check_arrays, count, item_bytes

BYTES_PER_PROGRAM = 4096  # of each array: 16 bytes a thread, and eight programs on an SM


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    i = tl.arange(0, BLOCK)
    mask = i < n - start
    tl.store(out + start + i, tl.load(x + start + i, mask=mask), mask=mask)


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    i = tl.arange(0, BLOCK)
    mask = i < n - start
    tl.store(out + start + i, tl.load(x + start + i, mask=mask) + tl.load(y + start + i, mask=mask), mask=mask)


def configuration(dtype_bytes: int) -> dict[str, int]:
    """BLOCK and num_warps for elements of so many bytes."""
    return {"BLOCK": BYTES_PER_PROGRAM // dtype_bytes, "num_warps": 8}


def copy(x: Any, out: Any, **options: Any) -> Any:
    """x into `out`: contiguous arrays of one dtype and size. `options` replace the default constexprs and options."""
    check_arrays({"x": (x, count(x)), "out": (out, count(x))})
    chosen = configuration(item_bytes(x)) | options
    if count(x):
        copy_kernel[(triton.cdiv(count(x), chosen["BLOCK"]),)](x, out, count(x), **chosen)
    return out


def add(x: Any, y: Any, out: Any, **options: Any) -> Any:
    """x + y into `out`: contiguous arrays of one dtype and size. `options` replace the default ones."""
    check_arrays({"x": (x, count(x)), "y": (y, count(x)), "out": (out, count(x))})
    chosen = configuration(item_bytes(x)) | options
    if count(x):
        add_kernel[(triton.cdiv(count(x), chosen["BLOCK"]),)](x, y, out, count(x), **chosen)
    return out
