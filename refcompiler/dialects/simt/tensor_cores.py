"""Matrix products on tensor cores: fragments are register vectors in the order of PTX."""

from __future__ import annotations

from collections.abc import Iterable

from refcompiler.dialects.simt.registers import SIMT, count_of
from refcompiler.ir.core import Op
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BF16, F8E4M3, F8E5M2, F16, F32, FLOATS8, I8, I32, U8, DType, Type, element_of

WORD_BITS = 32  # operands narrower than a register of the machine are packed into it
ROWS, COLUMNS, DEPTH_BITS = 16, 8, 256  # of mma.sync: m16n8, and k so that a row has 256 bits

# What the instructions call the elements of operands and accumulators, and the accumulators that operands may have.
PTX_NAMES = {F16: "f16", BF16: "bf16", F32: "tf32", I8: "s8", U8: "u8", F8E4M3: "e4m3", F8E5M2: "e5m2"}
PTX_ACCUMULATORS = {F16: "f16", F32: "f32", I32: "s32"}
ACCUMULATORS = {F16: (F32, F16), **dict.fromkeys((BF16, F32, *FLOATS8), (F32,)), **dict.fromkeys((I8, U8), (I32,))}
_SPEC = "exec.tensor_cores"


def may_multiply(a: DType, b: DType) -> bool:
    """True if tensor cores multiply elements of the two types: equal ones, or two of 8 bits of one kind."""
    return a in ACCUMULATORS and (a is b or {a, b} in ({I8, U8}, {F8E4M3, F8E5M2}))


def packed(dtype: DType) -> int:
    """How many elements one 32-bit register holds."""
    return max(1, WORD_BITS // dtype.bits)


class MmaSync(Op, name="mma_sync", levels=SIMT):
    """c + a b for (m, n, k) ``tiles`` of ``shape`` (16, 8, k) by each warp (PTX mma.sync): k is 16 for 16-bit elements,
    8 for f32, of which ``tf32`` says that the last 13 bits do not count, 32 for elements of 8 bits.

    Registers are in the order a [m][k][fragment], b [n][k][fragment], c and result [m][n][fragment], as the layouts
    mma_operand_a, mma_operand_b and mma_accumulator have them. All lanes of a warp execute it together.
    Spec: exec.tensor_cores
    """

    a = operand()
    b = operand()
    c = operand()
    shape = attr(tuple)
    tiles = attr(tuple, (1, 1, 1))
    tf32 = attr(bool, False)

    def infer(self) -> list[Type]:
        return [self.c.type]

    def feature(self) -> str:
        return "has_fp8_mma" if self.elements[0] in FLOATS8 else ""

    @property
    def elements(self) -> tuple[DType, DType, DType]:
        """The element types of a, b and c."""
        a, b, c = (element_of(v.type) for v in (self.a, self.b, self.c))
        return a, b, c

    @property
    def instruction(self) -> str:
        """The PTX instruction of one tile."""
        a, b, c = self.elements
        shape = "m{}n{}k{}".format(*self.shape)
        accumulator = PTX_ACCUMULATORS[c]
        return f"mma.sync.aligned.{shape}.row.col.{accumulator}.{PTX_NAMES[a]}.{PTX_NAMES[b]}.{accumulator}"

    @property
    def fragments(self) -> tuple[int, int, int]:
        """The elements of a, b and c that a thread has of one tile."""
        m, n, k = self.shape
        return m * k // 32, n * k // 32, m * n // 32

    @property
    def instructions(self) -> int:
        """How many PTX instructions it is."""
        m, n, k = self.tiles
        return m * n * k

    def verify(self, require) -> None:
        a, b, c = self.elements
        known = may_multiply(a, b) and c in ACCUMULATORS[a]
        require(known, f"{_SPEC}#E1", lambda: f"mma_sync has no instruction for {a} by {b} with {c} accumulators")
        require(
            (a is F32) == self.tf32, f"{_SPEC}#E1", "f32 operands take part as tf32, and no others do: say so", "tf32"
        )
        wanted = (ROWS, COLUMNS, DEPTH_BITS // a.bits)
        require(
            self.shape == wanted, f"{_SPEC}#E2", lambda: f"the shape for {a} is {wanted}, got {self.shape}", "shape"
        )
        positive = len(self.tiles) == 3 and all(isinstance(n, int) and n > 0 for n in self.tiles)
        require(positive, f"{_SPEC}#E2", lambda: f"tiles are three positive counts, got {self.tiles}", "tiles")
        m, n, k = self.tiles
        for value, tiles, each in zip(self.operands, (m * k, n * k, m * n), self.fragments, strict=True):
            wanted, name = tiles * each, "abc"[self.operands.index(value)]
            fits = count_of(value.type) == wanted
            require(fits, f"{_SPEC}#E2", f"{name} has {wanted} registers in these tiles, got {value.type}", name)

    def text(self, sign: str) -> str:
        """The PTX of one tile; operands are numbered after ``sign``: result, a, b, c."""
        of_a, of_b, of_c = (n // packed(e) for n, e in zip(self.fragments, self.elements, strict=True))
        d, a, b, c = numbered(sign, (of_c, of_a, of_b, of_c))
        return f"{self.instruction} {d}, {a}, {b}, {c};"


def numbered(sign: str, counts: Iterable[int]) -> list[str]:
    """Operands of an instruction, numbered one after the other: each in braces as many as ``counts`` says."""
    found, start = [], 0
    for count in counts:
        found.append("{" + ", ".join(f"{sign}{i}" for i in range(start, start + count)) + "}")
        start += count
    return found
