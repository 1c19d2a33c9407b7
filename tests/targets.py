"""Launching a kernel of a test on one target: on NumPy arrays, on the GPU where there is one, else compiling it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from conformance.adapters import TARGETS
from refcompiler.jit import CompiledKernel
from refcompiler.mytriton.kernel import Kernel
from refcompiler.runtime import gpu_available

HOST = ("interp", "simt")


@dataclass
class Launcher:
    """Runs kernels on `target`; `ran` says whether values may be looked at after a launch."""

    target: str
    request: pytest.FixtureRequest
    monkeypatch: pytest.MonkeyPatch

    @property
    def ran(self) -> bool:
        return self.target in HOST or gpu_available()

    def __call__(self, kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> bool:
        """Launch; arrays among `args` are NumPy arrays, and hold the results if the answer is True."""
        if not self.ran:
            return self._compile(kernel, args, kwargs)
        self.monkeypatch.setenv("TILESPEC_BACKEND", self.target)
        if self.target in HOST:
            kernel[grid](*args, **kwargs)
            return True
        cupy = importlib.import_module("cupy")
        moved = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
        kernel[grid](*moved, **kwargs)
        for host, device in zip(args, moved, strict=True):
            if isinstance(host, np.ndarray):
                host[...] = device.get()
        return True

    def _compile(self, kernel: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """Compile to machine code, and tell the report that nothing ran."""
        self.request.node.user_properties.append(("judged", "compiled"))
        function = kernel.compiler if isinstance(kernel, Kernel) else kernel
        made = function.warmup(*args, **kwargs)
        assert CompiledKernel(made.compiled, made.arch, self.target, made.options).asm["cubin"]
        return False


@pytest.fixture(params=list(TARGETS))
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    return Launcher(request.param, request, monkeypatch)
