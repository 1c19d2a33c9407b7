"""The default configuration of kernels in which one program works on one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import refcompiler as triton

HELD_COLUMNS = 32768  # of a row in registers: 1024 threads with 32 values each
LONGEST = 65536  # columns from which on nothing changes
# Bytes of an element (2, or 4 for more) and columns, rounded up to a power of two -> what differs from the default.
Tuned = Mapping[tuple[int, int], Mapping[str, int]]


def extent(columns: int, block: int) -> Any:
    """The columns as an argument: where they fill the block a number of compile time, so that no access is masked."""
    return triton.constexpr(columns) if columns == block else columns


def row_configuration(columns: int, item_bytes: int, options: Mapping[str, Any], tuned: Tuned) -> dict[str, Any]:
    """BLOCK, num_warps, and for rows that registers do not hold STEP: how many columns are read at once of those beyond
    the first BLOCK.

    By default a thread holds 32 values of a row; ``tuned`` says where measurements on an H200 found better. ``options``
    have precedence; a BLOCK below the columns asks for the kernel with STEP.
    """
    size = triton.next_power_of_2(columns)
    chosen: dict[str, Any] = {"BLOCK": min(size, HELD_COLUMNS)}
    if "BLOCK" not in options:
        chosen |= tuned.get((2 if item_bytes <= 2 else 4, min(size, LONGEST)), {})
    chosen |= options
    block = chosen["BLOCK"]
    warps = max(1, min(32, block // 1024)) if block < 1024 else max(2, min(32, block // 1024))
    chosen = {"num_warps": warps, "STEP": min(8192, 512 * warps)} | chosen
    if block >= columns:
        del chosen["STEP"]
    return chosen
