"""The grid of a launch: an int, one to three ints, or a function of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refcompiler.errors import LaunchError

Grid = int | Sequence[int] | Callable[[dict[str, Any]], Any]
LIMITS = (2**31 - 1, 65535, 65535)


def resolve_grid(grid: Grid, meta: dict[str, Any], kernel: str) -> tuple[int, int, int]:
    """Three extents; with a 0 among them no program runs. Raises LaunchError for anything that is no grid."""
    return extents(grid(meta) if callable(grid) else grid, kernel)


def extents(grid: int | Sequence[int], kernel: str, ctas: int = 1) -> tuple[int, int, int]:
    """As ``resolve_grid``, of a grid that is no function, of programs that are ``ctas`` blocks each."""
    axes = (grid,) if isinstance(grid, int | np.integer) else grid
    if not isinstance(axes, tuple | list) or not 1 <= len(axes) <= 3:
        raise _wrong(kernel, grid)
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) for n in axes):
        raise _wrong(kernel, grid)
    for axis, (extent, limit) in enumerate(zip(axes, (LIMITS[0] // ctas, *LIMITS[1:]), strict=False)):
        if not 0 <= extent <= limit:
            raise LaunchError(
                "program.grid#E2",
                f"the grid of {kernel} is {grid!r}: extent {axis} must be 0 to {limit}, found {extent}",
            )
    x, y, z = (*(int(n) for n in axes), 1, 1)[:3]
    return x, y, z


def _wrong(kernel: str, grid: Any) -> LaunchError:
    return LaunchError(
        "program.grid#E1",
        f"the grid of {kernel} is an int, a tuple of one to three ints, or a function of the arguments giving one; "
        f"found {grid!r}",
    )
