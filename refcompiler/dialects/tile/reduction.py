"""Reductions and scans along an axis with any associative combination."""

from __future__ import annotations

import math

from refcompiler.dialects.scalar import BY_NAME
from refcompiler.dialects.tile import BLOCKS
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BlockType, DType, Type, block_or_scalar


def identity(combine: str, dtype: DType) -> Constant | None:
    """The element that a combination by that row of the scalar table leaves out of account; None where there is none.

    Extrema skip NaN, so NaN it is for them: -inf would take the place of a NaN among NaNs.
    """
    lowest, highest, skipped = -math.inf, math.inf, math.nan
    if not dtype.is_float:
        lowest, highest, skipped = dtype.min_int, dtype.max_int, None
    values = {
        "add": -0.0 if dtype.is_float else 0,  # 0.0 would make 0.0 of -0.0
        "mul": 1,
        "maximum": lowest if skipped is None else skipped,
        "minimum": highest if skipped is None else skipped,
        "maximum_nan": lowest,
        "minimum_nan": highest,
        "and": dtype.is_bool or -1,
        "or": 0,
        "xor": 0,
    }
    return Constant(values[combine], dtype) if combine in values else None


class Combination(Op):
    """Combines elements along ``axis`` of one or several blocks of one shape.

    ``combine`` names a two-operand row of the scalar table ("add", "maximum", ...), or is "" and the region combines:
    its arguments are the left and then the right scalars of every block, its yield the combined scalars.
    """

    spec = ""  # the feature that says what it rejects
    blocks: list[Value]
    axis: int
    combine: str

    def yield_types(self) -> list[Type]:
        return [b.type.element for b in self.blocks]

    def verify(self, require) -> None:
        types = [b.type for b in self.blocks]
        require(
            bool(types) and all(isinstance(t, BlockType) for t in types),
            f"{self.spec}#E1",
            lambda: f"{self.name} needs blocks, got {', '.join(map(str, types))}",
            "blocks",
        )
        rank = types[0].rank
        require(
            all(t.shape == types[0].shape for t in types),
            f"{self.spec}#E2",
            f"all blocks of a {self.name} have one shape",
            "blocks",
        )
        require(
            0 <= self.axis < rank,
            f"{self.spec}#E3",
            lambda: f"axis {self.axis} is out of range for a block of rank {rank}",
            "axis",
        )
        if self.body is None:
            row = BY_NAME.get(self.combine)
            require(
                row is not None and row.arity == 2 and len(types) == 1 and row.result == "same",
                "ir.attribute",
                lambda: f"combine={self.combine!r} is no scalar function of two operands",
            )
            require(
                types[0].element in row.dtypes,
                f"{self.spec}#E4",
                lambda: f"{self.combine} is not defined for {types[0].element}",
                "blocks",
            )
        else:
            elements = [t.element for t in types]
            require(
                [a.type for a in self.body.args] == elements * 2,
                "ir.type",
                "the region takes the left, then the right scalars",
            )
            require(self.body_is_pure(), f"{self.spec}#E5", "a combination has no effects")

    def body_is_pure(self) -> bool:
        return all(op.pure or op.terminator for op in self.body.walk())


class Reduce(Combination, name="reduce", levels=BLOCKS):
    """All elements along ``axis`` combined into one; the order is unspecified.  Spec: reduce.reduce"""

    spec = "reduce.reduce"
    axis = attr(int)
    combine = attr(str, "", doc="a row of the scalar table; without it the region combines")
    blocks = operand(variadic=True)

    def infer(self) -> list[Type]:
        out = []
        for block in self.blocks:
            type_ = block.type
            layout = type_.layout.slice(self.axis) if type_.layout is not None and type_.rank > 1 else None
            shape = type_.shape[: self.axis] + type_.shape[self.axis + 1 :]
            out.append(block_or_scalar(type_.element, shape, layout))
        return out


class Scan(Combination, name="scan", levels=BLOCKS):
    """Each element combined with all before it along ``axis``, with all after it where ``reverse``; neighbours first.

    For k = 0, 1, ... and blocks of 2^k elements, counted from index 0: what the second of two blocks holds gets, as
    left operand, the last result of the first block. In reverse the order of elements and blocks is the opposite one.
    Spec: scan.associative_scan
    """

    spec = "scan.associative_scan"
    axis = attr(int)
    combine = attr(str, "", doc="a row of the scalar table; without it the region combines")
    reverse = attr(bool, False)
    blocks = operand(variadic=True)

    def infer(self) -> list[Type]:
        return [b.type for b in self.blocks]
