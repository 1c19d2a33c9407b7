"""Sets of element indices that one memory access of many programs touches, and moving data through them.

``Lattice`` is the affine form: strided views of memory, no index array. ``Scatter`` is any other set of indices. Both
read and write flat arrays: the data itself and the access records of the conflict check.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np


class Lattice:
    """Indices ``base[p] + sum(strides[k] * i[k])``; ``base`` is int64 of shape [P] or [1]."""

    def __init__(self, base: np.ndarray, strides: tuple[int, ...], shape: tuple[int, ...]):
        self.base, self.strides, self.shape = base, strides, shape

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest index."""
        spans = [s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True)]
        base = self.base
        least, greatest = (int(base[0]),) * 2 if base.size == 1 else (int(base.min()), int(base.max()))
        return least + sum(s for s in spans if s < 0), greatest + sum(s for s in spans if s > 0)

    @cached_property
    def step(self) -> int | None:
        """The distance between the bases of neighbouring programs where it is constant, else None."""
        if self.base.size == 1:
            return 0
        step = int(self.base[1] - self.base[0])
        return step if self.base.size == 2 or bool((np.diff(self.base) == step).all()) else None

    @cached_property
    def distinct(self) -> bool:
        """Whether no index occurs twice, in one program or in two; False where that is not known."""
        if self.step is None:
            return False
        axes = [*zip(self.strides, self.shape, strict=True), (self.step, self.base.size)]
        reach = 0
        for stride, extent in sorted((abs(s), n) for s, n in axes if n > 1):
            if stride <= reach:
                return False
            reach += stride * (extent - 1)
        return True

    @property
    def held(self) -> int:
        """How many numbers the footprint holds."""
        return self.base.size

    def equals(self, other: Footprint) -> bool:
        """Whether it is the same lattice: the same indices in the same order."""
        same_block = isinstance(other, Lattice) and (self.strides, self.shape) == (other.strides, other.shape)
        return same_block and np.array_equal(self.base, other.base)

    def indices(self) -> np.ndarray:
        """Every index, int64 of shape [P, *shape]."""
        total = self.base.reshape(-1, *(1,) * len(self.shape))
        for axis, (stride, extent) in enumerate(zip(self.strides, self.shape, strict=True)):
            steps = np.arange(extent, dtype=np.int64) * stride
            total = total + steps.reshape(-1, *(1,) * (len(self.shape) - axis - 1))
        return total

    def read(self, flat: np.ndarray) -> np.ndarray:
        """The elements of ``flat``, of shape [P, *shape]; a view of it where the programs are evenly spaced."""
        view, picks = self._view(flat)
        return view if picks is None else view[picks]

    def write(self, flat: np.ndarray, values: np.ndarray) -> None:
        """Store ``values``, which broadcast to [P, *shape]."""
        view, picks = self._view(flat)
        view[... if picks is None else picks] = values

    def _view(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """A strided view of ``flat`` and the positions on its first axis that the programs start at; None for all."""
        item = flat.itemsize
        strides = [s * item for s in self.strides]
        if self.step is not None:
            shape, first, picks = (self.base.size, *self.shape), int(self.base[0]), None
            strides = [self.step * item, *strides]
        else:  # overlapping windows, one at each index from the least base to the greatest
            first = int(self.base.min())
            picks = self.base - first
            shape, strides = (int(picks.max()) + 1, *self.shape), [item, *strides]
        return np.ndarray(shape, flat.dtype, flat, first * item, strides), picks

    def part(self, box: tuple[slice, ...]) -> Lattice:
        """The sub-block of the slices ``box`` (steps of 1) along the block's axes."""
        first = sum(s * b.start for s, b in zip(self.strides, box, strict=True))
        return Lattice(self.base + first, self.strides, tuple(b.stop - b.start for b in box))

    def broadcast(self, programs: int, shape: tuple[int, ...]) -> Lattice:
        """The same with a base per program and a block of ``shape``, whose new axes stay in place."""
        base = self.base if self.base.size == programs else np.full(programs, self.base[0])
        strides = tuple(s if old > 1 else 0 for s, old in zip(self.strides, self.shape, strict=True))
        return Lattice(base, strides, shape)

    def moved(self, distance: int) -> Lattice:
        return Lattice(self.base + distance, self.strides, self.shape)

    def expanded(self, width: int) -> Lattice:
        """In units of which each element covers ``width``."""
        strides = (*(s * width for s in self.strides), 1)
        return Lattice(self.base * width, strides, (*self.shape, width))


class Scatter:
    """Any indices: int64 of any shape, no negative ones once the bounds were checked."""

    def __init__(self, index: np.ndarray):
        self.index = index

    @cached_property
    def distinct(self) -> bool:
        """Whether no index occurs twice; False where that is not known."""
        return self.index.ndim == 1 and bool((np.diff(self.index) > 0).all())

    @property
    def held(self) -> int:
        """How many numbers the footprint holds."""
        return self.index.size

    def equals(self, other: Footprint) -> bool:
        """Whether it is the same list of indices."""
        return isinstance(other, Scatter) and np.array_equal(self.index, other.index)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest index."""
        return int(self.index.min()), int(self.index.max())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.index.shape[1:]

    def indices(self) -> np.ndarray:
        return self.index

    def read(self, flat: np.ndarray) -> np.ndarray:
        """The elements of ``flat``, of the index's shape."""
        return flat.take(self.index, mode="clip")  # in bounds already; clip spares the check

    def write(self, flat: np.ndarray, values: np.ndarray) -> None:
        """Store ``values``, which broadcast to the index's shape."""
        flat[self.index] = values

    def broadcast(self, programs: int, shape: tuple[int, ...]) -> Scatter:
        full = (programs, *shape)
        return self if self.index.shape == full else Scatter(np.broadcast_to(self.index, full))

    def moved(self, distance: int) -> Scatter:
        return Scatter(self.index + distance)

    def expanded(self, width: int) -> Scatter:
        return Scatter(self.index[..., None] * width + np.arange(width))


Footprint = Lattice | Scatter
