"""Objects outside of a kernel: which it may refer to, what it takes them for, and whether they have changed since."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

import numpy as np

from refcompiler.errors import CompileError
from refcompiler.frontend.context import Context
from refcompiler.frontend.kernel_source import KernelSource
from refcompiler.frontend.types import block_type, constexpr, dtype, pointer_type
from refcompiler.source import Span

_CLASSES = (type, constexpr, dtype, pointer_type, block_type, enum.Enum, type(None))
_OF_PYTHON = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def compile_time(value: Any) -> Any:
    """A value of Python as kernels hold it: NumPy's numbers are Python's, lists, views and iterators are tuples."""
    if isinstance(value, constexpr):
        return compile_time(value.value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | KeysView | ValuesView | ItemsView | Iterator):
        return tuple(compile_time(v) for v in value)
    if isinstance(value, tuple):
        items = [compile_time(v) for v in value]
        return type(value)._make(items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: compile_time(v) for key, v in value.items()}
    return frozenset(value) if isinstance(value, set) else value


def captured(context: Context, source: KernelSource, name: str, value: Any, span: Span) -> Any:
    """What a name outside of the kernel stands for in it; a later change of it is seen by ``unchanged``."""
    known = isinstance(value, _CLASSES + _OF_PYTHON) or callable(value) or hasattr(value, "__kernel_source__")
    if not known and not source.rules.plain_globals:
        raise CompileError(
            "language.syntax#E5",
            f"`{name}` is a Python {type(value).__name__} outside of the kernel; kernels read outside values only as "
            f"tl.constexpr: write `{name} = tl.constexpr(...)`, or pass it as a parameter",
            span,
        )
    remember(context, (id(source), name), lambda: source.lookup(name), value)
    return compile_time(value)


def remember(context: Context, key: tuple[int, str], read: Callable[[], Any], value: Any) -> None:
    """Note what was read outside of the kernel."""
    if key not in context.captured:
        context.captured[key] = (read, snapshot(value))


def unchanged(read: Callable[[], Any], seen: Any) -> bool:
    """Whether an outside name still stands for what the compilation saw: of values the same contents, of others the
    same object."""
    now = read()
    return now is seen.held if isinstance(seen, _Same) else snapshot(now) == seen


class _Same:
    """Equal to itself holding the same object."""

    __slots__ = ("held",)

    def __init__(self, held: Any):
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    __hash__ = None  # type: ignore[assignment]


def snapshot(value: Any) -> Any:
    """The contents of a value, to be compared later; containers may change in place, and `-0.0 == 0.0`."""
    if isinstance(value, constexpr):
        return (constexpr, snapshot(value.value))
    if isinstance(value, bool | int | float | str | bytes | np.generic) and not isinstance(value, enum.Enum):
        return (type(value), repr(value))
    if isinstance(value, tuple | list):
        return (type(value), [snapshot(v) for v in value])
    if isinstance(value, dict):
        return (dict, [(snapshot(key), snapshot(v)) for key, v in value.items()])
    if isinstance(value, set | frozenset):
        return (type(value), frozenset(map(repr, value)))
    return _Same(value)
