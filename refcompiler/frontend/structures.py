"""Trees of tuples, dicts and descriptors with run-time values as leaves: what loops and branches carry as one name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from refcompiler.frontend.context import describe
from refcompiler.frontend.types import aggregate
from refcompiler.ir import Value


def leaves(value: Any) -> list[Value]:
    """The run-time values in a tree, from left to right."""
    if isinstance(value, tuple):
        return [leaf for v in value for leaf in leaves(v)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in leaves(v)]
    if isinstance(value, aggregate):
        return leaves(value.parts)
    return [value] if isinstance(value, Value) else []


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with every leaf changed; named tuples keep their class."""
    if isinstance(value, tuple):
        items = [mapped(v, change) for v in value]
        kind: Any = type(value)
        return kind._make(items) if hasattr(kind, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: mapped(v, change) for key, v in value.items()}
    if isinstance(value, aggregate):
        return value.with_parts(mapped(value.parts, change))
    return change(value)


def rebuild(value: Any, fresh: Iterator[Value]) -> Any:
    """The same tree with its run-time values replaced in order."""
    return mapped(value, lambda leaf: next(fresh) if isinstance(leaf, Value) else leaf)


def shape_of_tree(value: Any) -> Any:
    """A tree of types; two trees are equal where a loop may carry one as the other."""
    if isinstance(value, tuple):
        return (type(value), *(shape_of_tree(v) for v in value))
    if isinstance(value, dict):
        return (dict, *((repr(key), shape_of_tree(v)) for key, v in value.items()))
    if isinstance(value, aggregate):
        return (type(value), value.known, shape_of_tree(value.parts))
    if isinstance(value, Value):
        return value.type
    plain = value is None or isinstance(value, bool | int | float | str)
    return ("constexpr", type(value), repr(value) if plain else id(value))


def type_name(value: Any) -> str:
    """A tree as messages name it."""
    if isinstance(value, tuple):
        return f"({', '.join(type_name(v) for v in value)})"
    return str(value.type) if isinstance(value, Value) else describe(value)
