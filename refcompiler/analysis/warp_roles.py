"""Which boxes warps of their own can fetch ahead of the warps that compute, and which products wait for none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.disjoint import disjoint_parameters
from refcompiler.analysis.host_values import host_expression
from refcompiler.dialects.scf import For
from refcompiler.dialects.tile.descriptor import (
    ALIGNMENT,
    BoxAccess,
    DescriptorLoad,
    DescriptorStore,
    MakeDescriptor,
    without_ones,
)
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BF16, F16, F32, FLOATS8, I8, I32, BlockType, DType, PointerType, element_of, shape_of
from refcompiler.layouts import swizzle_bytes

WARPS = 4  # of a warpgroup
FETCHING_WARPS = 4  # registers are given out by warpgroups; one thread does the work
ROWS = 64  # of a product of one warpgroup
STEP_BYTES = 32  # of k in one instruction
MIN_COLUMNS, MAX_COLUMNS = 32, 256  # of one instruction; ptxas serialises narrower ones in loops of CUDA C++ (C7514)
BOX_ROW_BYTES = 128  # of what is copied out
BARRIER_BYTES = 16  # of one slot: full, empty


@dataclass
class Group:
    """Loads of one block of ops that feed the same products: they share the slots of a ring."""

    block: Block
    loads: list[DescriptorLoad]
    dots: list[Op]
    ring: int = -1


@dataclass
class RingPlan:
    """Slots for the blocks of a group, or of several that are never under way at the same time."""

    types: list[BlockType]
    swizzles: tuple[int, ...]  # bytes of a row in shared memory, of each block
    stages: int
    groups: list[Group]

    @property
    def bytes(self) -> int:
        """Of one slot."""
        return BARRIER_BYTES + sum(prod(t.shape) * bytes_of(t.element) for t in self.types)


@dataclass
class RolePlan:
    """What warp specialization does to a function."""

    groups: list[Group]
    rings: list[RingPlan]
    dots: set[Op]
    asynchronous: set[Op]  # products that are only added to, in the loop around them, by the same product
    joined: set[Op]  # products that are waited for together with the next one, which does not need them
    addresses: set[Op]  # what the fetching warps compute
    carried: dict[Op, list[int]]  # per loop the slots that addresses need
    bulk_stores: set[Op]
    disjoint: list[tuple[str, str]]  # parameters whose arrays have to be apart

    def group_of(self, op: Op) -> Group | None:
        return next((g for g in self.groups if op in g.loads), None)


def plan_roles(func: Func, context: Any) -> RolePlan | None:
    """The plan for a function at the tile level; None where no product has operands that can be fetched ahead."""
    target, warps, options = context.target, context.num_warps, context.options
    if target is None or not (target.has_tma and target.has_wgmma) or warps % WARPS:
        return None
    if options.num_stages < 2 or not options.fetch_boxes or warps + FETCHING_WARPS > target.max_warps_per_block:
        return None
    return _Planner(func, context).run()


class _Planner:
    def __init__(self, func: Func, context: Any):
        self.func, self.context = func, context
        self.warpgroups = context.num_warps // WARPS
        self.axis = AxisAnalysis(func)
        self.block_of: dict[Op, Block] = {}
        self.users: dict[Value, list[Op]] = {}
        for block in _blocks(func.body):
            for op in block.ops:
                self.block_of[op] = block
                for value in op.operands:
                    if value is not None and not isinstance(value, Constant):
                        self.users.setdefault(value, []).append(op)

    def run(self) -> RolePlan | None:
        loads = {op: fed for op in self.func.walk() if isinstance(op, DescriptorLoad) and (fed := self.feeds(op))}
        while True:  # a product that cannot be one of warpgroups takes its loads with it, and these other products
            dots = {d for found in loads.values() for d in found if self.is_product(d, loads)}
            kept = {op: found for op, found in loads.items() if all(d in dots for d in found)}
            if len(kept) == len(loads):
                break
            loads = kept
        if not loads:
            return None
        groups = self.grouped(loads)
        addresses, carried = _slice(loads, self.block_of)
        if addresses is None:
            return None
        stores: set[Op] = {op for op in self.func.walk() if isinstance(op, DescriptorStore) and self.is_bulk(op)}
        disjoint = disjoint_parameters(self.func, loads.keys(), stores)
        if disjoint is None:
            stores, disjoint = set(), disjoint_parameters(self.func, loads.keys(), set())
        if disjoint is None:
            return None
        rings = self.rings(groups, self.swizzles(loads, dots))
        if not self.set_stages(rings, stores):
            return None
        shallow = {d for g in groups if rings[g.ring].stages == 1 for d in g.dots}
        chains = {d for d in dots - shallow if self.is_chain(d, loads)}
        joined = self.joined(dots - chains)
        return RolePlan(groups, rings, dots, chains, joined, addresses, carried, stores, sorted(disjoint))

    # --- loads
    def feeds(self, load: DescriptorLoad) -> list[Op]:
        """The products that a load feeds, if it feeds nothing else and a tensor map can describe its array."""
        if not self.is_mapped(load) or not self.is_nested_in_loops(load):
            return []
        found = self.consumers(load.result)
        return found if all(op.name == "dot" for op in found) else []

    def consumers(self, value: Value) -> list[Op]:
        """What uses a value, directly or through views."""
        found: list[Op] = []
        for op in self.users.get(value, ()):
            found += self.consumers(op.result) if is_view(op) else [op]
        return found

    def is_bulk(self, store: DescriptorStore) -> bool:
        """Whether warpgroups can hand a block over to be copied out in boxes of 128 bytes a row."""
        rows, columns = (1, *shape_of(store.value.type))[-2:]
        row_bytes = columns * element_of(store.value.type).itemsize
        return (
            rows % (ROWS * self.warpgroups) == 0 < rows and row_bytes % 128 == 0 < row_bytes and self.is_mapped(store)
        )

    def is_mapped(self, access: BoxAccess) -> bool:
        """Whether a tensor map can describe its array, and boxes of one its block: such as begin at multiples of 16
        bytes in a row, for the machine stops at others."""
        made = access.pointer.owner
        if not isinstance(made, MakeDescriptor) or made.padding != "zero":
            return False
        sizes = without_ones(made.block_shape)
        if len(sizes) != 2 or made.block_shape[-1] == 1 or shape_of(access.block)[-2:] != sizes:
            return False
        rows, columns = sizes
        itemsize = made.base.type.pointee.itemsize
        fits = rows <= MAX_COLUMNS and rows % 8 == 0 and columns * itemsize % 32 == 0 and is_power(rows * columns)
        fits = fits and self.axis.of(access.offsets[-1]).divisor * itemsize % ALIGNMENT == 0
        known = all(host_expression(v, self.func) is not None for v in made.sizes)
        return fits and known and base_parameter(made, self.func) is not None

    def is_nested_in_loops(self, op: Op) -> bool:
        block: Any = self.block_of[op]
        while isinstance(block.owner, Op):
            if not isinstance(block.owner, For):
                return False
            block = self.block_of[block.owner]
        return True

    def grouped(self, loads: dict[DescriptorLoad, list[Op]]) -> list[Group]:
        groups: dict[tuple, Group] = {}
        for load, dots in loads.items():
            key = (id(self.block_of[load]), *map(id, dots))
            group = groups.setdefault(key, Group(self.block_of[load], [], dots))
            group.loads.append(load)
        return list(groups.values())

    def rings(self, groups: list[Group], swizzles: dict[Op, int]) -> list[RingPlan]:
        """Groups of like blocks share a ring if none of them is loaded before another one has been read."""
        rings: list[RingPlan] = []
        for group in groups:
            types, wide = [load.result.type for load in group.loads], tuple(swizzles[load] for load in group.loads)
            found = [i for i, r in enumerate(rings) if (r.types, r.swizzles) == (types, wide)]
            fitting = [i for i in found if all(self.apart(group, g) for g in rings[i].groups)]
            if not fitting:
                rings.append(RingPlan(types, wide, 1, []))
            group.ring = fitting[0] if fitting else len(rings) - 1
            rings[group.ring].groups.append(group)
        return rings

    def apart(self, a: Group, b: Group) -> bool:
        """Whether one of two groups is read for the last time before the other is loaded, and not in one loop."""
        if a.block is b.block:
            return False
        left, right = self.lives(a), self.lives(b)
        common = next(block for block in left if block in right)
        (first, last), (start, end) = left[common], right[common]
        return last < start or end < first

    def lives(self, group: Group) -> dict[Block, tuple[int, int]]:
        """From which to which op a group lives in its block, and in those around it, inner ones first."""
        block, inner = group.block, last_use(group)
        found = {block: (block.ops.index(group.loads[0]), block.ops.index(inner))}
        while isinstance(block.owner, Op):
            op, block = block.owner, self.block_of[block.owner]
            found[block] = (block.ops.index(op),) * 2
        return found

    def set_stages(self, rings: list[RingPlan], stores: set[Op]) -> bool:
        """Give rings in loops the stages asked for, or as many as there is room for; False where there is none."""
        room = self.context.target.shared_bytes_per_block - self.bytes_besides(stores)
        looped = [r for r in rings if any(isinstance(g.block.owner, Op) for g in r.groups)]
        for ring in looped:
            ring.stages = self.context.options.num_stages
        while sum(r.bytes * r.stages for r in rings) > room:
            deepest = max(looped, key=lambda r: r.stages, default=None)
            if deepest is None or deepest.stages == 1:
                return False
            deepest.stages -= 1
        return True

    def bytes_besides(self, stores: set[Op]) -> int:
        """The shared memory that what happens outside of the rings may take, in bytes."""
        copied = sum(2 * shape_of(s.value.type)[-2] * BOX_ROW_BYTES for s in stores)
        others = [
            op.value.type for op in self.func.walk() if op.name in ("store", "descriptor_store") and op not in stores
        ]
        return copied + max((prod(shape_of(t)) * bytes_of(element_of(t)) for t in others), default=0)

    def swizzles(self, loads: Iterable[Op], dots: set[Op]) -> dict[Op, int]:
        """The bytes of the rows that each block is cut into, which are the same for both operands of a product."""
        found = {op: swizzle_bytes(shape_of(op.result.type)[-1] * element_of(op.result.type).itemsize) for op in loads}
        pairs = [[op for v in (dot.x, dot.y) if (op := origin(v)) in found] for dot in dots]
        while any(len({found[op] for op in pair}) > 1 for pair in pairs):
            for pair in pairs:
                found |= dict.fromkeys(pair, min(found[op] for op in pair))
        return found

    # --- products
    def is_product(self, dot: Op, loads: Any) -> bool:
        """Whether the warpgroups can compute it from shared memory."""
        if len(shape_of(dot.x.type)) != 2 or origin(dot.y) not in loads:
            return False
        (m, k), (_, n) = shape_of(dot.x.type), shape_of(dot.y.type)
        dtype = element_of(dot.x.type)
        fits = m % (ROWS * self.warpgroups) == 0 and k * dtype.itemsize % STEP_BYTES == 0 and n % 8 == 0
        if (
            not fits
            or not MIN_COLUMNS <= n <= MAX_COLUMNS
            or not is_power(m * k * n)
            or element_of(dot.result.type) is not sum_of(dot)
        ):
            return False
        if dtype in (F16, BF16):
            return True
        # instructions on other dtypes take both operands with elements along k next to each other
        return origin(dot.x) in loads and not is_turned(dot.x) and is_turned(dot.y) and (dtype is not I8 or n % 16 == 0)

    def joined(self, dots: set[Op]) -> set[Op]:
        """The products after which only loads and addresses come until another one, which waits for both."""
        found: set[Op] = set()
        for block in _blocks(self.func.body):
            last: Op | None = None
            for op in block.ops:
                if last is not None and (last.result in op.operands or not (op.pure or isinstance(op, DescriptorLoad))):
                    last = None
                if op in dots:
                    if last is not None:
                        found.add(last)
                    last = None if element_of(op.x.type) in FLOATS8 else op
                elif op.regions or (op.pure and not is_view(op) and any(shape_of(r.type) for r in op.results)):
                    last = None
        return found

    def is_chain(self, dot: Op, loads: Any) -> bool:
        """Whether its result is only added to in the next iteration of the loop around it, so that it may still be on
        its way when the next one begins; the only product in that loop, with both operands in shared memory. Sums of
        float8 are complete when they join those of float32."""
        block = self.block_of[dot]
        loop = block.owner
        if shape_of(dot.x.type)[0] != ROWS * self.warpgroups:
            return False  # the parts of its result would have to be carried one by one
        if (
            not isinstance(loop, For)
            or not _counts_up(loop)
            or origin(dot.x) not in loads
            or element_of(dot.x.type) in FLOATS8
            or dot.acc not in loop.body.args[1:]
        ):
            return False
        slot = loop.body.args.index(dot.acc) - 1
        end = loop.body.terminator
        only = self.users.get(dot.acc, []) == [dot] and self.users.get(dot.result, []) == [end]
        alone = [op for op in loop.body.walk() if op.name == "dot"] == [dot]
        return only and alone and end.operands.count(dot.result) == 1 and end.operands[slot] is dot.result


def last_use(group: Group) -> Op:
    """The op of the group's block in which its blocks are read last."""
    users = [
        op for op in group.block.ops if op in group.dots or any(d in group.dots for r in op.regions for d in r.walk())
    ]
    return users[-1]


