"""Run-time values of many programs at once: arrays with a leading program axis, pointers, and poison.

An array that stands for a value of shape ``[*shape]`` in P programs has shape ``[P, *shape]``, where any axis along
which nothing varies, the program axis included, may have extent 1: uniform values and splats stay small until an op
combines them with something that varies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import numpy as np

from refcompiler.interpreter.affine import Affine
from refcompiler.ir import Op
from refcompiler.ir.types import DType


class Poison:
    """Which elements hold no value, by the op that made them so: pairs of (op, bool array aligned with the value)."""

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[tuple[Op, np.ndarray]]):
        self.parts = tuple(parts)

    def map(self, transform: OnArray) -> Poison:
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


class Descriptor:
    """A tensor descriptor: where its array begins, then its extents and its strides in elements, all but the last one,
    which is 1."""

    __slots__ = ("base", "shape", "strides")

    def __init__(self, base: Pointer, shape: tuple[Numbers, ...], strides: tuple[Numbers, ...]):
        self.base, self.shape, self.strides = base, shape, strides

    @property
    def parts(self) -> tuple[Val, ...]:
        return (self.base, *self.shape, *self.strides)


Numbers = Dense | Affine
Val = Dense | Affine | Pointer | Descriptor
OnArray = Callable[[np.ndarray], np.ndarray]
OnAffine = Callable[[Affine], Affine]


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


@overload
def with_shape(value: Numbers, on_array: OnArray, on_affine: OnAffine | None = None) -> Numbers: ...
@overload
def with_shape(value: Val, on_array: OnArray, on_affine: OnAffine | None = None) -> Val: ...
def with_shape(value: Val, on_array: OnArray, on_affine: OnAffine | None = None) -> Val:
    """``value`` after a change of shape: ``on_array`` maps arrays [P, *shape] to arrays [P, *new_shape], ``on_affine``
    does the same to symbolic blocks, which are held element by element where it is None."""
    if isinstance(value, Pointer):
        arrays = value.arrays if isinstance(value.arrays, int) else on_array(value.arrays)
        return Pointer(arrays, with_shape(value.offset, on_array, on_affine), value.pointee)
    if isinstance(value, Affine) and on_affine is not None:
        return on_affine(value)
    return Dense(on_array(value.data), None if value.poison is None else value.poison.map(on_array))


@overload
def ranked(value: Numbers, ndim: int) -> Numbers: ...
@overload
def ranked(value: Val, ndim: int) -> Val: ...
def ranked(value: Val, ndim: int) -> Val:
    """``value`` with at least ``ndim`` axes."""
    if ndim_of(value) >= ndim:
        return value
    return with_shape(value, lambda array: rank_up(array, ndim), lambda block: block.ranked(ndim - 1))


def ndim_of(value: Val) -> int:
    held = value.offset if isinstance(value, Pointer) else value
    return len(held.shape) + 1 if isinstance(held, Affine) else held.data.ndim


def choose(condition: np.ndarray, x: Val, y: Val) -> Val:
    """``x`` where the bool array is true, else ``y``, elementwise over broadcast axes."""
    if isinstance(x, Descriptor):
        assert isinstance(y, Descriptor)
        parts: list[Any] = [choose(condition, a, b) for a, b in zip(x.parts, y.parts, strict=True)]
        return Descriptor(parts[0], tuple(parts[1 : len(x.shape) + 1]), tuple(parts[len(x.shape) + 1 :]))
    ndim = max(condition.ndim, ndim_of(x), ndim_of(y))
    if x is y:
        return ranked(x, ndim)
    if condition.size == 1:
        return ranked(x if condition.reshape(-1)[0] else y, ndim)
    condition = rank_up(condition, ndim)
    if not isinstance(x, Pointer):
        assert not isinstance(y, Pointer | Descriptor)
        return choose_numbers(condition, x, y, ndim)
    assert isinstance(y, Pointer)
    offset = choose_numbers(condition, x.offset, y.offset, ndim)
    if isinstance(x.arrays, int) and x.arrays == y.arrays:
        return Pointer(x.arrays, offset, x.pointee)
    ids = [rank_up(np.array([p.arrays]) if isinstance(p.arrays, int) else p.arrays, ndim) for p in (x, y)]
    return Pointer(np.where(condition, *ids), offset, x.pointee)


def choose_numbers(condition: np.ndarray, x: Numbers, y: Numbers, ndim: int) -> Dense:
    """``choose`` for numbers and a condition of ``ndim`` axes."""
    poison = None
    if x.poison is not None or y.poison is not None:
        sides = [(rank_up_poison(x.poison, ndim), condition), (rank_up_poison(y.poison, ndim), ~condition)]
        poison = join_poison(p.restricted(keep) for p, keep in sides if p is not None)
    return Dense(np.where(condition, rank_up(x.data, ndim), rank_up(y.data, ndim)), poison)
