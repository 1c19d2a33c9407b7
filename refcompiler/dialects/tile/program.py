"""Ops that say which program this is, make blocks from nothing and check conditions."""

from __future__ import annotations

from refcompiler.dialects.tile import BLOCKS
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, I32, BlockType, DType, Type, element_of, shape_of


class ProgramId(Op, name="program_id"):
    """The index of this program along an axis of the grid, i32.  Spec: program.program_id"""

    axis = attr(int, doc="0, 1 or 2")

    def infer(self) -> list[Type]:
        return [I32]

    def verify(self, require) -> None:
        require(
            self.axis in (0, 1, 2),
            "program.program_id#E1",
            lambda: f"program_id axis must be 0, 1, or 2 but got {self.axis}",
            "axis",
        )


class NumPrograms(Op, name="num_programs"):
    """The extent of the grid along an axis, i32.  Spec: program.num_programs"""

    axis = attr(int, doc="0, 1 or 2")

    def infer(self) -> list[Type]:
        return [I32]

    def verify(self, require) -> None:
        require(
            self.axis in (0, 1, 2),
            "program.num_programs#E1",
            lambda: f"num_programs axis must be 0, 1, or 2 but got {self.axis}",
            "axis",
        )


class Arange(Op, name="arange", explicit_type=True, levels=BLOCKS):
    """The integers of [start, end) as a rank-1 i32 block.  Spec: creation.arange"""

    start = attr(int)
    end = attr(int)

    def verify(self, require) -> None:
        type_ = self.result.type
        require(
            self.end > self.start,
            "creation.arange#E1",
            lambda: f"arange's end ({self.end}) must be greater than its start ({self.start})",
            "end",
        )
        require(
            isinstance(type_, BlockType) and type_.element is I32 and type_.shape == (self.end - self.start,),
            "ir.type",
            lambda: f"arange gives vector<{self.end - self.start} x i32>, not {type_}",
        )
        require(
            -(1 << 31) <= self.start and self.end <= 1 << 31,
            "creation.arange#E3",
            "arange must fit in i32",
            "end",
        )


class Full(Op, name="full", explicit_type=True, levels=BLOCKS):
    """A block with every element equal to a scalar.  Spec: creation.full"""

    value = operand()

    def verify(self, require) -> None:
        type_ = self.result.type
        require(
            isinstance(type_, BlockType) and type_.element == self.value.type,
            "ir.type",
            lambda: f"full of {self.value.type} cannot give {type_}",
        )

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        element = element_of(types[0])
        return element if isinstance(element, DType) else None


class Empty(Op, name="empty", explicit_type=True, levels=BLOCKS):
    """A block or scalar that is not specified: reading it before it is replaced is an error.  Spec: creation.empty"""


class Assert(Op, name="assert", effects={"assert"}):
    """Stop with ``message`` where ``condition`` is false; GPU targets check in debug builds.  Spec: control.assert"""

    condition = operand()
    message = attr(str, "")

    def verify(self, require) -> None:
        require(
            element_of(self.condition.type) is BOOL,
            "control.assert#E1",
            lambda: f"the condition of assert must be bool, got {self.condition.type}",
            "condition",
        )

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL


class Hint(Op, name="hint", levels=BLOCKS):
    """Integers of which the author promises something, for each axis: that the first of each run is divisible, that
    runs count up by one, or that runs are constant.  Spec: control.hints"""

    x = operand()
    divisible = attr(tuple, ())
    contiguous = attr(tuple, ())
    constant = attr(tuple, ())

    def infer(self) -> list[Type]:
        return [self.x.type]

    def verify(self, require) -> None:
        rank = max(1, len(shape_of(self.x.type)))
        for name in ("divisible", "contiguous", "constant"):
            values = getattr(self, name)
            fits = not values or (len(values) == rank and all(isinstance(v, int) and v > 0 for v in values))
            require(
                fits, "control.hints#E1", lambda values=values: f"one positive integer per axis, found {values}", name
            )
