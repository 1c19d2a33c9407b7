"""What the launching functions ask of an array of any library: its extents and the size of its elements."""

from __future__ import annotations

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
