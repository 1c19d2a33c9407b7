"""Tensor maps: what a box of a tensor in global memory is, as expressions over the scalar arguments of a launch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from refcompiler.errors import CompileError, LaunchError
from refcompiler.ir.core import Func
from refcompiler.ir.types import BOOL, DTYPES, DType, PointerType

# ("param", name), ("const", n), or the name of an operator before two of these
Expression = tuple


def _wrap(value: int, bits: int) -> int:
    """The signed integer of so many bits that ``value`` is modulo their power of two."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "cdiv": lambda a, b: -(-a // b),
    "wrap": _wrap,
}
MOST_DIMENSIONS, LARGEST_BOX, CHUNK = 5, 256, 16  # extents of a box; bytes that TMA moves and aligns to
SWIZZLES = (0, 32, 64, 128)  # bytes of a row within which chunks change places
_SPEC = "exec.tensor_maps"


def evaluate(expression: Expression, scalars: Mapping[str, int]) -> int:
    """The number that an expression has for scalar arguments by name."""
    kind, *operands = expression
    if kind == "param":
        return int(scalars[operands[0]])
    if kind == "const":
        return operands[0]
    return OPERATORS[kind](evaluate(operands[0], scalars), evaluate(operands[1], scalars))


def names_in(expression: Expression) -> set[str]:
    """The scalar parameters that an expression reads. Raises ValueError for what is no expression."""
    match expression:
        case ("param", str(name)):
            return {name}
        case ("const", int()):
            return set()
        case (str(kind), a, b) if kind in OPERATORS:
            return names_in(a) | names_in(b)
    raise ValueError(f"no expression: {expression!r}")


