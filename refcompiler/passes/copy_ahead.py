"""Copy what a loop reads into stages of shared memory, rounds ahead, so that no round waits for memory."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.rounds_ahead import Ahead, Fetch, counts_in_32_bits, is_zero, rounds_ahead
from refcompiler.dialects.scf import For
from refcompiler.dialects.tile.dot import STEPWISE
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BOOL, I32, I64, BlockType, SharedType
from refcompiler.remarks import Refusal, remark


def copy_ahead(func: Func, context: Any) -> None:
    """Rewrite every counted loop that reads blocks whose addresses are known rounds ahead, where that pays: operands of
    its products, or blocks that threads copy for themselves.

    Before the loop the blocks of the first rounds are on their way, one round fewer than ``num_stages``; each round
    waits for its own, takes them from shared memory, and has those of a later round copied. Addresses are computed
    as many rounds ahead by a copy of the ops that they take; beyond the last round the copies' masks are false.
    ``func.attrs["disjoint"]`` has the parameters whose arrays must be apart for that.
    """
    if context.options.num_stages < 2:
        for dot in (op for op in func.walk() if op.name == "dot" and op.strategy in STEPWISE):
            asked = Refusal("nothing is copied ahead: num_stages is 1", "use num_stages=2 or more")
            remark(context, "copy_ahead", dot, asked)
        return
    plans = rounds_ahead(func, context)
    _block(func.body, plans)
    if disjoint := {pair for plan in plans.values() for pair in plan.disjoint}:
        func.attrs["disjoint"] = tuple(sorted(disjoint.union(func.attrs.get("disjoint", ()))))


def _block(block: Block, plans: dict[For, Ahead]) -> None:
    ops, block.ops = block.ops, []
    for op in ops:
        for region in op.regions:
            _block(region, plans)
        if op in plans:
            _Rewriter(op, plans[op], Builder(block, op.span)).run()
        else:
            block.append(op)


class _Rewriter:
    """Replaces one loop."""

    def __init__(self, loop: For, plan: Ahead, builder: Builder):
        self.loop, self.plan, self.build = loop, plan, builder
        self.buffers: dict[Fetch, Value] = {}

    def run(self) -> None:
        for fetch in self.plan.fetches:
            type_ = fetch.load.result.type
            buffer = SharedType(type_.element, type_.numel * self.plan.stages)
            self.buffers[fetch] = self.build.value("stages", types=[buffer], private=self.plan.private)
        ahead = self.first_rounds()
        new = self.new_loop(ahead)
        self.build.op("stage_wait", pending=0, private=self.plan.private)
        self.replace(new)

    def replace(self, new: Op) -> None:
        """The results of the old loop stand for those of the new one."""
        for position, old in enumerate(self.loop.results):
            old.owner = new
            new.results[position] = old

    def first_rounds(self) -> list[Value]:
        """Begin the copies of the rounds before the first wait; gives the carried values of the round after them."""
        loop = self.loop
        carried = [loop.inits[slot] for slot in self.plan.slots]
        index: Value = loop.start
        for number in range(self.plan.rounds):
            if number:
                index = self.sum(index, loop.step)
            if counts_in_32_bits(loop):
                runs = self.build.value("cmp_lt", index, loop.stop)
            else:
                runs = self.runs(loop.start, number)
            values = self.addresses(index, carried)
            self.copies(values, Constant(number, I32), runs)
            carried = self.carried(values)
        return carried

    def runs(self, index: Value, rounds: int) -> Value:
        """Whether the loop has a round so many rounds after the one with ``index``."""
        stop, step = self.loop.stop, self.loop.step
        if counts_in_32_bits(self.loop):
            return self.build.value("cmp_gt", self.build.value("sub", stop, index), Constant(step.value * rounds, I32))
        stop, index, step = (
            Constant(v.value, I64) if isinstance(v, Constant) else self.build.value("cast", v, types=[I64])
            for v in (stop, index, step)
        )
        distance = self.build.value("mul", step, Constant(rounds, I64))
        return self.build.value("cmp_gt", self.build.value("sub", stop, index), distance)

    def addresses(self, index: Value, carried: list[Value]) -> dict[Value, Value]:
        """Compute pointers and masks of one round; gives what stands for each value of the loop's body."""
        body = self.loop.body
        values: dict[Value, Value] = {body.args[0]: index}
        values.update(zip((body.args[1 + slot] for slot in self.plan.slots), carried, strict=True))
        for op in self.plan.addresses:
            self.build.add(op.clone(values))
        return values

    def carried(self, values: dict[Value, Value]) -> list[Value]:
        """The carried values of the round after one with these values."""
        ends = self.loop.body.terminator.operands
        return [values.get(ends[slot], ends[slot]) for slot in self.plan.slots]

    def copy(self, fetch: Fetch, values: dict[Value, Value], stage: Value, runs: Value) -> None:
        """Begin to copy a block of a round that ``runs``."""
        pointer, mask = (values.get(v, v) for v in (fetch.load.pointer, fetch.load.mask))
        mask = self.both(mask, runs, pointer.type)
        hints = {"layout": str(fetch.shared), "width": fetch.width, "eviction": fetch.load.eviction}
        self.build.op("stage_copy", self.buffers[fetch], stage, pointer, mask, **hints)

    def both(self, mask: Value | None, runs: Value, like: BlockType) -> Value:
        wide = self.build.value("full", runs, types=[BlockType(BOOL, like.shape, like.layout)])
        return wide if mask is None else self.build.value("and", mask, wide)

    def new_loop(self, ahead: list[Value]) -> Op:
        loop, plan = self.loop, self.plan
        old = loop.body
        stages = [Constant(0, I32)] if plan.stages > 1 else []
        body = Block([*old.args, *(Value(v.type) for v in ahead), *(Value(I32) for _ in stages)])
        with self.build.inside(body):
            self.build.op("stage_wait", pending=plan.rounds - 1, private=plan.private)
            index, moved = body.args[0], body.args[len(old.args) : len(old.args) + len(ahead)]
            stage: Value = body.args[-1] if stages else Constant(0, I32)
            runs = self.runs(index, plan.rounds)
            values = self.addresses(self.sum(index, self.distance()), moved)
            if not plan.private:
                self.copies(values, self.before(stage), runs)
            self.rounds(stage, values, runs)
            if plan.private:
                self.build.op("stage_commit")
            following = [self.after(stage)] if stages else []
            self.build.op("yield", *old.terminator.operands, *self.carried(values), *following)
        types = [v.type for v in body.args[1:]]
        new = self.build.op("for", *loop.operands[:3], *loop.inits, *ahead, *stages, regions=[body], types=types)
        new.spans = loop.spans
        return new

    def copies(self, values: dict[Value, Value], stage: Value, runs: Value) -> None:
        """Begin to copy all blocks of a round."""
        for fetch in self.plan.fetches:
            self.copy(fetch, values, stage, runs)
        self.build.op("stage_commit")

    def rounds(self, stage: Value, values: dict[Value, Value], runs: Value) -> None:
        """What the loop did, with blocks taken from their stage instead of loaded; where threads take their own, the
        place of what they took receives what the round with these values needs."""
        takes = {op: fetch for fetch in self.plan.fetches for op in fetch.takes}
        loads = {fetch.load for fetch in self.plan.fetches}
        for op in self.loop.body.ops:
            if op in takes:
                self.take(op, takes[op], stage)
                if self.plan.private:
                    self.copy(takes[op], values, stage, runs)
            elif op not in loads and not op.terminator:
                self.build.add(op)

    def take(self, op: Op, fetch: Fetch, stage: Value) -> None:
        """Take a block where ``op`` gave one."""
        types = [op.result.type]
        new = self.build.op("stage_take", self.buffers[fetch], stage, layout=str(fetch.shared), types=types)
        if op is fetch.load and op.other is not None and not is_zero(op.other):
            new = self.build.op("select", op.mask, new.result, op.other)
        op.result.owner = new
        new.results[0] = op.result

    # --- counting
    def before(self, stage: Value) -> Value:
        at_start = self.build.value("cmp_eq", stage, Constant(0, I32))
        less = self.build.value("sub", stage, Constant(1, I32))
        return self.build.value("select", at_start, Constant(self.plan.stages - 1, I32), less)

    def after(self, stage: Value) -> Value:
        at_end = self.build.value("cmp_eq", stage, Constant(self.plan.stages - 1, I32))
        more = self.build.value("add", stage, Constant(1, I32))
        return self.build.value("select", at_end, Constant(0, I32), more)

    def distance(self) -> Value:
        """What the index grows by until the blocks are used that a round has copied."""
        step, rounds = self.loop.step, self.plan.rounds
        if isinstance(step, Constant):
            return Constant(step.value * rounds, I32)
        return step if rounds == 1 else self.build.value("mul", step, Constant(rounds, I32))

    def sum(self, x: Value, y: Value) -> Value:
        if isinstance(x, Constant) and isinstance(y, Constant):
            return Constant(x.value + y.value, I32)
        return self.build.value("add", x, y)
