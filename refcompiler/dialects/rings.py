"""Blocks handed from the warps that fetch them to the warps that compute with them, and products of warpgroups.

Warp specialization writes these ops before layouts are assigned; they stand for barriers, copies and tensor core
instructions that the lowering chooses.
"""

from __future__ import annotations

from refcompiler.dialects.tile import BLOCKS
from refcompiler.dialects.tile.descriptor import BoxAccess, without_ones
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import (
    BOOL,
    DTYPES,
    F32,
    I32,
    RING,
    BlockType,
    DescriptorType,
    DType,
    Type,
    element_of,
    padded,
    shape_of,
)


class Ring(Op, name="ring", effects={"alloc"}, levels=BLOCKS):
    """A buffer of ``stages`` slots in shared memory, each with room for a block of every shape in ``shapes``.

    A slot is full or empty; every slot starts empty. ``readers`` warpgroups say when they are done with one.
    Blocks lie there as the layout ``swizzled`` with rows of ``swizzles`` bytes has them.
    """

    stages = attr(int)
    shapes = attr(tuple)
    dtypes = attr(tuple)
    swizzles = attr(tuple)
    readers = attr(int)

    def infer(self) -> list[Type]:
        return [RING]

    def verify(self, require) -> None:
        fits = len(self.shapes) == len(self.dtypes) > 0 and all(d in DTYPES for d in self.dtypes)
        require(fits, "ir.attribute", "a ring has a shape and a dtype for each block of a slot", "shapes")
        require(self.stages > 0 and self.readers > 0, "ir.attribute", "a ring has stages and readers", "stages")

    @property
    def blocks(self) -> list[BlockType]:
        """The blocks of a slot."""
        return [BlockType(DTYPES[d], s) for s, d in zip(self.shapes, self.dtypes, strict=True)]


class RingOp(Op):
    """An op on slot ``slot`` of a ring, which is in its round of parity ``parity``: 0 for the first, then 1, then 0."""

    def require_ring(self, require) -> None:
        ring = self.operands[0]
        named = ring.type is RING and isinstance(ring.owner, Ring)
        require(named, "ir.type", lambda: f"{self.name} names its ring", "ring")
        for place in self.operands[1 : 2 if self.name == "ring_release" else 3]:
            require(place.type is I32, "ir.type", lambda place=place: f"slots and parities are i32, got {place.type}")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32


class RingPut(RingOp, name="ring_put", effects={"tma"}, levels=BLOCKS):
    """Wait until the slot is empty and have the boxes of descriptors copied to it: after ring, slot and parity come a
    descriptor and its offsets for each block of the slot. Does not wait for the copies."""

    ring = operand()
    slot = operand()
    parity = operand()
    boxes = operand(variadic=True)
    whole_descriptors = True

    def accesses(self) -> list[tuple[Value, list[Value]]]:
        """The descriptors and the offsets of their boxes."""
        found, rest = [], list(self.boxes)
        while rest:
            descriptor, rank = rest[0], len(rest[0].type.block_shape)
            found.append((descriptor, rest[1 : 1 + rank]))
            rest = rest[1 + rank :]
        return found

    def verify(self, require) -> None:
        self.require_ring(require)
        require(isinstance(self.boxes[0].type, DescriptorType), "ir.type", "ring_put takes boxes of descriptors")
        found = [(d.type.element, without_ones(d.type.block_shape)) for d, _ in self.accesses()]
        wanted = [(b.element, without_ones(b.shape)) for b in self.ring.owner.blocks]
        require(found == wanted, "ir.type", "ring_put fills every block of the slot")


class RingTake(RingOp, name="ring_take", effects={"wait"}, explicit_type=True, levels=BLOCKS):
    """Wait until the slot is full; its blocks, which stay in shared memory until the slot is released."""

    ring = operand()
    slot = operand()
    parity = operand()

    def verify(self, require) -> None:
        self.require_ring(require)
        found = [BlockType(element_of(r.type), shape_of(r.type)) for r in self.results]
        blocks = self.ring.owner.blocks
        require(found in (blocks, [*map(padded, blocks)]), "ir.type", "ring_take gives the blocks of the slot")


