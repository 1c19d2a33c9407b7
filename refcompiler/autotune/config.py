"""One configuration of a kernel: values of compile-time parameters, and options of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from refcompiler.errors import LaunchError


class Config:
    """Values for compile-time parameters by name, and the options ``num_warps``, ``num_stages``, ``num_ctas``,
    ``maxnreg`` (None: left to the compiler). ``pre_hook(kwargs)`` runs before every launch with this configuration.
    ``ir_override`` is accepted for compatibility and changes nothing."""

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], Any] | None = None,
        ir_override: Any = None,
    ):
        if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
            raise LaunchError(
                "autotune.config", f"a configuration has values of compile-time parameters by name, found {kwargs!r}"
            )
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas, self.maxnreg = num_warps, num_stages, num_ctas, maxnreg
        self.pre_hook, self.ir_override = pre_hook, ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """Everything that a launch is given on behalf of this configuration."""
        options = {
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "num_ctas": self.num_ctas,
            "maxnreg": self.maxnreg,
        }
        return {**self.kwargs, **{name: value for name, value in options.items() if value is not None}}

    def _identity(self) -> tuple:
        return (*sorted(self.all_kwargs().items(), key=lambda item: item[0]), self.pre_hook, self.ir_override)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    def __repr__(self) -> str:
        return f"Config({self})"


def configurations(what: str, given: Any) -> list[Config]:
    """``given``, which is called ``what``, as a list of configurations. Raises LaunchError for anything else."""
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping):
        found = list(given)
        if all(isinstance(config, Config) for config in found):
            return found
    raise LaunchError("autotune.config", f"{what}: a list of triton.Config, found {given!r}")
