"""Scans: runs of elements double step by step, in registers, over lanes by shuffles, over warps in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.tile.reduction import identity
from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import DType, SharedType, element_of
from refcompiler.layouts import LinearLayout, Step, scan, warp_exchange
from refcompiler.layouts.linear import LANE_BITS
from refcompiler.lowering.exchange import element_bytes
from refcompiler.lowering.memory import owned
from refcompiler.lowering.reduction import combine
from refcompiler.lowering.state import Lowering, layout_of, lowers

ACCESS_BYTES = 16  # the widest load from shared memory


@lowers("scan")
def lower_scan(state: Lowering, op: Op) -> None:
    """Every step joins pairs of runs: the elements of the second run take the total of the first as left operand."""
    work = _Scan(state, op, layout_of(op.blocks[0]))
    for number, step in enumerate(work.plan.steps):
        getattr(work, step.kind)(number, step)
    for old, new in zip(op.results, work.values, strict=True):
        state.set(old, new)


class _Scan:
    """``values`` holds the scanned runs, ``totals`` one register per segment with the total of its run; None while the
    last register of each run is that total."""

    def __init__(self, state: Lowering, op: Op, layout: LinearLayout):
        self.state, self.op, self.layout = state, op, layout
        self.plan = scan(layout, op.axis)
        self.values = [state.vector(b) for b in op.blocks]
        self.totals: list[Value] | None = None
        self.commutes = op.body is None and OPS[op.combine].commutative

    # --- steps
    def register(self, number: int, step: Step) -> None:
        (bit,) = step.bits
        segment = self.plan.segment_of(number)
        seconds = [r for r in range(self.plan.registers) if bool(r & bit) != self.op.reverse]
        firsts = self.pick(self.totals_before(number), [segment[r ^ bit] for r in seconds])
        totals = self.totals
        if totals is not None:
            later = sorted({segment[r] for r in seconds})
            earlier = [segment[next(r for r in seconds if segment[r] == s) ^ bit] for s in later]
            totals = self.combine(self.pick(totals, earlier), self.pick(totals, later), len(later))
        combined = self.combine(firsts, self.pick(self.values, seconds), len(seconds))
        self.values = self.replaced(self.values, seconds, combined, self.plan.registers)
        self.totals = totals

    def lane(self, number: int, step: Step) -> None:
        (bit,) = step.bits
        segment = self.plan.segment_of(number)
        totals = self.totals_before(number)
        others = [self.state.op("shfl_xor", t, mask=bit) for t in totals]
        second = self.is_second(bit)
        self.join(second, others, segment)
        if number + 1 == len(self.plan.steps):
            return
        left, right = totals, others
        if not self.commutes:
            left = self.select(second, others, totals)
            right = self.select(second, totals, others)
        self.totals = self.combine(left, right, max(segment) + 1)

    def warp(self, number: int, step: Step) -> None:
        segment = self.plan.segment_of(number)
        segments, warps = max(segment) + 1, 1 << len(step.bits)
        gathered = self.gathered(number, self.totals_before(number), segments)
        final = number + 1 == len(self.plan.steps)
        for level in range(len(step.bits)):
            half = 1 << level
            # in each pair of runs of `half` warps: the warp whose total the second run takes
            takes = [w + (half if self.op.reverse else half - 1) for w in range(0, warps, 2 * half)]
            sources = [[s * warps + w for s in range(segments)] for w in takes]
            candidates = [self.pick(gathered, source) for source in sources]
            for bit in step.bits[level + 1 :]:
                upper = self.is_set(bit << LANE_BITS)
                pairs = zip(candidates[1::2], candidates[::2], strict=True)
                candidates = [self.select(upper, high, low) for high, low in pairs]
            self.join(self.is_second(step.bits[level] << LANE_BITS), candidates[0], segment)
            ends = level + 1 == len(step.bits)
            if ends and final:
                return
            gathered = self.next_level(gathered, segments, warps, half, ends)
        end = 0 if self.op.reverse else warps - 1
        self.totals = self.pick(gathered, [s * warps + end for s in range(segments)])

    # --- totals of warps
    def gathered(self, number: int, totals: list[Value], segments: int) -> list[Value]:
        """The totals of all warps of a step, in every thread: for each segment one register per warp."""
        plan = warp_exchange(self.layout, self.op.axis, number, segments)
        state, buffers = self.state, []
        for block, total in zip(self.op.blocks, totals, strict=True):
            buffer = state.op("shared_alloc", types=[SharedType(element_of(block.type), plan.size)])
            index = state.index((*plan.member, *plan.rest), [plan.warps * s for s in range(segments)], additive=True)
            writer = owned(state, None, plan.idle)
            state.builder.op("st_shared", buffer, state.splat(index, segments), total, writer)
            buffers.append(buffer)
        loaded = []
        for block, buffer in zip(self.op.blocks, buffers, strict=True):
            width = min(plan.warps, max(1, ACCESS_BYTES // element_bytes(block)))
            offsets = range(0, plan.warps * segments, width)
            index = state.index(plan.rest, offsets, additive=True)
            loaded.append(state.op("ld_shared", buffer, state.splat(index, len(offsets)), width=width))
        return loaded

    def next_level(self, gathered: list[Value], segments: int, warps: int, half: int, ends: bool) -> list[Value]:
        """The totals with pairs of runs of ``half`` warps joined; at the end that of all warps is enough."""
        seconds = [w for w in range(warps) if bool(w & half) != self.op.reverse]
        if ends:
            seconds = [0 if self.op.reverse else warps - 1]
        start = {w: w // (2 * half) * 2 * half for w in seconds}
        takes = {w: start[w] + (half if self.op.reverse else half - 1) for w in seconds}
        targets = [s * warps + w for s in range(segments) for w in seconds]
        sources = [s * warps + takes[w] for s in range(segments) for w in seconds]
        combined = self.combine(self.pick(gathered, sources), self.pick(gathered, targets), len(targets))
        return self.replaced(gathered, targets, combined, segments * warps)

    # --- parts of a step
    def totals_before(self, number: int) -> list[Value]:
        """One register per segment."""
        if self.totals is not None:
            return self.totals
        segment = self.plan.segment_of(number)
        last = dict(zip(segment, range(len(segment)), strict=True))  # of a segment the register that is scanned last
        if self.op.reverse:
            last = {segment[r]: r for r in reversed(range(len(segment)))}
        return self.pick(self.values, [last[s] for s in sorted(last)])

    def join(self, second: Value, firsts: list[Value], segment: Sequence[int]) -> None:
        """In threads that are ``second``, every value takes its segment's entry of ``firsts`` as left operand."""
        element = element_of(self.op.blocks[0].type)
        neutral = identity(self.op.combine, element) if isinstance(element, DType) and self.op.body is None else None
        count = self.plan.registers
        if neutral is not None:
            firsts = [self.state.op("select", second, first, neutral) for first in firsts]
        combined = self.combine(self.pick(firsts, segment), self.values, count)
        self.values = combined if neutral is not None else self.select(second, combined, self.values)

    def is_set(self, mask: int) -> Value:
        state = self.state
        return state.op("cmp_ne", state.op("and", state.thread, state.constant(mask)), state.constant(0))

    def is_second(self, mask: int) -> Value:
        """Whether this thread is in the second run of a pair that a bit of the thread index tells apart."""
        if not self.op.reverse:
            return self.is_set(mask)
        state = self.state
        return state.op("cmp_eq", state.op("and", state.thread, state.constant(mask)), state.constant(0))

    def pick(self, values: list[Value], registers: Sequence[int]) -> list[Value]:
        return [self.state.splat(self.state.pick(v, registers), len(registers)) for v in values]

    def select(self, condition: Value, x: list[Value], y: list[Value]) -> list[Value]:
        return [self.state.op("select", condition, a, b) for a, b in zip(x, y, strict=True)]

    def combine(self, left: list[Value], right: list[Value], count: int) -> list[Value]:
        return [self.state.splat(v, count) for v in combine(self.state, self.op, left, right)]

    def replaced(self, values: list[Value], at: Sequence[int], new: list[Value], count: int) -> list[Value]:
        """The values with those registers replaced."""
        if len(at) == count:
            return new
        place = {register: count + position for position, register in enumerate(at)}
        order = [place.get(register, register) for register in range(count)]
        return [self.state.pick(self.state.op("pack", v, n), order) for v, n in zip(values, new, strict=True)]