def sum_of(dot: Op) -> DType | None:
    """The dtype in which tensor cores of a warpgroup add up a product; None where they do not serve it."""
    dtype = element_of(dot.x.type)
    if dtype in (F16, BF16) or dtype in FLOATS8 or (dtype is F32 and dot.input_precision == "tf32"):
        return F32
    return I32 if dtype is I8 else None


def is_turned(value: Value) -> bool:
    """Whether the axes of a block lie in memory the other way round."""
    turned = False
    while isinstance(value.owner, Op) and is_view(value.owner):
        turned ^= value.owner.name == "trans"
        value = value.owner.x
    return turned


def origin(value: Value | None) -> Op | None:
    """The op that made a block, seen through views."""
    while value is not None and isinstance(value.owner, Op) and is_view(value.owner):
        value = value.owner.x
    return value.owner if value is not None and isinstance(value.owner, Op) else None


def is_view(op: Op) -> bool:
    """Whether an op gives a block as it lies in memory, in another order of two axes or without leading ones of 1."""
    if op.name == "reshape":
        shape = shape_of(op.x.type)
        return shape[-2:] == shape_of(op.result.type) and prod(shape[:-2]) == 1
    return op.name == "trans" and len(shape_of(op.x.type)) == 2


def base_parameter(made: MakeDescriptor, func: Func) -> str | None:
    """The pointer parameter at which the array of a descriptor begins."""
    value = made.base
    while isinstance(value.owner, Op) and value.owner.name == "hint":
        value = value.owner.operands[0]
    found = any(value is p for p in func.params) and isinstance(value.type, PointerType)
    return str(value.name) if found else None


