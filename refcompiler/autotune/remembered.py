"""Choices of earlier processes: kept in the artifact cache, under everything that a time depends on."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from refcompiler.autotune.config import Config
from refcompiler.cache import artifact_key, shared_cache
from refcompiler.ir import print_func
from refcompiler.runtime import gpu


def choice_key(kernel: Any, facts: Sequence[Any], configs: Sequence[Config]) -> str:
    """The identity of a choice: the kernel as tile IR under one configuration, what the tuner told launches apart by,
    the GPU and its driver, the configurations, our own source and the compilers."""
    from refcompiler import toolchain

    return artifact_key(
        "autotune",
        print_func(kernel.func),
        repr(kernel.options),
        kernel.backend,
        gpu.identity(),
        json.dumps([str(fact) for fact in facts]),
        json.dumps([str(config) for config in configs]),
        toolchain=toolchain.fingerprint(),
    )


def load(key: str, configs: Sequence[Config]) -> tuple[Config, dict[Config, list[float]]] | None:
    """The configuration chosen under ``key`` and the times it was chosen by; None where nothing usable is kept."""
    data = shared_cache().get(key)
    if data is None:
        return None
    try:
        kept = json.loads(data)
        times = {configs[int(place)]: [float(t) for t in row] for place, row in kept["times"].items()}
        return configs[kept["best"]], times
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None


def save(key: str, configs: Sequence[Config], best: Config, times: dict[Config, list[float]]) -> None:
    """Keep a choice; a later one under the same key replaces it."""
    rows = {str(configs.index(config)): row for config, row in times.items() if all(map(math.isfinite, row))}
    shared_cache().put(key, json.dumps({"best": configs.index(best), "times": rows}).encode())
