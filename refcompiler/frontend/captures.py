"""Objects outside of a kernel: which it may refer to, and what it takes them for."""

from __future__ import annotations

import array
import enum
import types
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

import numpy as np

from refcompiler.errors import CompileError
from refcompiler.frontend.context import Context
from refcompiler.frontend.kernel_source import KernelSource
from refcompiler.frontend.types import block_type, constexpr, dtype, pointer_type
from refcompiler.source import Span

_CLASSES = (type, constexpr, dtype, pointer_type, block_type, enum.Enum, type(None))
# They change in place, and comparing what they hold at every launch would cost too much.
_UNSTABLE = (np.ndarray, memoryview, array.array, Iterator)
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
        kind: Any = type(value)
        return kind._make(items) if hasattr(kind, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: compile_time(v) for key, v in value.items()}
    return frozenset(value) if isinstance(value, set) else value


def captured(context: Context, source: KernelSource, name: str, value: Any, span: Span) -> Any:
    """What a name outside of the kernel stands for in it; it becomes one of the kernel's dependencies."""
    known = isinstance(value, _CLASSES + _OF_PYTHON) or callable(value) or hasattr(value, "__kernel_source__")
    if not known and not source.rules.plain_globals:
        raise CompileError(
            "language.syntax#E5",
            f"`{name}` is a Python {type(value).__name__} outside of the kernel; kernels read outside values only as "
            f"tl.constexpr: write `{name} = tl.constexpr(...)`, or pass it as a parameter",
            span,
        )
    held = value.value if isinstance(value, constexpr) else value
    if isinstance(held, _UNSTABLE):
        raise CompileError(
            "language.syntax#E5",
            f"`{name}` is of type {type(held).__name__}, which can change without the kernel being compiled again; "
            "give kernels numbers, texts, tuples, lists or dicts",
            span,
        )
    context.dependencies.add(source.cells.get(name, source.scope), name, value)
    return compile_time(value)
