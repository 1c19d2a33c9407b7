"""Which boxes warps of their own can fetch ahead of the warps that compute, and which products wait for none."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.disjoint import disjoint_parameters
from refcompiler.analysis.mapped_boxes import COPIED_BYTES, refused_box, refused_bulk
from refcompiler.analysis.product_waits import ProductWaits, Waits, blocks_of
from refcompiler.analysis.register_plan import RegisterPlan, computing_registers, programs_of_roles
from refcompiler.analysis.warpgroup_products import WARPS, is_power, is_view, origin, refused_product
from refcompiler.dialects.scf import For
from refcompiler.dialects.tile.descriptor import DescriptorLoad, DescriptorStore
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BlockType, DType, element_of, shape_of
from refcompiler.layouts import swizzle_bytes
from refcompiler.remarks import Refusal, remark

STEP = "specialize_warps"  # the pass that remarks are of
FETCHING_WARPS = 4  # registers are given out by warpgroups; one thread does the work
BARRIER_BYTES = 16  # of one slot: full, empty
BUFFERS = 2  # of a block that is copied out, at least


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
    waits: Waits
    addresses: set[Op]  # what the fetching warps compute
    carried: dict[Op, list[int]]  # per loop the slots that addresses need
    bulk_stores: dict[Op, int]  # and their buffers
    disjoint: list[tuple[str, str]]  # parameters whose arrays have to be apart

    def group_of(self, op: Op) -> Group | None:
        return next((g for g in self.groups if op in g.loads), None)


def plan_roles(func: Func, context: Any) -> RolePlan | None:
    """The plan for a function at the tile level; None where no product has operands that can be fetched ahead."""
    dots = [op for op in func.walk() if op.name == "dot"]
    if not dots:
        return None
    try:
        _check_options(context)
        return _Planner(func, context).run()
    except Refused as refused:
        remark(context, STEP, refused.at or dots[0], refused.why)
        return None


class Refused(Exception):
    """No role can be made of a function: ``why``, and because of which op."""

    def __init__(self, message: str, advice: str = "", at: Op | None = None):
        super().__init__(message)
        self.why, self.at = Refusal(message, advice), at


def _check_options(context: Any) -> None:
    """Raise Refused where the target or the options leave no room for warps that fetch."""
    target, warps, options = context.target, context.num_warps, context.options
    if target is None or not (target.has_tma and target.has_wgmma):
        raise Refused(f"{target or 'no target in particular'} has no products of warpgroups from boxes; sm_90a has")
    if not options.fetch_boxes:
        raise Refused("nothing is fetched ahead for arrays that overlap or that no tensor map describes")
    if warps % WARPS:
        raise Refused(f"num_warps={warps} is no multiple of {WARPS}, the warps of a warpgroup", "use num_warps=4 or 8")
    if options.num_stages < 2:
        raise Refused(f"num_stages={options.num_stages} asks for nothing to be ahead", "use num_stages=3 or more")
    if warps + FETCHING_WARPS > target.max_warps_per_block:
        raise Refused(
            f"num_warps={warps} leaves no room for the {FETCHING_WARPS} warps that fetch: a program has "
            f"{target.max_warps_per_block} at most",
            "use num_warps=4 or 8",
        )


class _Planner:
    def __init__(self, func: Func, context: Any):
        self.func, self.context = func, context
        self.warpgroups = context.num_warps // WARPS
        self.axis = AxisAnalysis(func)
        self.block_of: dict[Op, Block] = {}
        self.users: dict[Value, list[Op]] = {}
        for block in blocks_of(func.body):
            for op in block.ops:
                self.block_of[op] = block
                for value in op.operands:
                    if value is not None and not isinstance(value, Constant):
                        self.users.setdefault(value, []).append(op)

    def run(self) -> RolePlan | None:
        """None, or Refused is raised, where no product has operands that can be fetched ahead."""
        loads = self.fetched()
        if not loads:
            return None
        dots = {d for found in loads.values() for d in found}
        groups = self.grouped(loads)
        addresses, carried = _slice(loads, self.block_of)
        stores: set[Op] = {op for op in self.func.walk() if isinstance(op, DescriptorStore) and self.is_bulk(op)}
        disjoint = disjoint_parameters(self.func, loads.keys(), stores)
        if disjoint is None:
            stores, disjoint = set(), disjoint_parameters(self.func, loads.keys(), set())
        if disjoint is None:
            raise Refused(
                "what it reads may have been stored by this program before, or atomics tell others of it",
                "read and write arrays of different parameters",
                at=next(iter(loads)),
            )
        rings = self.rings(groups, self.swizzles(loads, dots))
        self.set_stages(rings, stores)
        shallow = {d for g in groups if rings[g.ring].stages == 1 for d in g.dots}
        several = programs_of_roles(self.warpgroups, self.context.options.maxnreg) > 1
        at_once = several or self.context.waits_at_once
        waits = ProductWaits(self.func, self.block_of, self.users, self.warpgroups, at_once)
        kinds = waits.of(dots, shallow, loads, groups)
        self.check_registers(loads, dots, kinds)
        self.tell(dots, groups, rings)
        buffers = self.buffers(rings, stores)
        return RolePlan(groups, rings, dots, kinds, addresses, carried, buffers, sorted(disjoint))

    def check_registers(self, loads: Container[Op | None], dots: set[Op], kinds: Waits) -> None:
        """Raise Refused where a product and what outlives it need more registers than threads have: ptxas would
        serialise products or keep registers in memory."""
        needed, dot = RegisterPlan(self.func, loads, self.warpgroups, kinds.joined, kinds.trailing).most(dots)
        there = computing_registers(self.warpgroups, self.context.options.maxnreg)
        if needed > there:
            raise Refused(
                f"the product and what is used after it take at least {needed} registers of each thread of "
                f"{self.context.num_warps} warps, which has {there}",
                "use smaller blocks, or more warps",
                at=dot,
            )

    def tell(self, dots: set[Op], groups: list[Group], rings: list[RingPlan]) -> None:
        """Remarks on what becomes of products."""
        by = f"{self.warpgroups} warpgroup{'s' if self.warpgroups > 1 else ''}"
        for dot in (op for op in self.func.walk() if op in dots):
            fed = [rings[number] for number in sorted({g.ring for g in groups if dot in g.dots})]
            room = [f"{' and '.join(map(str, r.types))} in {r.stages} stage{'s'[: r.stages - 1]}" for r in fed]
            said = f"the product is computed by {by}, and a warp of its own fetches operands ahead: {', '.join(room)}"
            remark(self.context, STEP, dot, said, applied=True)

    # --- loads
    def fetched(self) -> dict[DescriptorLoad, list[Op]]:
        """The loads that can be fetched ahead, and the products that they feed."""
        boxes = [op for op in self.func.walk() if isinstance(op, DescriptorLoad) and self.feeds(op)]
        refusals: dict[Op, Refusal] = {op: why for op in boxes if (why := self.refused_load(op)) is not None}
        loads = fitting = {op: self.feeds(op) for op in boxes if op not in refusals}
        while True:  # a product that cannot be one of warpgroups takes its loads with it, and these other products
            dots = {d for found in loads.values() for d in found if not refused_product(d, loads, self.warpgroups)}
            kept = {op: found for op, found in loads.items() if all(d in dots for d in found)}
            if len(kept) == len(loads):
                break
            loads = kept
        for dot in (op for op in self.func.walk() if op.name == "dot" and op not in dots):
            why = refused_product(dot, fitting, self.warpgroups) or Refusal("another product of its operands is not")
            refusals[dot] = why
        for op, why in refusals.items():
            what = "the product is not computed by warpgroups" if op.name == "dot" else "the box is not fetched ahead"
            remark(self.context, STEP, op, why.after(what))
        return loads

    def feeds(self, load: DescriptorLoad) -> list[Op]:
        """The products that a load feeds."""
        return [op for op in self.consumers(load.result) if op.name == "dot"]

    def refused_load(self, load: DescriptorLoad) -> Refusal | None:
        """Why a box cannot be fetched ahead of the products that it feeds; None: it can."""
        others = [op.name for op in self.consumers(load.result) if op.name != "dot"]
        if others:
            return Refusal(
                f"`{others[0]}` uses it besides products", "load it once more for that, or compute with the product"
            )
        if not self.is_nested_in_loops(load):
            return Refusal(
                "it stands in a branch or in a `while`", "load it under `for` alone: boxes end where arrays end"
            )
        return refused_box(load, self.func, self.axis)

    def consumers(self, value: Value) -> list[Op]:
        """What uses a value, directly or through views."""
        found: list[Op] = []
        for op in self.users.get(value, ()):
            found += self.consumers(op.result) if is_view(op) else [op]
        return found

    def is_bulk(self, store: DescriptorStore) -> bool:
        """Whether warpgroups can hand a block over to be copied out."""
        why = refused_bulk(store, self.warpgroups, self.func, self.axis)
        if why is not None:
            remark(self.context, STEP, store, why.after("the box is not copied out as one"))
        return why is None

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

    def set_stages(self, rings: list[RingPlan], stores: set[Op]) -> None:
        """Give rings in loops the stages asked for, or as many as there is room for. Raises Refused where there is
        none."""
        room = self.room(stores)
        looped = [r for r in rings if any(isinstance(g.block.owner, Op) for g in r.groups)]
        for ring in looped:
            ring.stages = self.context.options.num_stages
        while sum(r.bytes * r.stages for r in rings) > room:
            deepest = max(looped, key=lambda r: r.stages, default=None)
            if deepest is None or deepest.stages == 1:
                raise Refused(
                    f"one stage of all operands takes {sum(r.bytes for r in rings)} bytes of shared memory, and "
                    f"{max(room, 0)} are left",
                    "use smaller blocks",
                )
            deepest.stages -= 1

    def buffers(self, rings: list[RingPlan], stores: set[Op]) -> dict[Op, int]:
        """How many buffers each store has: one for each part where there is room, so that no part waits for another."""
        room = self.room(stores) - sum(r.bytes * r.stages for r in rings)
        found = {}
        for store in [op for op in self.func.walk() if op in stores]:
            rows, columns = shape_of(store.value.type)[-2:]
            parts = columns * element_of(store.value.type).itemsize // COPIED_BYTES
            more = max(0, min(parts - BUFFERS, room // (rows * COPIED_BYTES)))
            room -= more * rows * COPIED_BYTES
            found[store] = BUFFERS + more
        return found

    def room(self, stores: set[Op]) -> int:
        """The shared memory for rings, in bytes."""
        return self.context.shared_room - self.bytes_besides(stores)

    def bytes_besides(self, stores: set[Op]) -> int:
        """The shared memory that what happens outside of the rings takes at least, in bytes."""
        copied = sum(BUFFERS * shape_of(s.value.type)[-2] * COPIED_BYTES for s in stores)
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
        for op, wide in found.items():
            rows, columns = shape_of(op.result.type)[-2:]
            if not is_power(rows) and columns * element_of(op.result.type).itemsize > wide:
                raise Refused(f"a box of {rows} rows would lie in parts of {wide} bytes a row", at=op)
        return found


def last_use(group: Group) -> Op:
    """The op of the group's block in which its blocks are read last."""
    users = [
        op for op in group.block.ops if op in group.dots or any(d in group.dots for r in op.regions for d in r.walk())
    ]
    return users[-1]


