"""What the launching functions need of an array of any library: extents, size of elements, memory beside it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import prod
from typing import Any

from refcompiler.errors import LaunchError
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


def check_options(what: str, kernel: Any, options: Mapping[str, Any]) -> None:
    """Raise LaunchError (kernels.options) for an option that is an argument of ``kernel``, which ``what`` launches."""
    taken = [p.name for p in kernel.source.parameters if not p.constexpr]
    wrong = [name for name in options if name in taken]
    if wrong:
        raise LaunchError(
            "kernels.options",
            f"{what} has no option `{wrong[0]}`",
            notes=["options are constexprs of its kernel and options of a launch, such as num_warps"],
        )


def multiprocessors(device: int | None) -> int:
    """Of a GPU; of arrays in host memory (None) those of an H100, for which the defaults are made."""
    return HOPPER_MULTIPROCESSORS if device is None else gpu.multiprocessors(device)
