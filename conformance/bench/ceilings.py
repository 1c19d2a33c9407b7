"""What a GPU can do at most, from what its driver says of it: bytes and floating-point operations a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Dense operations a clock of one multiprocessor, by architecture and dtype of the operands, accumulating in f32 (i32):
# NVIDIA's white papers of GA100, AD102, GH100 and GB100; f32 and f64 are those of the plain units.
FLOPS_PER_CLOCK: Mapping[str, Mapping[str, int]] = {
    "sm_80": {"f16": 2048, "bf16": 2048, "tf32": 1024, "i8": 4096, "f32": 128, "f64": 128},
    "sm_89": {"f16": 1024, "bf16": 1024, "tf32": 512, "f8": 2048, "i8": 2048, "f32": 256, "f64": 4},
    "sm_90": {"f16": 4096, "bf16": 4096, "tf32": 2048, "f8": 8192, "i8": 8192, "f32": 256, "f64": 256},
    "sm_100": {"f16": 8192, "bf16": 8192, "tf32": 4096, "f8": 16384, "i8": 16384, "f32": 256, "f64": 128},
}


# Precisions that are several products of another: the name of that, and how many.
PARTS: Mapping[str, tuple[str, int]] = {"tf32x3": ("tf32", 3)}


def bytes_per_second(machine: Mapping[str, Any]) -> float | None:
    """The rate of the memory's pins: two transfers a clock."""
    clock, width = machine.get("memory_clock_mhz"), machine.get("memory_bus_bits")
    return 2.0 * clock * 1e6 * width / 8 if clock and width else None


def flops_per_second(machine: Mapping[str, Any], dtype: str) -> float | None:
    """The rate of all multiprocessors at the highest clock, for operands of a dtype; None if not known. Also of the
    precisions "tf32" and "tf32x3"."""
    dtype, products = PARTS.get(dtype, (dtype, 1))
    rates = FLOPS_PER_CLOCK.get(str(machine.get("arch", "")).rstrip("a"), {})
    rate = rates.get("f8" if dtype.startswith("f8") else dtype)
    clock, count = machine.get("max_sm_clock_mhz"), machine.get("multiprocessors")
    return float(rate) * clock * 1e6 * count / products if rate and clock and count else None
