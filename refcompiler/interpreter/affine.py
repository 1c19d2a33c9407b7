"""Integer blocks of the form base + sum of stride x index, kept symbolic: addresses and masks cost no array work.

Most index arithmetic of kernels has this form. A block of it is a base per program and a stride per axis; adding
blocks adds those, comparing one with a bound often decides all elements at once, and a load through it is a strided
view of memory. Whatever leaves the form, or might wrap around, is computed element by element instead.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from refcompiler.ir.types import I64, DType

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class Affine:
    """``base[p] + sum(strides[k] * i[k])`` for the block index i; no element is poison.

    ``base`` is int64 of shape [P] or [1]; ``shape`` has extent 1 along axes of stride 0. ``low`` and ``high`` bound all
    elements (not always tightly) and fit ``dtype``, so nothing wraps.
    """

    __slots__ = ("base", "strides", "shape", "dtype", "low", "high", "_data")
    poison = None

    def __init__(self, base: np.ndarray, strides: tuple, shape: tuple, dtype: DType, low: int, high: int):
        self.base, self.strides, self.dtype, self.low, self.high = base, strides, dtype, low, high
        self.shape = tuple(n if s else 1 for n, s in zip(shape, strides, strict=True))
        self._data: np.ndarray | None = None

    @property
    def data(self) -> np.ndarray:
        """The elements, of shape [P, *shape] and the dtype's NumPy type."""
        if self._data is None:
            base = self.base.astype(self.dtype.numpy, copy=False).reshape(-1, *(1,) * len(self.shape))
            self._data = base + self.inner(self.dtype.numpy) if self.shape else base
        return self._data

    def inner(self, dtype=np.int64) -> np.ndarray:
        """The part that does not depend on the program, of shape [1, *shape]."""
        total = np.zeros((1,) * (len(self.shape) + 1), dtype)
        for axis, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            if stride:
                after = (1,) * (len(self.shape) - axis - 1)
                total = total + (np.arange(extent) * stride).astype(dtype, copy=False).reshape(-1, *after)
        return total

    def ranked(self, rank: int) -> Affine:
        """With axes of extent 1 in front until there are ``rank``."""
        missing = rank - len(self.shape)
        return self if missing <= 0 else self.with_axes((0,) * missing + self.strides, (1,) * missing + self.shape)

    def with_axes(self, strides: tuple, shape: tuple) -> Affine:
        return Affine(self.base, strides, shape, self.dtype, self.low, self.high)

    def as_dtype(self, dtype: DType) -> Affine | None:
        """The same numbers in another integer type; None where they may not fit."""
        if not (dtype.min_int <= self.low and self.high <= dtype.max_int):
            return None
        return Affine(self.base, self.strides, self.shape, dtype, self.low, self.high)

    def uniform(self) -> int | None:
        """The one number that all elements are, or None."""
        return int(self.base[0]) if self.base.size == 1 and not any(self.strides) else None


def arange(start: int, end: int, dtype: DType) -> Affine:
    """The integers of [start, end)."""
    extent = end - start
    return Affine(np.array([start]), (int(extent > 1),), (extent,), dtype, start, end - 1)


def from_scalars(data: np.ndarray, dtype: DType) -> Affine | None:
    """The affine form of an integer array whose block axes have extent 1; None where it cannot be one."""
    if data.shape[0] != data.size or not dtype.is_int:
        return None
    low, high = (int(data.flat[0]),) * 2 if data.size == 1 else (int(data.min()), int(data.max()))
    if high > INT64_MAX:
        return None
    rank = data.ndim - 1
    return Affine(data.reshape(-1).astype(np.int64, copy=False), (0,) * rank, (1,) * rank, dtype, low, high)


def _combined(x: Affine, y: Affine, sign: int, dtype: DType, low: int, high: int) -> Affine:
    rank = max(len(x.shape), len(y.shape))
    x, y = x.ranked(rank), y.ranked(rank)
    strides = tuple(a + sign * b for a, b in zip(x.strides, y.strides, strict=True))
    shape = tuple(max(pair) for pair in zip(x.shape, y.shape, strict=True))
    return Affine(x.base + y.base if sign > 0 else x.base - y.base, strides, shape, dtype, low, high)


def add(x: Affine, y: Affine, dtype: DType) -> Affine | None:
    """x + y as ``dtype``, or None where it might wrap."""
    low, high = x.low + y.low, x.high + y.high
    return _combined(x, y, 1, dtype, low, high) if dtype.min_int <= low and high <= dtype.max_int else None


def sub(x: Affine, y: Affine, dtype: DType) -> Affine | None:
    """x - y as ``dtype``, or None where it might wrap."""
    low, high = x.low - y.high, x.high - y.low
    return _combined(x, y, -1, dtype, low, high) if dtype.min_int <= low and high <= dtype.max_int else None


def mul(x: Affine, y: Affine, dtype: DType) -> Affine | None:
    """x * y where one is a single number and nothing wraps."""
    factor, block = y.uniform(), x
    if factor is None:
        factor, block = x.uniform(), y
    if factor is None:
        return None
    low, high = sorted((block.low * factor, block.high * factor))
    if not (max(dtype.min_int, INT64_MIN) <= low and high <= min(dtype.max_int, INT64_MAX)):
        return None
    return Affine(block.base * factor, tuple(s * factor for s in block.strides), block.shape, dtype, low, high)


def rem(x: Affine, y: Affine, dtype: DType) -> Affine | None:
    """x % y where every element is in (-y, y) already."""
    divisor = y.uniform()
    same = divisor is not None and -divisor < x.low and x.high < divisor
    return x.ranked(len(y.shape)) if same else None


ARITHMETIC: dict[str, Callable[[Affine, Affine, DType], Affine | None]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "rem": rem,
}

# name -> (the NumPy comparison, whether it holds for every difference in [low, high], whether it holds for none)
_COMPARISONS = {
    "cmp_lt": (np.less, lambda low, high: high < 0, lambda low, high: low >= 0),
    "cmp_le": (np.less_equal, lambda low, high: high <= 0, lambda low, high: low > 0),
    "cmp_gt": (np.greater, lambda low, high: low > 0, lambda low, high: high <= 0),
    "cmp_ge": (np.greater_equal, lambda low, high: low >= 0, lambda low, high: high < 0),
}
COMPARISONS = frozenset(_COMPARISONS)


def compare(name: str, x: Affine, y: Affine) -> np.ndarray | None:
    """x compared with y as a bool array, of one element where all agree; None where x - y is too large for int64."""
    low, high = x.low - y.high, x.high - y.low
    if low < INT64_MIN // 2 or high > INT64_MAX // 2:
        return None
    holds, always, never = _COMPARISONS[name]
    rank = max(len(x.shape), len(y.shape))
    if always(low, high) or never(low, high):
        return np.full((1,) * (rank + 1), always(low, high))
    difference = _combined(x, y, -1, I64, low, high)
    return holds(difference.inner(), -difference.base.reshape(-1, *(1,) * rank))
