"""Reductions: registers, then lanes by shuffles, then warps through shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.laid_out import BEYOND, AnyBeyond
from refcompiler.dialects.simt.registers import count_of
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.layouts import reduction
from refcompiler.lowering.exchange import element_bytes, from_shared, to_shared
from refcompiler.lowering.state import Lowering, layout_of, lowers


@lowers("reduce")
def lower_reduce(state: Lowering, op: Op) -> None:
    """Each step combines the left and the right half of what is left, neighbours first."""
    plan = reduction(layout_of(op.blocks[0]), op.axis)
    partial = [_by_element(state, state.vector(b), plan.register_groups) for b in op.blocks]
    results = len(plan.register_groups)
    partial = _combine_registers(state, op, partial, len(plan.register_groups[0]), results)
    for mask in plan.lane_masks:
        others = [state.op("shfl_xor", p, mask=mask) for p in partial]
        partial = combine(state, op, partial, others)
    if plan.crosses_warps:
        exchanges = [plan.exchange(element_bytes(block)) for block in op.blocks]
        buffers = [to_shared(state, value, each) for value, each in zip(partial, exchanges, strict=True)]
        exchanged = [from_shared(state, buffer, each) for buffer, each in zip(buffers, exchanges, strict=True)]
        gathered = [_by_element(state, value, plan.warp_groups) for value in exchanged]
        partial = _combine_registers(state, op, gathered, len(plan.warp_groups[0]), results)
    for old, new in zip(op.results, partial, strict=True):
        state.set(old, new)


@lowers("any_beyond")
def lower_any_beyond(state: Lowering, op: AnyBeyond) -> None:
    """Each thread compares the extremum of what it has, and the warp votes."""
    plan = reduction(layout_of(op.x), op.axis)
    results, elements = len(plan.register_groups), len(plan.register_groups[0])
    partial = [_by_element(state, state.vector(op.x), plan.register_groups)]
    extremum = _combine_registers(state, op, partial, elements, results)[0]
    found = state.op(BEYOND[op.combine], extremum, state.value(op.bound))
    while (count := count_of(found.type)) > 1:
        found = state.op("or", state.pick(found, range(count // 2)), state.pick(found, range(count // 2, count)))
    state.set(op.result, state.op("vote_any", found))


def _by_element(state: Lowering, value: Value, groups: Sequence[Sequence[int]]) -> Value:
    """All results' first elements, then all their second ones, and so on."""
    return state.pick(value, [group[element] for element in range(len(groups[0])) for group in groups])


def _combine_registers(state: Lowering, op: Op, values: list[Value], elements: int, results: int) -> list[Value]:
    """Combine neighbours along the axis until one of ``elements`` is left for each of ``results``.

    A value whose registers are all equal is one scalar, so its type does not say how many elements it stands for.
    """
    while elements > 1:
        left = [e * results + r for e in range(0, elements, 2) for r in range(results)]
        right = [e * results + r for e in range(1, elements, 2) for r in range(results)]
        values = combine(state, op, [state.pick(v, left) for v in values], [state.pick(v, right) for v in values])
        elements //= 2
    return values


def combine(state: Lowering, op: Op, left: list[Value], right: list[Value]) -> list[Value]:
    """The combination of every register of ``left`` with the same register of ``right``."""
    count = max(count_of(v.type) for v in left + right)
    if op.body is None:
        row = OPS[op.combine](*left, *right)
        return [state.apply(row, [*left, *right])]
    values = dict(zip(op.body.args, [*left, *right], strict=True))

    def value(old: Value) -> Value:
        return old if isinstance(old, Constant) else values.get(old) or state.value(old)

    for inner in op.body.ops:
        if not inner.terminator:
            values[inner.result] = state.apply(inner, [value(o) for o in inner.operands])
    return [state.splat(value(v), count) for v in op.body.terminator.operands]
