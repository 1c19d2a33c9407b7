"""Turn accesses through tensor descriptors into masked accesses through pointers."""

from __future__ import annotations

from math import nan
from typing import Any

from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.scf import Structured
from refcompiler.dialects.tile.descriptor import ALIGNMENT, BoxAccess
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BOOL, I32, I64, BlockType, DescriptorType, PointerType, Type, shape_of

Parts = tuple[Value, ...]  # a descriptor taken apart: its base, its extents, its strides but the last, which is 1


def expand_descriptors(func: Func, context: Any = None) -> None:
    """Take descriptors apart, also where loops and branches carry them, and expand each access of a box.

    That the base and the strides are multiples of 16 bytes is the law, so it becomes a hint.
    """
    _Expander(func).run()


def parts_of_type(type_: DescriptorType) -> list[Type]:
    """The types of the parts of a descriptor."""
    rank = len(type_.block_shape)
    return [PointerType(type_.element, type_.const), *[I32] * rank, *[I64] * (rank - 1)]


class _Expander:
    def __init__(self, func: Func):
        self.func, self.ranges = func, Ranges(func)
        self.parts: dict[Value, Parts] = {}
        self.whole = {o for op in func.walk() if op.whole_descriptors for o in op.operands}
        self.build = Builder(func.body)

    def run(self) -> None:
        self.block(self.func.body)

    def block(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        with self.build.inside(block):
            for op in ops:
                with self.build.at(op.span):
                    self.op(op)

    def op(self, op: Op) -> None:
        if op.name == "make_descriptor":
            hinted = [self.aligned(s, op.base.type.pointee.itemsize) for s in op.strides[:-1]]
            self.parts[op.result] = (self.aligned(op.base, 1), *op.shape, *hinted)
            if op.result in self.whole:
                self.build.add(op)
        elif op.whole_descriptors:
            self.build.add(op)
        elif op.name == "empty" and isinstance(op.result.type, DescriptorType):
            unset = [self.build.value("empty", types=[t]) for t in parts_of_type(op.result.type)]
            self.parts[op.result] = tuple(unset)
        elif isinstance(op, BoxAccess):
            self.access(op)
        else:
            self.other(op)

    def other(self, op: Op) -> None:
        """An op that carries descriptors, or none: each becomes its parts."""
        op.operands = self.taken_apart(op.operands)
        if isinstance(op, Structured):
            for region in op.regions:
                region.args = self.fresh(region.args, region)
            op.results = self.fresh(op.results, op)
        self.build.add(op)
        for region in op.regions:
            self.block(region)

    def taken_apart(self, values: list[Value | None]) -> list[Value | None]:
        return [part for value in values for part in self.parts.get(value, (value,))]

    def fresh(self, values: list[Value], owner: Op | Block) -> list[Value]:
        """Results or arguments with values for the parts in place of descriptors."""
        out: list[Value] = []
        for value in values:
            if isinstance(value.type, DescriptorType):
                self.parts[value] = tuple(Value(t, owner=owner) for t in parts_of_type(value.type))
            out += self.parts.get(value, (value,))
        return out

    def aligned(self, value: Value, itemsize: int) -> Value:
        if isinstance(value, Constant) or itemsize >= ALIGNMENT:
            return value
        return self.build.value("hint", value, divisible=(ALIGNMENT // itemsize,))

    # --- accesses
    def access(self, op: BoxAccess) -> None:
        base, *sizes = self.parts[op.pointer]
        rank = len(op.box.block_shape)
        pointer = self.pointers(op, base, sizes[rank:])
        mask = self.inside(op, sizes[:rank])
        if op.name == "descriptor_store":
            new = self.build.op("store", pointer, op.value, mask)
        else:
            padding = Constant(nan if op.box.padding == "nan" else 0, op.box.element)
            new = self.build.op("load", pointer, mask, padding if mask is not None else None)
            new.results = op.results
            op.result.owner = new
        new.spans = op.spans

    def pointers(self, op: BoxAccess, base: Value, strides: list[Value]) -> Value:
        """One address for the box, moved by what does not depend on its place."""
        shape = shape_of(op.block)
        for offset, stride in zip(op.offsets, [*strides, None], strict=True):
            base = self.moved(base, self.product(offset, stride))
        for axis, stride in zip(op.axes, [*strides, None], strict=True):
            if axis is not None:
                along = self.expanded(self.arange(shape[axis]), axis, len(shape))
                base = self.moved(base, self.product(along, stride))
        return base

    def moved(self, pointer: Value, distance: Value) -> Value:
        if isinstance(distance, Constant) and not distance.value:
            return pointer
        return self.build.value("addptr", pointer, distance)

    def product(self, index: Value, stride: Value | None) -> Value:
        """``index`` elements of ``stride``, in i64."""
        if stride is None or (isinstance(index, Constant) and not index.value):
            return index
        if isinstance(index, Constant):
            return self.build.value("mul", stride, Constant(index.value, I64))
        wide = BlockType(I64, index.type.shape) if isinstance(index.type, BlockType) else I64
        return self.build.value("mul", self.build.value("cast", index, types=[wide]), stride)

    def inside(self, op: BoxAccess, sizes: list[Value]) -> Value | None:
        """Which elements of the box are in the array; None for all. A sum that wraps is negative, so outside."""
        mask = None
        shape = shape_of(op.block)
        for axis, offset, size in zip(op.axes, op.offsets, sizes, strict=True):
            for test in self.tests(offset, size, 1 if axis is None else shape[axis]):
                if axis is not None:
                    test = self.expanded(test, axis, len(shape))
                mask = test if mask is None else self.build.value("and", mask, test)
        if mask is not None and shape_of(mask.type) != shape:
            mask = self.build.value("broadcast", mask, types=[BlockType(BOOL, shape)])
        return mask

    def tests(self, offset: Value, size: Value, extent: int) -> list[Value]:
        """Comparisons along one axis that are not known to hold."""
        (low, high), (least, _) = self.ranges.of(offset), self.ranges.of(size)
        index, tests = offset, []
        if extent > 1:
            index = self.arange(extent)
            if not (isinstance(offset, Constant) and not offset.value):
                index = self.build.value("add", index, offset)
        if low < 0 or high + extent - 1 > I32.max_int:
            tests.append(self.build.value("cmp_ge", index, Constant(0, I32)))
        if high + extent - 1 >= least:
            tests.append(self.build.value("cmp_lt", index, size))
        return tests

    def arange(self, extent: int) -> Value:
        return self.build.value("arange", start=0, end=extent, types=[BlockType(I32, (extent,))])

    def expanded(self, value: Value, axis: int, rank: int) -> Value:
        for other in range(rank):
            if other != axis:
                value = self.build.value("expand_dims", value, axis=other)
        return value
