"""Runs a kernel in the interpreter, the simulator and as emulated CUDA, for several warps, against NumPy."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import cuda_emulator
import numpy as np

from refcompiler import JitFunction, simulator
from refcompiler.jit.compiled import CompiledKernel


@cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="kernels")


def compare(where: str, name: str, got: np.ndarray, wanted: Any) -> None:
    """Equal, NaN being equal to NaN, or within the bound of a pair (value, absolute error)."""
    value, bound = wanted if isinstance(wanted, tuple) else (wanted, 0.0)
    value = np.asarray(value)
    assert value.shape == got.shape, f"{where}: {name} has shape {got.shape}, the reference {value.shape}"
    if isinstance(wanted, tuple):
        with np.errstate(all="ignore"):
            a, b = got.astype(np.float64), value.astype(np.float64)
            right = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound)
    else:
        assert value.dtype == got.dtype, f"{where}: the reference of {name} is {value.dtype}, the array {got.dtype}"
        right = (got == value) | ((got != got) & (value != value))
    if not right.all():
        at = tuple(map(int, np.argwhere(~right)[0]))
        raise AssertionError(
            f"{where}: {name}{list(at)} is {got[at]}, expected {value[at]} ({(~right).sum()} of {right.size} differ)"
        )


def check(
    kernel: JitFunction, grid: Any, arguments: dict[str, Any], wanted: dict[str, Any], *, warps=(1, 4), **options: Any
) -> None:
    """``arguments`` by name, run-time and compile-time; ``wanted`` what the arrays hold afterwards; the others must
    stay as they are. ``warps`` are the numbers of warps to emulate."""
    arrays = {n: a for n, a in arguments.items() if isinstance(a, np.ndarray)}
    expected = {n: wanted.get(n, a.copy()) for n, a in arrays.items()}
    assert wanted.keys() <= arrays.keys()
    mine = {n: a.copy() if n in arrays else a for n, a in arguments.items()}
    kernel[grid](**mine, **options)
    for name in arrays:
        compare("interpreter", name, mine[name], expected[name])
    size = grid(arguments) if callable(grid) else grid
    size = size if isinstance(size, tuple) else (size,)
    for num_warps in warps:
        compiled = kernel.warmup(**arguments, num_warps=num_warps, **options)
        _simulate(compiled, size, arguments, expected, num_warps)
        if cuda_emulator.available():
            _emulate(compiled, size, arguments, expected, num_warps)


def _simulate(compiled: CompiledKernel, grid: tuple, arguments: dict, expected: dict, num_warps: int) -> None:
    values = {str(p.name): np.copy(arguments[p.name]) for p in compiled.func.params}
    values = {n: a if n in expected else a.item() for n, a in values.items()}
    simulator.run(compiled.level("simt"), (*grid, 1, 1)[:3], values, count=False)
    for name, wanted in expected.items():
        compare(f"simulator, {num_warps} warps", name, values[name], wanted)


def _emulate(compiled: CompiledKernel, grid: tuple, arguments: dict, expected: dict, num_warps: int) -> None:
    params = compiled.func.params
    values = [np.asarray(arguments[p.name], getattr(p.type, "numpy", None)) for p in params]
    left = cuda_emulator.emulate(compiled.asm["cuda"], Path(_folder().name), grid, values)
    for param, array in zip(params, left, strict=True):
        if param.name in expected:
            try:
                compare(f"CUDA, {num_warps} warps", str(param.name), array, expected[param.name])
            except AssertionError as error:
                raise AssertionError(f"{error}\n{compiled.asm['cuda']}") from None