class Unmappable(LaunchError):
    """An array that kernels may access element by element, and that no tensor map describes."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the boxes that are copied from and to it; dimensions from the outermost inwards.

    ``pointer`` names the parameter at which it starts, ``dtype`` its elements. ``extents`` has an expression per
    dimension, ``strides`` the bytes between neighbours in every dimension but the last, whose elements are adjacent.
    A box of ``box`` elements lies row after row in shared memory; ``swizzle`` (bytes: 32, 64, 128, or 0 for none) says
    within which bytes its chunks of 16 bytes change places. Elements of a box outside the tensor are read as 0 and not
    written.  Spec: exec.tensor_maps
    """

    pointer: str
    dtype: str
    extents: tuple[Expression, ...]
    strides: tuple[Expression, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    @property
    def element(self) -> DType:
        return DTYPES[self.dtype]

    @property
    def row_bytes(self) -> int:
        """The bytes of one row of a box."""
        return self.box[-1] * self.element.itemsize

    @cached_property
    def box_bytes(self) -> int:
        """The bytes that one copy moves, and that a barrier has to expect: all of a box, also what lies outside."""
        total = self.element.itemsize
        for extent in self.box:
            total *= extent
        return total

    def to_attribute(self) -> dict[str, Any]:
        """As the attribute ``tensor_maps`` of a function has it, and as JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_attribute(cls, value: Mapping[str, Any]) -> TensorMap:
        """The inverse of :meth:`to_attribute`; lists, as JSON has them, become tuples."""
        return cls(**{name: _tuples(item) for name, item in value.items()})

    @property
    def parameters(self) -> set[str]:
        """The parameters whose arguments it depends on."""
        return {self.pointer}.union(*map(names_in, (*self.extents, *self.strides)))

    # --- rules
    def why_not(self, func: Func) -> str:
        """What is wrong with it in ``func``; empty where nothing is."""
        types = {str(p.name): p.type for p in func.params}
        pointer = types.get(self.pointer)
        if not isinstance(pointer, PointerType):
            return f"no pointer parameter is called {self.pointer!r}"
        if self.dtype not in DTYPES or pointer.pointee is not self.element or self.element is BOOL:
            return f"elements of {self.dtype} behind a {pointer}"
        rank = len(self.extents)
        if not 1 <= rank <= MOST_DIMENSIONS or len(self.strides) != rank - 1 or len(self.box) != rank:
            return f"{rank} extents, {len(self.strides)} strides and a box of {len(self.box)} dimensions"
        if not all(isinstance(n, int) and 0 < n <= LARGEST_BOX for n in self.box):
            return f"the box {self.box}: extents are 1 to {LARGEST_BOX}"
        if self.row_bytes % CHUNK:
            return f"rows of {self.row_bytes} bytes in a box: they are multiples of {CHUNK}"
        if self.swizzle not in SWIZZLES or (self.swizzle and self.row_bytes != self.swizzle):
            return f"a swizzle of {self.swizzle} bytes in rows of {self.row_bytes}"
        try:
            wanted = set().union(*(names_in(e) for e in (*self.extents, *self.strides)))
        except (ValueError, TypeError) as error:
            return str(error)
        scalars = {n for n, t in types.items() if isinstance(t, DType) and t.is_int}
        missing = sorted(wanted - scalars)
        return f"no integer parameter is called {missing[0]!r}" if missing else ""

    def placed(self, address: int, scalars: Mapping[str, int], kernel: str) -> Placed:
        """The tensor of one launch. Raises LaunchError (exec.tensor_maps#E2) for one that no tensor map describes:
        Unmappable, where a kernel that copies no boxes could read it."""
        extents = tuple(evaluate(e, scalars) for e in self.extents)
        strides = tuple(evaluate(e, scalars) for e in self.strides)
        where = f"argument {self.pointer} of {kernel}"
        if extents and min(extents) == 0:
            return Placed(self, 0, extents, (CHUNK,) * len(strides))
        if address % CHUNK:
            raise _misfit(where, f"starts at address {address:#x}, which is no multiple of {CHUNK}")
        for extent in extents:
            if not 0 < extent <= 1 << 32:
                raise _misfit(where, f"has an extent of {extent}, expected 0 to 2**32", Unmappable)
        for stride, extent in zip(strides, extents, strict=False):
            if extent > 1 and (stride % CHUNK or not 0 < stride < 1 << 40):
                what = f"has {stride} bytes between neighbours, expected a positive multiple of {CHUNK} below 2**40"
                raise _misfit(where, what, LaunchError if stride % CHUNK else Unmappable)
        # One row has no neighbour, and may be of any length: the driver wants a multiple all the same.
        strides = tuple(s if n > 1 else CHUNK for s, n in zip(strides, extents, strict=False))
        return Placed(self, address, extents, strides)


def swizzled(addresses: np.ndarray, swizzle: int) -> np.ndarray:
    """Where the bytes at addresses of shared memory lie (PTX ISA, swizzling modes): those bits that number the chunks
    of a row are combined with as many from the seventh on."""
    chunks = (swizzle - 1) & -CHUNK if swizzle else 0
    return addresses ^ (addresses >> 3 & chunks)


@dataclass(frozen=True)
class Placed:
    """A tensor map with the address, extents and byte strides that it has in one launch."""

    map: TensorMap
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def empty(self) -> bool:
        """Whether it has no element; it has no address then."""
        return 0 in self.extents

    def elements(self, coordinates: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The addresses of the elements of the box at ``coordinates``, row after row, and which lie in the tensor."""
        size = self.map.element.itemsize
        addresses, inside = np.full((), self.address), np.ones((), bool)
        steps = zip(coordinates, self.map.box, self.extents, (*self.strides, size), strict=True)
        for coordinate, box, extent, stride in steps:
            index = coordinate + np.arange(box)
            addresses = addresses[..., None] + index * stride
            inside = inside[..., None] & (index >= 0) & (index < extent)
        return addresses.reshape(-1), inside.reshape(-1)

    def places(self, start: int) -> np.ndarray:
        """The bytes in shared memory at which the elements of a box lie that begins at byte ``start``."""
        size = self.map.element.itemsize
        return swizzled(start + np.arange(self.map.box_bytes // size) * size, self.map.swizzle)


def _misfit(where: str, what: str, kind: type[LaunchError] = LaunchError) -> LaunchError:
    return kind(
        f"{_SPEC}#E2", f"{where} {what}", notes=["copy it to where rows begin at multiples of 16 bytes, for TMA's sake"]
    )


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def tensor_maps(func: Func) -> tuple[TensorMap, ...]:
    """The tensor maps of a function, in the order of its hidden parameters."""
    return tuple(map(TensorMap.from_attribute, func.attrs.get("tensor_maps", ())))


def check_tensor_maps(func: Func) -> None:
    """Raise CompileError (exec.tensor_maps#E1) for a tensor map that cannot be, or one that is named and not there."""
    known = {field.name for field in fields(TensorMap)}
    for number, value in enumerate(func.attrs.get("tensor_maps", ())):
        wrong = "" if isinstance(value, dict) else "not a dict"
        if not wrong and not known - {"swizzle"} <= set(value) <= known:
            wrong = f"keys {', '.join(map(str, value))}, expected {', '.join(sorted(known))}"
        wrong = wrong or TensorMap.from_attribute(value).why_not(func)
        if wrong:
            raise CompileError(f"{_SPEC}#E1", f"tensor map {number} of @{func.name}: {wrong}", func.span)
    maps = tensor_maps(func)
    for op in func.walk():
        if op.name == "tensor_map" and not 0 <= op.descriptor < len(maps):
            message = f"there is no tensor map {op.descriptor}: @{func.name} has {len(maps)}"
            raise CompileError(f"{_SPEC}#E1", message, op.span)
        if op.name in ("tma_load", "tma_store"):
            box = maps[op.map.owner.descriptor].box
            if op.box != box:
                raise CompileError(f"{_SPEC}#E1", f"{op.name} of a box {op.box}, its map has boxes {box}", op.span)


def written_through(func: Func) -> Sequence[str]:
    """The pointer parameters that a function stores to through tensor maps."""
    maps = tensor_maps(func)
    return [maps[op.map.owner.descriptor].pointer for op in func.walk() if op.name == "tma_store"]
