"""Exchanges by ldmatrix and stmatrix, carried out element by element as PTX describes the instructions."""

import numpy as np
import pytest

from refcompiler.layouts import (
    SharedAccess,
    blocked_for,
    mma_accumulator,
    mma_operand_a,
    mma_operand_b,
    shared_exchange,
    wgmma_accumulator,
)
from refcompiler.layouts.addressing import evaluate
from refcompiler.layouts.matrices import MatrixAccess, matrix_exchange

LINE = 128  # bytes: all banks


def moved(source, target, plan):
    """The elements that each thread of ``target`` gets, by storing and loading; and the conflicts on the way."""
    memory = np.full(plan.layout.size("offset"), -1)
    conflicts = 0
    held = np.array(elements(source))
    for places, registers, threads in accesses(plan.store, source.num_warps):
        conflicts += extra_wavefronts([2 * place[0] for place in places], 2 * len(places[0]))
        for place, thread, own in zip(places, threads, registers, strict=True):
            memory[place] = held[thread, own]
    found = np.full((32 * source.num_warps, target.num_registers), -1)
    for places, registers, threads in accesses(plan.load, target.num_warps):
        conflicts += extra_wavefronts([2 * place[0] for place in places], 2 * len(places[0]))
        for place, thread, own in zip(places, threads, registers, strict=True):
            found[thread, own] = memory[place]
    return found, conflicts


