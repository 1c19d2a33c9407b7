"""How many registers a thread needs while warpgroups compute a product: at least those of all that outlives it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import prod

from refcompiler.analysis.warpgroup_products import PROMOTED, WARPGROUP, origin
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import FLOATS8, DType, element_of, shape_of

REGISTER_BYTES = 4
REGISTERS = 65536  # of a multiprocessor
MOST_REGISTERS, MOST_COMPUTING_REGISTERS = 255, 240  # of a thread
FETCHING_REGISTERS, FEWEST_REGISTERS = 40, 24  # of a thread that fetches: comfortable, and as few as can be
KEPT = frozenset({"dot", "load", "descriptor_load", "reduce", "scan", "gather", "atomic"})  # never done again


def programs_of_roles(warpgroups: int, maxnreg: int | None) -> int:
    """How many programs, in each of which ``warpgroups`` compute and one fetches, a multiprocessor has registers for,
    where threads have ``maxnreg`` on the average; None: one program may take them all."""
    return max(1, REGISTERS // (WARPGROUP * (warpgroups + 1) * maxnreg)) if maxnreg else 1


def registers_of_roles(warpgroups: int, maxnreg: int | None) -> tuple[int, int] | None:
    """The registers of a computing and of a fetching thread, where ``warpgroups`` compute and one fetches, and threads
    have ``maxnreg`` on the average; None where all can have as many as there are."""
    programs = programs_of_roles(warpgroups, maxnreg)
    entry = REGISTERS // (WARPGROUP * (warpgroups + 1) * programs) // 8 * 8
    if entry >= MOST_REGISTERS:
        return None
    fetching = FETCHING_REGISTERS if programs == 1 and warpgroups < 4 else FEWEST_REGISTERS
    computing = (entry * (warpgroups + 1) - fetching) // warpgroups // 8 * 8
    return min(computing, MOST_COMPUTING_REGISTERS), fetching


def computing_registers(warpgroups: int, maxnreg: int | None) -> int:
    """The registers that a computing thread has."""
    given = registers_of_roles(warpgroups, maxnreg)
    return MOST_REGISTERS if given is None else given[0]


class RegisterPlan:
    """The registers of a thread of ``warpgroups`` that blocks take at products; ``loads`` stay in shared memory.

    A lower bound: addresses and masks are not counted, what can be computed again from less counts as that, and no
    register has a copy. Threads share blocks evenly.
    """

    def __init__(
        self,
        func: Func,
        loads: Container[Op | None],
        warpgroups: int,
        joined: Container[Op] = (),
        trailing: Container[Op] = (),
    ):
        self.func, self.loads, self.threads = func, loads, warpgroups * WARPGROUP
        self.joined, self.trailing = joined, trailing
        self.costs: dict[Value, int] = {}

    def most(self, dots: Container[Op]) -> tuple[int, Op | None]:
        """The registers at the product that needs most of them, and that product."""
        found = self._products(self.func.body, set(), dots)
        needs = [(sum(map(self.cost, live)) + self._sums_apart(op), op) for op, live in found]
        return max(needs, key=lambda need: need[0], default=(0, None))

    def _products(self, block: Block, outer: set[Value], dots: Container[Op]) -> Iterable[tuple[Op, set[Value]]]:
        """Each product with the values that live while it is computed; ``outer`` live during all of the block."""
        before = {*block.args, *(r for op in block.ops for r in op.results)}
        after: set[Value] = set()
        for op in reversed(block.ops):
            before.difference_update(op.results)
            live, here = outer | (after & before), _read(op)
            if op in dots:  # the accumulator's registers become those of the result
                yield op, live | {op.x, *op.results, *self._read_meanwhile(op, block, dots)}
            for region in op.regions:  # what a loop begins with is gone when it has begun, what it reads stays
                again = _read_inside(op) & before if op.name in ("for", "while") else set()
                yield from self._products(region, live | again, dots)
            after |= here

    def _sums_apart(self, dot: Op) -> int:
        """The registers of sums of float8 that have yet to join those of float32."""
        joins = dot.acc is not None or shape_of(dot.x.type)[1] > PROMOTED
        return self.cost(dot.result) if joins and element_of(dot.x.type) in FLOATS8 else 0

    def _read_meanwhile(self, dot: Op, block: Block, dots: Container[Op]) -> set[Value]:
        """What products before ``dot`` still read: the one it is waited for with, those of the iteration before."""
        before = [op for op in block.ops[: block.ops.index(dot)] if op in dots]
        trailing = {op.x for op in block.ops if op in dots and op in self.trailing}
        return trailing | ({before[-1].x} if before and before[-1] in self.joined else set())

    def cost(self, value: Value) -> int:
        """The registers of a thread for a block, or for what it can be computed from again."""
        if value not in self.costs:
            self.costs[value] = self._cost(value)
        return self.costs[value]

    def _cost(self, value: Value) -> int:
        element, shape = element_of(value.type), shape_of(value.type)
        if isinstance(value, Constant) or not shape or not isinstance(element, DType) or not element.is_float:
            return 0
        made = value.owner if isinstance(value.owner, Op) else None
        if made is not None and origin(value) in self.loads:
            return 0
        own = -(-prod(shape) * element.itemsize // (REGISTER_BYTES * self.threads))
        if made is None or made.name in KEPT or made.regions or not made.pure:
            return own
        return min(own, sum(self.cost(v) for v in made.operands if v is not None))


def _read(op: Op) -> set[Value]:
    """What an op and those in its regions read."""
    return {v for v in op.operands if v is not None and not isinstance(v, Constant)} | _read_inside(op)


def _read_inside(op: Op) -> set[Value]:
    """What the ops in the regions of an op read."""
    return {v for region in op.regions for inner in region.walk() for v in _read(inner)}
