"""Which thread this is, and exchange between the threads of a warp or a CTA."""

from __future__ import annotations

from refcompiler.dialects.simt.registers import SIMT
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, I32, DType, Type


class ThreadId(Op, name="thread_id", levels=SIMT):
    """The index of this thread in its CTA: warp * 32 + lane, i32."""

    def infer(self) -> list[Type]:
        return [I32]


ALL_LANES = 0xFFFFFFFF
SHUFFLES = ("shfl_xor", "shfl_idx", "shfl_up", "shfl_down")


class Shuffle(Op):
    """Every lane of ``members`` gives ``x`` and gets the ``x`` of another lane of its warp (PTX shfl.sync).

    All members execute it together. What a lane that is no member would have given is undefined.
    Spec: exec.shuffles
    """

    def infer(self) -> list[Type]:
        return [self.operands[0].type]

    def verify(self, require) -> None:
        mask, moved = self.attrs["members"], self.attrs.get("delta", 1)
        fits = 0 < mask <= ALL_LANES
        require(fits, "exec.shuffles#E2", lambda: f"members are a mask of 32 lanes, got {mask}", "members")
        require(0 < moved < 32, "exec.shuffles#E2", lambda: f"a delta is 1 to 31, got {moved}", "delta")


class ShflXor(Shuffle, name="shfl_xor", levels=SIMT):
    """The value of ``x`` in lane ^ ``mask`` of the same warp (PTX shfl.sync.bfly)."""

    x = operand()
    mask = attr(int)
    members = attr(int, ALL_LANES)

    def verify(self, require) -> None:
        super().verify(require)
        require(0 < self.mask < 32, "exec.shuffles#E2", lambda: f"a lane mask is 1 to 31, got {self.mask}", "mask")


class ShflIdx(Shuffle, name="shfl_idx", levels=SIMT):
    """The value of ``x`` in ``lane`` (its last 5 bits) of the same warp (PTX shfl.sync.idx)."""

    x = operand()
    lane = operand()
    members = attr(int, ALL_LANES)

    def verify(self, require) -> None:
        super().verify(require)
        require(self.lane.type is I32, "ir.type", lambda: f"a lane is an i32 scalar, got {self.lane.type}", "lane")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32 if index == 1 else None


class VoteAny(Op, name="vote_any", levels=SIMT):
    """Whether ``x`` is true in any lane of the warp, all of which execute it together (PTX vote.sync.any).
    Spec: exec.shuffles
    """

    x = operand()

    def infer(self) -> list[Type]:
        return [BOOL]

    def verify(self, require) -> None:
        require(self.x.type is BOOL, "exec.shuffles#E3", lambda: f"lanes vote by a bool scalar, got {self.x.type}", "x")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL


class ShflUp(Shuffle, name="shfl_up", levels=SIMT):
    """The value of ``x`` in lane - ``delta`` of the same warp; the first lanes keep their own (PTX shfl.sync.up)."""

    x = operand()
    delta = attr(int)
    members = attr(int, ALL_LANES)


class ShflDown(Shuffle, name="shfl_down", levels=SIMT):
    """The value of ``x`` in lane + ``delta`` of the same warp; the last lanes keep their own (PTX shfl.sync.down)."""

    x = operand()
    delta = attr(int)
    members = attr(int, ALL_LANES)


class Barrier(Op, name="barrier", effects={"barrier"}, levels=SIMT):
    """All threads of the CTA arrive; what they wrote before is visible to all of them after (PTX barrier.sync).

    Spec: exec.barriers
    """
