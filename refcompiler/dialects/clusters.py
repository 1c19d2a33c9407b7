"""Exchange between the CTAs of a cluster, among which the elements of blocks are divided."""

from __future__ import annotations

from refcompiler.dialects.tile import BLOCKS
from refcompiler.ir.core import Op
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import I32, DType, Type, element_of, shape_of


class CtaRank(Op, name="cta_rank", levels=BLOCKS):
    """The number of this CTA among the ``ctas`` of its cluster, i32."""

    ctas = attr(int)

    def infer(self) -> list[Type]:
        return [I32]


class AllGather(Op, name="all_gather", explicit_type=True, levels=BLOCKS):
    """What ``x``, a scalar or a block, is in each of the ``ctas`` CTAs of the cluster, along a new first axis."""

    x = operand()
    ctas = attr(int)

    def verify(self, require) -> None:
        require(isinstance(element_of(self.x.type), DType), "ir.type", "CTAs exchange numbers", "x")
        shape = (self.ctas, *shape_of(self.x.type))
        result = self.result.type
        fits = shape_of(result) == shape and element_of(result) is element_of(self.x.type)
        require(fits, "ir.type", lambda: f"all_gather gives a block of shape {shape}, not {result}", "x")
        layout = result.layout if fits else None
        if layout is not None and shape_of(self.x.type):
            expected = self.x.type.layout.expand_dims(0).broadcast(shape)
            require(layout == expected, "ir.type", "every thread has of all CTAs what it has of its own", "x")
