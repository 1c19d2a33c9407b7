"""What a compilation read outside of its kernels, and whether all of that still is what it was."""

from __future__ import annotations

import enum
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from refcompiler.frontend.kernel_source import EMPTY
from refcompiler.frontend.types import constexpr

_CONTAINERS = (list, dict, set, bytearray)
# Modules that are part of the language, or as good as: what their names stand for does not change.
_LIBRARIES = frozenset({"refcompiler", "numpy", "math", "operator"})


class Dependencies:
    """Names and what they stood for. Every launch asks ``are_current``, so that is cheap for objects that cannot change
    in place; containers are compared by their contents."""

    def __init__(self) -> None:
        self._known: set[tuple[int, str]] = set()
        self._globals: list[tuple[dict, str, Any]] = []  # of objects that stay what they are
        self._others: list[tuple[Any, str, Any, Any]] = []  # place, name, object; contents where these can change

    def add(self, place: Any, name: str, value: Any) -> None:
        """``name`` was read in ``place``: a dict of globals, a cell, or an object with that attribute."""
        key = (id(place), name)
        if key in self._known or (isinstance(place, types.ModuleType) and _root(place) in _LIBRARIES):
            return
        self._known.add(key)
        contents = snapshot(value) if _changes_in_place(value) else None
        if contents is None and type(place) is dict:
            self._globals.append((place, name, value))
        else:
            self._others.append((place, name, value, contents))
        if isinstance(value, constexpr):
            self.add(value, "value", value.value)
        elif isinstance(value, types.FunctionType) and getattr(value, "__constexpr_function__", False):
            self._add_reads_of(value)

    def _add_reads_of(self, function: types.FunctionType) -> None:
        """What a Python function that runs while compiling may read outside of itself."""
        code, scope = function.__code__, function.__globals__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        read: list[tuple[Any, str, Any]] = [(cell, name, _read(cell, name)) for name, cell in cells]
        read += [(scope, name, scope[name]) for name in code.co_names if name in scope]
        for owner in [value for _, _, value in read if isinstance(value, types.ModuleType | type)]:
            read += [(owner, name, getattr(owner, name)) for name in code.co_names if name in vars(owner)]
        for place, name, value in read:
            met = (id(place), name) in self._known
            self.add(place, name, value)
            if not met and isinstance(value, types.FunctionType):
                self._add_reads_of(value)

    @property
    def names_in_scopes(self) -> Sequence[tuple[dict, str, Any]]:
        """Names of globals with objects that stay what they are: while these are the same objects, nothing changed in
        what they stand for."""
        return self._globals

    @property
    def has_others(self) -> bool:
        """Whether there is anything but ``names_in_scopes``."""
        return bool(self._others)

    def are_current(self) -> bool:
        """Whether every name still stands for what the compilation saw."""
        for scope, name, value in self._globals:
            if scope.get(name, EMPTY) is not value and not _same(scope.get(name, EMPTY), value):
                return False
        return self.others_are_current()

    def others_are_current(self) -> bool:
        """As ``are_current``, of all but ``names_in_scopes``."""
        for place, name, value, contents in self._others:
            now = _read(place, name)
            if snapshot(now) != contents if contents is not None else now is not value and not _same(now, value):
                return False
        return True


def _root(module: types.ModuleType) -> str:
    return module.__name__.partition(".")[0]


def _read(place: Any, name: str) -> Any:
    if isinstance(place, dict):
        return place.get(name, EMPTY)
    if isinstance(place, types.CellType):
        try:
            return place.cell_contents
        except ValueError:
            return EMPTY
    return getattr(place, name, EMPTY)


def _changes_in_place(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_changes_in_place, value))
    return isinstance(value, _CONTAINERS)


def _same(now: Any, value: Any) -> bool:
    """Whether another object is as good: a number or text of the same type and value, NaN and signed zeros included."""
    return type(now) is type(value) and snapshot(now) == snapshot(value)


class _Same:
    """Equal to itself holding the same object."""

    __slots__ = ("held",)

    def __init__(self, held: Any):
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    __hash__ = None


def snapshot(value: Any) -> Any:
    """The contents of a value, to be compared later; containers may change in place, and `-0.0 == 0.0`."""
    if isinstance(value, constexpr):
        return (constexpr, snapshot(value.value))
    if isinstance(value, bool | int | float | complex | str | bytes | bytearray | np.generic) and not isinstance(
        value, enum.Enum
    ):
        return (type(value), repr(value))
    if isinstance(value, tuple | list):
        return (type(value), [snapshot(v) for v in value])
    if isinstance(value, dict):
        return (dict, [(snapshot(key), snapshot(v)) for key, v in value.items()])
    if isinstance(value, set | frozenset):
        return (type(value), frozenset(map(repr, value)))
    return _Same(value)
