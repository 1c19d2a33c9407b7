"""Ops of the laid-out level only: there every block has a layout, and operands of one op share it."""

from __future__ import annotations

from refcompiler.ir.core import Op
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, BlockType, Type, element_of, shape_of


class ConvertLayout(Op, name="convert_layout", explicit_type=True, levels=("laid_out",)):
    """The same block, distributed over the threads as the result type's layout says."""

    x = operand()

    def verify(self, require) -> None:
        source, target = self.x.type, self.result.type
        require(
            isinstance(source, BlockType) and isinstance(target, BlockType),
            "ir.type",
            lambda: f"convert_layout takes and gives a block, not {source} to {target}",
        )
        require(
            shape_of(source) == shape_of(target) and element_of(source) == element_of(target),
            "ir.type",
            "convert_layout keeps shape and element type",
        )


BEYOND = {"maximum": "cmp_gt", "minimum": "cmp_lt"}  # of each extremum, the comparison that asks for more of it


class AnyBeyond(Op, name="any_beyond", levels=("laid_out",)):
    """Whether an element of ``x`` that a thread of this warp has lies beyond the element of ``bound`` for its place
    without ``axis``: above it where ``combine`` is "maximum", below where it is "minimum". One bool for each warp."""

    x = operand()
    bound = operand()
    axis = attr(int)
    combine = attr(str)

    def infer(self) -> list[Type]:
        return [BOOL]

    def verify(self, require) -> None:
        require(self.combine in BEYOND, "ir.attribute", lambda: f"{self.combine!r} is no extremum", "combine")
        left, right = self.x.type, self.bound.type
        blocks = isinstance(left, BlockType) and isinstance(right, BlockType) and 0 <= self.axis < left.rank
        require(blocks, "ir.type", lambda: f"any_beyond compares blocks along an axis, not {left} and {right}")
        shape = left.shape[: self.axis] + left.shape[self.axis + 1 :]
        require(shape == right.shape, "ir.type", lambda: f"bounds of {left} have shape {shape}, got {right}", "bound")
        require(left.element == right.element, "ir.type", lambda: f"{left} has no bounds of {right}", "bound")
