"""What the launching functions need of an array of any library: extents, size of elements, memory beside it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from functools import cache
from math import prod
from typing import Any

from refcompiler.errors import LaunchError
from refcompiler.runtime import describe, gpu
from refcompiler.target import Target, target

HOPPER_MULTIPROCESSORS = 132
FLOATS = ("f16", "bf16", "f32")  # what the kernels that compute in float32 take


def count(x: Any) -> int:
    """The number of elements. Raises LaunchError for what is no array."""
    return prod(describe(x).shape)


def check_arrays(sizes: Mapping[str, tuple[Any, int]], dtypes: Collection[str] = ()) -> None:
    """Raise LaunchError (kernels.operands) unless each array, by name, is contiguous and of so many elements, and its
    dtype one of ``dtypes``, where these are given. Kernels index memory by what their launching function tells them."""
    for name, (array, elements) in sizes.items():
        info = describe(array)
        if prod(info.shape) != elements:
            raise LaunchError("kernels.operands", f"{name} has shape {info.shape}, expected {elements} elements")
        if not info.contiguous:
            raise LaunchError(
                "kernels.operands",
                f"{name} has shape {info.shape} and strides {info.strides}, expected a contiguous array",
                notes=["copy it to one"],
            )
        if dtypes and info.dtype not in dtypes:
            raise LaunchError("kernels.operands", f"{name} has dtype {info.dtype}; expected one of {', '.join(dtypes)}")


def item_bytes(x: Any) -> int:
    """The bytes of one element."""
    return int(x.dtype.itemsize)


def rows_and_columns(x: Any) -> tuple[int, int, int]:
    """Rows, columns and the distance between rows in elements, of an array whose last axis is contiguous and whose
    other axes are seen as one."""
    shape = describe(x).shape
    columns = shape[-1] if shape else 1
    return prod(shape[:-1]), columns, columns


def matrix_extents(x: Any) -> tuple[int, int]:
    """Rows and columns of a matrix. Raises LaunchError (kernels.operands) for an array that is none."""
    shape = describe(x).shape
    if len(shape) != 2:
        raise LaunchError("kernels.operands", f"x has shape {shape}, expected a matrix")
    return shape[0], shape[1]


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


def has_clusters(x: Any) -> bool:
    """Whether CTAs of a cluster can share the work on an array; in host memory it is taken for that of an H100."""
    device = describe(x).device
    return device is None or _target(device).has_clusters


@cache
def _target(device: int) -> Target:
    return target(gpu.native_arch(device))
