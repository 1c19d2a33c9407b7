"""Ops on tensor descriptors: an array in global memory with its extents and strides, of which boxes are accessed."""

from __future__ import annotations

from refcompiler.dialects.tile import BLOCKS
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import (
    I32,
    I64,
    BlockType,
    DescriptorType,
    DType,
    PointerType,
    Type,
    element_of,
    shape_of,
)

MAX_RANK = 5
ALIGNMENT = 16  # bytes: what the base and every stride but the last are multiples of
PADDING = ("zero", "nan")


class MakeDescriptor(Op, name="make_descriptor", levels=BLOCKS):
    """The array that begins at ``base``: operands are its extents (i32), then its strides in elements (i64).

    ``block_shape`` is the shape of the boxes, ``padding`` what they hold outside of the array.
    Spec: memory.descriptors
    """

    base = operand()
    sizes = operand(variadic=True)
    block_shape = attr(tuple)
    padding = attr(str, "zero")

    @property
    def rank(self) -> int:
        return len(self.block_shape)

    @property
    def shape(self) -> list[Value]:
        return self.sizes[: self.rank]

    @property
    def strides(self) -> list[Value]:
        return self.sizes[self.rank :]

    def infer(self) -> list[Type]:
        pointer = self.base.type
        if not isinstance(pointer, PointerType):
            return [pointer]
        return [DescriptorType(pointer.pointee, self.block_shape, self.padding, pointer.const)]

    def verify(self, require) -> None:
        require(
            isinstance(self.base.type, PointerType),
            "memory.descriptors#E1",
            lambda: f"a descriptor begins at a scalar pointer, got {self.base.type}",
            "base",
        )
        require(
            1 <= self.rank <= MAX_RANK,
            "memory.descriptors#E2",
            lambda: f"a descriptor has 1 to {MAX_RANK} dimensions, got {self.rank}",
            "block_shape",
        )
        require(
            len(self.sizes) == 2 * self.rank,
            "memory.descriptors#E3",
            lambda: f"{self.rank} dimensions take as many extents and strides, got {len(self.sizes)} numbers",
        )
        require(
            [v.type for v in self.sizes] == [I32] * self.rank + [I64] * self.rank,
            "ir.type",
            lambda: f"extents are i32 and strides i64, got {', '.join(str(v.type) for v in self.sizes)}",
        )
        require(
            getattr(self.strides[-1], "value", None) == 1,
            "memory.descriptors#E4",
            "the last stride is the constant 1",
            "strides",
        )
        require(
            self.block_shape[-1] * self.base.type.pointee.itemsize >= ALIGNMENT,
            "memory.descriptors#E5",
            lambda: f"the last extent of a box covers at least {ALIGNMENT} bytes, got {self.block_shape}",
            "block_shape",
        )
        fills = self.padding == "zero" or (self.padding == "nan" and self.base.type.pointee.is_float)
        require(
            fills,
            "memory.descriptors#E8",
            lambda: f"padding {self.padding!r} is not possible for {self.base.type.pointee}",
            "padding",
        )

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return None if index == 0 else I32 if index <= (len(operands) - 1) // 2 else I64


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its axes of extent 1."""
    return tuple(extent for extent in shape if extent > 1)


class BoxAccess(Op):
    """A load or a store of the box of a descriptor that begins at given element offsets. The block has the shape of the
    box, up to axes of extent 1."""

    volatile = False

    @property
    def pointer(self) -> Value:
        """What the access goes through."""
        return self.operands[0]

    @property
    def box(self) -> DescriptorType:
        return self.operands[0].type

    @property
    def block(self) -> BlockType:
        """The type of what is loaded or stored."""
        raise NotImplementedError

    @property
    def axes(self) -> list[int | None]:
        """For each axis of the box the axis of the block along it, None where the box is one element wide."""
        wide = iter([axis for axis, extent in enumerate(shape_of(self.block)) if extent > 1])
        return [next(wide) if extent > 1 else None for extent in self.box.block_shape]

    def fits(self) -> bool:
        """Whether the block is one of the box."""
        shape, element = shape_of(self.block), element_of(self.block)
        return without_ones(shape) == without_ones(self.box.block_shape) and element == self.box.element

    def require_offsets(self, require, offsets: list[Value]) -> None:
        require(
            isinstance(self.box, DescriptorType),
            "memory.descriptors#E13",
            lambda: f"{self.name} goes through a descriptor, got {self.box}",
            "descriptor",
        )
        require(
            len(offsets) == len(self.box.block_shape),
            "memory.descriptors#E9",
            lambda: f"expected {len(self.box.block_shape)} offsets, got {len(offsets)}",
            "offsets",
        )
        require(
            all(v is not None and v.type is I32 for v in offsets),
            "memory.descriptors#E10",
            "offsets are i32",
            "offsets",
        )


class DescriptorLoad(BoxAccess, name="descriptor_load", effects={"read"}, explicit_type=True, levels=BLOCKS):
    """The box that begins at ``offsets``; elements outside of the array are the padding.  Spec: memory.descriptors"""

    descriptor = operand()
    offsets = operand(variadic=True)

    def verify(self, require) -> None:
        self.require_offsets(require, self.offsets)
        require(self.fits(), "ir.type", lambda: f"a box of {self.box} is no {self.block}")

    @property
    def block(self) -> BlockType:
        return self.result.type

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32


class DescriptorStore(BoxAccess, name="descriptor_store", effects={"write"}, levels=BLOCKS):
    """Write the last operand to the box that begins at the offsets before it; what is outside of the array is left
    out.  Spec: memory.descriptors"""

    descriptor = operand()
    rest = operand(variadic=True)

    @property
    def offsets(self) -> list[Value]:
        return self.operands[1:-1]

    @property
    def value(self) -> Value:
        return self.operands[-1]

    @property
    def block(self) -> BlockType:
        return self.value.type

    def verify(self, require) -> None:
        self.require_offsets(require, self.offsets)
        require(self.fits(), "memory.descriptors#E11", lambda: f"a box of {self.box} cannot hold {self.block}", "value")
        require(not self.box.const, "memory.descriptors#E12", "cannot store to a constant array", "descriptor")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32
