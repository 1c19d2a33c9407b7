"""Which products of warpgroups are waited for when: with others, in the next iteration, or by nobody in a loop."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from refcompiler.analysis.warpgroup_products import is_one, is_view, origin
from refcompiler.dialects.scf import For
from refcompiler.dialects.tile.descriptor import DescriptorLoad
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import F32, FLOATS8, I32, element_of, shape_of

if TYPE_CHECKING:
    from refcompiler.analysis.warp_roles import Group


class Waits(NamedTuple):
    """Products by when they begin and when they are waited for."""

    chains: set[Op]  # only added to, in the loop around them, by the same product
    whole: set[Op]  # go on their way as one group, and need not be waited for at once
    stepwise: set[Op]  # of these, those that begin while their left operands are computed
    joined: set[Op]  # waited for with the next one, which does not need them
    trailing: dict[Op, Op]  # only the next iteration reads them: what is done there after the wait for them


class ProductWaits:
    """``at_once``: products are complete when the iteration that begins them ends, because programs share a
    multiprocessor, or because ptxas would serialize them."""

    def __init__(
        self,
        func: Func,
        block_of: dict[Op, Block],
        users: dict[Value, list[Op]],
        warpgroups: int,
        at_once: bool,
    ):
        self.func, self.block_of, self.users = func, block_of, users
        self.warpgroups, self.at_once = warpgroups, at_once

    def of(self, dots: set[Op], shallow: set[Op], loads: Any, groups: Sequence[Group]) -> Waits:
        """The products ``dots``, of what ``loads`` bring; the slots that ``shallow`` ones read have no others beside
        them, so they are free at once."""
        chains = {d for d in dots - shallow if self.is_chain(d, loads)}
        whole = {d for d in dots if self.is_whole(d)}
        joined = self.joined(dots - chains)
        trailing = {d: first_use(d, self.block_of[d]) for d in dots - shallow - chains if self.is_trailing(d, groups)}
        others = whole - chains - joined - trailing.keys()
        return Waits(chains, whole, {d for d in others if self.is_stepwise(d, loads, joined)}, joined, trailing)

    def joined(self, dots: set[Op]) -> set[Op]:
        """The products after which only loads and addresses come until another one, which waits for both."""
        found: set[Op] = set()
        for block in blocks_of(self.func.body):
            last: Op | None = None
            for op in block.ops:
                if last is not None and (last.result in op.operands or not (op.pure or isinstance(op, DescriptorLoad))):
                    last = None
                if op in dots:
                    waits = self.is_whole(op)
                    if last is not None and waits:
                        found.add(last)
                    last = op if waits else None
                elif op.regions or (op.pure and not is_view(op) and any(shape_of(r.type) for r in op.results)):
                    last = None
        return found

    def is_whole(self, dot: Op) -> bool:
        """Whether a product is one group of instructions; sums of float8 join those of float32 in parts."""
        return is_one(dot, self.warpgroups) and element_of(dot.x.type) not in FLOATS8

    def is_stepwise(self, dot: Op, loads: Container[Op | None], joined: Container[Op]) -> bool:
        """Whether the left operand is computed in registers of 16 bits, and no product that is joined comes before."""
        made, block = dot.x.owner, self.block_of[dot]
        before = [op for op in block.ops[: block.ops.index(dot)] if op.name == "dot"]
        alone = not before or before[-1] not in joined
        computed = isinstance(made, Op) and made.name == "cast" and self.block_of[made] is block
        return computed and alone and origin(dot.x) not in loads and element_of(dot.x.type).itemsize == 2

    def is_chain(self, dot: Op, loads: Any) -> bool:
        """Whether its result is only added to in the next iteration of the loop around it, so that it may still be on
        its way when the next one begins; the only product in that loop, which fetches one of its operands, with both in
        shared memory. Sums of float8 are complete when they join those of float32."""
        block = self.block_of[dot]
        loop = block.owner
        if (
            not self.is_whole(dot)
            or not isinstance(loop, For)
            or not _counts_up(loop)
            or origin(dot.x) not in loads
            or all(self.block_of[origin(operand)] is not block for operand in (dot.x, dot.y))
            or dot.acc not in loop.body.args[1:]
        ):
            return False
        slot = loop.body.args.index(dot.acc) - 1
        end = loop.body.terminator
        only = self.users.get(dot.acc, []) == [dot] and self.users.get(dot.result, []) == [end]
        alone = [op for op in loop.body.walk() if op.name == "dot"] == [dot]
        return only and alone and end.operands.count(dot.result) == 1 and end.operands[slot] is dot.result

    def is_trailing(self, dot: Op, groups: Sequence[Group]) -> bool:
        """Whether its result is first read in the next iteration of the loop around it, which has other products: these
        and what becomes of them need not wait for it. In each iteration the next slots of its rings are taken once.
        Its left operand keeps its registers meanwhile: programs that share a multiprocessor do not have these, and they
        may not be written, so it is a rounding, which can be made to wait, or the same in each iteration."""
        if self.at_once:
            return False
        block = self.block_of[dot]
        loop = block.owner
        if not self.is_whole(dot) or not isinstance(loop, For) or not _counts_up(loop):
            return False
        end, others = block.terminator, [op for op in block.walk() if op.name == "dot" and op is not dot]
        once = self.users.get(dot.result, []) == [end] and end.operands.count(dot.result) == 1
        made = dot.x.owner
        written = dot.x in block.args or (made in block.ops and not any(origin(dot.x) in g.loads for g in groups))
        if not once or not others or (written and not _rounds(made)):
            return False
        carried = block.args[1 + end.operands.index(dot.result)]
        inside = set(block.walk())
        taken = [g for g in groups if any(load in inside for load in g.loads)]
        own = [g for g in taken if dot in g.dots]
        alone = all([g for g in taken if g.ring == group.ring] == [group] and group.dots == [dot] for group in own)
        if not own or not alone or any(group.block is not block for group in own):
            return False
        return bool(self.users.get(carried)) and end not in self.users[carried]


def _rounds(made: Any) -> bool:
    """Whether what made a value is a conversion of float32 or int32."""
    return isinstance(made, Op) and made.name == "cast" and element_of(made.x.type) in (F32, I32)


def first_use(dot: Op, body: Block) -> Op:
    """The first op of an iteration that reads what a product of the one before gave, or computes the left operand of
    this one, for which there are the registers that the one before reads until it is complete."""
    slots = [i for i, value in enumerate(body.terminator.operands) if value is dot.result]
    carried = {body.args[1 + i] for i in slots}
    reading = [op for op in body.ops if any(v in carried for each in _with_inner(op) for v in each.operands)]
    made = [dot.x.owner] if dot.x.owner in body.ops else []
    return min([dot, *reading, *made], key=body.ops.index)


def blocks_of(body: Block) -> Iterable[Block]:
    """A block and all inside it."""
    yield body
    for op in body.ops:
        for region in op.regions:
            yield from blocks_of(region)


def _with_inner(op: Op) -> Iterable[Op]:
    """An op and those in its regions."""
    yield op
    for region in op.regions:
        yield from region.walk()


def _counts_up(loop: For) -> bool:
    return isinstance(loop.step, Constant) and loop.step.value > 0
