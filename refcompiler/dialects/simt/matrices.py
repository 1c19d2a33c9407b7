"""Matrices of 8 rows of 16 bytes between shared memory and the fragments of a warp."""

from __future__ import annotations

from refcompiler.dialects.simt.registers import SIMT, count_of, registers
from refcompiler.dialects.simt.tensor_cores import numbered, packed
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, I32, DType, SharedType, Type, element_of

ROW_BYTES, MATRIX_ROWS = 16, 8
_SPEC = "exec.ldmatrix"


class MatrixOp(Op):
    """Moves matrices, ``count`` of them for each register of ``index``."""

    @property
    def each(self) -> int:
        """The registers of one access."""
        return self.attrs["count"] * packed(self._element)

    @property
    def _element(self) -> DType:
        return element_of(self.operands[0].type)

    @property
    def words(self) -> int:
        """The 32-bit registers of one access."""
        return self.attrs["count"]

    @property
    def modifiers(self) -> str:
        trans = ".trans" if self.attrs["trans"] else ""
        return f"sync.aligned.m8n8.x{self.attrs['count']}{trans}.shared.b16"

    def verify(self, require) -> None:
        buffer, index = self.operands[:2]
        shared = isinstance(buffer.type, SharedType) and isinstance(self._element, DType) and self._element is not BOOL
        require(shared, f"{_SPEC}#E1", f"{self.name} needs a shared buffer of numbers, got {buffer.type}", "buffer")
        fits = self._element.bits <= 32 and (self._element.bits == 16 or not self.attrs["trans"])
        require(fits, f"{_SPEC}#E1", f"{self.name} transposes 16-bit elements, and moves up to 32 bits", "buffer")
        require(element_of(index.type) is I32, "ir.type", f"{self.name} is indexed by i32, not {index.type}", "index")
        known = self.attrs["count"] in (1, 2, 4)
        require(known, f"{_SPEC}#E2", f"a count is 1, 2 or 4, got {self.attrs['count']}", "count")


class Ldmatrix(MatrixOp, name="ldmatrix", effects={"read_shared"}, levels=SIMT):
    """Read ``count`` matrices for each register of ``index`` (PTX ldmatrix): lane 8 i + r gives the element at which
    row r of matrix i begins, 16 bytes in shared memory. Lane l gets word l % 4 of row l / 4 of each matrix, or with
    ``trans`` the elements of column l / 4 in rows 2 (l % 4) and the next.  Spec: exec.ldmatrix
    """

    buffer = operand()
    index = operand()
    count = attr(int, 4)
    trans = attr(bool, False)

    def infer(self) -> list[Type]:
        return [registers(self._element, count_of(self.index.type) * self.each)]

    def text(self, sign: str) -> str:
        """The PTX of one access; operands are numbered after ``sign``: the words, the address."""
        return f"ldmatrix.{self.modifiers} {numbered(sign, [self.words])[0]}, [{sign}{self.words}];"

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32


class Stmatrix(MatrixOp, name="stmatrix", effects={"write_shared"}, levels=SIMT, needs="has_stmatrix"):
    """Write ``count`` matrices for each register of ``index`` (PTX stmatrix): the inverse of ldmatrix.
    Spec: exec.ldmatrix
    """

    buffer = operand()
    index = operand()
    value = operand()
    count = attr(int, 4)
    trans = attr(bool, False)

    def text(self, sign: str) -> str:
        """The PTX of one access; operands are numbered after ``sign``: the address, the words."""
        return f"stmatrix.{self.modifiers} [{sign}0], {numbered(sign, [1, self.words])[1]};"

    def verify(self, require) -> None:
        super().verify(require)
        require(element_of(self.value.type) == self._element, "ir.type", "stmatrix of another type", "value")
        wanted = count_of(self.index.type) * self.each
        fits = count_of(self.value.type) == wanted
        require(fits, f"{_SPEC}#E2", f"these matrices have {wanted} registers, got {self.value.type}", "value")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32 if index == 1 else None
