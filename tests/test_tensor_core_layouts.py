"""Layouts of tensor core operands against the tables of the PTX ISA, element by element."""

import doctest
from itertools import product

import pytest

from refcompiler.layouts import mma_accumulator, mma_operand_a, mma_operand_b, tensor_cores, wgmma_accumulator


# --- PTX ISA, section "Warp-level matrix instructions: mma", the row and column of each element of each fragment.
# groupID = laneid >> 2, threadID_in_group = laneid % 4
def ptx_c(i, lane):
    group, thread = lane >> 2, lane % 4
    return (group if i < 2 else group + 8, thread * 2 + (i & 1))


def ptx_a(bits, i, lane):
    group, thread = lane >> 2, lane % 4
    if bits == 32:  # m16n8k8, .tf32
        return (group if i in (0, 2) else group + 8, thread if i in (0, 1) else thread + 4)
    if bits == 16:  # m16n8k16
        return (group if 0 <= i < 2 or 4 <= i < 6 else group + 8, thread * 2 + (i & 1) + (0 if i < 4 else 8))
    row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8  # m16n8k32
    return (row, thread * 4 + (i & 3) + (0 if i < 8 else 16))


def ptx_b(bits, i, lane):
    group, thread = lane >> 2, lane % 4
    if bits == 32:
        return (thread if i == 0 else thread + 4, group)
    if bits == 16:
        return (thread * 2 + (i & 1) + (0 if i < 2 else 8), group)
    return (thread * 4 + (i & 3) + (0 if i < 4 else 16), group)


def ptx_wgmma_d(i, thread):
    """PTX ISA, wgmma: row (and column) of element i of thread % 128 in the D fragment of m64nN."""
    warp, lane = thread // 32 % 4, thread % 32
    return (warp * 16 + lane // 4 + 8 * (i // 2 % 2), i // 4 * 8 + lane % 4 * 2 + i % 2)


A_COUNT, B_COUNT = {32: 4, 16: 8, 8: 16}, {32: 2, 16: 4, 8: 8}  # elements of a fragment


@pytest.mark.parametrize(
    ("shape", "warps"),
    [((16, 8), (1, 1)), ((64, 32), (2, 2)), ((32, 16), (4, 2)), ((128, 64), (2, 4)), ((64, 8), (1, 4))],
)
def test_accumulators(shape, warps):
    layout = mma_accumulator(shape, warps)
    m_tiles, n_tiles = max(1, shape[0] // 16 // warps[0]), max(1, shape[1] // 8 // warps[1])
    assert (layout.num_registers, layout.num_warps) == (m_tiles * n_tiles * 4, warps[0] * warps[1])
    for warp, lane, mt, nt, i in product(range(layout.num_warps), range(32), range(m_tiles), range(n_tiles), range(4)):
        wm, wn = warp % warps[0], warp // warps[0]
        row, column = ptx_c(i, lane)
        row += ((mt * warps[0] + wm) * 16) % shape[0]
        column += ((wn * n_tiles + nt) * 8) % shape[1]
        assert layout(register=(mt * n_tiles + nt) * 4 + i, lane=lane, warp=warp) == (row, column)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("tiles", "warps"), [((1, 1), (1, 1)), ((4, 2), (2, 2)), ((2, 4), (4, 1)), ((8, 1), (4, 1))])
def test_left_operands(bits, tiles, warps):
    k = 256 // bits
    shape = (16 * tiles[0], k * tiles[1])
    layout = mma_operand_a(shape, warps, bits // 8)
    m_tiles, k_tiles, count = max(1, tiles[0] // warps[0]), tiles[1], A_COUNT[bits]
    assert (layout.num_registers, layout.num_warps) == (m_tiles * k_tiles * count, warps[0] * warps[1])
    for warp, lane, mt, kt, i in product(
        range(layout.num_warps), range(32), range(m_tiles), range(k_tiles), range(count)
    ):
        row, column = ptx_a(bits, i, lane)
        row += ((mt * warps[0] + warp % warps[0]) * 16) % shape[0]
        assert layout(register=(mt * k_tiles + kt) * count + i, lane=lane, warp=warp) == (row, column + kt * k)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("tiles", "warps"), [((1, 1), (1, 1)), ((2, 4), (2, 2)), ((4, 2), (1, 4))])
def test_right_operands(bits, tiles, warps):
    k = 256 // bits
    shape = (k * tiles[0], 8 * tiles[1])
    layout = mma_operand_b(shape, warps, bits // 8)
    k_tiles, n_tiles, count = tiles[0], max(1, tiles[1] // warps[1]), B_COUNT[bits]
    assert (layout.num_registers, layout.num_warps) == (n_tiles * k_tiles * count, warps[0] * warps[1])
    for warp, lane, nt, kt, i in product(
        range(layout.num_warps), range(32), range(n_tiles), range(k_tiles), range(count)
    ):
        row, column = ptx_b(bits, i, lane)
        column += ((warp // warps[0] * n_tiles + nt) * 8) % shape[1]
        assert layout(register=(nt * k_tiles + kt) * count + i, lane=lane, warp=warp) == (row + kt * k, column)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((64, 8), (1, 1)), ((64, 256), (1, 1)), ((128, 64), (2, 1)), ((64, 64), (1, 2)), ((256, 16), (2, 1))],
)
def test_accumulators_of_warpgroups(shape, groups):
    along_m, along_n = groups
    layout = wgmma_accumulator(shape, along_m * along_n)
    m_tiles, columns = shape[0] // 64 // along_m, shape[1] // along_n
    assert (layout.num_registers, layout.num_warps) == (m_tiles * columns // 2, 4 * along_m * along_n)
    for thread, mt, i in product(range(128 * along_m * along_n), range(m_tiles), range(columns // 2)):
        group = thread // 128
        row, column = ptx_wgmma_d(i, thread)
        row, column = row + 64 * (mt * along_m + group % along_m), column + columns * (group // along_m)
        assert layout(register=mt * columns // 2 + i, lane=thread % 32, warp=thread // 32) == (row, column)


def test_the_accumulator_of_a_16_bit_product_is_the_left_operand_of_the_next():
    """PTX ISA: the D fragment of m64nN with 16-bit elements and the A fragment in registers name the same elements."""
    assert wgmma_accumulator((64, 64), 1) == mma_operand_a((64, 64), (4, 1), element_bytes=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mma_accumulator((8, 8), (1, 1)),
        lambda: mma_operand_a((16, 8), (1, 1), 2),
        lambda: mma_operand_b((16, 4), (1, 1), 2),
        lambda: wgmma_accumulator((32, 64), 1),
    ],
)
def test_blocks_smaller_than_an_instruction_are_refused(make):
    with pytest.raises(ValueError, match="at least"):
        make()


def test_examples():
    assert doctest.testmod(tensor_cores).failed == 0
