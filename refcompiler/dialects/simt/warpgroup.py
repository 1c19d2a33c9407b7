"""Matrix products of a warpgroup, which run while its threads go on: operands in shared memory, results at a wait."""

from __future__ import annotations

from dataclasses import dataclass

from refcompiler.dialects.simt.asynchronous import Argument, PtxOp
from refcompiler.dialects.simt.ptx import Instruction
from refcompiler.dialects.simt.registers import SIMT, count_of, registers
from refcompiler.dialects.simt.tensor_cores import PTX_NAMES, may_multiply, numbered, packed
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import F32, I8, I32, U8, DType, SharedType, Type, element_of

THREADS, ROWS = 128, 64  # of a warpgroup, and m of its instructions
STEP_BYTES = 32  # k of an instruction in each row
SWIZZLES = {128: 1, 64: 2, 32: 3}  # bytes of a row -> its code in a descriptor
ATOM_ROWS = 8  # rows that a descriptor counts as one
MAX_COLUMNS = 256
_SPEC = "exec.wgmma"


@dataclass(frozen=True)
class Tile:
    """How an operand lies in shared memory: as the layout ``swizzled`` of ``rows`` by ``columns`` has it, in column
    blocks of ``swizzle`` bytes, of which each begins ``stride`` bytes after the one before it.

    ``transposed``: the rows count along k, the columns along m or n.
    """

    extent: int  # along m or n
    steps: int  # along k
    element_bytes: int
    swizzle: int
    stride: int
    transposed: bool

    @property
    def depth(self) -> int:
        """k of one instruction."""
        return STEP_BYTES // self.element_bytes

    @property
    def alignment(self) -> int:
        """The bytes to a multiple of which the tile begins."""
        return ATOM_ROWS * self.swizzle

    @property
    def high(self) -> int:
        """The upper half of the descriptor: the stride between groups of 8 rows, and the swizzle."""
        return SWIZZLES[self.swizzle] << 30 | self.alignment >> 4

    @property
    def low(self) -> int:
        """What the lower half of the descriptor holds beside the address: the stride between column blocks."""
        return (self.stride >> 4 if self.transposed else 1) << 16

    def start(self, step: int) -> int:
        """The bytes from the tile's beginning to that of the matrix of one instruction."""
        if self.transposed:
            return step * self.depth * self.swizzle
        block, within = divmod(step * STEP_BYTES, self.swizzle)
        return block * self.stride + within