def bytes_of(element: Any) -> int:
    """The bytes of an element of a block."""
    return element.itemsize if isinstance(element, DType) else 8


def _slice(loads: Iterable[Op], block_of: dict[Op, Block]) -> tuple[set[Op], dict[Op, list[int]]]:
    """The ops that addresses and the loops around them need, and the slots of loops among them. Raises Refused where
    these are more than plain arithmetic on scalars."""
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
                raise Refused(
                    f"addresses of boxes depend on `{owner.name}`, and warps that fetch do plain arithmetic on scalars",
                    "compute offsets and bounds of loops from parameters and counters",
                    at=owner,
                )
            ops.add(owner)
            wanted += owner.operands
        elif isinstance(owner, Block) and isinstance(owner.owner, Op):
            loop = owner.owner
            index = owner.args.index(value) - 1
            if loop not in loops or (index >= 0 and not isinstance(value.type, DType)):
                raise Refused("addresses of boxes depend on what a loop carries that is no number", at=loop)
            if index >= 0 and index not in slots[loop]:
                slots[loop].add(index)
                wanted += loop.slots()[index].sources
        elif isinstance(owner, Op):  # the result of a loop around another load
            index = owner.results.index(value)
            if index not in slots[owner]:
                slots[owner].add(index)
                wanted += owner.slots()[index].sources
    return ops, {loop: sorted(found) for loop, found in slots.items()}
