"""Where pointers come from: the parameters that a pointer may point into, and which pointers are written through."""

from __future__ import annotations

from refcompiler.analysis.ranges import Interval, Ranges
from refcompiler.dialects.scf import Structured
from refcompiler.dialects.simt.tensor_maps import written_through
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import DescriptorType, PointerType, element_of


class Pointers:
    """Provenance of the pointers of a function, at any level, through arithmetic, selection, branches and loops."""

    def __init__(self, func: Func):
        self.func = func
        self.carried: dict[Value, tuple[Value, ...]] = {}  # carried value or result -> all that shares its slot
        for op in func.walk():
            if isinstance(op, Structured):
                for slot in op.slots():
                    self.carried.update(dict.fromkeys(slot.values, slot.values + slot.sources))

    def sources(self, value: Value) -> list[Value] | None:
        """The pointers that ``value`` was made from; None where that is not known, [] for a parameter."""
        if value in self.carried:
            return list(self.carried[value])
        if isinstance(value.owner, Op) and value.owner.name == "empty":
            return []
        if isinstance(value.owner, Op):
            operands = (o for o in value.owner.operands if o is not None)
            return [o for o in operands if isinstance(element_of(o.type), PointerType | DescriptorType)] or None
        return [] if value in self.func.params else None

    def closure(self, pointers: list[Value]) -> tuple[set[Value], bool]:
        """All pointers that ``pointers`` are made from, themselves included; False if some origin is unknown."""
        seen: set[Value] = set()
        known, open_ = True, list(pointers)
        while open_:
            value = open_.pop()
            if value not in seen:
                seen.add(value)
                sources = self.sources(value)
                known = known and sources is not None
                open_ += sources or []
        return seen, known

    def parameters(self, pointer: Value) -> frozenset[Value]:
        """The parameters that ``pointer`` may point into."""
        reached, known = self.closure([pointer])
        return frozenset(p for p in self.func.params if p in reached or not known)

    def reached(self, effect: str) -> set[Value]:
        """The pointers, parameters included, through which ops with ``effect`` ("read" or "write") access memory."""
        accesses = [op.pointer for op in self.func.walk() if effect in op.effects]
        if effect == "write":
            mapped = written_through(self.func)
            accesses += [p for p in self.func.params if p.name in mapped]
        reached, known = self.closure(accesses)
        return reached if known else reached | set(self.func.params)

    def path(self, pointer: Value) -> tuple[Value, list[tuple[Value, tuple]]]:
        """The root of ``pointer``, a parameter where that is known, and the offsets added to it on the way.

        Each offset comes with the picks of registers that follow it: two pointers of equal paths are equal in every
        register of every thread.
        """
        offsets: list[tuple[Value, tuple]] = []
        picks: tuple = ()
        while isinstance(pointer.owner, Op) and pointer.owner.name in ("addptr", "splat", "extract"):
            owner = pointer.owner
            if owner.name == "addptr":
                offset, then = owner.offset, picks
                while isinstance(offset.owner, Op) and offset.owner.name == "extract":
                    offset, then = offset.owner.x, (offset.owner.indices, *then)
                offsets.append((offset, then))
            elif owner.name == "extract":
                picks = (owner.indices, *picks)
            pointer = owner.operands[0]
        return pointer, offsets

    def equal(self, pointer: Value, other: Value) -> bool:
        """True if two pointers have equal paths, from one root or from two parameters."""
        (root, offsets), (root2, offsets2) = self.path(pointer), self.path(other)
        if root is not root2 and not (root in self.func.params and root2 in self.func.params):
            return False
        return [(_key(v), picks) for v, picks in offsets] == [(_key(v), picks) for v, picks in offsets2]

    def displacement(self, pointer: Value, ranges: Ranges) -> Interval | None:
        """How many elements ``pointer`` is away from the parameter it points into; None where that is not known."""
        root, offsets = self.path(pointer)
        intervals = [ranges.of(offset) for offset, _ in offsets]
        if root not in self.func.params:
            return None
        return sum(i[0] for i in intervals), sum(i[1] for i in intervals)


def _key(value: Value) -> object:
    """Constants are equal by value, everything else by identity."""
    return value.key() if isinstance(value, Constant) else value
