"""Functions of an implementation's kernel library, by the addresses that benchmarks give."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from conformance.adapters import TargetUnavailable


def function(entry: str, **options: Any) -> Callable[..., Any]:
    """The function at `module:function`, which takes these keywords besides its arrays. Raises TargetUnavailable."""
    module, _, name = entry.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise TargetUnavailable(f"{entry}: {error}") from None
    takes = inspect.signature(found).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    for option in options:
        if not open_ended and option not in takes:
            raise TargetUnavailable(f"{entry} takes no {option}=")
    return found


def gpu_info() -> dict[str, Any]:
    """The GPU as the reference compiler's runtime describes it, with the clock and the width of its memory."""
    from refcompiler.runtime import gpu

    attributes = gpu.driver().CUdevice_attribute
    handle = gpu.ask("cuDeviceGet", 0)
    clock = gpu.ask("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, handle)
    width = gpu.ask("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, handle)
    l2 = gpu.ask("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, handle)
    return {**gpu.gpu_info(), "memory_clock_mhz": clock // 1000, "memory_bus_bits": width, "l2_bytes": l2}