class RingRelease(RingOp, name="ring_release", effects={"wait"}, levels=BLOCKS):
    """The slot is empty again as far as these warps go, where ``condition`` is true."""

    ring = operand()
    slot = operand()
    condition = operand(optional=True)

    def verify(self, require) -> None:
        self.require_ring(require)
        fits = self.condition is None or self.condition.type is BOOL
        require(fits, "ir.type", "the condition of a release is a bool", "condition")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL if index == 2 else I32


class WarpgroupDot(Op, name="warpgroup_dot", effects={"wgmma"}, explicit_type=True, levels=BLOCKS):
    """``acc`` + ``x`` ``y`` by the tensor cores of all warpgroups, in f32 or i32 (PTX wgmma). ``y`` is in shared memory
    and ``x`` there or in registers. ``asynchronous``: the result is complete, and what it reads may be
    overwritten, only after a ``warpgroup_wait``; until then it may only be added to. ``stepwise``: ``x`` is computed in
    registers, one step along k at a time, and tensor cores begin after the first one. Only the first ``columns`` of
    ``y`` are there; 0: all."""

    x = operand()
    y = operand()
    acc = operand(optional=True)
    asynchronous = attr(bool, False)
    stepwise = attr(bool, False)
    columns = attr(int, 0)

    def verify(self, require) -> None:
        left, right, result = shape_of(self.x.type), shape_of(self.y.type), shape_of(self.result.type)
        fits = len(left) == len(right) == 2 and left[1] == right[0] and result == (left[0], right[1])
        require(fits, "ir.type", lambda: f"warpgroup_dot of {self.x.type} and {self.y.type} is no {self.result.type}")
        total = element_of(self.result.type)
        require(total in (F32, I32), "ir.type", "warpgroup_dot adds up in f32 or i32")
        same = self.acc is None or (shape_of(self.acc.type), element_of(self.acc.type)) == (result, total)
        require(same, "ir.type", "the accumulator has the type of the result", "acc")


class WarpgroupWait(Op, name="warpgroup_wait", effects={"wgmma"}, levels=BLOCKS):
    """Wait until no more than the ``pending`` latest products are on their way; gives back those it names, which are
    older."""

    products = operand(variadic=True)
    pending = attr(int, 0)

    def infer(self) -> list[Type]:
        return [v.type for v in self.products]

    def verify(self, require) -> None:
        require(self.pending >= 0, "ir.attribute", "pending products are no negative number", "pending")


class BulkStore(BoxAccess, name="bulk_store", effects={"write"}, levels=BLOCKS):
    """Write the last operand to the box of a descriptor that begins at the offsets before it, by copies that go on
    after the op; all are complete when the program ends, and nothing that it does later may depend on them. So many
    ``buffers`` take parts of 128 bytes a row in turn."""

    descriptor = operand()
    rest = operand(variadic=True)
    buffers = attr(int, 2)
    whole_descriptors = True

    @property
    def offsets(self) -> list[Value]:
        return self.rest[:-1]

    @property
    def value(self) -> Value:
        return self.rest[-1]

    @property
    def block(self) -> BlockType:
        return self.value.type

    @property
    def padded_box(self) -> tuple[int, ...]:
        """The shape of a block whose extents are rounded up, and which has the box."""
        return shape_of(padded(BlockType(self.box.element, self.box.block_shape)))

    def verify(self, require) -> None:
        self.require_offsets(require, self.offsets)
        fits = self.fits() or without_ones(self.padded_box) == without_ones(shape_of(self.block))
        require(fits, "ir.type", lambda: f"a box of {self.box} cannot hold {self.block}")
        require(self.buffers > 1, "ir.attribute", lambda: f"a copy goes on beside the next, in {self.buffers} buffers")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32
