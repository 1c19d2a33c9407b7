"""How functions of the language are declared: bodies that emit ops, or bodies written in the language itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from refcompiler.frontend.context import here
from refcompiler.frontend.kernel_source import KernelSource

F = TypeVar("F", bound=Callable[..., Any])

# Method name on run-time values -> the function it calls with the value first.
MEMBERS: dict[str, Any] = {}


@dataclass(frozen=True)
class Builtin:
    """How a call of a builtin is compiled: ``lower`` runs with bound arguments while the kernel is compiled."""

    name: str
    lower: Callable[..., Any]
    signature: inspect.Signature

    @functools.cached_property
    def positional(self) -> tuple[str, ...]:
        """The names that arguments by position are bound to; none where `*args` takes some."""
        parameters = self.signature.parameters.values()
        if any(p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD for p in parameters):
            return ()
        return tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)

    @functools.cached_property
    def required(self) -> frozenset[str]:
        return frozenset(p.name for p in self.signature.parameters.values() if p.default is p.empty)

    def names(self, count: int, keywords: Iterable[str]) -> tuple[str, ...] | None:
        """The parameters of a call with ``count`` arguments by position and ``keywords``; None where Python's own
        rules have to look closer: `*args`, or a mistake."""
        if count > len(self.positional):
            return None
        given = (*self.positional[:count], *keywords)
        known = len(set(given)) == len(given) and self.signature.parameters.keys() >= set(given)
        return given if known and self.required <= set(given) and self.positional else None


def builtin(function: F | None = None, *, member: bool | tuple[str, ...] = False) -> Any:
    """Make ``function`` part of the language. Its body runs while a kernel compiles and emits ops through ``here()``.

    ``member`` also makes it a method of run-time values, under other names if some are given.
    """
    if function is None:
        return functools.partial(builtin, member=member)

    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        here()  # raises: a kernel that is compiling never calls through Python
        return function(*args, **kwargs)

    outside.__tile_builtin__ = Builtin(function.__name__, function, inspect.signature(function))  # type: ignore[attr-defined]
    return _member(outside, member)


def composite(function: F | None = None, *, member: bool | tuple[str, ...] = False) -> Any:
    """Make ``function``, written in the kernel language, part of the language: calls are compiled in place."""
    if function is None:
        return functools.partial(composite, member=member)

    @functools.wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        here()
        raise RuntimeError(f"tl.{function.__name__} is compiled, not called")

    outside.__kernel_source__ = KernelSource.of(function, library=True)  # type: ignore[attr-defined]
    return _member(outside, member)


def _member(function: Any, member: bool | tuple[str, ...]) -> Any:
    names = member if isinstance(member, tuple) else (function.__name__,) if member else ()
    MEMBERS.update(dict.fromkeys(names, function))
    return function
