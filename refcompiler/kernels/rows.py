"""The default configuration of kernels in which one program works on one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import refcompiler as triton
from refcompiler.kernels.arrays import item_bytes
from refcompiler.runtime.overlap import apart

HELD_COLUMNS = 32768  # of a row in registers: 1024 threads with 32 values each
LONGEST = 65536  # columns from which on nothing changes
# Bytes of an element (2, or 4 for more) and columns, rounded up to a power of two -> what differs from the default.
Tuned = Mapping[tuple[int, int], Mapping[str, int]]


def extent(columns: int, block: int) -> Any:
    """The columns as an argument: where they fill the block a number of compile time, so that no access is masked."""
    return triton.constexpr(columns) if columns == block else columns


def row_configuration(
    columns: int, x: Any, out: Any, options: Mapping[str, Any], tuned: Tuned, looped: Tuned
) -> dict[str, Any]:
    """BLOCK, num_warps, and ROWS, STEP or neither of them.

    With ROWS a program works on that many rows, of which later ones are copied while it works on one: as ``looped``
    says where that was measured to be faster, unless ``x`` and ``out`` share bytes. STEP is for rows that are not held
    as a whole: how many columns are read at once of those beyond the first BLOCK. By default a thread holds 32 values
    of a row; ``tuned`` says where measurements on an H200 found better. ``options`` have precedence; a BLOCK below the
    columns asks for STEP.
    """
    size, width = triton.next_power_of_2(columns), 2 if item_bytes(x) <= 2 else 4
    several = looped.get((width, size), {})
    if "ROWS" in options or (several and not {"BLOCK", "STEP"} & options.keys() and apart(x, out)):
        return {"BLOCK": size, "num_warps": _warps(size), "num_stages": 2} | several | options
    chosen: dict[str, Any] = {"BLOCK": min(size, HELD_COLUMNS)}
    if "BLOCK" not in options:
        chosen |= tuned.get((width, min(size, LONGEST)), {})
    chosen |= options
    block = chosen["BLOCK"]
    chosen = {"num_warps": _warps(block), "STEP": min(8192, 512 * _warps(block))} | chosen
    if block >= columns:
        del chosen["STEP"]
    return chosen


def _warps(block: int) -> int:
    """That hold 32 columns a thread."""
    return max(1, min(32, block // 1024)) if block < 1024 else max(2, min(32, block // 1024))
