"""Delay loads from shared memory past stores to other buffers, so that several exchanges share their barriers."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Block, Func, Op, Value

HELD_BYTES = 1 << 16  # buffers that wait for each other cannot share their bytes
STORES = frozenset({"st_shared", "stmatrix"})


def delay_shared_loads(func: Func, context: Any = None) -> None:
    """Move each ``ld_shared``, with pure ops on what it gives, to the first op that needs it, where that takes it past
    a store to another buffer. Nothing passes an op with regions, a barrier or another access to its own buffer."""
    _block(func.body)


def _block(block: Block) -> None:
    out: list[Op] = []
    delayed = _Delayed()
    for op in block.ops:
        for region in op.regions:
            _block(region)
        if delayed.takes(op):
            delayed.add(op, len(out))
            continue
        if delayed.holds(op):
            delayed.release(out)
        if op.name in STORES:
            delayed.stores += 1
        out.append(op)
    delayed.release(out)
    block.ops = out


class _Delayed:
    """Loads and what is computed from them, in order, and where each of them was."""

    def __init__(self) -> None:
        self.ops: list[tuple[Op, int, int]] = []  # op, place in the output, stores before it
        self.values: set[Value] = set()
        self.buffers: set[Value] = set()
        self.stores = 0

    def takes(self, op: Op) -> bool:
        if op.name == "ld_shared":
            return not any(o in self.values for o in op.operands)
        return op.pure and not op.regions and bool(op.results) and any(o in self.values for o in op.operands)

    def add(self, op: Op, place: int) -> None:
        self.ops.append((op, place, self.stores))
        self.values.update(op.results)
        if op.name == "ld_shared":
            self.buffers.add(op.buffer)

    def holds(self, op: Op) -> bool:
        """Whether ``op`` has to come after what is delayed."""
        if op.terminator or op.regions or any(o in self.values for o in op.operands):
            return True
        if op.name in STORES:
            full = sum(b.type.nbytes for b in {*self.buffers, op.buffer}) > HELD_BYTES
            return op.buffer in self.buffers or full
        return bool(op.effects - {"read", "alloc", "read_shared"})

    def release(self, out: list[Op]) -> None:
        """Everything here, if a store was passed; else each op where it was."""
        if self.ops and self.stores > self.ops[0][2]:
            out += [op for op, _, _ in self.ops]
        else:
            for op, place, _ in reversed(self.ops):
                out.insert(place, op)
        self.ops, self.values, self.buffers = [], set(), set()
