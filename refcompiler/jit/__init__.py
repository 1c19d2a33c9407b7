"""Kernels from Python: the decorator, launching, compiling for a signature, kernels given as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refcompiler.frontend import KernelSource
from refcompiler.jit.compiled import CompiledKernel
from refcompiler.jit.function import JitFunction, clear_cache
from refcompiler.jit.sizes import cdiv, next_power_of_2
from refcompiler.jit.specialize import ShapeDtype
from refcompiler.jit.text import from_source

__all__ = [
    "CompiledKernel",
    "JitFunction",
    "ShapeDtype",
    "cdiv",
    "clear_cache",
    "constexpr_function",
    "from_source",
    "jit",
    "next_power_of_2",
]


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    do_not_specialize: Sequence[str | int] = (),
    do_not_specialize_on_alignment: Sequence[str | int] = (),
    debug: bool = False,
    profile: str = "core",
    version: Any = None,
    repr: Any = None,
    launch_metadata: Any = None,
    noinline: bool = False,
) -> Any:
    """Make a kernel, or a function that kernels call, of a Python function; the function itself is never run.

    ``do_not_specialize`` names parameters whose values give no hints, ``do_not_specialize_on_alignment`` those whose
    divisibility by 16 gives none; ``debug`` keeps assertions on the GPU; ``profile`` is "core" or an extension of the
    language: "ext.any_extent" has blocks of any extent. The rest is accepted for compatibility and changes nothing.
    Raises CompileError where the source cannot be read.
    """

    def decorate(function: Callable[..., Any]) -> JitFunction:
        if isinstance(function, JitFunction):
            return function
        source = KernelSource.of(function)
        return JitFunction(source, do_not_specialize or (), do_not_specialize_on_alignment or (), bool(debug), profile)

    return decorate if fn is None else decorate(fn)


def constexpr_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python function as callable in kernels on compile-time values; on the host it stays what it is."""
    function.__constexpr_function__ = True  # type: ignore[attr-defined]
    return function
