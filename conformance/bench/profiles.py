"""What Nsight Compute says of one launch of a line: bytes moved and bytes that must be, occupancy, causes of waiting.

`read_csv` takes what `ncu --csv --page raw --print-units base` prints: a row of metric names, a row of units, a row for
each kernel. A profile is plain data, kept as JSON beside the timings; a missed floor in the tables is followed by what
its profile says.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance import output
from conformance.benchmarks import Line
from conformance.dtypes import DTYPES
from conformance.errors import SpecError

SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "Occupancy", "WarpStateStats",
            "LaunchStats")  # fmt: skip
# Our names -> those of Nsight Compute.
METRICS = {
    "nanoseconds": "gpu__time_duration.sum",
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
    "dram_percent": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_percent": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "sm_percent": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "occupancy_most_percent": "sm__maximum_warps_per_active_cycle_pct",
    "registers": "launch__registers_per_thread",
    "threads": "launch__block_size",
    "programs": "launch__grid_size",
    "waves": "launch__waves_per_multiprocessor",
}
ASKED = tuple(METRICS[n] for n in ("nanoseconds", "dram_read", "dram_written", "l2_hit_percent", "occupancy_percent"))
TENSOR = re.compile(
    r"sm__(inst_executed_pipe_tensor\w*|pipe_tensor\w*_cycles_active)\.avg\.pct_of_peak_sustained_active"
)
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
TIMES = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
EXCESS = 1.1  # of the bytes that must be moved
PARTS = {"dram_percent": "memory", "l2_percent": "L2", "tensor_percent": "tensor cores",
         "sm_percent": "multiprocessors"}  # fmt: skip
SATURATED = {"dram_percent": 85.0, "l2_percent": 85.0, "tensor_percent": 80.0, "sm_percent": 80.0}  # of a peak


def options() -> list[str]:
    """Words for `ncu` that make it print what `read_csv` reads, of launches between cudaProfilerStart and Stop."""
    sections = [word for name in SECTIONS for word in ("--section", name)]
    return [
        "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off", "--target-processes", "all",
        "--clock-control", "none", *sections, "--metrics", ",".join(ASKED),
    ]  # fmt: skip


def read_csv(text: str) -> list[dict[str, Any]]:
    """The kernels in the order of their launches: `kernel` is the name; what METRICS names; `tensor_percent`; `stalls`
    are shares of the time that a warp takes between two instructions. Raises ValueError, with what was printed instead.
    """
    rows = [row for row in csv.reader(io.StringIO(text)) if len(row) > 5]
    head = next((i for i, row in enumerate(rows) if row[0] == "ID"), None)
    if head is None or len(rows) < head + 3:
        raise ValueError(f"no table of Nsight Compute: {text.strip()[-1500:]}")
    names, units = rows[head], rows[head + 1]
    found = []
    for row in rows[head + 2 :]:
        if row[0].isdigit():
            cells = dict(zip(names, row, strict=False))
            values = {n: _number(cells[n], u) for n, u in zip(names, units, strict=False) if n in cells}
            found.append(_kernel(cells.get("Kernel Name", ""), {n: v for n, v in values.items() if v is not None}))
    return found


def _number(cell: str, unit: str) -> float | None:
    """A number in bytes, nanoseconds, percent or as it stands; None for text."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    scaled = re.fullmatch(r"([KMGT]?)byte(/\w+)?", unit)
    return value * (UNITS[scaled[1]] if scaled else TIMES.get(unit, 1.0)) if math.isfinite(value) else None


def _kernel(name: str, values: Mapping[str, float]) -> dict[str, Any]:
    kernel: dict[str, Any] = {"kernel": name}
    kernel |= {ours: values[theirs] for ours, theirs in METRICS.items() if theirs in values}
    if tensor := [v for n, v in values.items() if TENSOR.fullmatch(n)]:
        kernel["tensor_percent"] = max(tensor)
    stalls = {m[1]: v for n, v in values.items() if (m := STALL.fullmatch(n)) and not m[1].endswith("not_issued")}
    if total := sum(stalls.values()):
        ranked = sorted(stalls.items(), key=lambda item: (-item[1], item[0]))
        kernel["stalls"] = {n: round(v / total, 4) for n, v in ranked if v > 0}
    return kernel


def profile(line: Line, contestant: str, kernels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One launch of a line by a contestant; bytes that must be read and written are those of the line's arrays."""
    must = {"in": 0, "out": 0}
    for a in line.benchmark.arguments:
        if a.is_array:
            size = math.prod(line.shapes[a.name]) * DTYPES[line.dtypes[a.name]].numpy.itemsize
            for way in ("in", "out") if a.role == "inout" else (a.role,):
                must[way] += size
    return {
        "line": line.id, "contestant": contestant, "must_read": must["in"], "must_write": must["out"],
        "kernels": [dict(k) for k in kernels],
    }  # fmt: skip


def sentence(found: Mapping[str, Any]) -> str:
    """What limits a launch, and the numbers that say so."""
    kernels = found["kernels"]
    longest = max(kernels, key=lambda k: k.get("nanoseconds", 0.0))
    read, written = (sum(k.get(n, 0.0) for k in kernels) for n in ("dram_read", "dram_written"))
    moved, must = read + written, found["must_read"] + found["must_write"]
    limit = _limit(longest, moved / must)
    parts = [
        f"moves {moved / 1e6:.4g} MB, {moved / must:.2f} of what it must (reads {read / found['must_read']:.2f}, "
        f"writes {written / found['must_write']:.2f})",
        ", ".join(f"{word} at {longest[name]:.0f} %" for name, word in PARTS.items() if longest.get(name, 0) >= 1),
        f"L2 hits {longest.get('l2_hit_percent', 0):.0f} %",
        f"occupancy {longest.get('occupancy_percent', 0):.0f} of {longest.get('occupancy_most_percent', 0):.0f} %",
        f"{longest.get('registers', 0):.0f} registers, {longest.get('waves', 0):.2f} waves",
    ]
    if stalls := list(longest.get("stalls", {}).items())[:3]:
        parts.append("warps wait: " + ", ".join(f"{name} {share:.0%}" for name, share in stalls))
    return f"{limit}: " + "; ".join(filter(None, parts))


def _limit(kernel: Mapping[str, Any], excess: float) -> str:
    """In a word, what would have to be better."""
    full = [name for name, most in SATURATED.items() if kernel.get(name, 0.0) >= most]
    if "dram_percent" in full:
        return "what it moves" if excess > EXCESS else "memory"
    if full:
        return PARTS[full[0]]
    cause = next((name for name in kernel.get("stalls", {}) if not name.endswith("selected")), "waiting")
    return f"latency ({cause}) and what it moves" if excess > EXCESS else f"latency ({cause})"


def write(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Profiles as JSON, one on a line."""
    rows = ",\n".join(json.dumps(p, separators=(",", ":")) for p in found)
    output.write(path, "[\n" + rows + "\n]\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Profiles from a file. Raises SpecError (bench.invalid)."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        for entry in found:
            sentence(entry)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as e:
        raise SpecError("bench.invalid", f"not a file of profiles: {type(e).__name__}: {e}", str(path)) from e
    return list(found)
