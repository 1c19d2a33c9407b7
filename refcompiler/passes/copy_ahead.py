"""Copy what the products of a loop read into stages of shared memory, rounds ahead, so that they need not wait."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.rounds_ahead import Ahead, rounds_ahead
from refcompiler.dialects.scf import For
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BOOL, I32, BlockType, SharedType
from refcompiler.remarks import Refusal, remark


def copy_ahead(func: Func, context: Any) -> None:
    """Rewrite every counted loop whose products read blocks that copies of their own can bring.

    Before the loop the blocks of the first ``num_stages`` - 1 rounds are on their way; each round waits for its own,
    has those of the round ``num_stages`` - 1 later copied, and takes its own from shared memory. Addresses are computed
    as many rounds ahead by a copy of the ops that they take; beyond the last round the copies' masks are false.
    """
    if context.options.num_stages < 2:
        for dot in (op for op in func.walk() if op.name == "dot" and op.strategy == "mma"):
            asked = Refusal("nothing is copied ahead: num_stages is 1", "use num_stages=2 or more")
            remark(context, "copy_ahead", dot, asked)
        return
    _block(func.body, AxisAnalysis(func), context)


def _block(block: Block, axis: AxisAnalysis, context: Any) -> None:
    ops, block.ops = block.ops, []
    for op in ops:
        for region in () if op.name == "roles" else op.regions:  # roles have no barrier of all threads
            _block(region, axis, context)
        if isinstance(op, For) and (plan := rounds_ahead(op, axis, context)) is not None:
            _Rewriter(op, plan, Builder(block, op.span)).run()
        else:
            block.append(op)


class _Rewriter:
    """Replaces one loop."""

    def __init__(self, loop: For, plan: Ahead, builder: Builder):
        self.loop, self.plan, self.build = loop, plan, builder
        self.buffers: list[Value] = []

    def run(self) -> None:
        for fetch in self.plan.fetches:
            type_ = fetch.load.result.type
            buffer = SharedType(type_.element, type_.numel * self.plan.stages)
            self.buffers.append(self.build.value("stages", types=[buffer]))
        ahead = self.first_rounds()
        new = self.new_loop(ahead)
        self.build.op("stage_wait", pending=0)
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
        for number in range(self.plan.stages - 1):
            if number:
                index = self.sum(index, loop.step)
            runs = self.build.value("cmp_lt", index, loop.stop)
            carried = self.copies(index, carried, Constant(number, I32), runs)
        return carried

    def copies(self, index: Value, carried: list[Value], stage: Value, runs: Value) -> list[Value]:
        """Begin to copy the blocks of one round; gives the carried values of the next one."""
        body = self.loop.body
        values: dict[Value, Value] = {body.args[0]: index}
        values.update(zip((body.args[1 + slot] for slot in self.plan.slots), carried, strict=True))
        for op in self.plan.addresses:
            self.build.add(op.clone(values))
        for buffer, fetch in zip(self.buffers, self.plan.fetches, strict=True):
            pointer, mask = (values.get(v, v) for v in (fetch.load.pointer, fetch.load.mask))
            mask = self.both(mask, runs, pointer.type)
            self.build.op("stage_copy", buffer, stage, pointer, mask, layout=str(fetch.shared), width=fetch.width)
        self.build.op("stage_commit")
        ends = body.terminator.operands
        return [values.get(ends[slot], ends[slot]) for slot in self.plan.slots]

    def both(self, mask: Value | None, runs: Value, like: BlockType) -> Value:
        wide = self.build.value("full", runs, types=[BlockType(BOOL, like.shape, like.layout)])
        return wide if mask is None else self.build.value("and", mask, wide)

    def new_loop(self, ahead: list[Value]) -> Op:
        loop, plan = self.loop, self.plan
        old = loop.body
        args = [*old.args, *(Value(v.type) for v in ahead), Value(I32)]
        body = Block(args)
        last = Constant(plan.stages - 1, I32)
        with self.build.inside(body):
            self.build.op("stage_wait", pending=plan.stages - 2)
            index, stage, moved = args[0], args[-1], args[len(old.args) : -1]
            distance = Constant(loop.step.value * (plan.stages - 1), I32)
            runs = self.build.value("cmp_gt", self.build.value("sub", loop.stop, index), distance)
            at_start = self.build.value("cmp_eq", stage, Constant(0, I32))
            before = self.build.value("sub", stage, Constant(1, I32))
            free = self.build.value("select", at_start, last, before)
            nexts = self.copies(self.sum(index, distance), moved, free, runs)
            self.rounds(old, stage)
            at_end = self.build.value("cmp_eq", stage, last)
            after = self.build.value("add", stage, Constant(1, I32))
            following = self.build.value("select", at_end, Constant(0, I32), after)
            self.build.op("yield", *old.terminator.operands, *nexts, following)
        starts = [*loop.inits, *ahead, Constant(0, I32)]
        types = [v.type for v in args[1:]]
        new = self.build.op("for", *loop.operands[:3], *starts, regions=[body], types=types)
        new.spans = loop.spans
        return new

    def rounds(self, old: Block, stage: Value) -> None:
        """What the loop did, with blocks taken from their stage instead of loaded."""
        takes = {c: (buffer, f) for buffer, f in zip(self.buffers, self.plan.fetches, strict=True) for c in f.converts}
        loads = {fetch.load for fetch in self.plan.fetches}
        for op in old.ops:
            if op in takes:
                buffer, fetch = takes[op]
                types = [op.result.type]
                new = self.build.op("stage_take", buffer, stage, layout=str(fetch.shared), types=types)
                op.result.owner = new
                new.results[0] = op.result
            elif op not in loads and not op.terminator:
                self.build.add(op)

    def sum(self, x: Value, y: Value) -> Value:
        if isinstance(x, Constant) and isinstance(y, Constant):
            return Constant(x.value + y.value, I32)
        return self.build.value("add", x, y)
