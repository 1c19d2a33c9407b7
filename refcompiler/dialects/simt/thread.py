"""Which thread this is, and exchange between the threads of a warp or a CTA."""

from __future__ import annotations

from refcompiler.dialects.simt.registers import SIMT
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import I32, DType, Type


class ThreadId(Op, name="thread_id", levels=SIMT):
    """The index of this thread in its CTA: warp * 32 + lane, i32."""

    def infer(self) -> list[Type]:
        return [I32]


class ShflXor(Op, name="shfl_xor", levels=SIMT):
    """The value of ``x`` in lane ^ ``mask`` of the same warp (PTX shfl.sync.bfly)."""

    x = operand()
    mask = attr(int)

    def infer(self) -> list[Type]:
        return [self.x.type]

    def verify(self, require) -> None:
        require(0 < self.mask < 32, "ir.attribute", lambda: f"a lane mask is 1 to 31, got {self.mask}", "mask")


class ShflIdx(Op, name="shfl_idx", levels=SIMT):
    """The value of ``x`` in ``lane`` of the same warp (PTX shfl.sync.idx)."""

    x = operand()
    lane = operand()

    def infer(self) -> list[Type]:
        return [self.x.type]

    def verify(self, require) -> None:
        require(self.lane.type is I32, "ir.type", lambda: f"a lane is an i32 scalar, got {self.lane.type}", "lane")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32 if index == 1 else None


class Barrier(Op, name="barrier", effects={"barrier"}, levels=SIMT):
    """All threads of the CTA arrive; what they wrote before is visible to all of them after (PTX barrier.sync)."""
