"""The table of oracles: the `@oracle` decorator, lookup by address, and the checks of a call."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Refs = dict[str, Any]
Function = Callable[..., Refs]

TABLE: dict[str, Oracle] = {}


class OracleError(ValueError):
    """A case asks an oracle for something it cannot give; the message says what was found and expected."""


@dataclass(frozen=True)
class Oracle:
    """A reference function with its declaration; call as ``oracle(inputs, params, xp=None)``.

    A name ending in ``?`` in `inputs` or `params` may be absent. `operands` may come from inputs or from
    params.
    """

    name: str
    function: Function
    inputs: tuple[str, ...]
    operands: tuple[str, ...]
    params: tuple[str, ...]
    outputs: tuple[str, ...]
    bounded: bool

    def __call__(self, inputs: Mapping[str, np.ndarray], params: Mapping[str, Any], xp: Any = None) -> Refs:
        self._require("input", self.inputs, inputs)
        self._require("operand", self.operands, {**params, **inputs})
        self._require("parameter", self.params, params)
        for name in self.inputs:
            array = inputs.get(name.rstrip("?"))
            if array is not None and not isinstance(array, (np.ndarray, np.generic)):
                raise OracleError(
                    f"oracle {self.name}: input {name!r} is {type(array).__name__}, expected a NumPy array"
                )
        if xp is not None and not self.bounded:
            raise OracleError(f"oracle {self.name} has no derived bound; use mode exact, ulp or dot with it")
        with np.errstate(all="ignore"):
            if xp is None:
                return _expand(self.function(inputs, params))
            enclosed = _expand(self.function(inputs, params, xp=xp))
            # the other words (tail, abs_terms, dropped) are facts about the real value
            return {**_expand(self.function(inputs, params)), **enclosed}

    def _require(self, kind: str, declared: tuple[str, ...], given: Mapping[str, Any]) -> None:
        missing = [n for n in declared if not n.endswith("?") and n not in given]
        if missing:
            found = ", ".join(sorted(map(str, given))) or "none"
            raise OracleError(f"oracle {self.name} needs {kind} {missing[0]!r}; the case supplies: {found}")


def _expand(refs: Refs) -> Refs:
    """Bounded results as plain arrays: `out`, `out.lower`, `out.upper`."""
    flat: Refs = {}
    for key, ref in refs.items():
        if hasattr(ref, "lower") and hasattr(ref, "upper"):
            flat[key], flat[key + ".lower"], flat[key + ".upper"] = ref.value, ref.lower, ref.upper
        else:
            flat[key] = np.asarray(ref)
    return flat


def oracle(
    inputs: str = "", params: str = "", outputs: str = "out", operands: str = "", bounded: bool = False
) -> Callable[[Function], Oracle]:
    """Register a function under ``oracles.<module>:<function>``; the arguments are space-separated names.

    A trailing underscore, which keeps a Python name free, is not part of the address: `abs_` is found as
    ``abs``.
    """

    def register(function: Function) -> Oracle:
        name = f"{function.__module__}:{function.__name__.rstrip('_')}"
        if name in TABLE:
            raise OracleError(f"oracle {name} is defined twice")
        split = (
            tuple(inputs.split()),
            tuple(operands.split()),
            tuple(params.split()),
            tuple(outputs.split()),
        )
        entry = Oracle(name, function, *split, bounded)
        object.__setattr__(entry, "__doc__", function.__doc__)
        TABLE[name] = entry
        return entry

    return register


def _load() -> None:
    package = importlib.import_module("oracles")
    for module in pkgutil.iter_modules(package.__path__, "oracles."):
        importlib.import_module(module.name)


def names() -> list[str]:
    """Every oracle's address, sorted."""
    _load()
    return sorted(TABLE)


def lookup(name: str) -> Oracle:
    """The oracle at the address `oracles.<module>:<function>`; OracleError with near names if none."""
    _load()
    if name not in TABLE:
        near = difflib.get_close_matches(name, sorted(TABLE), n=3)
        hint = f"; nearest: {', '.join(near)}" if near else "; the form is oracles.<module>:<function>"
        raise OracleError(f"no oracle {name!r}{hint}")
    return TABLE[name]
