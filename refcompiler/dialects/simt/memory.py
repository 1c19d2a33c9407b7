"""Global and shared memory of one thread: vector accesses under a predicate."""

from __future__ import annotations

from refcompiler.dialects.simt.ptx import POLICIES
from refcompiler.dialects.simt.registers import SIMT, count_of, registers
from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir.core import Func, Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import BOOL, I32, DType, SharedType, Type, element_of

# What follows ld. or st. in PTX; a flag that is left out does what a plain access does.
_LOADS = {
    ".cg": "global.cg",
    ".cs": "global.cs",
    ".cv": "global.cv",
    "evict_first": "global.L1::evict_first.L2::cache_hint",
    "evict_last": "global.L1::evict_last.L2::cache_hint",
}
_STORES = {
    ".cg": "global.cg",
    ".cs": "global.cs",
    ".wt": "global.wt",
    "evict_first": "global.L1::evict_first.L2::cache_hint",
    "evict_last": "global.L1::evict_last.L2::cache_hint",
}
PTX_ACCESSES = {"ld_global": _LOADS, "st_global": _STORES}


def ptx_flag(op: Op) -> str | None:
    """The flag of a global access that changes its PTX instruction. A cache operator excludes a priority, and volatile
    excludes both."""
    if op.attrs.get("volatile"):
        return None
    return next((flag for flag in (op.cache, op.eviction) if flag in PTX_ACCESSES[op.name]), None)


def _dtype(element) -> DType | None:
    return element if isinstance(element, DType) else None


def ptx_policy(flag: str) -> str:
    """What follows the other operands of an access with this flag."""
    return f", {POLICIES[flag]}" if flag in POLICIES else ""


class LdGlobal(Op, name="ld_global", effects={"read"}, levels=SIMT):
    """``width`` consecutive elements from each pointer where ``mask`` is true, elsewhere ``other`` or anything.

    Pointer and mask have one register per access, the result and ``other`` have ``width`` per access; a scalar mask or
    other stands for all. Each pointer is aligned to the whole access. ``replicated`` says that several threads access
    the same elements.
    """

    pointer = operand()
    mask = operand(optional=True)
    other = operand(optional=True)
    width = attr(int, 1)
    cache = attr(str, "")
    eviction = attr(str, "")
    volatile = attr(bool, False)
    replicated = attr(bool, False)

    def infer(self) -> list[Type]:
        return [registers(pointee(self.pointer.type), count_of(self.pointer.type) * self.width)]

    def verify(self, require) -> None:
        require(pointee(self.pointer.type) is not None, "ir.type", "ld_global needs pointers", "pointer")
        _check_counts(self, require, self.pointer, self.mask, self.other)

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL if index == 1 else pointee(operands[0].type)


class StGlobal(Op, name="st_global", effects={"write"}, levels=SIMT):
    """Write ``width`` consecutive elements to each pointer where ``mask`` is true.

    ``replicated`` says that several threads hold the same elements, of which the mask lets one write.
    """

    pointer = operand()
    value = operand()
    mask = operand(optional=True)
    width = attr(int, 1)
    cache = attr(str, "")
    eviction = attr(str, "")
    replicated = attr(bool, False)

    def verify(self, require) -> None:
        require(pointee(self.pointer.type) is not None, "ir.type", "st_global needs pointers", "pointer")
        require(element_of(self.value.type) == pointee(self.pointer.type), "ir.type", "st_global of another type")
        _check_counts(self, require, self.pointer, self.mask, self.value)

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL if index == 2 else pointee(operands[0].type)


class SharedAlloc(Op, name="shared_alloc", explicit_type=True, effects={"alloc"}, levels=SIMT):
    """A buffer in the CTA's shared memory; ``offset`` is its first byte once buffers are placed, a multiple of
    ``alignment``.

    ``synchronized`` says what orders its accesses: "barrier" lets the compiler insert barriers, and so does "cluster",
    where other CTAs write to it; "program" leaves it to the program, and so does "mbarrier"; with "thread" no
    element is accessed by two threads. With "cluster" and "mbarrier" the buffer shares its bytes with no other.
    """

    offset = attr(int, -1)
    alignment = attr(int, 16)
    synchronized = attr(str, "barrier")

    def verify(self, require) -> None:
        power = self.alignment in (16, 32, 64, 128, 256, 512, 1024)
        require(power, "ir.attribute", lambda: f"an alignment is 16 to 1024, got {self.alignment}", "alignment")
        known = self.synchronized in ("barrier", "cluster", "program", "mbarrier", "thread")
        require(known, "ir.attribute", lambda: f"nothing is synchronized by {self.synchronized!r}", "synchronized")
        require(isinstance(self.result.type, SharedType), "ir.type", "shared_alloc gives a shared buffer")


class LdShared(Op, name="ld_shared", effects={"read_shared"}, levels=SIMT):
    """``width`` consecutive elements of ``buffer`` from each element ``index``."""

    buffer = operand()
    index = operand()
    width = attr(int, 1)

    def infer(self) -> list[Type]:
        return [registers(element_of(self.buffer.type), count_of(self.index.type) * self.width)]

    def verify(self, require) -> None:
        _check_buffer(self, require)

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return I32


class StShared(Op, name="st_shared", effects={"write_shared"}, levels=SIMT):
    """Write ``width`` consecutive elements of ``buffer`` from each element ``index`` on, where ``mask`` is true."""

    buffer = operand()
    index = operand()
    value = operand()
    mask = operand(optional=True)
    width = attr(int, 1)

    def verify(self, require) -> None:
        _check_buffer(self, require)
        require(element_of(self.value.type) == element_of(self.buffer.type), "ir.type", "st_shared of another type")
        _check_counts(self, require, self.index, self.mask, self.value)

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return (None, I32, _dtype(element_of(operands[0].type)), BOOL)[index]


def shared_alignment(func: Func) -> int:
    """The bytes that the start of a CTA's shared memory is a multiple of."""
    return max([op.attrs.get("alignment", 16) for op in func.walk() if "alloc" in op.effects], default=16)


def _check_buffer(op, require) -> None:
    require(isinstance(op.buffer.type, SharedType), "ir.type", lambda: f"{op.name} needs a shared buffer", "buffer")
    require(
        element_of(op.index.type) is I32,
        "ir.type",
        lambda: f"{op.name} is indexed by i32, not {op.index.type}",
        "index",
    )


def _check_counts(op, require, address: Value, mask: Value | None, data: Value | None) -> None:
    accesses = count_of(address.type)
    require(op.width in (1, 2, 4, 8, 16), "ir.attribute", lambda: f"no access of {op.width} elements", "width")
    if mask is not None:
        require(element_of(mask.type) is BOOL and count_of(mask.type) in (1, accesses), "ir.type", "mask per access")
    if data is not None:
        counts = (1, accesses * op.width)
        require(count_of(data.type) in counts, "ir.type", lambda: f"{data.type} is not {counts[1]} elements")
