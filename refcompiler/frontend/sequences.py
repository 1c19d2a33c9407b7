"""Python's functions on compile-time sequences whose elements may be run-time values: len, zip, sum, min ..."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from refcompiler.frontend.context import elements, is_runtime
from refcompiler.frontend.displays import Displays
from refcompiler.frontend.language import math


class Argument:
    """An argument of a call and where it stands."""

    __slots__ = ("node", "value")

    def __init__(self, value: Any, node: ast.AST):
        self.value, self.node = value, node


Call = Callable[[ast.Call, Any, list[Argument], dict[str, Argument]], Any]


def _zip(*sequences: tuple, strict: bool = False) -> tuple:
    return tuple(zip(*sequences, strict=strict))


def _enumerate(sequence: tuple, start: int = 0) -> tuple:
    return tuple(enumerate(sequence, start))


# Functions that only rearrange: what they do does not depend on the elements.
REARRANGE: dict[Any, Callable[..., Any]] = {
    len: len,
    zip: _zip,
    enumerate: _enumerate,
    tuple: lambda sequence=(): tuple(sequence),
    list: lambda sequence=(): tuple(sequence),
    reversed: lambda sequence: tuple(reversed(sequence)),
    dict: lambda pairs=(), **named: {**dict(pairs), **named},
}


def rearranged(compiler: Displays, node: ast.Call, function: Any, args: list[Argument], kwargs: dict) -> Any:
    """A call of one of ``REARRANGE``: sequences are tuples, whatever kind of Python's they are."""
    given: list[Any] = []
    for argument in args:
        value = argument.value
        found: Any = value if function is dict and isinstance(value, dict) else elements(value)
        if function is len and isinstance(value, frozenset | set | str | dict):
            found = value
        if function is enumerate and given:  # the start
            found = value
        if found is None:
            advice = "; use x.shape[0]" if is_runtime(value) and function is len else ""
            message = f"`{function.__name__}` takes compile-time sequences{advice}"
            raise compiler.no_sequence(argument.node, value, message, "control.calls#E2")
        given.append(found)
    named = {name: a.value for name, a in kwargs.items()}
    return compiler.compute(node, lambda: REARRANGE[function](*given, **named))


def folded(compiler: Displays, call: Callable[..., Any], node: ast.Call, function: Any, args: list[Argument]) -> Any:
    """`sum`, `min` and `max` where a run-time value takes part: two elements at a time, from the left."""
    values = args
    if len(args) == 1 or function is sum:
        found = elements(args[0].value)
        if found is None:
            return None
        values = [Argument(v, args[0].node) for v in found]
    if function is sum:
        values = [args[1] if len(args) > 1 else Argument(0, node), *values]
        total = values[0].value
        for other in values[1:]:
            total = compiler.binary(node, "Add", total, other.value, node, other.node)
        return total
    pick = (math.minimum if function is min else math.maximum).__tile_builtin__
    result = values[0]
    for other in values[1:]:
        result = Argument(call(node, pick, [result, other], {}), node)
    return result.value
