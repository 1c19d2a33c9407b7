"""Barriers where a thread may touch what another thread wrote or still reads, in shared or global memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refcompiler.analysis.pointers import Pointers
from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.atomic import Atomic
from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir.core import Block, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import DType, element_of

POINTER_BYTES = 8
_ACCESSES = {
    "ld_shared": "read",
    "st_shared": "write",
    "ld_global": "read",
    "st_global": "write",
    "atomic_rmw": "write",
    "atomic_cas": "write",
}


def insert_barriers(func: Func, context: Any = None) -> None:
    """Separate by a barrier any two accesses, at least one a write, that different threads may make to one place.

    Shared accesses meet where their buffers' bytes overlap. Global accesses meet where their pointers may be equal:
    pointers from one parameter always, pointers from two parameters unless ``func.attrs["noalias"]`` says that
    parameters do not overlap. Two parameters are assumed to begin at one address if they overlap at all: accesses of
    one thread at equal offsets, or at offsets that are never equal, need no barrier. Loops are followed around their
    back edge.
    """
    pass_ = _Barriers(func)
    pass_.block(func.body, frozenset())
    pass_.insert(func.body)


@dataclass(frozen=True)
class _Access:
    """A pending access. ``stale``: made by an earlier iteration, at an address that changed since."""

    op: Op
    stale: bool = False

    @property
    def writes(self) -> bool:
        return _ACCESSES[self.op.name] == "write"

    @property
    def shared(self) -> bool:
        return self.op.name.endswith("_shared")


class _Barriers:
    def __init__(self, func: Func):
        self.noalias = bool(func.attrs.get("noalias"))
        self.before: set[Op] = set()
        self.func, self.pointers, self.ranges = func, Pointers(func), Ranges(func)

    # --- the dataflow
    def block(self, block: Block, pending: frozenset[_Access]) -> frozenset[_Access]:
        """What is pending after ``block``, given what is before; notes the barriers that this needs."""
        for op in block.ops:
            if op.name == "barrier":
                pending = frozenset()
            elif op.name == "if":
                pending = self.block(op.then, pending) | self.block(op.orelse, pending)
            elif op.regions:
                pending = self.loop(op, pending)
            elif op.name in _ACCESSES:
                access = _Access(op)
                if op in self.before or any(self.conflict(p, access) for p in pending):
                    self.before.add(op)
                    pending = frozenset()
                pending |= {access}
        return pending

    def loop(self, op: Op, pending: frozenset[_Access]) -> frozenset[_Access]:
        """What is pending after a loop: what it needs against accesses before it is one barrier there, if that makes
        fewer in each iteration."""
        if op in self.before:
            return self.iterations(op, frozenset())
        outside = set(self.before)
        after = self.iterations(op, pending)
        if not pending or self.before == outside:
            return after
        together, self.before = self.before, outside
        after_barrier = self.iterations(op, frozenset())
        if len(together) <= len(self.before):
            self.before = together
            return after
        self.before.add(op)
        return after_barrier

    def iterations(self, op: Op, pending: frozenset[_Access]) -> frozenset[_Access]:
        """A counted loop is left before or after its region, a loop on a condition after its first one."""
        walked = [inner for region in op.regions for inner in region.walk()]
        defined = {value for inner in walked for value in inner.results}
        defined |= {arg for inner in (op, *walked) for region in inner.regions for arg in region.args}
        entry = pending
        while True:
            leaving, ends = entry, []
            for region in op.regions:
                leaving = self.block(region, leaving)
                ends.append(leaving)
            again = entry | {_Access(a.op, a.stale or self.varies(a.op, defined)) for a in leaving}
            if again == entry:
                return pending | leaving if op.name == "for" else ends[0]
            entry = again

    def varies(self, op: Op, defined: set[Value]) -> bool:
        """True if the address of a global access changes from one iteration to the next."""
        if op.name.endswith("_shared"):
            return False
        root, offsets = self.pointers.path(op.pointer)
        return root in defined or any(offset in defined for offset, _ in offsets)

    def conflict(self, a: _Access, b: _Access) -> bool:
        if a.shared != b.shared or not (a.writes or b.writes):
            return False
        if isinstance(a.op, Atomic) and a.op.acquires:
            return True  # what follows has to see what was released before, in every thread
        if isinstance(b.op, Atomic) and b.op.releases:
            return True  # what all threads did before is released
        if a.shared:
            return _meet(_bytes(a.op.buffer), _bytes(b.op.buffer))
        if self.noalias:
            x, y = (self.pointers.parameters(o.op.pointer) for o in (a, b))
            if not x & y:
                return False
        if a.op is b.op:
            return a.stale
        return not (self.apart(a.op, b.op) or self.same_thread(a, b))

    def apart(self, a: Op, b: Op) -> bool:
        """True if the accesses are to different elements of their parameters, whatever the threads."""
        intervals = [self.pointers.displacement(op.pointer, self.ranges) for op in (a, b)]
        if None in intervals or pointee(a.pointer.type) != pointee(b.pointer.type):
            return False
        spans = [(low, high + _width(op)) for (low, high), op in zip(intervals, (a, b), strict=True)]
        return not _meet(*spans)

    def same_thread(self, a: _Access, b: _Access) -> bool:
        """True if the accesses are to the same elements, and each element belongs to one thread."""
        if a.stale or a.op.replicated or b.op.replicated or _width(a.op) != _width(b.op):
            return False
        return self.pointers.equal(a.op.pointer, b.op.pointer)

    # --- rewriting
    def insert(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            if op in self.before:
                ops.append(OPS["barrier"](span=op.span))
            for region in op.regions:
                self.insert(region)
            ops.append(op)
        block.ops = ops


def _width(op: Op) -> int:
    """The elements of one access."""
    return op.attrs.get("width", 1)


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """True if two half-open intervals have a point in common."""
    return a[0] < b[1] and b[0] < a[1]


def _bytes(buffer: Value) -> tuple[int, int]:
    """The byte range of a placed buffer."""
    element = element_of(buffer.type)
    start = buffer.owner.offset
    return start, start + buffer.type.count * (element.itemsize if isinstance(element, DType) else POINTER_BYTES)
