"""`mytriton.jit`: a kernel whose launch returns its ops and its source text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from refcompiler import config
from refcompiler.errors import LaunchError
from refcompiler.frontend.rules import Rules
from refcompiler.ir import Op
from refcompiler.jit import CompiledKernel
from refcompiler.jit import jit as triton_jit
from refcompiler.mytriton.errors import pythons_errors
from refcompiler.runtime import describe, is_array, is_device_array

# Python's own functions and values around a kernel are part of it.
RULES = Rules(plain_functions=True, plain_globals=True, plain_numbers=True)


class LaunchResult(NamedTuple):
    """What a launch gives: tile ops as the frontend traced them, the same optimised, and the backend's source text.

    The lists and their ops are the caller's own: changing them changes no later launch.
    """

    ops: list[Op]
    ssa: list[Op]
    source: str


class Kernel:
    """A kernel with mytriton's surface. ``kernel[grid](*args, **kwargs)`` compiles it for the arguments, runs it (NumPy
    arrays in the interpreter, device arrays on their GPU) and gives a LaunchResult. What it refuses is a TypeError or a
    ValueError as well as an error of ``refcompiler.errors``."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        with pythons_errors():
            self.compiler = triton_jit(fn, profile="ext.any_extent")
        self.compiler.source.rules = RULES
        self.__kernel_source__ = self.compiler.source  # kernels may call it
        self.__name__, self.__doc__ = self.compiler.__name__, self.compiler.__doc__

    def __repr__(self) -> str:
        return f"<mytriton kernel {self.__name__}>"

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the Python function, annotations evaluated."""
        return inspect.signature(self.fn, eval_str=True)

    def compile(self, *args: Any, **kwargs: Any) -> CompiledKernel:
        """Compile for types instead of arguments, as the language's own kernels do; every stage's text is in it."""
        return self.compiler.compile(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget every specialisation in memory."""
        self.compiler.clear_cache()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with pythons_errors():
            return self.compiler(*args, **kwargs)  # raises: a launch needs a grid

    __iter__ = None  # Python would otherwise iterate by calling __getitem__ for ever

    def __getitem__(self, grid: Any) -> Callable[..., LaunchResult]:
        def launch(*args: Any, **kwargs: Any) -> LaunchResult:
            with pythons_errors():
                values, named = self._positional(args), self._named(kwargs)
                code = backend()
                if "backend" not in named and any(map(is_device_array, (*values, *named.values()))):
                    named["backend"] = code  # NumPy arrays run in the interpreter, whatever the source text is for
                return _result(self.compiler[grid](*values, **named), code)

        return launch

    def _positional(self, args: tuple[Any, ...]) -> list[Any]:
        parameters = self.compiler.source.parameters
        named = [parameters[i] if i < len(parameters) else None for i in range(len(args))]
        return [self._argument(p.name, v) if p and not p.constexpr else v for p, v in zip(named, args, strict=True)]

    def _named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        constexprs = {p.name for p in self.compiler.source.parameters if p.constexpr}
        return {name: v if name in constexprs else self._argument(name, v) for name, v in kwargs.items()}

    def _argument(self, name: str, value: Any) -> Any:
        """A run-time argument: a bool is an integer, and an array lies in one stretch of memory, in row order."""
        if is_array(value) and not _contiguous(value):
            raise LaunchError(
                "ext.mytriton#E3",
                f"argument `{name}` of kernel {self.__name__} is not contiguous",
                notes=["pass a contiguous copy; kernels of refcompiler itself also take the array with its strides"],
            )
        return int(value) if isinstance(value, bool) else value


def _contiguous(array: Any) -> bool:
    """Whether an array lies in one stretch, in row order; one that no kernel takes is left to the launch to name."""
    try:
        return describe(array).contiguous
    except LaunchError:
        return True


def backend() -> str:
    """The compiler of this launch: TILESPEC_BACKEND where it names one, else MYTRITON_BACKEND."""
    chosen = config.BACKEND()
    return chosen if chosen in ("cuda", "mlir") else config.MYTRITON_BACKEND()


def _result(compiled: CompiledKernel, stage: str) -> LaunchResult:
    traced, optimised = compiled.func.clone(), compiled.level("tile_opt").clone()
    return LaunchResult(traced.body.ops, optimised.body.ops, compiled.asm[stage])


def jit(fn: Callable[..., Any]) -> Kernel:
    """Make a kernel of a Python function, which is never called. Raises CompileError where its source is not found."""
    return fn if isinstance(fn, Kernel) else Kernel(fn)