def is_power(number: int) -> bool:
    """Whether it is a power of two."""
    return number & (number - 1) == 0


def bytes_of(element: Any) -> int:
    """The bytes of an element of a block."""
    return element.itemsize if isinstance(element, DType) else 8


def _counts_up(loop: For) -> bool:
    return isinstance(loop.step, Constant) and loop.step.value > 0


def _blocks(body: Block) -> Iterable[Block]:
    yield body
    for op in body.ops:
        for region in op.regions:
            yield from _blocks(region)


def _slice(loads: Iterable[Op], block_of: dict[Op, Block]) -> tuple[set[Op] | None, dict[Op, list[int]]]:
    """The ops that addresses and the loops around them need, and the slots of loops among them; None where these are
    more than plain arithmetic on scalars."""
    wanted: list[Value | None] = []
    loops: set[Op] = set()
    for load in loads:
        wanted += load.operands
        block = block_of[load]
        while isinstance(block.owner, Op):
            loops.add(block.owner)
            block = block_of[block.owner]
    for loop in loops:
        wanted += loop.controls()
    ops: set[Op] = set()
    slots: dict[Op, set[int]] = {loop: set() for loop in loops}
    while wanted:
        value = wanted.pop()
        if value is None or isinstance(value, Constant):
            continue
        owner = value.owner
        if isinstance(owner, Op) and owner not in loops:
            if owner in ops:
                continue
            if not owner.pure or owner.regions or shape_of(value.type):
                return None, {}
            ops.add(owner)
            wanted += owner.operands
        elif isinstance(owner, Block) and isinstance(owner.owner, Op):
            loop = owner.owner
            index = owner.args.index(value) - 1
            if loop not in loops or (index >= 0 and not isinstance(value.type, DType)):
                return None, {}
            if index >= 0 and index not in slots[loop]:
                slots[loop].add(index)
                wanted += loop.slots()[index].sources
        elif isinstance(owner, Op):  # the result of a loop around another load
            index = owner.results.index(value)
            if index not in slots[owner]:
                slots[owner].add(index)
                wanted += owner.slots()[index].sources
    return ops, {loop: sorted(found) for loop, found in slots.items()}
