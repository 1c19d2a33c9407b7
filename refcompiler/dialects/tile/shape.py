"""Ops that move the elements of a block and keep their values."""

from __future__ import annotations

from refcompiler.dialects.tile import BLOCKS
from refcompiler.ir.core import Op
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BlockType, DType, Type, element_of, shape_of


class ExpandDims(Op, name="expand_dims", levels=BLOCKS):
    """Insert an axis of extent 1 before ``axis``.  Spec: shape.expand_dims"""

    x = operand()
    axis = attr(int)

    def infer(self) -> list[Type]:
        shape = shape_of(self.x.type)
        layout = (
            self.x.type.layout.expand_dims(self.axis)
            if isinstance(self.x.type, BlockType) and self.x.type.layout
            else None
        )
        return [BlockType(element_of(self.x.type), (*shape[: self.axis], 1, *shape[self.axis :]), layout)]

    def verify(self, require) -> None:
        rank = len(shape_of(self.x.type))
        require(
            0 <= self.axis <= rank,
            "shape.expand_dims#E1",
            lambda: f"invalid axis {self.axis}. Expected {-rank - 1} <= axis < {rank + 1}",
            "axis",
        )


class Broadcast(Op, name="broadcast", explicit_type=True, levels=BLOCKS):
    """Repeat a block along its axes of extent 1 up to the result's shape; a scalar fills it.  Spec: shape.broadcast"""

    x = operand()

    def verify(self, require) -> None:
        source, target = shape_of(self.x.type), shape_of(self.result.type)
        require(
            element_of(self.x.type) == element_of(self.result.type),
            "ir.type",
            "broadcast keeps the element type",
        )
        require(
            not source or len(source) == len(target),
            "shape.broadcast#E2",
            lambda: f"cannot broadcast, rank mismatch: {self.x.type} to {target}",
        )
        require(
            all(s in (1, t) for s, t in zip(source, target, strict=False)),
            "shape.broadcast#E3",
            lambda: f"cannot broadcast {source} to {target}: only extents of 1 grow",
        )


class Reshape(Op, name="reshape", explicit_type=True, levels=BLOCKS):
    """The same elements in row-major order under another shape.  Spec: shape.reshape"""

    x = operand()

    def verify(self, require) -> None:
        source, target = self.x.type, self.result.type
        fits = isinstance(source, BlockType) and isinstance(target, BlockType) and source.numel == target.numel
        require(fits, "shape.reshape#E1", lambda: f"reshape cannot change the number of elements: {source} to {target}")
        require(element_of(source) == element_of(target), "ir.type", "reshape keeps the element type")


class Trans(Op, name="trans", levels=BLOCKS):
    """Permute the axes: axis i of the result is axis ``order[i]`` of ``x``.  Spec: shape.trans"""

    x = operand()
    order = attr(tuple)

    def infer(self) -> list[Type]:
        type_ = self.x.type
        layout = type_.layout.transpose(self.order) if type_.layout is not None else None
        return [BlockType(type_.element, tuple(type_.shape[i] for i in self.order), layout)]

    def verify(self, require) -> None:
        rank = len(shape_of(self.x.type))
        require(
            sorted(self.order) == list(range(rank)),
            "shape.trans#E1",
            lambda: f"the order must be a permutation of 0 to {rank - 1}, got {self.order}",
            "order",
        )


class Gather(Op, name="gather", levels=BLOCKS):
    """Elements of ``x`` picked along ``axis``: the result has the shape of ``index``, whose element says which one.

    An index outside of the axis gives an unpredictable value.  Spec: shape.gather
    """

    x = operand()
    index = operand()
    axis = attr(int)

    def infer(self) -> list[Type]:
        index = self.index.type
        return [BlockType(element_of(self.x.type), shape_of(index), getattr(index, "layout", None))]

    def verify(self, require) -> None:
        source, picked = shape_of(self.x.type), shape_of(self.index.type)
        require(bool(source), "shape.gather#E1", lambda: f"gather needs a block, got {self.x.type}", "x")
        element = element_of(self.index.type)
        require(
            isinstance(element, DType) and element.is_int,
            "shape.gather#E2",
            lambda: f"index must hold integers, got {self.index.type}",
            "index",
        )
        require(
            len(source) == len(picked),
            "shape.gather#E3",
            lambda: f"x and index must have one rank, got {len(source)} and {len(picked)}",
            "index",
        )
        require(
            0 <= self.axis < len(source),
            "shape.gather#E4",
            lambda: f"axis {self.axis} is out of range for a block of rank {len(source)}",
            "axis",
        )
        require(
            all(a == b for dim, (a, b) in enumerate(zip(source, picked, strict=True)) if dim != self.axis),
            "shape.gather#E5",
            lambda: f"apart from axis {self.axis} the shapes must be equal, got {source} and {picked}",
            "index",
        )


class Butterfly(Op, name="butterfly", levels=BLOCKS):
    """Element i along ``axis`` of the result is element i ^ ``mask`` of ``x``.  Spec: shape.flip, sort.sort"""

    x = operand()
    axis = attr(int)
    mask = attr(int)

    def infer(self) -> list[Type]:
        return [self.x.type]

    def verify(self, require) -> None:
        shape = shape_of(self.x.type)
        require(
            0 <= self.axis < len(shape),
            "shape.flip#E1",
            lambda: f"axis {self.axis} is out of range for {self.x.type}",
            "axis",
        )
        extent = shape[self.axis]
        require(
            0 < self.mask < extent and not extent & (extent - 1),
            "ir.attribute",
            lambda: f"a mask below an extent that is a power of two, got {self.mask} and {extent}",
            "mask",
        )
