"""Place shared buffers: large ones reuse the bytes of buffers that are dead, small ones while there are few."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any

from refcompiler.errors import CompileError
from refcompiler.ir.core import Block, Func, Op, Value

ALIGNMENT = 16  # the widest access
REUSE_FROM = 2048  # below this many bytes memory is cheaper than the barrier that reuse would need,
SPARED = 16384  # until all of them together cost programs that could run beside this one
SHARE = 16  # of all bytes, that small buffers must save: that few cost no program


@dataclass
class _Buffer:
    op: Op
    size: int
    first: int = -1  # position of the first and last access
    last: int = -1

    @property
    def alone(self) -> bool:
        """True if no barrier would order it after what had its bytes before."""
        return self.op.attrs.get("synchronized") not in ("barrier", "program", "thread")

    def excludes(self, other: _Buffer, reuse_from: int) -> bool:
        """True if the two have no bytes in common."""
        if self.alone or other.alone:
            return True
        if min(self.size, other.size) < reuse_from:
            return True
        return self.first <= other.last and other.first <= self.last


def allocate_shared(func: Func, context: Any) -> None:
    """Set the offset of every ``shared_alloc`` and ``func.attrs["shared_bytes"]``.

    Raises CompileError (target.shared_memory) where the target has less.
    """
    limit = context.target.shared_bytes_per_block if context.target is not None else inf
    buffers: dict[Value, _Buffer] = {}
    _live_ranges(func.body, buffers, 0)
    total = _place(buffers.values(), REUSE_FROM)
    if total > SPARED:
        least = _place(buffers.values(), 0)
        total = _place(buffers.values(), REUSE_FROM) if (total - least) * SHARE < total <= limit else least
    func.attrs["shared_bytes"] = total
    if total > limit:
        largest = max(buffers.values(), key=lambda b: b.size)
        raise CompileError(
            "target.shared_memory",
            f"the kernel needs {total} bytes of shared memory, {context.target} has {limit} per block",
            largest.op.span or func.span,
            phase="lower",
            notes=["use smaller blocks, or blocks whose conversions stay within a warp"],
        )


def _live_ranges(block: Block, buffers: dict[Value, _Buffer], position: int) -> int:
    """Number the ops and extend the range of each buffer to its accesses; a buffer made outside a loop in which it is
    accessed lives for the whole loop."""
    for op in block.ops:
        position += 1
        if "alloc" in op.effects:
            buffers[op.result] = _Buffer(op, -(-op.result.type.nbytes // ALIGNMENT) * ALIGNMENT)
        touched = [o for o in op.operands if o in buffers]
        start = position
        if op.regions:
            outer = set(buffers)
            for region in op.regions:
                position = _live_ranges(region, buffers, position)
            touched = [b for region in op.regions for o in region.walk() for b in o.operands if b in outer]
        for value in touched:
            buffer = buffers[value]
            buffer.first = start if buffer.first < 0 else min(buffer.first, start)
            buffer.last = max(buffer.last, position)
    return position


def _place(buffers: Iterable[_Buffer], reuse_from: int) -> int:
    """Set the offset of every buffer, the largest first, each at the lowest free place; gives the bytes used."""
    placed: list[_Buffer] = []
    total = 0
    for buffer in sorted(buffers, key=lambda b: (-b.size, b.first)):
        offset, step = 0, buffer.op.attrs.get("alignment", ALIGNMENT)
        taken = (p for p in placed if p.excludes(buffer, reuse_from))
        for other in sorted(taken, key=lambda p: p.op.offset):
            if offset + buffer.size <= other.op.offset:
                break
            offset = -(-max(offset, other.op.offset + other.size) // step) * step
        buffer.op.attrs["offset"] = offset
        placed.append(buffer)
        total = max(total, offset + buffer.size)
    return total
