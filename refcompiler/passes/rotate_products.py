"""Begin the first of two products that depend on each other an iteration ahead, while the second one is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.ranges import Ranges
from refcompiler.analysis.register_plan import programs_of_roles
from refcompiler.analysis.warp_roles import RolePlan, plan_roles
from refcompiler.analysis.warpgroup_products import ROWS, WARPS, is_one
from refcompiler.dialects.scf import For
from refcompiler.dialects.tile.descriptor import DescriptorLoad
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import I32
from refcompiler.remarks import Refusal, Remark, recording, remark


def rotate_products(func: Func, context: Any) -> Func | None:
    """Where a loop has a product of what it loads, and another one of what becomes of that, the first one of the next
    iteration is computed right before the second one of this: the tensor cores get both at once, and what lies between
    them does without. One product more is computed than the loop has iterations, of which nobody reads the last; its
    boxes are clipped like any other. Where registers hold only one of the two products, or serve several programs,
    nothing is done.
    """
    rotated = func.clone()
    said: list[Remark] = []
    plan = plan_roles(rotated, recording(context, None))
    if plan is None or programs_of_roles(context.num_warps // WARPS, context.options.maxnreg) > 1:
        return None  # or another program of the multiprocessor has products for the tensor cores meanwhile
    rotation = _Rotation(rotated, plan, recording(context, said))
    rotation.block(rotated.body)
    if rotation.first is not None and plan_roles(rotated, recording(context, None)) is None:
        why = Refusal("registers do not hold both at a time", "use smaller blocks, or more warps")
        remark(context, "rotate_products", rotation.first, why.after("the product is not begun an iteration ahead"))
        return None
    if context.remarks is not None:
        context.remarks.extend(said)
    return rotated if rotation.first is not None else None


class _Pair(NamedTuple):
    """A product in a loop, what computes it, and the last product that depends on it."""

    product: Op
    slice: list[Op]  # in program order, the product last
    dependent: Op


class _Tied(Exception):
    """A product cannot be computed in another iteration than its own: ``why``."""

    def __init__(self, message: str, advice: str = ""):
        super().__init__(message)
        self.why = Refusal(message, advice)


class _Rotated(NamedTuple):
    """What became of a loop: the product as it was, the counter it was computed for, the value for the next one."""

    loop: For
    product: Op
    counter: Value
    following: Value


class _Rotation:
    def __init__(self, func: Func, plan: RolePlan, context: Any):
        self.func, self.plan, self.context = func, plan, context
        self.loads = {load for group in plan.groups for load in group.loads}
        self.axis, self.ranges = AxisAnalysis(func), Ranges(func)
        self.first: Op | None = None  # of the products that were rotated

    def block(self, block: Block) -> None:
        before: list[_Rotated] = []
        for op in list(block.ops):
            for region in op.regions:
                self.block(region)
            if isinstance(op, For) and (pair := self.pair(op)) is not None:
                before.append(self.rotate(block, op, pair, before))

    # --- what can be rotated
    def pair(self, loop: For) -> _Pair | None:
        dots = [op for op in loop.body.ops if op in self.plan.dots]
        depending = [(dot, [d for d in dots if d is not dot and self.depends(d, dot, loop.body)]) for dot in dots]
        pairs = [(dot, dependents) for dot, dependents in depending if dependents]
        reasons = [(dot, self.refused(dot, loop)) for dot, _ in pairs]
        for (dot, dependents), (_, reason) in zip(pairs, reasons, strict=True):
            if reason is None:
                said = "the product of the next iteration is begun while that of this one is used"
                remark(self.context, "rotate_products", dot, said, applied=True)
                return _Pair(dot, self.slice_of(dot, loop), dependents[-1])
        for dot, reason in reasons:
            remark(self.context, "rotate_products", dot, reason.after("the product is not begun an iteration ahead"))
        return None

    def refused(self, dot: Op, loop: For) -> Refusal | None:
        """Why a product cannot be computed an iteration ahead of what depends on it; None: it can."""
        if not isinstance(loop.step, Constant) or loop.step.value <= 0:
            return Refusal("its loop does not count up by a constant", "let the step be a constexpr")
        if dot.acc is not None:
            return Refusal("it adds to an accumulator", "add to its result: tl.dot(a, b) + c")
        if not is_one(dot, self.context.num_warps // WARPS):
            rows = ROWS * self.context.num_warps // WARPS
            return Refusal(
                f"it has more than {rows} rows, so warpgroups compute it in parts and wait for these at once",
                f"use blocks of {rows} rows, or more warps",
            )
        try:
            self.slice_of(dot, loop)
        except _Tied as reason:
            return reason.why
        return None

    def slice_of(self, dot: Op, loop: For) -> list[Op]:
        """The ops of the loop that compute a product. Raises _Tied where it depends on what the loop carries."""
        found, wanted = {dot}, list(dot.operands)
        inside = set(loop.body.ops)
        while wanted:
            value = wanted.pop()
            if value is None or isinstance(value, Constant):
                continue
            if value in loop.body.args[1:]:
                raise _Tied("it depends on what the loop carries", "compute its operands from the loop's counter")
            op = value.owner
            if op in inside and op not in found:
                if op in self.loads and not _is_clipped(op):
                    raise _Tied(
                        "a box of the next iteration may lie beyond its array, whose extents are not known",
                        "mask the load with the extents of the array, or make a descriptor of it",
                    )
                if not (op.pure or op in self.loads) or op.regions:
                    raise _Tied(f"it depends on `{op.name}`, which is not done twice")
                found.add(op)
                wanted += op.operands
        return [op for op in loop.body.ops if op in found]

    def depends(self, later: Op, earlier: Op, body: Block) -> bool:
        derived = set(earlier.results)
        for op in body.ops:
            if any(o in derived for each in _with_inner(op) for o in each.operands):
                derived.update(op.results)
        return any(o in derived for o in later.operands)

    # --- rotation
    def rotate(self, block: Block, loop: For, pair: _Pair, before: list[_Rotated]) -> _Rotated:
        self.first = self.first or pair.product
        index, body = loop.body.args[0], loop.body
        first = self.continued(loop, pair, before)
        if first is None:
            ops, first = self.copies(pair, {index: loop.start})
            at = block.ops.index(loop)
            block.ops[at:at] = ops
        carried = Value(pair.product.result.type, pair.product.result.name, body)
        step = OPS["add"](index, loop.step, span=pair.product.span)
        ops, following = self.copies(pair, {index: step.result})
        at = body.ops.index(pair.dependent)
        body.ops[at:at] = [step, *ops]
        for op in body.walk():
            op.operands = [carried if o is pair.product.result else o for o in op.operands]
        self.drop(body, pair.slice)
        result = Value(carried.type, None, loop)
        loop.operands.append(first)
        body.args.append(carried)
        body.terminator.operands.append(following)
        loop.results.append(result)
        return _Rotated(loop, pair.product, index, result)

    def copies(self, pair: _Pair, values: dict[Value, Value]) -> tuple[list[Op], Value]:
        ops = [op.clone(values) for op in pair.slice]
        self.loads.update(op for op in ops if isinstance(op, DescriptorLoad))
        return ops, ops[-1].result

    def drop(self, body: Block, ops: list[Op]) -> None:
        """Remove those of ``ops`` that nobody reads any more."""
        for op in reversed(ops):
            used = {o for other in body.walk() for o in other.operands}
            if not any(result in used for result in op.results):
                body.ops.remove(op)

    def continued(self, loop: For, pair: _Pair, before: list[_Rotated]) -> Value | None:
        """What an earlier loop computed last, if that is the product which this one begins with."""
        for other in before:
            start, stop, step = other.loop.start, other.loop.stop, other.loop.step.value
            whole = self.axis.of(stop).divisor % step == 0 and self.ranges.non_negative(stop)
            from_zero = isinstance(start, Constant) and start.value == 0
            same = _same(pair.product, other.product, {loop.body.args[0]: other.counter})
            if loop.start is stop and from_zero and whole and same:
                return other.following
        return None


def _is_clipped(load: Op) -> bool:
    """Whether the boxes of a load end where its array does: then none of them reaches what must not be read."""
    return not any(isinstance(e, Constant) and e.value == I32.max_int for e in load.descriptor.owner.shape)


def _with_inner(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions:
        yield from region.walk()


def _same(a: Op, b: Op, indices: dict[Value, Value]) -> bool:
    """Whether two ops compute the same, where the indices of one loop stand for those of another."""
    if (a.name, a.attrs, [r.type for r in a.results]) != (b.name, b.attrs, [r.type for r in b.results]):
        return False
    if len(a.operands) != len(b.operands):
        return False
    for x, y in zip(a.operands, b.operands, strict=True):
        if x is y or indices.get(x) is y:
            continue
        if isinstance(x, Constant) and isinstance(y, Constant) and x.key() == y.key():
            continue
        if x is None or y is None or not (isinstance(x.owner, Op) and isinstance(y.owner, Op)):
            return False
        if x in indices or not _same(x.owner, y.owner, indices) or x.owner.results.index(x) != y.owner.results.index(y):
            return False
    return True
