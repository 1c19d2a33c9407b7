"""Which arrays must not overlap for accesses to change their order."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from refcompiler.analysis.pointers import Pointers
from refcompiler.dialects.atomic import Atomic
from refcompiler.ir.core import Block, Func, Op

Pair = tuple[str, str]


def disjoint_parameters(func: Func, early: Set[Op], late: Set[Op]) -> set[Pair] | None:
    """The pairs of parameters whose arrays must have no element in common if the loads in ``early`` happen before any
    op, and the stores in ``late`` at any time after they would have happened. None where that is not enough."""
    return _Orders(func).pairs(early, late)


def disjoint_in_rounds(func: Func, loop: Op, early: Set[Op]) -> set[Pair] | None:
    """The same for loads of a loop that happen in earlier rounds of it, but not before it begins."""
    return _Orders(func, loop).pairs(early, set())


class _Orders:
    """The order of the accesses of a function, or of one loop in it."""

    def __init__(self, func: Func, loop: Op | None = None):
        self.pointers = Pointers(func)
        walked = func.walk() if loop is None else (op for region in loop.regions for op in region.walk())
        self.accesses: list[Op] = [op for op in walked if op.effects & {"read", "write"}]
        self.position = {op: i for i, op in enumerate(func.walk())}
        self.loops: dict[Op, frozenset[Op]] = {}
        self._note(func.body, frozenset())

    def _note(self, block: Block, loops: frozenset[Op]) -> None:
        for op in block.ops:
            self.loops[op] = loops
            for region in op.regions:
                self._note(region, loops | {op} if op.name in ("for", "while") else loops)

    def pairs(self, early: Set[Op], late: Set[Op]) -> set[Pair] | None:
        if any(isinstance(op, Atomic) for op in self.accesses):
            return None  # other programs may be told that something was done
        found: set[Pair] = set()
        for op in self.accesses:
            crossed = [e for e in early if "write" in op.effects and self.may_follow(op, e)]
            if op not in late and op not in early:
                crossed += [s for s in late if "write" in op.effects or self.may_follow(s, op)]
            for other in crossed:
                names = self.names(op, other)
                if names is None:
                    return None
                found |= names
        return found

    def may_follow(self, first: Op, second: Op) -> bool:
        """Whether ``second`` may happen after ``first``."""
        return self.position[second] > self.position[first] or bool(self.loops[first] & self.loops[second])

    def names(self, a: Any, b: Any) -> set[Pair] | None:
        """The parameters of two accesses, pair by pair; None where one belongs to both."""
        left, right = ({str(p.name) for p in self.pointers.parameters(op.pointer)} for op in (a, b))
        if left & right:
            return None
        return {(min(x, y), max(x, y)) for x in left for y in right}
