"""What kernels under `@autotune` and under `@heuristics` share: names, source and launches of what they decorate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from refcompiler.errors import LaunchError


class Decorated:
    """A kernel, plain or decorated itself, that is launched in a way of its own."""

    def __init__(self, fn: Any):
        if not hasattr(fn, "arg_names"):
            raise LaunchError(
                "autotune.kernel",
                f"a kernel is decorated, found {type(fn).__name__}",
                notes=["@triton.jit stands below @triton.autotune and @triton.heuristics"],
            )
        self.fn, self.arg_names = fn, list(fn.arg_names)
        self.__name__, self.__doc__ = fn.__name__, fn.__doc__

    __iter__ = None  # Python would otherwise iterate by calling __getitem__ for ever

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        raise NotImplementedError

    def run(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Launch on ``grid``; gives the compiled kernel."""
        return self[grid](*args, **kwargs)

    @property
    def base_fn(self) -> Any:
        """The kernel under all decorators."""
        return getattr(self.fn, "base_fn", self.fn)

    @property
    def source(self) -> Any:
        return self.fn.source

    def names(self, where: str, names: Any) -> list[str]:
        """``names`` as a list. Raises LaunchError (autotune.names) for what is none, and for a name that no parameter
        has."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise LaunchError("autotune.names", f"{where}: a list of names of parameters, found {names!r}")
        found = list(names)
        for name in found:
            if name not in self.arg_names:
                raise LaunchError(
                    "autotune.names",
                    f"{where}: {self.__name__} has no parameter {name!r}",
                    notes=[f"its parameters are {', '.join(self.arg_names)}"],
                )
        return found

    def positional(self, args: tuple) -> dict[str, Any]:
        """Arguments that are passed by position, by name."""
        return dict(zip(self.arg_names, args, strict=False))
