"""The default configuration of kernels in which one program works on one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import refcompiler as triton

RESIDENT_COLUMNS = 32768  # of a row held in registers: 1024 threads with 32 values each
LOOPED_BLOCK_BYTES = 16384  # of a row that is read twice: per round of a loop, and few enough rows to stay in the cache


def is_resident(columns: int, options: Mapping[str, Any]) -> bool:
    """Whether one program holds a whole row in registers: by default, or in the block that ``options`` asks for."""
    return columns <= options.get("BLOCK", RESIDENT_COLUMNS)


def row_configuration(columns: int, item_bytes: int) -> dict[str, int]:
    """BLOCK and num_warps: at most 16 values a thread while there are threads, none idle."""
    if columns > RESIDENT_COLUMNS:
        return {"BLOCK": LOOPED_BLOCK_BYTES // item_bytes, "num_warps": 16}
    block = triton.next_power_of_2(columns)
    return {"BLOCK": block, "num_warps": max(1, min(32, block // 512))}
