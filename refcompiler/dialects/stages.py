"""Blocks copied ahead of their use: a buffer in shared memory with a stage for each of several rounds of a loop."""

from __future__ import annotations

from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, I32, BlockType, DType, SharedType, element_of
from refcompiler.layouts import LinearLayout

LAID_OUT = ("laid_out",)


class Stages(Op, name="stages", explicit_type=True, effects={"alloc", "barrier"}, levels=LAID_OUT):
    """A buffer of stages, each with room for a block; all threads are done with what had its bytes before.

    In ``private`` stages each thread takes what it copied itself, and nothing else.
    """

    private = attr(bool, False)

    def verify(self, require) -> None:
        require(isinstance(self.result.type, SharedType), "ir.type", "stages give a shared buffer")


class StageOp(Op):
    """An op on one stage of a buffer, in which a block lies in the shared ``layout``."""

    layout: str

    @property
    def shared(self) -> LinearLayout:
        return LinearLayout.parse(self.layout)

    def verify(self, require) -> None:
        buffer, stage = self.operands[:2]
        require(isinstance(buffer.type, SharedType), "ir.type", lambda: f"{self.name} needs stages, got {buffer.type}")
        require(stage.type is I32, "ir.type", lambda: f"a stage is numbered by i32, got {stage.type}", "stage")
        block = self.results[0] if self.results else self.operands[2]
        fits = isinstance(block.type, BlockType) and self.shared.shape == block.type.shape
        require(fits, "ir.type", lambda: f"{self.layout} is no layout of {block.type}", "layout")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list) -> DType | None:
        return I32 if index == 1 else BOOL


class StageCopy(StageOp, name="stage_copy", effects={"read", "write_shared"}, levels=LAID_OUT):
    """Begin to copy what ``pointer`` points to into a stage, ``width`` elements at a time; zeros where ``mask`` is
    false. Does not wait. ``eviction`` is that of the load that it stands for."""

    buffer = operand()
    stage = operand()
    pointer = operand()
    mask = operand(optional=True)
    layout = attr(str)
    width = attr(int)
    eviction = attr(str, "")


class StagePut(StageOp, name="stage_put", effects={"write_shared"}, levels=LAID_OUT):
    """Store a block to a stage; in ``private`` stages each thread stores what it takes again itself."""

    buffer = operand()
    stage = operand()
    value = operand()
    layout = attr(str)


class StageTake(StageOp, name="stage_take", explicit_type=True, effects={"read_shared"}, levels=LAID_OUT):
    """The block in a stage, distributed over the threads as the result type's layout says."""

    buffer = operand()
    stage = operand()
    layout = attr(str)

    def verify(self, require) -> None:
        super().verify(require)
        same = element_of(self.buffer.type) == element_of(self.result.type)
        require(same, "ir.type", "a stage holds elements of another type")


class StageCommit(Op, name="stage_commit", effects={"commit"}, levels=LAID_OUT):
    """The copies begun since the last commit are one round."""


class StageWait(Op, name="stage_wait", effects={"wait", "barrier"}, levels=LAID_OUT):
    """All rounds but the ``pending`` latest are complete for all threads, which are done with all they took before; if
    ``private``, for the thread whose copies they are."""

    pending = attr(int, 0)
    private = attr(bool, False)
