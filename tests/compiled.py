"""Compiles kernels through all levels, and compares the emulated CUDA with the tile interpreter, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cuda_emulator
import numpy as np

from refcompiler import interpreter
from refcompiler.frontend import compile_to_tile
from refcompiler.ir import Func
from refcompiler.ir.types import PointerType
from refcompiler.pipeline import Context, Options, emit, lay_out, lower, optimize
from refcompiler.target import TARGETS


@dataclass(frozen=True)
class Stages:
    """One kernel at every level."""

    tile: Func
    laid_out: Func
    simt: Func
    cuda: str


def compile_func(func: Func, *, num_warps: int = 4, target: str = "sm_90a", **options) -> Stages:
    context = Context(Options(num_warps=num_warps, **options), TARGETS[target])
    tile = optimize(func, context)
    laid_out = lay_out(tile, context)
    simt = lower(laid_out, context)
    return Stages(tile, laid_out, simt, emit(simt))


def compile_kernel(kernel, signature: str, *, num_warps: int = 4, debug: bool = False, **constexprs) -> Stages:
    return compile_func(compile_to_tile(kernel, signature, constexprs), num_warps=num_warps, debug=debug)


def run_both(stages: Stages, folder: Path, grid: tuple[int, ...], arguments: list) -> list[tuple[str, ...]]:
    """(name, what the interpreter left, what the CUDA text left) for every array."""
    params = stages.tile.params
    wanted = {p.name: a.copy() if isinstance(a, np.ndarray) else a for p, a in zip(params, arguments, strict=True)}
    interpreter.run(stages.tile, grid, wanted)
    given = [
        a if isinstance(a, np.ndarray) else np.asarray(a, p.type.numpy) for p, a in zip(params, arguments, strict=True)
    ]
    got = cuda_emulator.emulate(stages.cuda, folder, grid, given)
    arrays = [(p.name, result) for p, result in zip(params, got, strict=True) if isinstance(p.type, PointerType)]
    return [(name, wanted[name], result) for name, result in arrays]


def differences(wanted: np.ndarray, got: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """Where two arrays differ: in bits, NaNs being equal, or by more than the relative ``tolerance``."""
    if wanted.dtype.kind in "iub":
        return wanted != got
    with np.errstate(all="ignore"):
        a, b = wanted.astype(np.float64), got.astype(np.float64)
        same = wanted.view(f"u{wanted.itemsize}") == got.view(f"u{got.itemsize}")
        same |= np.isnan(a) & np.isnan(b)
        return ~(same | (np.abs(a - b) <= tolerance * np.abs(a)))


def assert_agrees(stages: Stages, folder: Path, grid: tuple[int, ...], arguments: list, tolerance: float = 0.0) -> None:
    for name, wanted, got in run_both(stages, folder, grid, arguments):
        wrong = differences(wanted, got, tolerance)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            raise AssertionError(
                f"{name}{list(map(int, at))} is {got[at]!r}, expected {wanted[at]!r} "
                f"({wrong.sum()} of {wrong.size} differ)\n{stages.cuda}"
            )
