"""The target `tests.emulated:emulator`: generated CUDA C++ on the CPU, so that lowering and emitter meet the oracles.

Layouts, barriers and generated text are judged without a GPU: slow for each kernel, so cases are named one by one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from conformance.adapters import Info, Ran, Rejected, TargetUnavailable, reference
from conformance.dtypes import DTYPES
from tests import cuda_emulator


def emulator():
    """The adapter; raises TargetUnavailable without a C++ compiler."""
    if not cuda_emulator.available():
        raise TargetUnavailable("target emulator: g++ is not installed")
    return Emulator()


class Emulator(reference.Interpreter):
    """Kernels compiled for sm_90a down to CUDA C++, and no further."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tilespec-emulator-")

    def info(self):
        return Info(name="emulator", version="", capabilities=frozenset({"fp64", "fp8"}))

    def _finish(self, compiled):
        compiled.asm["cuda"]

    def run(self, compiled, grid, arguments):
        """Both orders of the threads; undefined behaviour and a dependence on the order are refusals."""
        _, kernel, request = compiled.handle
        dtypes = dict(request.signature)
        given = {a.name: a.value for a in arguments}
        names = [p.name for p in kernel.func.params]
        arrays = {n for n in names if dtypes[n].startswith("*")}
        values = [given[n] if n in arrays else DTYPES[dtypes[n].split(":")[0]].numpy.type(given[n]) for n in names]
        text = kernel.asm["cuda"]
        try:
            results = cuda_emulator.emulate(text, Path(self.folder.name), grid, values)
        except cuda_emulator.EmulationError as e:
            return Rejected("run", "emulator", str(e))
        for name, result in zip(names, results, strict=True):
            if name in arrays:
                given[name][...] = result
        return Ran()
