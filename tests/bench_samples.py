"""Documents of `tilespec bench` with made-up timings: what the statistics, tables and pictures are tested on."""

from __future__ import annotations

from typing import Any

import numpy as np

MACHINE = {
    "name": "NVIDIA H200", "arch": "sm_90a", "driver": "580.1", "cuda": "13.0", "multiprocessors": 132,
    "max_sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "memory_bus_bits": 6144, "versions": {"torch": "2.11.0"},
}  # fmt: skip
RUN = {"started": "2026-01-02T03:04:05+00:00", "select": [], "quick": False, "seed": 1}


def contestant(
    name: str, us: float, *, rounds: int = 20, spread: float = 0.01, status: str = "right"
) -> dict[str, Any]:
    """Times around a median, with the same slow rounds for everybody."""
    generator = np.random.default_rng(sum(map(ord, name)))
    drift = 1 + 0.05 * np.sin(np.arange(rounds))
    times = us * drift * (1 + spread * generator.standard_normal(rounds))
    return {"name": name, "status": status, "times_us": [float(t) for t in times]}


def line(
    id: str,
    us: dict[str, float],
    *,
    bytes: float,
    flops: float = 0.0,
    dtype: str = "bf16",
    operation: str = "",
    **more: Any,
) -> dict[str, Any]:
    """A line without conclusions."""
    place, _, label = id.partition(":")
    feature, _, benchmark = place.partition("/")
    return {
        "id": id, "feature": feature, "benchmark": benchmark, "operation": operation or feature.partition(".")[2],
        "params": dict(part.split("=") for part in label.split(";")), "dtype": dtype, "bytes": bytes, "flops": flops,
        "floors": {}, "aims": {}, "means": {}, "how": "single", "launches": 1, "sets": 1,
        "contestants": [contestant(name, t) for name, t in us.items()], **more,
    }  # fmt: skip


def lines() -> list[dict[str, Any]]:
    """Memory-bound and arithmetic-bound work at several sizes."""
    made = []
    for columns, ours in ((1024, 135.0), (8192, 131.0), (65536, 142.0)):
        made.append(
            line(
                f"kernels.softmax/rows:T=f32;M={(1 << 26) // columns};N={columns}",
                {"ours": ours, "copy": 125.0, "torch": 220.0, "compile": 160.0},
                bytes=float(1 << 29),
                dtype="f32",
                floors={"copy": 0.9, "compile": 0.97},
                aims={"copy": 0.95},
                means={"compile": 1.0},
            )
        )
    made.append(
        line("kernels.transpose/square:T=f32;M=8192", {"ours": 140.0, "copy": 125.0}, bytes=float(1 << 29), dtype="f32")
    )
    for n, ours, cublas in ((1024, 10.0, 9.7), (4096, 205.0, 198.0), (8192, 1600.0, 1590.0)):
        made.append(
            line(
                f"kernels.matmul/cubes:T=bf16;M={n}",
                {"ours": ours, "cublas": cublas, "triton": ours * 1.1},
                bytes=6.0 * n * n,
                flops=2.0 * n**3,
                floors={"cublas": 0.93},
                aims={"cublas": 1.0},
            )
        )
    return made
