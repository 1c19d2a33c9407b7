"""Conversions, reductions and shared memory exchanges, carried out on simulated registers of every thread."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompiler.layouts import (
    LinearLayout,
    SharedExchange,
    blocked,
    blocked_for,
    broadcast,
    conversion,
    evaluate,
    mixes_axis,
    reduction,
    row_major,
    shared_access,
    shared_exchange,
)
from tests.layout_strategies import WARPS, layouts, random_layout

quick = settings(derandomize=True, deadline=None, max_examples=150)


def fill(layout):
    """registers[thread][register]: the tensor index that the layout puts there."""
    return [
        [layout(register=r, lane=thread % 32, warp=thread // 32) for r in range(layout.num_registers)]
        for thread in range(32 * layout.num_warps)
    ]


def swap(registers, swaps):
    """Conditional exchanges of registers, as a plan asks for them."""
    for step in swaps:
        registers = [
            [row[r ^ step.registers] for r in range(len(row))] if thread >> step.thread_bit & 1 else row
            for thread, row in enumerate(registers)
        ]
    return registers


def run_shuffle(plan, registers):
    registers = swap(registers, plan.before)
    received = []
    for thread in range(len(registers)):
        row = []
        for step in plan.rounds:
            lane = evaluate(plan.lane_pieces, thread) ^ step.lane_constant
            assert 0 <= lane < 32
            if plan.is_xor:
                assert lane == thread % 32 ^ step.lane_constant
            row.append(registers[thread // 32 * 32 + lane][step.register])
        received.append(row)
    return swap(received, plan.after)


def addresses(access, thread):
    """(offset, registers) of each vector of one thread."""
    base = evaluate(access.pieces, thread)
    for constant, members in access.vectors:
        if access.additive:
            assert base + constant == base ^ constant
        yield base ^ constant, members


def run_shared(plan, registers, num_target_registers):
    """Store, barrier, load; no cell is written twice, none is read that was not written."""
    memory = {}
    for thread, row in enumerate(registers):
        if thread & plan.store.idle_threads:
            continue
        for offset, members in addresses(plan.store, thread):
            assert offset % plan.store.vector == 0
            assert len(members) == plan.store.vector
            for i, r in enumerate(members):
                assert offset + i not in memory, "two threads store to one cell"
                assert (offset + i + 1) * plan.element_bytes <= plan.num_bytes
                memory[offset + i] = row[r]
    loaded = []
    for thread in range(len(registers)):
        row = [None] * num_target_registers
        for offset, members in addresses(plan.load, thread):
            assert offset % plan.load.vector == 0
            for i, r in enumerate(members):
                row[r] = memory[offset + i]
        loaded.append(row)
    return loaded


def run(plan, registers, num_target_registers):
    if plan.kind == "shuffle":
        return run_shuffle(plan.shuffle, registers)
    if plan.kind == "shared":
        return run_shared(plan.shared, registers, num_target_registers)
    if plan.kind == "none":
        assert plan.registers == tuple(range(num_target_registers))
    return [[row[r] for r in plan.registers] for row in registers]


def check(source, target, element_bytes=4):
    plan = conversion(source, target, element_bytes)
    assert run(plan, fill(source), target.num_registers) == fill(target)
    return plan


# --- conversion
def test_blocked_conversions_of_every_kind():
    kinds = Counter()
    for shape in [(64,), (256,), (16, 16), (1, 128), (8, 4, 4)]:
        for num_warps in WARPS:
            orders = [tuple(range(len(shape))), tuple(reversed(range(len(shape))))]
            some = {blocked_for(shape, num_warps, v, order) for v in (1, 2, 4) for order in orders}
            for a, b in product(sorted(some, key=str), repeat=2):
                kinds[check(a, b).kind] += 1
    assert set(kinds) == {"none", "shuffle", "shared"}


TENSORS = st.sampled_from([(64,), (16,), (8, 16), (2, 4, 4), (256,)])


@quick
@given(st.data(), st.booleans(), st.integers(0, 3), TENSORS)
def test_any_conversion_with_replicas_on_both_sides(data, pure, warp_bits, shape):
    source = random_layout(data.draw, shape, warp_bits, pure=pure)
    target = random_layout(data.draw, shape, warp_bits, pure=pure)
    check(source, target, data.draw(st.sampled_from([1, 2, 4, 8])))


@quick
@given(st.data(), st.integers(1, 2), st.booleans())
def test_conversion_within_a_warp(data, register_bits, replicas):
    """Lanes and registers permuted under a fixed warp: exercises shuffle plans and their swaps."""
    bits = 5 + register_bits
    columns = [1 << bit for bit in range(bits)] + [0] * (register_bits if replicas else 0)
    shape = (1 << bits + 1,)

    def shuffled():
        order = data.draw(st.permutations(columns))
        return LinearLayout.packed(shape, {"lane": order[:5], "register": order[5:], "warp": [1 << bits]})

    plan = check(shuffled(), shuffled())
    assert plan.kind in ("none", "registers", "shuffle", "shared")


def test_the_kind_is_the_cheapest_that_suffices():
    shape = (128,)
    bases = [(1 << bit,) for bit in range(7)]

    def of(register, lane):
        return LinearLayout.of(shape, register=[bases[b] for b in register], lane=[bases[b] for b in lane])

    plain = of((5, 6), (0, 1, 2, 3, 4))
    assert check(plain, plain).kind == "none"
    renamed = check(plain, of((6, 5), (0, 1, 2, 3, 4)))
    assert (renamed.kind, renamed.registers) == ("registers", (0, 2, 1, 3))
    one_bit = check(plain, of((4, 6), (0, 1, 2, 3, 5)))
    assert one_bit.kind == "shuffle"
    assert one_bit.shuffle.num_shuffles == 4 // 2, "half of the registers already are in place"
    assert one_bit.shuffle.is_xor
    lanes = check(plain, of((5, 6), (4, 1, 2, 3, 0)))
    assert (lanes.kind, lanes.shuffle.before, lanes.shuffle.after) == ("shuffle", (), ())
    assert len(lanes.shuffle.rounds) == lanes.shuffle.num_shuffles == 4


def test_a_shuffle_is_given_up_where_shared_memory_is_cheaper():
    source, target = blocked((4096,), (4,), (32,), (1,)), blocked((4096,), (1,), (32,), (1,))
    assert check(source, target).kind == "shared"
    few = blocked((64,), (2,), (32,), (1,)), blocked((64,), (1,), (32,), (1,))
    assert check(*few).kind == "shuffle"


def test_replicated_sources_need_no_movement():
    scalar_rows = blocked_for((8, 128), 4, 4).slice(1)  # each row in every lane of its warp
    lane_zero = LinearLayout.of(
        (8,), register=scalar_rows.bases("register"), lane=[(0,)] * 5, warp=scalar_rows.bases("warp")
    )
    assert scalar_rows == lane_zero
    spread = LinearLayout.of((2,), register=[], lane=[(1,), (0,), (0,), (0,), (0,)])
    everywhere = LinearLayout.of((2,), register=[(1,)], lane=[(0,)] * 5)
    narrowed = check(everywhere, spread)
    assert narrowed.kind == "shuffle"
    assert narrowed.shuffle.num_shuffles == 0, "a select by the lane suffices"


def test_conversions_that_change_the_tensor_or_the_threads_are_refused():
    with pytest.raises(ValueError, match="keeps the shape"):
        conversion(blocked_for((64,), 1), blocked_for((128,), 1))
    with pytest.raises(ValueError, match="1 and 2 warps"):
        conversion(blocked_for((64,), 1), blocked_for((64,), 2))


@pytest.mark.parametrize("num_warps", WARPS)
def test_a_row_vector_broadcasts_back_without_movement(num_warps):
    for shape, axis in product([(8, 128), (64, 16), (4, 8, 16), (2, 2)], (0, 1)):
        layout = blocked_for(shape, num_warps, 4)
        source = layout.slice(axis).expand_dims(axis)
        plan = broadcast(source, layout)
        assert plan.kind in ("none", "registers")
        want = [[index[:axis] + (0,) + index[axis + 1 :] for index in row] for row in fill(layout)]
        assert run(plan, fill(source), layout.num_registers) == want


def test_a_broadcast_needs_extents_of_one():
    with pytest.raises(ValueError, match="cannot broadcast"):
        broadcast(blocked_for((2, 4), 1), blocked_for((4, 4), 1))


# --- bank conflicts
def wavefronts(access, exchange):
    """The largest number of 4-byte words that one bank serves in one wavefront, over all accesses."""
    bytes_per_lane = access.vector * exchange.element_bytes
    lanes = min(32, 128 // bytes_per_lane)
    worst = 1
    for index, first in product(range(len(access.vectors)), range(0, 32, lanes)):
        banks = {}
        for lane in range(first, first + lanes):
            if lane & access.idle_threads & 31:
                continue
            offset = evaluate(access.pieces, lane) ^ access.vectors[index][0]
            byte = offset * exchange.element_bytes
            for word in range(byte // 4, (byte + bytes_per_lane + 3) // 4):
                banks.setdefault(word % 32, set()).add(word)
        worst = max([worst, *(len(words) for words in banks.values())])
    return worst


@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(32, 32), (64, 64), (32, 128), (128, 32)], ids=str)
def test_a_transpose_through_shared_memory_has_no_bank_conflict(shape, element_bytes):
    vector = 16 // element_bytes
    for v, num_warps in product({1, vector // 2, vector}, (1, 4)):
        by_rows = blocked_for(shape, num_warps, v)
        by_columns = blocked_for(shape, num_warps, v, order=(0, 1))
        for source, target in ((by_rows, by_columns), (by_columns, by_rows)):
            exchange = check(source, target, element_bytes).shared
            assert wavefronts(exchange.store, exchange) == 1
            assert wavefronts(exchange.load, exchange) == 1


@quick
@given(st.data(), st.sampled_from([1, 2, 4, 8]))
def test_no_exchange_of_unit_bases_has_a_bank_conflict(data, element_bytes):
    source = random_layout(data.draw, (16, 64), 1, pure=True)
    target = random_layout(data.draw, (16, 64), 1, pure=True)
    exchange = shared_exchange(source, target, element_bytes)
    assert run_shared(exchange, fill(source), target.num_registers) == fill(target)
    assert wavefronts(exchange.store, exchange) == 1
    assert wavefronts(exchange.load, exchange) == 1


def test_the_conflict_count_sees_conflicts():
    """The same transpose over plain row-major memory: the lanes of a wavefront in one column share its bank."""
    rows, columns = blocked_for((32, 32), 1), blocked_for((32, 32), 1, order=(0, 1))
    plain = row_major((32, 32))
    exchange = SharedExchange(
        plain, 4, shared_access(rows, plain, 4, store=True), shared_access(columns, plain, 4, store=False)
    )
    assert run_shared(exchange, fill(rows), columns.num_registers) == fill(columns)
    assert wavefronts(exchange.store, exchange) == 1
    assert exchange.load.vector == 4
    assert wavefronts(exchange.load, exchange) == 8, "the 8 lanes that 128 bytes serve, 128 bytes apart"


def test_vectors_join_registers_that_both_sides_share():
    a = LinearLayout.of(
        (64, 16),
        register=[(0, 1), (0, 2), (0, 4)],
        warp=[(32, 0), (0, 8)],
        lane=[(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)],
    )
    b = LinearLayout.of(
        (64, 16),
        register=[(0, 1), (0, 2), (0, 8)],
        warp=[(1, 0), (0, 4)],
        lane=[(32, 0), (2, 0), (4, 0), (8, 0), (16, 0)],
    )
    assert check(a, b, 4).shared.alignment_bytes == 16
    assert check(a, b, 8).shared.alignment_bytes == 16
    assert check(a, b, 2).shared.alignment_bytes == 8


# --- reduction
def run_reduction(plan, values, element_bytes=4):
    """values[thread][register] are tuples of contributions; combining concatenates them."""
    partial = [[sum((row[r] for r in group), ()) for group in plan.register_groups] for row in values]
    for mask in plan.lane_masks:
        partial = [
            [a + b for a, b in zip(row, partial[thread ^ mask], strict=True)] for thread, row in enumerate(partial)
        ]
    if plan.crosses_warps:
        exchange = plan.exchange(element_bytes)
        gathered = run_shared(exchange, partial, plan.gathered.num_registers)
        partial = [[sum((row[r] for r in group), ()) for group in plan.warp_groups] for row in gathered]
    return partial


def check_reduction(layout, axis):
    plan = reduction(layout, axis)
    values = [[(index,) for index in row] for row in fill(layout)]
    result = run_reduction(plan, values)
    for thread, row in enumerate(fill(plan.result)):
        for register, index in enumerate(row):
            want = [index[:axis] + (i,) + index[axis:] for i in range(layout.shape[axis])]
            assert sorted(result[thread][register]) == want, "each element exactly once"
    assert plan.result == layout.slice(axis)
    return plan


REDUCED = [(1,), (8,), (64,), (512,), (4, 64), (64, 4), (16, 16), (4, 4, 8), (2, 2, 4, 8)]


@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("shape", REDUCED, ids=str)
def test_blocked_reductions_combine_each_element_once(shape, num_warps):
    for vector, axis in product((1, 4), range(len(shape))):
        for order in (tuple(range(len(shape))), tuple(reversed(range(len(shape))))):
            check_reduction(blocked_for(shape, num_warps, vector, order), axis)


@quick
@given(layouts(pure=True, max_bits=7), st.data())
def test_any_reduction_with_replicas(layout, data):
    check_reduction(layout, data.draw(st.integers(0, layout.rank - 1)))


@quick
@given(layouts(pure=False, max_bits=6), st.data())
def test_a_reduction_of_any_layout_works_or_says_why_not(layout, data):
    axis = data.draw(st.integers(0, layout.rank - 1))
    if mixes_axis(layout, axis):
        with pytest.raises(ValueError, match="convert before reducing"):
            reduction(layout, axis)
    else:
        check_reduction(layout, axis)


def test_mixes_axis_means_one_basis_in_two_dimensions():
    diagonal = LinearLayout.of((2, 2), register=[(1, 1), (0, 1)], lane=[(0, 0)] * 5)
    assert mixes_axis(diagonal, 0)
    assert mixes_axis(diagonal, 1)
    assert not mixes_axis(diagonal.reshape((4, 1)), 0)


def test_reduction_steps_are_left_out_where_the_layout_needs_none():
    rows_in_a_warp = check_reduction(blocked_for((4, 128), 4, 4), 1)
    assert (rows_in_a_warp.elements_per_thread, rows_in_a_warp.lane_masks) == (4, (1, 2, 4, 8, 16))
    assert not rows_in_a_warp.crosses_warps
    whole_block = check_reduction(blocked_for((1024,), 4, 4), 0)
    assert whole_block.crosses_warps
    assert whole_block.elements_per_thread == 8
    exchange = whole_block.exchange(4)
    assert exchange.num_bytes == 4 * 4, "one partial result per warp"
    assert (exchange.store.vector, exchange.load.vector) == (1, 4), "which each thread reads at once"
    assert exchange.store.idle_threads == 31
    columns = check_reduction(blocked_for((32, 32), 1, 1), 0)
    assert (columns.elements_per_thread, columns.lane_masks, columns.crosses_warps) == (32, (), False)
    tiny = check_reduction(blocked_for((8,), 4, 1), 0)
    assert tiny.lane_masks == (1, 2, 4), "replicas are not combined"
    assert not tiny.crosses_warps


def test_registers_combine_in_the_order_of_the_axis():
    layout = LinearLayout.of((8,), register=[(4,), (1,), (2,)], lane=[(0,)] * 5)
    assert [layout(register=r)[0] for r in reduction(layout, 0).register_groups[0]] == list(range(8))
