"""Which elements of large arrays are verified: random places of the extents that a benchmark samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conformance.benchmarks import Line

Places = Mapping[str, np.ndarray]  # by extent


def places(line: Line, seed: int) -> dict[str, np.ndarray]:
    """Random places, sorted, of each extent that is sampled; the first and the last are always among them."""
    generator = np.random.default_rng(seed)
    found = {}
    for extent, most in line.benchmark.sample.items():
        size = next(
            line.shapes[a.name][a.shape.index(extent)]
            for a in line.benchmark.arguments
            if a.shape and extent in a.shape
        )
        inner = generator.choice(size, min(most, size), replace=False)
        found[extent] = np.unique(np.concatenate([inner[: max(0, most - 2)], [0, size - 1]]))
    return found


def axes(line: Line, name: str, chosen: Places) -> dict[int, np.ndarray]:
    """Along which axes of an array which places were chosen."""
    shape = next(a.shape for a in line.benchmark.arguments if a.name == name)
    return {axis: chosen[extent] for axis, extent in enumerate(shape or ()) if extent in chosen}
