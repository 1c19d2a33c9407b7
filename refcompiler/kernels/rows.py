"""The default configuration of kernels that work on rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import refcompiler as triton
from refcompiler.errors import LaunchError
from refcompiler.kernels.arrays import has_clusters, item_bytes, multiprocessors
from refcompiler.runtime.arrays import describe
from refcompiler.runtime.overlap import apart

HELD_COLUMNS = 32768  # of a row in registers: 1024 threads with 32 values each
LONGEST = 65536  # columns from which on nothing changes
SEVERAL = frozenset({"ROWS", "PROGRAMS", "RESIDENT"})  # options of kernels in which a program works on several rows
COPY_BYTES = 16  # of a copy ahead that is worth it
# Rows of 128 KiB and of 256 KiB, by clusters that hold them.
ROWS_OF_128_KIB = {"RESIDENT": 4, "num_warps": 4, "num_stages": 2, "num_ctas": 8, "maxnreg": 128}
ROWS_OF_256_KIB = {"RESIDENT": 1, "num_warps": 16, "num_stages": 3, "num_ctas": 8}
# Bytes of an element (2, or 4 for more) and columns, rounded up to a power of two -> what differs from the default.
Tuned = Mapping[tuple[int, int], Mapping[str, int]]


def extent(columns: int, block: int) -> Any:
    """The columns as an argument: where they fill the block, or blocks, a number of compile time, so that no access is
    masked; not for every other number, as each takes a kernel of its own."""
    return triton.constexpr(columns) if columns == block or columns & (columns - 1) == 0 else columns


def row_configuration(
    columns: int, x: Any, out: Any, options: Mapping[str, Any], tuned: Tuned, whole: Tuned
) -> dict[str, Any]:
    """BLOCK, num_warps, and ROWS, PROGRAMS, RESIDENT, STEP or none of them.

    With ROWS a program works on that many rows, with PROGRAMS so many programs on all of them, with RESIDENT as many as
    run at a time, that many CTAs on a multiprocessor; while a program works on one row later ones are copied, if ``x``
    and ``out`` share no byte. STEP is for rows that are not held as a whole: how many columns are read at once of those
    beyond the first BLOCK. By default a thread holds 16 values of a row of up to 4096 columns, and 32 of a longer one.
    Measurements on an H200 found what ``whole`` says better for rows that a program or a cluster holds, and ``tuned``
    for others. ``options`` have precedence; a BLOCK below the columns asks for STEP.
    """
    size, width = triton.next_power_of_2(columns), 2 if item_bytes(x) <= 2 else 4
    if SEVERAL & options.keys() or _holds(whole.get((width, size)), columns, x, out, options):
        return {"BLOCK": size, "num_warps": _warps(size)} | dict(whole.get((width, size), {})) | options
    chosen: dict[str, Any] = {"BLOCK": min(size, HELD_COLUMNS)}
    if "BLOCK" not in options:
        chosen |= tuned.get((width, min(size, LONGEST)), {})
    chosen |= options
    block = chosen["BLOCK"]
    chosen = {"num_warps": _warps(block), "STEP": min(8192, 512 * _warps(block))} | chosen
    if block >= columns:
        del chosen["STEP"]
    return chosen


def _holds(found: Mapping[str, int] | None, columns: int, x: Any, out: Any, options: Mapping[str, Any]) -> bool:
    """Whether rows are worked on as ``found`` says: by clusters where there are some, several by a program where they
    are copied by 16 bytes and not overwritten."""
    if found is None or {"BLOCK", "STEP"} & options.keys():
        return False
    if "num_ctas" in found and not has_clusters(x):
        return False
    return not SEVERAL & found.keys() or (columns * item_bytes(x) % COPY_BYTES == 0 and apart(x, out))


def programs(chosen: dict[str, Any], rows: int, x: Any) -> int:
    """How many programs work on several rows each; 0: each works on one. Takes what says so out of ``chosen``.

    RESIDENT is how many CTAs a multiprocessor has room for. Clusters of four and more leave some multiprocessors over,
    as a GPC has no multiple of their size: on an H200 one of sixteen.
    """
    share, running, resident = (_count(name, chosen.pop(name, 0)) for name in ("ROWS", "PROGRAMS", "RESIDENT"))
    if resident and not running:
        ctas = chosen.get("num_ctas", 1)
        usable = multiprocessors(describe(x).device) * resident
        running = max(1, usable * 15 // 16 // ctas if ctas > 2 else usable // ctas)
    if running:
        return max(1, min(rows, running))
    return triton.cdiv(rows, share) if share else 0


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise LaunchError("kernels.options", f"{name} is a number of rows, programs or blocks, found {value!r}")
    return value


def _warps(block: int) -> int:
    """That hold 16 columns a thread of up to 4096, and 32 of more."""
    return max(1, min(32, block // (512 if block <= 4096 else 1024)))
