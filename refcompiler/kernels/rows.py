"""The default configuration of kernels in which one program works on one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import refcompiler as triton

HELD_COLUMNS = 32768  # of a row in registers: 1024 threads with 32 values each
VALUES_PER_THREAD = 32


def extent(columns: int, block: int) -> Any:
    """The columns as an argument: where they fill the block a number of compile time, so that no access is masked."""
    return triton.constexpr(columns) if columns == block else columns


def row_configuration(columns: int, item_bytes: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """BLOCK, num_warps, and for rows that registers do not hold STEP: how many columns are read at once of those beyond
    the first BLOCK. What ``options`` say has precedence; a BLOCK below the columns asks for the kernel with STEP.
    """
    block = options.get("BLOCK", min(triton.next_power_of_2(columns), HELD_COLUMNS))
    warps = max(1, min(32, block // (32 * VALUES_PER_THREAD)))
    chosen = {"BLOCK": block, "num_warps": warps, "STEP": max(16, warps * 32 * 16 // item_bytes), **options}
    if block >= columns:
        del chosen["STEP"]
    return chosen
