"""Linear layouts: immutable maps, linear over GF(2), from hardware coordinates to tensor indices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from refcompiler.layouts.gf2 import Span, combine
from refcompiler.source import parse_python

INPUTS = ("register", "lane", "warp", "cta", "offset")
LANE_BITS = 5


def log2(size: int) -> int:
    """The exponent of a power of two.  Raises ValueError for anything else."""
    if size < 1 or size & (size - 1):
        raise ValueError(f"expected a power of two, found {size}")
    return size.bit_length() - 1


@dataclass(frozen=True)
class LinearLayout:
    """A map L from hardware coordinates to the elements of a tensor with L(x ^ y) = L(x) ^ L(y).

    `inputs` holds, for each named hardware input, one basis per bit of that input: the element that this bit
    alone selects, packed into one int with the last dimension in the low bits.  The element of a point is the
    xor of the bases of its set bits.  A zero basis makes replicas: that bit does not change the element.  A
    *distributed* layout has the inputs register, lane and warp (and later cta); a *shared* layout has the
    input offset, counted in elements.  Every layout covers its tensor.  Build layouts by `LinearLayout.of`,
    `parse` or the constructors beside this module.

    >>> layout = LinearLayout.of((2, 8), register=[(1, 0)], lane=[(0, 1), (0, 2), (0, 4), (0, 0), (0, 0)])
    >>> layout(register=1, lane=5), layout(register=1, lane=13)
    ((1, 5), (1, 5))
    """

    shape: tuple[int, ...]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        size = 1 << sum(log2(extent) for extent in self.shape)
        span = Span()
        for name, bases in self.inputs:
            if name not in INPUTS:
                raise ValueError(f"unknown layout input {name!r}, expected one of {', '.join(INPUTS)}")
            for column, basis in enumerate(bases):
                if not 0 <= basis < size:
                    raise ValueError(f"basis {basis} of {name} is outside the shape {self.shape}")
                span.insert(basis, column)
        if 1 << span.rank != size:
            raise ValueError(
                f"a layout must cover its tensor: shape {self.shape} has {size} elements, "
                f"the bases reach {1 << span.rank}"
            )
        object.__setattr__(self, "_hash", hash((self.shape, self.inputs)))

    def __hash__(self) -> int:
        return self._hash

    # --- construction and text
    @classmethod
    def of(cls, shape: Sequence[int], **bases: Sequence[Sequence[int]]) -> LinearLayout:
        """The layout of `shape` with the given bases, each a tensor index.

        Missing inputs of a distributed layout are empty (one register, one warp).
        >>> LinearLayout.of((2, 2), offset=[(0, 1), (1, 0)])(offset=3)
        (1, 1)
        """
        for name, indices in bases.items():
            for index in indices:
                if len(index) != len(shape) or any(
                    type(i) is not int or not 0 <= i < extent for i, extent in zip(index, shape, strict=True)
                ):
                    raise ValueError(f"basis {tuple(index)} of {name} is outside the shape {tuple(shape)}")
        return cls.packed(shape, {name: [pack(index, shape) for index in indices] for name, indices in bases.items()})

    @classmethod
    def packed(cls, shape: Sequence[int], bases: Mapping[str, Sequence[int]]) -> LinearLayout:
        """As `of`, with each basis packed into one int."""
        if unknown := set(bases) - set(INPUTS):
            raise ValueError(f"unknown layout input {min(unknown)!r}, expected one of {', '.join(INPUTS)}")
        always = () if "offset" in bases else ("register", "lane", "warp")
        names = [name for name in INPUTS if name in bases or name in always]
        return cls(tuple(shape), tuple((name, tuple(bases.get(name, ()))) for name in names))

    @classmethod
    def parse(cls, text: str) -> LinearLayout:
        """The inverse of `str`.

        >>> LinearLayout.parse("layout(register=[(1,)], lane=[(2,)], warp=[])").shape
        (4,)
        """
        try:
            call = parse_python(text.strip(), mode="eval").body
            if not (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Name)
                and call.func.id == "layout"
                and not call.args
                and all(word.arg for word in call.keywords)
            ):
                raise ValueError("it is not a call of layout with keywords")
            values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
            if len(values) != len(call.keywords):
                raise ValueError("a keyword is repeated")
            shape = values.pop("shape") if "shape" in values else _shape_of(values)
            return cls.of(shape, **values)
        except (SyntaxError, TypeError, ValueError) as error:
            raise ValueError(
                f"not a layout: {text!r}: {error}; expected text like layout(register=[(0, 1)], lane=[(1, 0)], warp=[])"
            ) from None

    def __str__(self) -> str:
        """One line of Python-literal text; the shape is left out where the bases determine it."""
        parts = [f"{name}={list(self.bases(name))}" for name, _ in self.inputs]
        if not any(bases for _, bases in self.inputs):
            parts.append(f"shape={self.shape}")
        return f"layout({', '.join(parts)})"

    def __repr__(self) -> str:
        return str(self)

    # --- properties
    @property
    def rank(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.shape)

    @property
    def is_shared(self) -> bool:
        """Whether it is a shared layout: of a block in shared memory."""
        return any(name == "offset" for name, _ in self.inputs)

    def packed_bases(self, name: str) -> tuple[int, ...]:
        """The bases of one input as packed ints; empty for an input the layout does not have."""
        for known, bases in self.inputs:
            if known == name:
                return bases
        return ()

    def bases(self, name: str) -> tuple[tuple[int, ...], ...]:
        """The bases of one input as tensor indices."""
        return tuple(unpack(basis, self.shape) for basis in self.packed_bases(name))

    def size(self, name: str) -> int:
        """The number of values of one input: 2 to the number of its bits."""
        return 1 << len(self.packed_bases(name))

    @property
    def num_registers(self) -> int:
        """How many elements, replicas included, each thread holds."""
        return self.size("register")

    @property
    def num_warps(self) -> int:
        """How many warps hold the tensor, replicas included."""
        return self.size("warp")

    @property
    def thread_bases(self) -> tuple[int, ...]:
        """The packed bases of the bits of the thread index, warp * 32 + lane."""
        lanes = self.packed_bases("lane")
        if len(lanes) != LANE_BITS:
            raise ValueError(f"a layout over threads has {1 << LANE_BITS} lanes, found {1 << len(lanes)}")
        return lanes + self.packed_bases("warp")

    def free_bits(self, name: str) -> int:
        """The mask of bits of `name` that only make replicas, given the inputs before it and its lower bits.

        The points whose free bits are all zero hold every element exactly once: they are its owners.
        """
        span = Span()
        for known, bases in self.inputs:
            kept = [span.insert(basis, 0) for basis in bases]
            if known == name:
                return sum(1 << bit for bit, independent in enumerate(kept) if not independent)
        return 0

    def is_owner(self, **point: int) -> bool:
        """True at exactly one of the points that hold the same element."""
        return all(point.get(name, 0) & self.free_bits(name) == 0 for name, _ in self.inputs)

    # --- evaluation
    def packed_at(self, **point: int) -> int:
        """The element of a hardware point as one packed int; inputs not given are 0."""
        result = 0
        for name, bases in self.inputs:
            result ^= combine(bases, point.get(name, 0))
        return result

    def __call__(self, **point: int) -> tuple[int, ...]:
        """The tensor index of a hardware point, for instance layout(register=1, lane=3, warp=0)."""
        return unpack(self.packed_at(**point), self.shape)

    # --- structural maps: the same data in the same place, seen otherwise
    def _map(
        self,
        shape: Sequence[int],
        basis_map: Callable[[int], int],
        *,
        low_registers: Sequence[int] = (),
        high_registers: Sequence[int] = (),
    ) -> LinearLayout:
        """Every basis mapped, and register bits added below and above the present ones."""
        bases = {name: list(map(basis_map, bases)) for name, bases in self.inputs}
        if low_registers or high_registers:
            bases["register"] = [*low_registers, *bases["register"], *high_registers]
        return LinearLayout.packed(shape, bases)

    def project(self, axis: int) -> LinearLayout:
        """The layout with dimension `axis` shrunk to extent 1, every register kept, some now as replicas.

        (4, 8) projected on axis 1 is (4, 1).  A broadcast to L takes, register by register, what
        `conversion(source, L.project(axis))` delivers.
        """
        low = sum(log2(extent) for extent in self.shape[axis + 1 :])
        width = log2(self.shape[axis])
        shape = [1 if dim == axis else extent for dim, extent in enumerate(self.shape)]
        return self._map(shape, lambda basis: basis >> (low + width) << low | basis & ((1 << low) - 1))

    def without_free_registers(self) -> LinearLayout:
        """The layout without the register bits that only make replicas."""
        free = self.free_bits("register")
        if not free:
            return self
        kept = tuple(b for bit, b in enumerate(self.packed_bases("register")) if not free >> bit & 1)
        return LinearLayout(self.shape, tuple((n, kept if n == "register" else b) for n, b in self.inputs))

    def slice(self, axis: int) -> LinearLayout:
        """The layout with dimension `axis` dropped by projection: what a reduction along `axis` leaves.

        Lanes and warps that lay on the axis become replicas; registers that did are dropped.
        """
        projected = self.project(axis)
        shape = self.shape[:axis] + self.shape[axis + 1 :]
        return LinearLayout(shape, projected.inputs).without_free_registers()

    def expand_dims(self, axis: int) -> LinearLayout:
        """The layout with a dimension of extent 1 inserted at `axis`, as numpy.expand_dims."""
        return LinearLayout(self.shape[:axis] + (1,) + self.shape[axis:], self.inputs)

    def broadcast(self, shape: Sequence[int]) -> LinearLayout:
        """Grow dimensions of extent 1 to `shape` by registers above the present ones.

        Register r of the result holds the value of register r % num_registers of this layout.
        """
        shape = tuple(shape)
        if len(shape) != self.rank or any(a not in (1, b) for a, b in zip(self.shape, shape, strict=True)):
            raise ValueError(
                f"cannot broadcast a layout of shape {self.shape} to {shape}: "
                "ranks must be equal and only extents of 1 grow"
            )
        new = []
        for dim in reversed(range(self.rank)):
            if shape[dim] != self.shape[dim]:
                low = sum(log2(extent) for extent in shape[dim + 1 :])
                new += [1 << low + bit for bit in range(log2(shape[dim]))]
        return self._map(shape, lambda basis: pack(unpack(basis, self.shape), shape), high_registers=new)

    def transpose(self, permutation: Sequence[int]) -> LinearLayout:
        """Reorder dimensions as numpy.transpose: dimension i of the result is dimension permutation[i]."""
        if sorted(permutation) != list(range(self.rank)):
            raise ValueError(f"expected a permutation of {list(range(self.rank))}, found {list(permutation)}")
        shape = tuple(self.shape[dim] for dim in permutation)

        def permuted(basis: int) -> int:
            index = unpack(basis, self.shape)
            return pack([index[dim] for dim in permutation], shape)

        return self._map(shape, permuted)

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        """The same row-major sequence of elements under another shape."""
        if sum(map(log2, shape)) != sum(map(log2, self.shape)):
            raise ValueError(
                f"cannot reshape a layout of shape {self.shape} to {tuple(shape)}: the numbers of elements differ"
            )
        return LinearLayout(tuple(shape), self.inputs)

    def join(self) -> LinearLayout:
        """The layout of two equal values joined along a new last dimension of extent 2.

        Register 2 * r + which of the result is register r of the value number `which`.
        """
        return self._map((*self.shape, 2), lambda basis: basis << 1, low_registers=[1])

    def split(self) -> tuple[LinearLayout, int]:
        """The layout of either half of a last dimension of extent 2, and the register bit that tells which.

        Raises ValueError where that dimension is not exactly one register bit; convert to
        `layout.slice(rank - 1).join()` first.
        """
        registers = self.packed_bases("register")
        spoiled = [b for _, bases in self.inputs for b in bases if b & 1]
        if self.shape[-1:] != (2,) or 1 not in registers or spoiled != [1]:
            raise ValueError(f"cannot split {self}: its last dimension is not one register bit of its own")
        bit = registers.index(1)
        half = tuple(
            (n, tuple(b >> 1 for i, b in enumerate(bases) if n != "register" or i != bit)) for n, bases in self.inputs
        )
        return LinearLayout(self.shape[:-1], half), bit


def pack(index: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major position of a tensor index; over power-of-two extents this is linear over GF(2)."""
    position = 0
    for i, extent in zip(index, shape, strict=True):
        position = position * extent | i
    return position


def unpack(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The inverse of `pack`."""
    index = []
    for extent in reversed(shape):
        index.append(position & (extent - 1))
        position >>= extent.bit_length() - 1
    return tuple(reversed(index))


def _shape_of(bases: Mapping[str, Sequence[Sequence[int]]]) -> tuple[int, ...]:
    """The least shape that holds every basis, which is the shape of a layout that covers its tensor."""
    indices = [tuple(index) for group in bases.values() for index in group]
    if not indices:
        raise ValueError("a layout without bases must state its shape")
    return tuple(1 << int(max(along)).bit_length() for along in zip(*indices, strict=True))
