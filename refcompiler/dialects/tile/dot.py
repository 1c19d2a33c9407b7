"""Matrix products of blocks, added to an accumulator."""

from __future__ import annotations

from refcompiler.dialects.tile import BLOCKS
from refcompiler.ir.core import Op
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    FLOATS8,
    I8,
    I32,
    BlockType,
    DType,
    element_of,
    shape_of,
)

# The dtype of the operands -> the dtypes a product may have, the usual one first.
RESULTS: dict[DType, tuple[DType, ...]] = {I8: (I32,), F8E4M3: (F32, F16), F8E5M2: (F32, F16), F16: (F32, F16)}
RESULTS |= {BF16: (F32,), F32: (F32,), F64: (F64,)}

# How operands of f32 are taken: cut to the 11 significant bits of tf32, as they are, or as the sum of several shorter
# numbers whose products are added up.
PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


# The strategies that read their operands step by step along K, so that these may stay in shared memory until then.
STEPWISE = frozenset({"mma", "fma"})


def least_depth(dtype: DType) -> int:
    """The fewest products that one element of a dot adds up: what one instruction of the tensor cores takes."""
    return 32 if dtype.bits == 8 else 16


def meet(x: object, y: object) -> bool:
    """Whether elements of these types multiply: those of one dtype, and all of float8."""
    return x == y or (x in FLOATS8 and y in FLOATS8)


def product_shape(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the product of blocks [..., M, K] and [..., K, N]."""
    return (*x[:-1], y[-1])


class Dot(Op, name="dot", explicit_type=True, levels=BLOCKS):
    """``x`` [M, K] times ``y`` [K, N], plus ``acc`` [M, N] where there is one; a leading axis counts products.

    ``input_precision`` says how exactly operands of f32 are taken ("ieee": as they are).  Spec: linalg.dot
    """

    x = operand()
    y = operand()
    acc = operand(optional=True)
    input_precision = attr(str, "ieee")
    strategy = attr(str, "", doc="how it is served, once that is decided")

    @property
    def depth(self) -> int:
        """K, the number of products that each element adds up."""
        return shape_of(self.x.type)[-1]

    def verify(self, require) -> None:
        x, y, result = self.x.type, self.y.type, self.result.type
        ranks = {len(shape_of(t)) for t in (x, y)}
        require(ranks in ({2}, {3}), "linalg.dot#E1", lambda: f"dot needs blocks of rank 2 or 3, got {x} and {y}", "x")
        left, right = shape_of(x), shape_of(y)
        require(left[:-2] == right[:-2], "linalg.dot#E2", lambda: f"batches differ: {x} and {y}", "y")
        require(left[-1] == right[-2], "linalg.dot#E3", lambda: f"{left[-1]} columns times {right[-2]} rows", "y")
        element = element_of(x)
        require(meet(element, element_of(y)), "linalg.dot#E4", lambda: f"one dtype, got {x} and {y}", "y")
        require(element in RESULTS, "linalg.dot#E5", lambda: f"dot is not defined for {element}", "x")
        least = least_depth(element)
        require(self.depth >= least, "linalg.dot#E6", lambda: f"K is at least {least}, got {self.depth}", "x")
        fits = isinstance(result, BlockType) and result.element in RESULTS[element]
        require(fits, "linalg.dot#E9", lambda: f"a product of {element} is no {result}")
        require(shape_of(result) == product_shape(left, right), "ir.type", lambda: f"dot of {x} and {y} is no {result}")
        require(
            self.acc is None or (shape_of(self.acc.type), element_of(self.acc.type)) == (result.shape, result.element),
            "linalg.dot#E10",
            lambda: f"the accumulator is {self.acc.type}, the product {result}",
            "acc",
        )
        known = self.input_precision in PRECISIONS
        require(known, "linalg.dot#E7", lambda: f"no input precision {self.input_precision!r}", "input_precision")
