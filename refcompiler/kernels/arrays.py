"""What the launching functions need of an array of any library: extents, size of elements, memory beside it."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

from refcompiler.runtime import gpu

HOPPER_MULTIPROCESSORS = 132


def count(x: Any) -> int:
    """The number of elements."""
    return prod(x.shape)


def item_bytes(x: Any) -> int:
    """The bytes of one element."""
    return int(x.dtype.itemsize)


def rows_and_columns(x: Any) -> tuple[int, int, int]:
    """Rows, columns and the distance between rows in elements, of an array whose last axis is contiguous and whose
    other axes are seen as one."""
    columns = x.shape[-1] if x.shape else 1
    return (count(x) // columns if columns else 0), columns, columns


def empty(x: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    """An array of the library and on the device of ``x``, its elements unspecified: of x's dtype, or of the one that
    the library calls ``dtype``."""
    library = sys.modules[type(x).__module__.partition(".")[0]]
    if library.__name__ == "torch":
        return library.empty(shape, dtype=getattr(library, dtype) if dtype else x.dtype, device=x.device)
    return library.empty(shape, dtype=dtype or x.dtype)


def multiprocessors(device: int | None) -> int:
    """Of a GPU; of arrays in host memory (None) those of an H100, for which the defaults are made."""
    return HOPPER_MULTIPROCESSORS if device is None else gpu.multiprocessors(device)
