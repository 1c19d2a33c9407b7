"""Give the boxes that products read to a warp of its own, which fetches them ahead into rings in shared memory."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.warp_roles import FETCHING_WARPS, Group, RingPlan, RolePlan, last_use, plan_roles
from refcompiler.analysis.warpgroup_products import WARPS, origin
from refcompiler.dialects.scf import For
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import F32, I32, element_of, shape_of

Place = tuple[Value, Value]  # a slot and the parity of its round


def specialize_warps(func: Func, context: Any) -> Func | None:
    """The function with two roles, where products can have their operands fetched ahead; None where none can.

    All that the function does is done by the first warps; the last one runs the loops once more for the addresses
    alone. ``func.attrs["fetching_warps"]`` says how many warps come on top of ``num_warps``.
    """
    plan = plan_roles(func, context)
    return None if plan is None else _specialized(func, plan, context.num_warps)


def _specialized(func: Func, plan: RolePlan, num_warps: int) -> Func:
    params = [Value(p.type, p.name) for p in func.params]
    attrs = {**func.attrs, "fetching_warps": FETCHING_WARPS}
    if plan.disjoint:
        attrs["disjoint"] = tuple(plan.disjoint)
    new = Func(func.name, params, func.constexprs, func.hints, attrs, func.level, func.span)
    builder = Builder(new.body, func.span)
    rings = [_ring(builder, ring, num_warps) for ring in plan.rings]
    regions = []
    for role in (_Computing, _Fetching):
        region = Block()
        role(plan, rings, dict(zip(func.params, params, strict=True)), Builder(region)).run(func.body)
        regions.append(region)
    builder.op("roles", regions=regions, warps=(num_warps,))
    return new


def _ring(builder: Builder, ring: RingPlan, num_warps: int) -> Value:
    return builder.value(
        "ring",
        stages=ring.stages,
        shapes=tuple(t.shape for t in ring.types),
        dtypes=tuple(str(t.element) for t in ring.types),
        swizzles=ring.swizzles,
        readers=num_warps // WARPS,
    )


class _Role:
    """Copies a function for one role. ``places`` has, for each ring, the slot that comes next and its parity."""

    def __init__(self, plan: RolePlan, rings: list[Value], values: dict[Value, Value], builder: Builder):
        self.plan, self.rings, self.values, self.build = plan, rings, values, builder
        self.places: list[Place] = [(Constant(0, I32), Constant(0, I32)) for _ in rings]

    def run(self, body: Block) -> None:
        self.block(body)
        self.build.op("yield")

    def block(self, old: Block) -> None:
        for index, op in enumerate(old.ops):
            if op.terminator:
                continue
            with self.build.at(op.span):
                self.start(old, op)
                group = self.plan.group_of(op)
                if group is not None:
                    self.load(op, group)
                elif isinstance(op, For) and op in self.plan.carried:
                    self.loop(op)
                else:
                    self.other(op)
                self.done(old, index)

    # --- what roles do differently
    def load(self, op: Op, group: Group) -> None:
        raise NotImplementedError

    def other(self, op: Op) -> None:
        raise NotImplementedError

    def slots(self, loop: For) -> list[int]:
        """The values that a loop carries in this role."""
        raise NotImplementedError

    def start(self, block: Block, op: Op) -> None:
        """Before an op."""

    def done(self, block: Block, index: int) -> None:
        """After the op at ``index``."""

    # --- what they share
    def get(self, value: Value | None) -> Value | None:
        return value if value is None or isinstance(value, Constant) else self.values[value]

    def copy(self, op: Op) -> None:
        self.build.add(op.clone(self.values))

    def loop(self, op: For) -> None:
        """A loop around loads, which also carries the places of their rings."""
        kept, inside = self.slots(op), set(op.body.walk())
        rings = sorted({g.ring for g in self.plan.groups if any(load in inside for load in g.loads)})
        starts = [self.get(op.operands[op.leading + i]) for i in kept]
        starts += [v for i in rings for v in self.places[i]]
        old_args = [op.body.args[0], *(op.body.args[1 + i] for i in kept)]
        region = Block([Value(a.type, a.name) for a in old_args] + [Value(I32) for _ in range(2 * len(rings))])
        self.values.update(zip(old_args, region.args, strict=False))
        outer = list(self.places)
        self.move_to(rings, region.args[len(old_args) :])
        with self.build.inside(region):
            self.block(op.body)
            ends = [self.get(op.body.terminator.operands[i]) for i in kept]
            self.build.op("yield", *ends, *(v for i in rings for v in self.places[i]))
        self.places = outer
        types = [v.type for v in region.args[1:]]
        new = self.build.op("for", *map(self.get, op.operands[: op.leading]), *starts, regions=[region], types=types)
        new.spans = op.spans
        for i, result in zip(kept, new.results, strict=False):
            result.name = op.results[i].name
            self.values[op.results[i]] = result
        self.move_to(rings, new.results[len(kept) :])

    def move_to(self, rings: list[int], values: list[Value]) -> None:
        for n, ring in enumerate(rings):
            self.places[ring] = (values[2 * n], values[2 * n + 1])

    def next(self, ring: int) -> Place:
        """The place that is next in a ring, which moves on."""
        slot, parity = self.places[ring]
        stages = self.plan.rings[ring].stages
        value, zero, one = self.build.value, Constant(0, I32), Constant(1, I32)
        if stages == 1:
            self.places[ring] = (zero, value("xor", parity, one))
            return slot, parity
        after = value("add", slot, one)
        wraps = value("cmp_eq", after, Constant(stages, I32))
        self.places[ring] = (
            value("select", wraps, zero, after),
            value("select", wraps, value("xor", parity, one), parity),
        )
        return slot, parity

    def before(self, ring: int, slot: Value) -> Value:
        """The slot before ``slot``."""
        value = self.build.value
        first = value("cmp_eq", slot, Constant(0, I32))
        return value(
            "select", first, Constant(self.plan.rings[ring].stages - 1, I32), value("sub", slot, Constant(1, I32))
        )


class _Fetching(_Role):
    """Fills the slots."""

    def slots(self, loop: For) -> list[int]:
        return self.plan.carried[loop]

    def load(self, op: Op, group: Group) -> None:
        if op is not group.loads[-1]:  # now all offsets are known
            return
        ring = group.ring
        boxes = [self.get(v) for load in group.loads for v in load.operands]
        self.build.op("ring_put", self.rings[ring], *self.next(ring), *boxes)

    def other(self, op: Op) -> None:
        if op in self.plan.addresses:
            self.copy(op)


class _Computing(_Role):
    """Does what the function does, and empties the slots."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.taken: dict[int, Value] = {}  # ring -> the slot taken last
        self.open: list[Op] = []  # products on their way, which are waited for before one of them is read
        self.behind = 0  # products that were begun after those and are not waited for with them
        self.read: list[tuple[int, Value]] = []  # rings and slots that these read
        self.entered: dict[Block, list[Place]] = {}  # the places at the start of an iteration

    def block(self, old: Block) -> None:
        self.entered[old] = list(self.places)
        super().block(old)
        self.settle()

    def slots(self, loop: For) -> list[int]:
        return list(range(len(loop.results)))

    def load(self, op: Op, group: Group) -> None:
        if op is not group.loads[0]:
            return
        ring = group.ring
        place = self.next(ring)
        self.taken[ring] = place[0]
        types = [load.result.type for load in group.loads]
        blocks = self.build.op("ring_take", self.rings[ring], *place, types=types).results
        for load, block in zip(group.loads, blocks, strict=True):
            block.name = load.result.name
            self.values[load.result] = block

    def other(self, op: Op) -> None:
        if op in self.plan.bulk_stores:
            buffers = self.plan.bulk_stores[op]
            self.build.op("bulk_store", *map(self.get, op.operands), buffers=buffers).spans = op.spans
        elif op in self.plan.dots:
            self.product(op)
        elif any(self.changes(inner) for region in op.regions for inner in region.walk()):
            self.structured(op)
        else:
            self.copy(op)

    def changes(self, op: Op) -> bool:
        """Whether an op is not copied as it is."""
        return op in self.plan.dots or op in self.plan.bulk_stores

    def structured(self, op: Op) -> None:
        """A branch or a loop without loads, whose products read what was loaded before it."""
        regions = []
        for old in op.regions:
            region = Block([Value(a.type, a.name) for a in old.args])
            self.values.update(zip(old.args, region.args, strict=True))
            with self.build.inside(region):
                self.block(old)
                self.build.add(old.terminator.clone(self.values))
            regions.append(region)
        types = [r.type for r in op.results]
        new = self.build.op(op.name, *map(self.get, op.operands), regions=regions, types=types, **op.attrs)
        new.spans = op.spans
        for old_result, result in zip(op.results, new.results, strict=True):
            result.name = old_result.name
            self.values[old_result] = result

    def product(self, op: Op) -> None:
        operands = [self.get(v) for v in (op.x, op.y, op.acc)]
        whole, stepwise = op in self.plan.waits.whole, op in self.plan.waits.stepwise
        new = self.build.op(
            "warpgroup_dot", *operands, types=[op.result.type], asynchronous=whole, stepwise=stepwise
        )  # fmt: skip
        new.spans, new.result.name = op.spans, op.result.name
        self.values[op.result] = new.result
        if op in self.plan.waits.chains:
            self.build.op("warpgroup_wait", pending=1)
        elif op in self.plan.waits.trailing:
            self.behind += 1
        elif op in self.plan.waits.whole:
            self.open.append(op)
            self.behind = 0  # what was begun before is complete when this is

    def settle(self) -> None:
        """Wait for the open products; the slots that they read are free then."""
        if self.open:
            products = [self.values[op.result] for op in self.open]
            waited = self.build.op("warpgroup_wait", *products, pending=self.behind).results
            self.values.update(zip((op.result for op in self.open), waited, strict=True))
        self.open, self.behind = [], 0
        for ring, slot in self.read:
            self.build.op("ring_release", self.rings[ring], slot, None)
        self.read = []

    def loop(self, op: For) -> None:
        super().loop(op)
        for dot in self.under_way(op.body):
            result = op.results[op.body.terminator.operands.index(dot.result)]
            self.values[result] = self.build.value("warpgroup_wait", self.values[result])
            ran = self.build.value("cmp_lt", self.get(op.start), self.get(op.stop))
            for ring in self.read_in(op.body, dot):
                last = self.before(ring, self.places[ring][0])
                self.build.op("ring_release", self.rings[ring], last, ran)

    def under_way(self, body: Block) -> list[Op]:
        """The products that are still on their way when an iteration ends."""
        return [op for op in body.ops if op in self.plan.waits.chains or op in self.plan.waits.trailing]

    def read_in(self, body: Block, dot: Op) -> list[int]:
        """The rings from which each iteration of a loop takes what its product reads."""
        return [g.ring for g in self.plan.groups if dot in g.dots and g.block is body]

    def start(self, block: Block, op: Op) -> None:
        """Open products are complete before one is read, and before a product that is not waited for with them. The
        trailing products of the iteration before are complete, and their slots are free; the first iteration has none
        before it."""
        reads = any(product.result in op.operands for product in self.open)
        apart = op in self.plan.dots and bool(self.open) and self.open[-1] not in self.plan.waits.joined
        if reads or apart or op.regions:
            self.settle()
        for dot in (d for d, first in self.plan.waits.trailing.items() if first is op):
            carried = block.args[1 + block.terminator.operands.index(dot.result)]
            kept = [carried, *self.computing(dot)]
            waited = self.build.op("warpgroup_wait", *map(self.get, kept)).results
            self.values.update(zip(kept, waited, strict=True))
            again = self.build.value("cmp_ne", self.get(block.args[0]), self.get(block.owner.start))
            for ring in self.read_in(block, dot):
                last = self.before(ring, self.entered[block][ring][0])
                self.build.op("ring_release", self.rings[ring], last, again)

    def computing(self, dot: Op) -> list[Value]:
        """What the left operand of a trailing product is computed from. That depends on the wait then, so nothing moves
        the computation above it, into registers that the product of the iteration before may still read."""
        made = dot.x.owner
        if not isinstance(made, Op) or any(origin(dot.x) in group.loads for group in self.plan.groups):
            return []
        whole = [
            v for v in dict.fromkeys(made.operands) if v in self.values and shape_of(v.type) == shape_of(dot.x.type)
        ]
        return [v for v in whole if element_of(v.type) in (F32, I32)]

    def done(self, block: Block, index: int) -> None:
        for group in self.plan.groups:
            ring = group.ring
            if group.block is not block or last_use(group) is not block.ops[index]:
                continue
            if any(dot in self.plan.waits.trailing and dot in block.ops for dot in group.dots):
                continue  # until the next iteration has waited for the product
            if any(dot in self.plan.waits.chains and dot in block.ops for dot in group.dots):
                # the product before this one is complete, so its slot is free; the first has none before it
                loop = block.owner
                again = self.build.value("cmp_ne", self.get(loop.body.args[0]), self.get(loop.start))
                self.build.op("ring_release", self.rings[ring], self.before(ring, self.taken[ring]), again)
            else:
                self.read.append((ring, self.taken[ring]))
        if not self.open:
            self.settle()
