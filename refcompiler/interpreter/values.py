"""Run-time values of many programs at once: arrays with a leading program axis, pointers, and poison.

An array that stands for a value of shape ``[*shape]`` in P programs has shape ``[P, *shape]``, where any axis along
which nothing varies, the program axis included, may have extent 1: uniform values and splats stay small until an op
combines them with something that varies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from refcompiler.interpreter.affine import Affine
from refcompiler.ir import Op
from refcompiler.ir.types import DType


class Poison:
    """Which elements hold no value, by the op that made them so: pairs of (op, bool array aligned with the value)."""

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[tuple[Op, np.ndarray]]):
        self.parts = tuple(parts)

    def map(self, transform: Callable[[np.ndarray], np.ndarray]) -> Poison:
        """The poison after the same change of shape as the value."""
        return Poison((origin, transform(mask)) for origin, mask in self.parts)

    def restricted(self, keep: np.ndarray) -> Poison | None:
        """The poison of the elements in ``keep`` (aligned); None where nothing is left."""
        parts = [(origin, mask & keep) for origin, mask in self.parts]
        parts = [(origin, mask) for origin, mask in parts if mask.any()]
        return Poison(parts) if parts else None


def join_poison(poisons: Iterable[Poison | None]) -> Poison | None:
    """Poisoned where any is; the arguments are aligned with each other."""
    merged: dict[Op, np.ndarray] = {}
    for poison in poisons:
        if poison is not None:
            for origin, mask in poison.parts:
                merged[origin] = merged[origin] | mask if origin in merged else mask
    return Poison(merged.items()) if merged else None


class Dense:
    """Numbers held element by element."""

    __slots__ = ("data", "poison")

    def __init__(self, data: np.ndarray, poison: Poison | None = None):
        self.data, self.poison = data, poison


class Pointer:
    """Pointers: ``offset`` counts elements of ``pointee`` from the start of an argument array.

    ``arrays`` is the index of that array, or an array of indices aligned with ``offset`` where pointers into several
    arrays were selected. The poison of a pointer is that of its offset.
    """

    __slots__ = ("arrays", "offset", "pointee")

    def __init__(self, arrays: int | np.ndarray, offset: Dense | Affine, pointee: DType):
        self.arrays, self.offset, self.pointee = arrays, offset, pointee

    @property
    def poison(self) -> Poison | None:
        return self.offset.poison


Numbers = Dense | Affine
Val = Dense | Affine | Pointer


def rank_up(array: np.ndarray, ndim: int) -> np.ndarray:
    """``array`` with axes of extent 1 inserted after the program axis until it has ``ndim`` axes."""
    missing = ndim - array.ndim
    return array if not missing else array.reshape(array.shape[0], *(1,) * missing, *array.shape[1:])


def rank_up_poison(poison: Poison | None, ndim: int) -> Poison | None:
    return None if poison is None else poison.map(lambda mask: rank_up(mask, ndim))


def aligned(values: Iterable[Numbers]) -> tuple[list[np.ndarray], Poison | None]:
    """The arrays of ``values`` with equal numbers of axes, so that NumPy broadcasts them, and their joined poison."""
    values = list(values)
    arrays = [v.data for v in values]
    ndim = max(a.ndim for a in arrays)
    poison = None
    if any(v.poison is not None for v in values):
        poison = join_poison(rank_up_poison(v.poison, ndim) for v in values)
    return [rank_up(a, ndim) for a in arrays], poison


def transformed(value: Val, transform: Callable[[np.ndarray], np.ndarray]) -> Val:
    """``value`` after a change of shape that maps arrays ``[P, *shape]`` to arrays ``[P, *new_shape]``."""
    if isinstance(value, Pointer):
        arrays = value.arrays if isinstance(value.arrays, int) else transform(value.arrays)
        return Pointer(arrays, transformed(value.offset, transform), value.pointee)
    poison = None if value.poison is None else value.poison.map(transform)
    return Dense(transform(value.data), poison)


def ranked(value: Val, ndim: int) -> Val:
    """``value`` with at least ``ndim`` axes."""
    if isinstance(value, Affine):
        return value.ranked(ndim - 1)
    held = value.offset if isinstance(value, Pointer) else value
    if isinstance(held, Affine):
        arrays = value.arrays if isinstance(value.arrays, int) else rank_up(value.arrays, ndim)
        return Pointer(arrays, held.ranked(ndim - 1), value.pointee)
    return value if held.data.ndim >= ndim else transformed(value, lambda a: rank_up(a, ndim))


def ndim_of(value: Val) -> int:
    held = value.offset if isinstance(value, Pointer) else value
    return len(held.shape) + 1 if isinstance(held, Affine) else held.data.ndim


def choose(condition: np.ndarray, x: Val, y: Val) -> Val:
    """``x`` where the bool array is true, else ``y``, elementwise over broadcast axes."""
    ndim = max(condition.ndim, ndim_of(x), ndim_of(y))
    if x is y:
        return ranked(x, ndim)
    if condition.size == 1:
        return ranked(x if condition.reshape(-1)[0] else y, ndim)
    if isinstance(x, Pointer):
        offset = choose(condition, x.offset, y.offset)
        if isinstance(x.arrays, int) and x.arrays == y.arrays:
            return Pointer(x.arrays, offset, x.pointee)
        ids = [rank_up(np.asarray(a).reshape(1) if isinstance(a, int) else a, ndim) for a in (x.arrays, y.arrays)]
        return Pointer(np.where(rank_up(condition, ndim), *ids), offset, x.pointee)
    (where, left, right), _ = aligned((Dense(condition), x, y))
    poison = None
    if x.poison is not None or y.poison is not None:
        sides = [(rank_up_poison(x.poison, ndim), where), (rank_up_poison(y.poison, ndim), ~where)]
        poison = join_poison(p.restricted(keep) for p, keep in sides if p is not None)
    return Dense(np.where(where, left, right), poison)
