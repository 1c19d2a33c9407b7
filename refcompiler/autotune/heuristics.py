"""`@heuristics`: parameters computed from the arguments of each launch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from refcompiler.autotune.decorated import Decorated
from refcompiler.errors import LaunchError


class Heuristics(Decorated):
    """A kernel of which the parameters in ``values`` are computed at every launch, in the order of ``values``."""

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict[str, Any]], Any]]):
        super().__init__(fn)
        if not isinstance(values, Mapping) or not all(map(callable, values.values())):
            found = f"{values!r}" if isinstance(values, Mapping) else type(values).__name__
            raise LaunchError("autotune.heuristic", f"heuristics: a function for each parameter by name, found {found}")
        self.values = dict(values)
        self.names("heuristics", self.values)

    def __repr__(self) -> str:
        return f"<heuristics of {self.fn!r}>"

    def _with_values(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        for name, value in self.values.items():
            kwargs[name] = value({**self.positional(args), **kwargs})
        return kwargs

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return functools.partial(self._run, grid)

    def _run(self, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.fn[grid](*args, **self._with_values(args, kwargs))

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compile for the arguments without launching."""
        return self.fn.warmup(*args, grid=grid, **self._with_values(args, kwargs))

    def specialized(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel for the arguments, as tile IR."""
        return self.fn.specialized(*args, **self._with_values(args, kwargs))

    def compile(self, signature: Any, constexprs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Compile for types; a parameter that ``constexprs`` lacks is computed from ``constexprs``."""
        given = dict(constexprs or {})
        for name, value in self.values.items():
            if name in given:
                continue
            try:
                given[name] = value(dict(given))
            except KeyError as error:
                raise LaunchError(
                    "autotune.heuristic",
                    f"the heuristic of {name!r} asks for the argument {error}, which has no value while compiling",
                    notes=[f"give {name!r} among the constexprs"],
                ) from None
        return self.fn.compile(signature, given, **options)
