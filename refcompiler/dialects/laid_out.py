"""Ops of the laid-out level only: there every block has a layout, and operands of one op share it."""

from __future__ import annotations

from refcompiler.ir.core import Op
from refcompiler.ir.opdef import operand
from refcompiler.ir.types import BlockType, element_of, shape_of


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
