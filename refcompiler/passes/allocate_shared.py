"""Place shared buffers: large ones reuse the bytes of buffers that are dead, small ones do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refcompiler.errors import CompileError
from refcompiler.ir.core import Block, Func, Op, Value
from refcompiler.ir.types import DType, element_of

ALIGNMENT = 16  # the widest access
REUSE_FROM = 2048  # below this many bytes memory is cheaper than the barrier that reuse would need
POINTER_BYTES = 8


@dataclass
class _Buffer:
    op: Op
    size: int
    first: int = -1  # position of the first and last access
    last: int = -1

    def overlaps(self, other: _Buffer) -> bool:
        if min(self.size, other.size) < REUSE_FROM:
            return True
        return self.first <= other.last and other.first <= self.last


def buffer_bytes(buffer: Value) -> int:
    element = element_of(buffer.type)
    return buffer.type.count * (element.itemsize if isinstance(element, DType) else POINTER_BYTES)


def allocate_shared(func: Func, context: Any) -> None:
    """Set the offset of every ``shared_alloc`` and ``func.attrs["shared_bytes"]``.

    Raises CompileError (target.shared_memory) where the target has less.
    """
    buffers: dict[Value, _Buffer] = {}
    _live_ranges(func.body, buffers, 0)
    placed: list[_Buffer] = []
    total = 0
    for buffer in sorted(buffers.values(), key=lambda b: (-b.size, b.first)):
        offset = _first_fit(buffer, placed)
        buffer.op.attrs["offset"] = offset
        placed.append(buffer)
        total = max(total, offset + buffer.size)
    func.attrs["shared_bytes"] = total
    limit = context.target.shared_bytes_per_block if context.target is not None else None
    if limit is not None and total > limit:
        largest = max(buffers.values(), key=lambda b: b.size)
        raise CompileError(
            "target.shared_memory",
            f"the kernel needs {total} bytes of shared memory, {context.target} has {limit} per block",
            largest.op.span,
            phase="lower",
            notes=["use smaller blocks, or blocks whose conversions stay within a warp"],
        )


def _live_ranges(block: Block, buffers: dict[Value, _Buffer], position: int) -> int:
    """Number the ops and extend the range of each buffer to its accesses; a buffer made outside a loop in which it is
    accessed lives for the whole loop."""
    for op in block.ops:
        position += 1
        if op.name == "shared_alloc":
            buffers[op.result] = _Buffer(op, -(-buffer_bytes(op.result) // ALIGNMENT) * ALIGNMENT)
        touched = [o for o in op.operands if o in buffers]
        start = position
        if op.body is not None:
            outer = set(buffers)
            position = _live_ranges(op.body, buffers, position)
            touched = [b for inner in op.body.walk() for b in inner.operands if b in outer]
        for value in touched:
            buffer = buffers[value]
            buffer.first = start if buffer.first < 0 else min(buffer.first, start)
            buffer.last = max(buffer.last, position)
    return position


def _first_fit(buffer: _Buffer, placed: list[_Buffer]) -> int:
    offset = 0
    for other in sorted((p for p in placed if p.overlaps(buffer)), key=lambda p: p.op.offset):
        if offset + buffer.size <= other.op.offset:
            break
        offset = max(offset, other.op.offset + other.size)
    return offset
