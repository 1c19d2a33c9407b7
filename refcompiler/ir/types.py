"""Types of the IR: scalars, pointers, blocks (with an optional layout), descriptors and per-thread registers."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

POINTER_BYTES = 8


@dataclass(frozen=True, slots=True, repr=False)
class DType:
    """A scalar number format. ``kind`` is bool, int, uint, float or opaque; ``bits`` the width in memory arithmetic."""

    name: str
    kind: str
    bits: int
    triton_name: str
    numpy: np.dtype = field(compare=False)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """An integer of either signedness; bool is not one."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def itemsize(self) -> int:
        """Bytes in memory; bool takes one."""
        return max(1, self.bits // 8)

    @property
    def min_int(self) -> int:
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max_int(self) -> int:
        return (1 << (self.bits - (self.kind == "int"))) - 1

    def wrap(self, value: int) -> int:
        """``value`` modulo 2**bits, as this integer type reads it."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value > self.max_int else value

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def _dtype(name: str, kind: str, bits: int, triton_name: str, numpy: Any) -> DType:
    return DType(name, kind, bits, triton_name, np.dtype(numpy))


BOOL = _dtype("bool", "bool", 1, "int1", np.bool_)
I8, I16, I32, I64 = (_dtype(f"i{n}", "int", n, f"int{n}", f"int{n}") for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (_dtype(f"u{n}", "uint", n, f"uint{n}", f"uint{n}") for n in (8, 16, 32, 64))
# 8 bits, to store and to multiply on tensor cores; no arithmetic. e4m3 has no infinity, 448 is its largest number.
F8E4M3 = _dtype("f8e4m3", "float", 8, "fp8e4nv", ml_dtypes.float8_e4m3fn)
F8E5M2 = _dtype("f8e5m2", "float", 8, "fp8e5", ml_dtypes.float8_e5m2)
F16 = _dtype("f16", "float", 16, "fp16", np.float16)
BF16 = _dtype("bf16", "float", 16, "bf16", ml_dtypes.bfloat16)
F32 = _dtype("f32", "float", 32, "fp32", np.float32)
F64 = _dtype("f64", "float", 64, "fp64", np.float64)

SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTS = SIGNED + UNSIGNED
FLOATS8 = (F8E4M3, F8E5M2)
BESIDE_FLOAT8 = (F16, BF16, F32)  # what they are converted from and to
FLOATS = (F16, BF16, F32, F64)  # those that have arithmetic
ARITHMETIC = (BOOL, *INTS, *FLOATS)
DTYPES = {d.name: d for d in (BOOL, *INTS, *FLOATS8, *FLOATS)}

# What only its own ops may look into: a barrier in shared memory, a CUtensorMap among a kernel's parameters, and a ring
# of slots in shared memory.
MBARRIER = _dtype("mbarrier", "opaque", 64, "", np.uint64)
TENSOR_MAP = _dtype("tensor_map", "opaque", 1024, "", "V128")
RING = _dtype("ring", "opaque", 0, "", np.uint8)
OPAQUE = {d.name: d for d in (MBARRIER, TENSOR_MAP, RING)}


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer into global memory; ``const`` forbids stores through it."""

    pointee: DType
    const: bool = False

    def __str__(self) -> str:
        return f"ptr<{'const ' if self.const else ''}{self.pointee}>"


Element = DType | PointerType


def power_of_two_above(extent: int) -> int:
    """The smallest power of two that is at least the positive ``extent``."""
    return 1 << (extent - 1).bit_length()


@dataclass(frozen=True, slots=True)
class BlockType:
    """A block of elements. ``layout`` (a LinearLayout) is None at tile level and set at the laid-out level."""

    element: Element
    shape: tuple[int, ...]
    layout: Any = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def padded_numel(self) -> int:
        """The number of elements with each extent rounded up to a power of two."""
        n = 1
        for extent in self.shape:
            n *= power_of_two_above(extent)
        return n

    def __str__(self) -> str:
        return format_type(self)


@dataclass(frozen=True, slots=True)
class RegType:
    """``count`` registers of one thread, indexed by constants only."""

    element: Element
    count: int

    def __str__(self) -> str:
        return f"reg<{self.count} x {self.element}>"


@dataclass(frozen=True, slots=True)
class SharedType:
    """A buffer of ``count`` elements in the shared memory of one CTA."""

    element: Element
    count: int

    def __str__(self) -> str:
        return f"shared<{self.count} x {self.element}>"

    @property
    def nbytes(self) -> int:
        """The bytes it takes; a pointer takes 8."""
        return self.count * (self.element.itemsize if isinstance(self.element, DType) else POINTER_BYTES)


@dataclass(frozen=True, slots=True)
class DescriptorType:
    """An array in global memory, accessed in boxes of ``block_shape``, which hold ``padding`` outside of it."""

    element: DType
    block_shape: tuple[int, ...]
    padding: str = "zero"
    const: bool = False

    def __str__(self) -> str:
        element = f"{'const ' if self.const else ''}{self.element}"
        padding = "" if self.padding == "zero" else f", {self.padding}"
        return f"desc<{'x'.join(map(str, self.block_shape))} x {element}{padding}>"


Type = DType | PointerType | BlockType | RegType | SharedType | DescriptorType
_OF_ELEMENTS = (BlockType, RegType, SharedType)  # a tuple: `isinstance` of a union costs ten times as much


def padded(type_: Type) -> Type:
    """A type with the extents of a block rounded up to powers of two."""
    if not isinstance(type_, BlockType):
        return type_
    return BlockType(type_.element, tuple(map(power_of_two_above, type_.shape)))


def format_type(type_: Type, layout_names: dict[Any, str] | None = None) -> str:
    """Text of a type; layouts print by the name given, or in full."""
    if not isinstance(type_, BlockType):
        return str(type_)
    layout = ""
    if type_.layout is not None:
        layout = ", " + (layout_names[type_.layout] if layout_names is not None else str(type_.layout))
    word = "vector" if type_.rank == 1 else "block"
    return f"{word}<{'x'.join(map(str, type_.shape))} x {type_.element}{layout}>"


def element_of(type_: Any) -> Any:
    """The element type of a block, register vector or shared buffer; a scalar is its own element."""
    return type_.element if isinstance(type_, _OF_ELEMENTS) else type_


def shape_of(type_: Type) -> tuple[int, ...]:
    """The shape of a block; () for scalars, (count,) for register vectors."""
    if isinstance(type_, BlockType):
        return type_.shape
    return (type_.count,) if isinstance(type_, RegType) else ()


def with_element(type_: Type, element: Element) -> Type:
    """``type_`` with another element type and the same shape and layout."""
    if isinstance(type_, BlockType):
        return BlockType(element, type_.shape, type_.layout)
    if isinstance(type_, RegType):
        return RegType(element, type_.count)
    return element


def block_or_scalar(element: Element, shape: tuple[int, ...], layout: Any = None) -> Type:
    """A block of that shape, or the scalar itself for shape ()."""
    return BlockType(element, tuple(shape), layout) if shape else element


@functools.lru_cache(maxsize=4096)
def join_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The NumPy broadcast of the shapes, or None where they do not fit."""
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if extent != 1:
                if out[i] not in (1, extent):
                    return None
                out[i] = extent
    return tuple(out)


def join_types(types: list[Type], element: Element) -> Type | None:
    """The type of an elementwise result over ``types``: their joined shape (and common layout) with ``element``.

    None where shapes do not broadcast or register vectors differ in length."""
    registers = [t for t in types if isinstance(t, RegType)]
    if registers:
        return RegType(element, registers[0].count) if len({t.count for t in registers}) == 1 else None
    blocks = [t for t in types if isinstance(t, BlockType)]
    if not blocks:
        return element
    shape = join_shapes(*(b.shape for b in blocks))
    if shape is None:
        return None
    layout = next((b.layout for b in blocks if b.layout is not None and b.shape == shape), None)
    return BlockType(element, shape, layout)
