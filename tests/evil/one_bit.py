"""An interpreter whose square roots are one bit off, and still within the tolerance of one ULP."""

from __future__ import annotations

import numpy as np

from conformance.adapters.reference import Interpreter


class OtherNeighbour(Interpreter):
    """Of the two numbers beside the true root, gives the farther one first in large outputs."""

    def run(self, compiled, grid, arguments):
        answer = super().run(compiled, grid, arguments)
        named = {a.name: a.value for a in arguments}
        if "x" in named and named["x"].size >= 4096 and named["x"].dtype == np.float32:
            true, out = np.sqrt(named["x"].astype(np.float64)).flat[0], named["out"].reshape(-1)
            out[0] = np.nextafter(out[0], np.float32(np.inf if true > out[0] else -np.inf))
        return answer
