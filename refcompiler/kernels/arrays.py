"""What the launching functions need of an array of any library: extents, size of elements, memory beside it."""

from __future__ import annotations

import sys
from math import prod
from typing import Any


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


def empty_f32(x: Any, shape: tuple[int, ...]) -> Any:
    """An f32 array of the library and on the device of ``x``, its elements unspecified."""
    library = sys.modules[type(x).__module__.partition(".")[0]]
    device = {"device": x.device} if library.__name__ == "torch" else {}
    return library.empty(shape, dtype=library.float32, **device)
