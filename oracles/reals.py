"""The namespace of real arithmetic: an array module in fp64, with the functions that the module lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Reals:
    """`xp` of an oracle that computes the reference value: fp64 arrays of `module` (NumPy, or CuPy on a GPU).

    Every name is the module's own, except those defined here. `erf` serves modules other than NumPy.
    """

    def __init__(self, module: Any = np, erf: Callable[[Any], Any] = _erf) -> None:
        self.module = module
        self.erf = erf

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def asarray(self, x: Any) -> Any:
        """`x` in fp64; every format up to f64 is converted exactly, 64-bit integers to nearest."""
        wide = x.astype(np.float64) if hasattr(x, "astype") else np.float64(x)
        return self.module.asarray(wide)

    def cast(self, x: Any, fmt: Any) -> Any:
        """The identity: a real number has no format."""
        return x

    scaled_cast = cast

    def rsqrt(self, x: Any) -> Any:
        return 1.0 / self.module.sqrt(x)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return x * y + z


REALS = Reals()
