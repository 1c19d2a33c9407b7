"""Exchanges that end with ldmatrix, carried out element by element as PTX describes the instruction."""

import numpy as np
import pytest

from refcompiler.layouts import blocked_for, mma_accumulator, mma_operand_a, mma_operand_b
from refcompiler.layouts.addressing import evaluate
from refcompiler.layouts.matrices import matrix_exchange

LINE, ROW = 128, 16  # bytes: all banks, a row of a matrix


def moved(source, target, plan):
    """The elements that each thread of ``target`` gets, by storing and loading; and the conflicts on the way."""
    memory, conflicts = np.full(plan.layout.size("offset"), -1), 0
    threads = 32 * source.num_warps
    for constant, registers in plan.store.vectors:
        starts = []
        for thread in range(threads):
            if thread & plan.store.idle_threads:
                continue
            start = evaluate(plan.store.pieces, thread) ^ constant
            starts.append(2 * start)
            for place, register in enumerate(registers):
                memory[start + place] = source.packed_at(register=register, lane=thread % 32, warp=thread // 32)
        conflicts += extra_wavefronts(starts, 2 * len(registers))
    found = np.full((threads, target.num_registers), -1)
    for constant, registers in plan.load.vectors:
        for warp in range(target.num_warps):
            rows = [evaluate(plan.load.pieces, warp * 32 + lane) ^ constant for lane in range(8 * plan.load.count)]
            assert all(row % 8 == 0 for row in rows)
            for number in range(plan.load.count):
                starts = rows[8 * number : 8 * number + 8]
                matrix = np.array([memory[row : row + 8] for row in starts])
                conflicts += extra_wavefronts([2 * start for start in starts], ROW)
                matrix = matrix.T if plan.load.trans else matrix
                for lane in range(32):
                    pair = matrix[lane // 4, lane % 4 * 2 : lane % 4 * 2 + 2]
                    found[warp * 32 + lane, list(registers[2 * number : 2 * number + 2])] = pair
    return found, conflicts


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
    for thread in range(found.shape[0]):
        wanted = [target.packed_at(register=r, lane=thread % 32, warp=thread // 32) for r in range(found.shape[1])]
        assert found[thread].tolist() == wanted
    assert conflicts == 0
    assert plan.load.trans == trans


@pytest.mark.parametrize(
    "target",
    [mma_operand_a((64, 64), (2, 2), 2), mma_operand_b((64, 64), (2, 2), 2), mma_operand_b((64, 8), (4, 1), 2)],
)
def test_no_access_reaches_beyond_a_step_along_k(target):
    plan = matrix_exchange(blocked_for(target.shape, 4, 8), target, 2)
    axis = next(dim for dim, index in enumerate(target(lane=1)) if index)
    for _, registers in plan.load.vectors:
        assert len({target(register=r)[axis] // 16 for r in registers}) == 1


def test_an_accumulator_turned_round_arrives_too():
    source = mma_accumulator((64, 32), (4, 1)).transpose((1, 0))
    for target in (mma_operand_a((32, 64), (2, 2), 2), mma_operand_b((32, 64), (2, 2), 2)):
        plan = matrix_exchange(source, target, 2)
        found, _ = moved(source, target, plan)
        places = [{"lane": thread % 32, "warp": thread // 32} for thread in range(128)]
        wanted = [[target.packed_at(register=r, **place) for r in range(found.shape[1])] for place in places]
        assert found.tolist() == wanted


def test_threads_without_pairs_have_no_such_exchange():
    source = blocked_for((64, 64), 4, 8)
    assert matrix_exchange(source, blocked_for((64, 64), 4, 1).project(0).broadcast((64, 64)), 2) is None
    assert matrix_exchange(blocked_for((16,), 1), blocked_for((16,), 1), 2) is None
