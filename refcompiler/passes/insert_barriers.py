"""Barriers where a thread may touch what another thread wrote or still reads, in shared or global memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from refcompiler.analysis.pointers import Pointers
from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.atomic import Atomic
from refcompiler.dialects.simt.roles import NAMED_BARRIERS, WARP, Roles
from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import DType, RegType, SharedType, element_of

# Accesses that go on after their op -> the ops that make groups of them, and that wait for these.
_FLIGHTS = {
    "cp_async": ("cp_async_commit", "cp_async_wait"),
    "tma_store": ("bulk_commit", "bulk_wait"),
    "tma_load": ("", "mbarrier_wait"),
    "st_async": ("", "mbarrier_wait"),
    "wgmma": ("wgmma_commit", "wgmma_wait"),
}
_MOST_GROUPS = 8  # to be told apart
_LANDED = -1


def insert_barriers(func: Func, context: Any = None) -> None:
    """Separate by a barrier any two accesses, at least one a write, that different threads may make to one place.

    Shared accesses meet where their buffers' bytes overlap; buffers that are ``synchronized`` by the program are left
    to it, and accesses to one in which threads keep to elements of their own do not meet each other. Global accesses
    meet where their pointers may be equal: pointers from one parameter always, pointers from two parameters unless
    ``func.attrs["noalias"]`` says that parameters do not overlap, or ``func.attrs["disjoint"]`` that these two do not.
    Two parameters are assumed to begin at one address if they overlap at all: accesses of one thread at equal offsets,
    or at offsets that are never equal, need no barrier. Loops are followed around their back edge.

    An asynchronous access stays pending until it was waited for and a barrier follows. Copies of boxes and matrix
    products are followed in shared memory only. Inside a role the barrier is a named one, of that role's warps;
    accesses of two roles are left to the program. Where CTAs of a cluster may meet in global memory, the barrier is
    that of the cluster.
    """
    pass_ = _Barriers(func)
    pass_.block(func.body, frozenset())
    pass_.insert(func.body)


@dataclass(frozen=True)
class _Access:
    """A pending access to a shared buffer or through a pointer. ``stale``: the loops of which an earlier iteration made
    it, at an address that changed since. ``flight``: how many groups were committed since it began, while nobody
    has waited for it."""

    op: Op
    place: Value
    writes: bool
    stale: frozenset[Op] = frozenset()
    flight: int = _LANDED

    @property
    def shared(self) -> bool:
        return isinstance(self.place.type, SharedType)

    def after(self, op: Op) -> _Access | None:
        """What becomes of it by ``op``, which may make groups or wait; None where it needs no barrier any more."""
        commits, waits = _FLIGHTS[self.op.name]
        if op.name == commits:
            return replace(self, flight=min(self.flight + 1, _MOST_GROUPS))
        if op.name != waits:
            return self
        if op.name == "mbarrier_wait":
            return None if op.barrier is self.op.bar else self
        return replace(self, flight=_LANDED) if self.flight > op.pending else self


def _accesses(op: Op) -> list[_Access]:
    """The accesses of ``op`` that barriers may have to order."""
    flight = 0 if op.name in _FLIGHTS else _LANDED
    found = []
    for place in dict.fromkeys(o for o in op.operands if o is not None and isinstance(o.type, SharedType)):
        if place.owner.attrs.get("synchronized") in ("barrier", "cluster", "thread") and op.effects & {
            "read_shared",
            "write_shared",
        }:
            found.append(_Access(op, place, "write_shared" in op.effects, flight=flight))
    if op.effects & {"read", "write"}:
        found.append(_Access(op, op.pointer, "write" in op.effects, flight=flight))
    return found


class _Barriers:
    def __init__(self, func: Func):
        self.noalias = bool(func.attrs.get("noalias"))
        self.disjoint = set(func.attrs.get("disjoint", ()))
        self.before: dict[Op, bool] = {}  # whether it is a barrier of the cluster
        self.ctas = func.attrs.get("num_ctas", 1)
        self.func, self.pointers, self.ranges = func, Pointers(func), Ranges(func)
        self.warps = func.attrs.get("num_warps", 1)
        self.taken = {op.id for op in func.walk() if op.name == "named_barrier"}
        self.role: tuple[int, int] | None = None  # the number of its named barrier, and its threads
        self.named: dict[Op, tuple[int, int]] = {}  # ops inside of roles

    # --- the dataflow
    def block(self, block: Block, pending: frozenset[_Access]) -> frozenset[_Access]:
        """What is pending after ``block``, given what is before; notes the barriers that this needs."""
        for op in block.ops:
            if op.name == "barrier" or (op.name == "named_barrier" and self.orders_all(op)):
                pending = self.ordered(pending)
            elif op.name == "cluster_barrier":
                pending = self.ordered(pending, cluster=True)
            elif op.name == "if":
                pending = self.block(op.then, pending) | self.block(op.orelse, pending)
            elif isinstance(op, Roles):
                pending = self.roles(op, pending)
            elif op.regions:
                pending = self.loop(op, pending)
            else:
                after = (a if a.flight == _LANDED else a.after(op) for a in pending)
                pending = self.access(op, frozenset(a for a in after if a is not None))
        return pending

    def access(self, op: Op, pending: frozenset[_Access]) -> frozenset[_Access]:
        accesses = _accesses(op)
        pending = self.separate(op, accesses, pending)
        return pending | frozenset(accesses)

    def separate(self, op: Op, accesses: list[_Access], pending: frozenset[_Access]) -> frozenset[_Access]:
        """What is pending where ``op`` begins, after a barrier if any of its accesses needs one."""
        conflicts = [(p, a) for a in accesses for p in pending if self.conflict(p, a)]
        if not conflicts and op not in self.before:
            return pending
        cluster = self.before.get(op, False) or any(self.is_wide(p) or self.is_wide(a) for p, a in conflicts)
        self.before[op] = cluster
        return self.ordered(pending, cluster)

    def is_wide(self, access: _Access) -> bool:
        """Whether the other access may be of another CTA of the cluster."""
        return self.ctas > 1 and not access.shared

    def ordered(self, pending: frozenset[_Access], cluster: bool = False) -> frozenset[_Access]:
        """What is pending after a barrier: what was not waited for, and after one of a CTA what other CTAs meet."""
        return frozenset(p for p in pending if p.flight != _LANDED or (not cluster and self.is_wide(p)))

    def orders_all(self, op: Op) -> bool:
        """Whether all threads that run this code meet at a named barrier."""
        return op.threads >= (self.role[1] if self.role else self.warps * WARP)

    def roles(self, op: Roles, pending: frozenset[_Access]) -> frozenset[_Access]:
        """All threads meet before roles that touch what is pending; inside, each role keeps its own accounts."""
        inside = [a for region in op.regions for inner in region.walk() for a in _accesses(inner)]
        pending = self.separate(op, inside, pending)
        after: frozenset[_Access] = pending
        for number, (region, (first, end)) in enumerate(zip(op.regions, op.ranges(self.warps), strict=True)):
            self.role = (self.free_barrier(op, number + 1), (end - first) * WARP)
            self.named.update(dict.fromkeys(region.walk(), self.role))
            after |= self.block(region, frozenset())
        self.role = None
        return after

    def free_barrier(self, op: Roles, wanted: int) -> int:
        """The named barrier ``wanted``, or one that the program does not use itself."""
        others = range(len(op.regions) + 1, NAMED_BARRIERS + 1)
        return next(id for id in (wanted, *others) if id not in self.taken)

    def loop(self, op: Op, pending: frozenset[_Access]) -> frozenset[_Access]:
        """What is pending after a loop: what it needs against accesses before it is one barrier there, if that makes
        fewer in each iteration, first of all of the cluster."""
        if op in self.before:
            return self.iterations(op, self.ordered(pending, self.before[op]))
        cluster = any(self.is_wide(p) for p in pending)
        ordered = self.ordered(pending, cluster)
        outside = dict(self.before)
        after = self.iterations(op, pending)
        if pending == ordered or self.before == outside:
            return after
        together, self.before = self.before, outside
        after_barrier = self.iterations(op, ordered)
        if _cost(together) <= _cost(self.before):
            self.before = together
            return after
        self.before[op] = cluster
        return after_barrier

    def iterations(self, op: Op, pending: frozenset[_Access]) -> frozenset[_Access]:
        """A counted loop is left before or after its region, a loop on a condition after its first one."""
        defined, entry = _defined(op), pending
        while True:
            leaving, ends = entry, []
            for region in op.regions:
                leaving = self.block(region, leaving)
                ends.append(leaving)
            again = entry | {replace(a, stale=a.stale | {op}) if self.varies(a, defined) else a for a in leaving}
            if again == entry:
                return pending | leaving if op.name == "for" else ends[0]
            entry = again

    def varies(self, access: _Access, defined: set[Value]) -> bool:
        """True if the address of a global access changes from one iteration to the next."""
        if access.shared:
            return False
        root, offsets = self.pointers.path(access.place)
        return root in defined or any(offset in defined for offset, _ in offsets)

    def conflict(self, a: _Access, b: _Access) -> bool:
        if a.shared != b.shared or not (a.writes or b.writes):
            return False
        if isinstance(a.op, Atomic) and a.op.acquires:
            return True  # what follows has to see what was released before, in every thread
        if isinstance(b.op, Atomic) and b.op.releases:
            return True  # what all threads did before is released
        if a.shared:
            if a.place is b.place and a.place.owner.attrs["synchronized"] == "thread":
                return False
            return _meet(_bytes(a.place), _bytes(b.place))
        if self.are_disjoint(a.place, b.place):
            return False
        if a.stale and self.apart_in_rounds(a, b):
            return False
        if a.op is b.op:
            return bool(a.stale)
        return not (self.apart(a.op, b.op) or self.same_thread(a, b))

    def are_disjoint(self, a: Value, b: Value) -> bool:
        """True if two pointers are into arrays that share nothing."""
        if not self.noalias and not self.disjoint:
            return False
        left, right = (self.pointers.parameters(pointer) for pointer in (a, b))
        if self.noalias:
            return not left & right
        pairs = [(str(x.name), str(y.name)) for x in left for y in right]
        return all((min(pair), max(pair)) in self.disjoint for pair in pairs)

    def apart(self, a: Op, b: Op) -> bool:
        """True if the accesses are to different elements of their parameters, whatever the threads."""
        intervals = [self.pointers.displacement(op.pointer, self.ranges) for op in (a, b)]
        if None in intervals or pointee(a.pointer.type) != pointee(b.pointer.type):
            return False
        spans = [(low, high + _width(op)) for (low, high), op in zip(intervals, (a, b), strict=True)]
        return not _meet(*spans)

    def apart_in_rounds(self, a: _Access, b: _Access) -> bool:
        """True if ``b`` is to other elements than ``a`` was in any earlier round of its loop: those of a round lie
        within one step of the loop's index, which is added to the addresses, or a multiple of it."""
        (loop, *others), (root, offsets), (root2, offsets2) = (
            a.stale,
            *(self.pointers.path(x.op.pointer) for x in (a, b)),
        )
        if others or loop.name != "for" or pointee(a.op.pointer.type) != pointee(b.op.pointer.type):
            return False
        if not {root, root2} <= set(self.func.params):
            return False
        index, step = next(((o, s) for o in offsets if (s := self.least_step(loop, o))), (None, 0))
        inside = _defined(loop)
        invariant = [o for o in offsets if o in offsets2 and o[0] not in inside and self.is_uniform(o[0])]
        spans = []
        for op, path in ((a.op, list(offsets)), (b.op, list(offsets2))):
            for removed in (index, *invariant):
                if removed not in path:
                    return False
                path.remove(removed)
            intervals = [self.ranges.of(offset) for offset, _ in path]
            spans.append((sum(low for low, _ in intervals), sum(high for _, high in intervals) + _width(op)))
        return max(high for _, high in spans) - min(low for low, _ in spans) <= step

    def least_step(self, loop: Op, offset: tuple[Value, tuple]) -> int:
        """What an offset grows or shrinks by, at least, from one round to the next; 0 where that is not known."""
        value, picks = offset
        factor = 1
        while not picks and isinstance(owner := value.owner, Op) and owner.name in ("mul", "cast"):
            if owner.name == "mul":
                known = next((o for o in owner.operands if isinstance(o, Constant)), None)
                if known is None:
                    return 0
                factor *= abs(int(known.value))
            elif not self.keeps_value(owner):
                return 0
            value = next((o for o in owner.operands if not isinstance(o, Constant)), owner.operands[0])
        if value is not loop.body.args[0] or picks:
            return 0
        low, high = self.ranges.of(loop.step)
        return factor * max(low, -high, 0)

    def keeps_value(self, cast: Op) -> bool:
        """Whether a conversion between integers loses nothing."""
        low, high = self.ranges.of(cast.x)
        target = element_of(cast.result.type)
        return isinstance(target, DType) and target.is_int and target.min_int <= low and high <= target.max_int

    def is_uniform(self, value: Value) -> bool:
        """True if a scalar is the same in all threads: made of parameters and the program's place in the grid."""
        if isinstance(value, Constant) or value in self.func.params:
            return True
        op = value.owner
        if not isinstance(op, Op) or op.regions or op.effects or isinstance(value.type, RegType):
            return False
        return op.name in ("program_id", "num_programs", "cta_rank") or (
            bool(op.operands) and all(map(self.is_uniform, op.operands))
        )

    def same_thread(self, a: _Access, b: _Access) -> bool:
        """True if the accesses are to the same elements, and each element belongs to one thread."""
        if a.stale or a.flight != _LANDED or _width(a.op) != _width(b.op):
            return False
        if any(access.op.attrs.get("replicated") for access in (a, b)):
            return False
        return self.pointers.equal(a.op.pointer, b.op.pointer)

    # --- rewriting
    def insert(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            if op in self.before and op in self.named:
                id, threads = self.named[op]
                ops.append(OPS["named_barrier"](id=id, threads=threads, span=op.span))
            elif op in self.before:
                ops.append(OPS["cluster_barrier" if self.before[op] else "barrier"](span=op.span))
            for region in op.regions:
                self.insert(region)
            ops.append(op)
        block.ops = ops


def _cost(before: dict[Op, bool]) -> tuple[int, int]:
    """How many barriers of the cluster, and how many in all: one of the cluster takes longer than several of a CTA."""
    return sum(before.values()), len(before)


def _defined(loop: Op) -> set[Value]:
    """The values that a loop makes in each iteration."""
    walked = [inner for region in loop.regions for inner in region.walk()]
    made = {value for inner in walked for value in inner.results}
    return made | {arg for inner in (loop, *walked) for region in inner.regions for arg in region.args}


def _width(op: Op) -> int:
    """The elements of one access."""
    return op.attrs.get("width", 1)


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """True if two half-open intervals have a point in common."""
    return a[0] < b[1] and b[0] < a[1]


def _bytes(buffer: Value) -> tuple[int, int]:
    """The byte range of a placed buffer."""
    start = buffer.owner.offset
    return start, start + buffer.type.nbytes