def accesses(side, warps):
    """What goes over the banks at a time: lists of the places of a row or a vector, and for each of them the register
    of a thread that each element has."""
    for constant, registers in side.vectors:
        if isinstance(side, SharedAccess):
            threads = [t for t in range(32 * warps) if not t & side.idle_threads]
            starts = [evaluate(side.pieces, thread) ^ constant for thread in threads]
            places = [np.arange(start, start + len(registers)) for start in starts]
            yield places, [list(registers)] * len(threads), threads
            continue
        for warp in range(warps):
            rows = [evaluate(side.pieces, warp * 32 + lane) ^ constant for lane in range(8 * side.count)]
            assert all(row % 8 == 0 for row in rows)
            for number in range(side.count):
                places, own, threads = [], [], []
                for row, start in enumerate(rows[8 * number : 8 * number + 8]):
                    pairs = [(at, row) if side.trans else (row, at) for at in range(8)]
                    places.append(np.arange(start, start + 8))
                    threads.append([warp * 32 + down * 4 + across // 2 for down, across in pairs])
                    own.append([registers[2 * number + across % 2] for _, across in pairs])
                yield places, own, threads


def elements(layout):
    """Those of each thread."""
    places = [{"lane": thread % 32, "warp": thread // 32} for thread in range(32 * layout.num_warps)]
    return [[layout.packed_at(register=r, **place) for r in range(layout.num_registers)] for place in places]


def extra_wavefronts(starts, width):
    """Passes over the banks beyond the least, for accesses of ``width`` bytes by the lanes of each warp in turn."""
    extra, lanes = 0, min(32, LINE // width)
    for first in range(0, len(starts), lanes):
        lines = {}
        for start in starts[first : first + lanes]:
            for byte in range(start, start + width, 4):
                lines.setdefault(byte // 4 % 32, set()).add(byte // 4)
        extra += max(len(words) for words in lines.values()) - 1
    return extra


CASES = [
    (blocked_for((64, 64), 4, 8), mma_operand_a((64, 64), (4, 1), 2), False),
    (blocked_for((64, 32), 4, 8), mma_operand_a((64, 32), (2, 2), 2), False),
    (blocked_for((32, 64), 4, 8), mma_operand_b((32, 64), (2, 2), 2), True),
    (blocked_for((64, 128), 8, 8), mma_operand_b((64, 128), (2, 4), 2), True),
    (blocked_for((32, 64), 4, 8, (0, 1)), mma_operand_b((32, 64), (4, 1), 2), False),
    (blocked_for((64, 32), 4, 8, (0, 1)), mma_operand_a((64, 32), (4, 1), 2), True),
    (blocked_for((128, 32), 1, 8), mma_operand_a((128, 32), (1, 1), 2), False),
    (blocked_for((16, 16), 1, 8), mma_operand_a((16, 16), (1, 1), 2), False),
    (blocked_for((16, 8), 1, 8), mma_operand_b((16, 8), (1, 1), 2), True),
    (blocked_for((16, 16), 4, 8), mma_operand_b((16, 16), (4, 1), 2), True),
]


@pytest.mark.parametrize(("source", "target", "trans"), CASES)
def test_every_element_arrives_without_conflicts(source, target, trans):
    plan = matrix_exchange(source, target, 2)
    found, conflicts = moved(source, target, plan)
    assert found.tolist() == elements(target)
    assert conflicts == 0
    assert plan.load.trans == trans


STORED = [
    # from, to, words of an access, transposed, elements of a vector that is read
    (mma_accumulator((64, 64), (4, 1)), blocked_for((64, 64), 4, 8), 4, False, 8),
    (mma_accumulator((64, 32), (2, 2)), blocked_for((64, 32), 4, 8), 4, False, 8),
    (wgmma_accumulator((64, 128), 2), blocked_for((64, 128), 8, 8), 4, False, 8),
    (wgmma_accumulator((128, 16), 1), blocked_for((128, 16), 4, 8), 4, False, 8),
    (mma_accumulator((16, 8), (1, 1)), blocked_for((16, 8), 1, 4), 2, False, 4),
    (mma_accumulator((64, 64), (4, 1)), blocked_for((64, 64), 4, 8, (0, 1)), 4, True, 8),
    (mma_accumulator((32, 64), (1, 2)).transpose((1, 0)), blocked_for((64, 32), 2, 8), 4, True, 8),
]


@pytest.mark.parametrize(("source", "target", "count", "trans", "vector"), STORED)
def test_accumulators_are_stored_by_matrices(source, target, count, trans, vector):
    plan = matrix_exchange(source, target, 2, loads=False, stores=True)
    found, conflicts = moved(source, target, plan)
    assert found.tolist() == elements(target)
    assert conflicts == 0
    assert (plan.store.count, plan.store.trans, plan.load.vector) == (count, trans, vector)
    assert plan.accesses < shared_exchange(source, target, 2).accesses


def test_replicas_are_not_stored_by_matrices():
    source = mma_accumulator((16, 16), (2, 1))  # the second warp has what the first one has
    assert matrix_exchange(source, blocked_for((16, 16), 2, 2), 2, loads=False, stores=True) is None


@pytest.mark.parametrize(
    "target",
    [mma_operand_a((64, 64), (2, 2), 2), mma_operand_b((64, 64), (2, 2), 2), mma_operand_b((64, 8), (4, 1), 2)],
)
def test_no_access_reaches_beyond_a_step_along_k(target):
    plan = matrix_exchange(blocked_for(target.shape, 4, 8), target, 2)
    axis = next(dim for dim, index in enumerate(target(lane=1)) if index)
    for _, registers in plan.load.vectors:
        assert len({target(register=r)[axis] // 16 for r in registers}) == 1


@pytest.mark.parametrize("stores", [False, True])
def test_an_accumulator_turned_round_arrives_too(stores):
    source = mma_accumulator((64, 32), (4, 1)).transpose((1, 0))
    for target in (mma_operand_a((32, 64), (2, 2), 2), mma_operand_b((32, 64), (2, 2), 2)):
        plan = matrix_exchange(source, target, 2, stores=stores)
        found, _ = moved(source, target, plan)
        assert found.tolist() == elements(target)
        assert isinstance(plan.load, MatrixAccess)
        assert isinstance(plan.store, MatrixAccess) == stores


def test_threads_without_pairs_have_no_such_exchange():
    source = blocked_for((64, 64), 4, 8)
    assert matrix_exchange(source, blocked_for((64, 64), 4, 1).project(0).broadcast((64, 64)), 2) is None
    assert matrix_exchange(blocked_for((16,), 1), blocked_for((16,), 1), 2) is None