class Wgmma(Op, name="wgmma", effects={"read_shared", "async"}, levels=SIMT, needs="has_wgmma"):
    """c + a b of 64 rows and ``n`` columns for each warpgroup (PTX wgmma.mma_async), ``k_steps`` instructions along k:
    of 16 elements of 16 bits, 8 of f32 (as tf32), 32 of 8 bits. Without ``c`` it is a b.

    ``a`` is a shared buffer, of which the tile begins at element ``a_index``, or the registers of mma_operand_a with 4
    warps along M. ``b`` is a shared buffer. Their tiles lie as the layout swizzled with rows of ``swizzle`` bytes has
    them: (m, k) or (n, k) where the major is "k", else (k, m) or (k, n). ``a_stride`` and ``b_stride`` are the elements
    from one column block to the next; 0 where the tile has no more rows than this op reads.

    The result may be the ``c`` of another wgmma, or an operand of wgmma_wait, and nothing else. Registers of ``a`` are
    read until then: no later iteration of a loop computes them again before it has waited.  Spec: exec.wgmma
    """

    c = operand(optional=True)
    a = operand()
    a_index = operand(optional=True)
    b = operand()
    b_index = operand()
    n = attr(int)
    a_major = attr(str, "k")
    b_major = attr(str, "k")
    swizzle = attr(int, 128)
    k_steps = attr(int, 1)
    a_stride = attr(int, 0)
    b_stride = attr(int, 0)
    deferred = f"{_SPEC}#E4"
    kept = (1, f"{_SPEC}#E7")

    def infer(self) -> list[Type]:
        return [registers(I32 if self.element in (I8, U8) else F32, self.n * ROWS // THREADS)]

    def accepts_deferred(self, index: int) -> bool:
        return index == 0

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32 if index in (2, 4) else None

    @property
    def element(self) -> DType:
        """The element type of b."""
        return element_of(self.b.type)

    @property
    def a_shared(self) -> bool:
        """True if a is read from shared memory."""
        return isinstance(self.a.type, SharedType)

    @property
    def depth(self) -> int:
        """k of one instruction."""
        return STEP_BYTES // self.element.itemsize

    @property
    def a_tile(self) -> Tile:
        """Where a is, if in shared memory."""
        return self._tile(ROWS, self.a_stride, self.a_major != "k")

    @property
    def b_tile(self) -> Tile:
        """Where b is."""
        return self._tile(self.n, self.b_stride, self.b_major != "k")

    def _tile(self, extent: int, stride: int, transposed: bool) -> Tile:
        size = self.element.itemsize
        rows = self.k_steps * self.depth if transposed else extent
        return Tile(extent, self.k_steps, size, self.swizzle, stride * size or rows * self.swizzle, transposed)

    @property
    def instruction(self) -> str:
        """The PTX instruction of one step along k."""
        a, b = (PTX_NAMES[element_of(v.type)] for v in (self.a, self.b))
        accumulator = "s32" if self.result.type.element is I32 else "f32"
        return f"wgmma.mma_async.sync.aligned.m{ROWS}n{self.n}k{self.depth}.{accumulator}.{a}.{b}"

    @property
    def instructions(self) -> int:
        """How many PTX instructions it is."""
        return self.k_steps

    @property
    def a_words(self) -> int:
        """The 32-bit registers of a of one step, if a is in registers."""
        return ROWS * self.depth // THREADS // packed(self.element)

    def text(self, sign: str) -> list[str]:
        """The PTX of each step; operands are numbered after ``sign``: accumulators, then for each step a and b."""
        count = count_of(self.result.type)
        accumulators = numbered(sign, [count])[0]
        lines, first = [], count
        for step in range(self.k_steps):
            if self.a_shared:
                a, first = f"{sign}{first}", first + 1
            else:
                a, first = numbered(sign, [first, self.a_words])[1], first + self.a_words
            b, first = f"{sign}{first}", first + 1
            scale = "0" if self.c is None and step == 0 else "1"
            lines.append(f"{self.instruction} {accumulators}, {a}, {b}, {', '.join([scale, *self._immediates()])};")
        return lines

    def _immediates(self) -> list[str]:
        """Signs of a and b, and what is transposed, for the types that have them."""
        if not self.element.is_float:
            return []
        if self.element.bits != 16:
            return ["1", "1"]
        transposed = [str(int(major != "k")) for major in (self.a_major, self.b_major)]
        return ["1", "1", *(transposed if self.a_shared else transposed[1:])]

    def verify(self, require) -> None:
        b, a = self.element, element_of(self.a.type)
        require(may_multiply(a, b), f"{_SPEC}#E1", lambda: f"wgmma has no instruction for {a} by {b}")
        require(isinstance(self.b.type, SharedType), f"{_SPEC}#E1", "b is a shared buffer", "b")
        major = {"k", *("mn" if b.bits == 16 else "")}
        fits = self.a_major in major - {"n"} and self.b_major in major - {"m"}
        fits &= self.a_shared or self.a_major == "k"
        majors = (self.a_major, self.b_major)
        require(fits, f"{_SPEC}#E2", lambda: f"only 16-bit elements in shared memory may be transposed, got {majors}")
        require(self.swizzle in SWIZZLES, f"{_SPEC}#E2", lambda: f"swizzle is 32, 64 or 128, got {self.swizzle}")
        step = 16 if b in (I8, U8) and self.n > 32 else 8
        columns = 8 <= self.n <= MAX_COLUMNS and self.n % step == 0
        require(columns, f"{_SPEC}#E2", lambda: f"n is a multiple of {step} up to {MAX_COLUMNS}, got {self.n}", "n")
        whole = self.b_major == "k" or self.n * b.itemsize % self.swizzle == 0
        require(whole, f"{_SPEC}#E2", lambda: f"{self.n} columns are no whole rows of {self.swizzle} bytes", "n")
        require(self.k_steps > 0, f"{_SPEC}#E2", lambda: f"k_steps is positive, got {self.k_steps}", "k_steps")
        self._verify_operands(require)

    def _verify_operands(self, require) -> None:
        index = self.a_index is not None and self.a_index.type is I32
        require(index or not self.a_shared, f"{_SPEC}#E2", "a in shared memory needs an i32 index", "a_index")
        require(self.b_index.type is I32, f"{_SPEC}#E2", "b needs an i32 index", "b_index")
        if not self.a_shared:
            wanted = ROWS * self.depth // THREADS * self.k_steps
            fits = self.a_index is None and count_of(self.a.type) == wanted
            require(fits, f"{_SPEC}#E2", lambda: f"a in registers has {wanted} and no index, got {self.a.type}", "a")
        if self.c is not None:
            (wanted_type,) = self.infer()
            fits = self.c.type == wanted_type
            require(fits, f"{_SPEC}#E2", lambda: f"c is {wanted_type}, got {self.c.type}", "c")


class WgmmaFence(PtxOp, name="wgmma_fence", effects={"fence"}, levels=SIMT, needs="has_wgmma"):
    """What was written to registers before is seen by the wgmma ops after it (PTX wgmma.fence). ``held`` are the
    left operands in registers of several of these: a backend has them there by now, and moves none between two ops.
    Spec: exec.wgmma"""

    held = operand(variadic=True)

    @property
    def arguments(self) -> list[Argument]:
        return []

    @property
    def instruction(self) -> Instruction:
        return Instruction("wgmma_fence", "wgmma.fence.sync.aligned;")


class WgmmaCommit(PtxOp, name="wgmma_commit", effects={"commit"}, levels=SIMT, needs="has_wgmma"):
    """The wgmma ops since the last commit are a group (PTX wgmma.commit_group).  Spec: exec.wgmma"""

    @property
    def instruction(self) -> Instruction:
        return Instruction("wgmma_commit", "wgmma.commit_group.sync.aligned;")


class WgmmaWait(Op, name="wgmma_wait", effects={"wait"}, levels=SIMT, needs="has_wgmma"):
    """Waits until at most the last ``pending`` groups still run (PTX wgmma.wait_group), and gives back the values of
    wgmma ops of the groups that do not.  Spec: exec.wgmma
    """

    values = operand(variadic=True)
    pending = attr(int, 0)

    def infer(self) -> list[Type]:
        return [v.type for v in self.values]

    def accepts_deferred(self, index: int) -> bool:
        return True

    def verify(self, require) -> None:
        require(0 <= self.pending < 8, f"{_SPEC}#E2", lambda: f"pending is 0 to 7, got {self.pending}", "pending")
        registers_only = all(count_of(v.type) > 1 for v in self.values)
        require(registers_only, f"{_SPEC}#E2", "a wait gives back registers of accumulators", "values")
