"""Layouts against brute force: constructors, text, structural maps, addressing and owners by enumeration."""

import doctest
import importlib
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refcompiler.layouts import (
    LinearLayout,
    are_disjoint,
    blocked,
    blocked_for,
    contiguous_elements,
    evaluate,
    index_pieces,
    is_additive,
    owner_bits,
    owner_registers,
    pieces_of,
    register_offsets,
    row_major,
    swizzled,
    vector_groups,
)
from tests.layout_strategies import WARPS, layouts

SHAPES = [
    (1,),
    (2,),
    (32,),
    (64,),
    (128,),
    (1024,),
    (1, 1),
    (1, 64),
    (64, 1),
    (2, 4),
    (16, 16),
    (4, 128),
    (128, 4),
    (1, 1024),
    (4, 8, 2),
    (1, 2, 64),
    (16, 1, 8),
    (2, 2, 2, 2),
    (1, 4, 1, 64),
]


def points(layout):
    """Every (register, lane, warp) of a distributed layout."""
    return product(range(layout.num_registers), range(layout.size("lane")), range(layout.num_warps))


def elements(layout):
    """How many points hold each element."""
    return Counter(layout(register=r, lane=l, warp=w) for r, l, w in points(layout))


quick = settings(derandomize=True, deadline=None, max_examples=60)


MODULES = ["addressing", "constructors", "conversion", "linear", "reduction", "shared"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_hold(name):
    module = importlib.import_module(f"refcompiler.layouts.{name}")
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)


# --- constructors
@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocked_for_holds_every_element_equally_often_in_every_order(shape, num_warps):
    size = int(np.prod(shape))
    for vector, order in product((1, 4, 8), permutations(range(len(shape)))):
        layout = blocked_for(shape, num_warps, vector, order)
        assert (layout.size("lane"), layout.num_warps) == (32, num_warps)
        held = elements(layout)
        replicas = max(1, 32 * num_warps // size)
        assert len(held) == size
        assert set(held.values()) == {replicas}
        assert layout.num_registers * 32 * num_warps == size * replicas, "registers hold no replicas"


def test_blocked_for_gives_a_warp_one_contiguous_run():
    for num_warps, vector in product(WARPS, (1, 2, 4)):
        layout = blocked_for((4096,), num_warps, vector)
        for w in range(num_warps):
            run = [layout(register=r, lane=l, warp=w)[0] for l in range(32) for r in range(vector)]
            assert run == list(range(run[0], run[0] + 32 * vector))
    by_columns = blocked_for((64, 64), 4, 2, order=(0, 1))
    run = [by_columns(register=r, lane=l) for l in range(32) for r in range(2)]
    assert run == [(i, 0) for i in range(64)]


def test_blocked_for_skips_extents_of_one_in_the_order():
    assert blocked_for((1, 8192), 8, 4, order=(0, 1)) == blocked_for((1, 8192), 8, 4)
    assert contiguous_elements(blocked_for((64, 1), 1, 2), 0) == 2


def test_blocked_for_keeps_rows_in_one_warp_where_it_can():
    for shape, num_warps in [((4, 128), 4), ((8, 512), 8), ((16, 32), 2)]:
        layout = blocked_for(shape, num_warps, 4)
        owners = {}
        for r, l, w in points(layout):
            owners.setdefault(layout(register=r, lane=l, warp=w)[0], set()).add(w)
        assert all(len(warps) == 1 for warps in owners.values())


def test_blocked_matches_division_and_remainder():
    """Tile coordinates of a thread by mixed-radix division, the fastest dimension first."""
    shape, per_thread, lanes, warps = (32, 64), (2, 4), (8, 4), (2, 2)
    for order in ((1, 0), (0, 1)):
        layout = blocked(shape, per_thread, lanes, warps, order)
        for r, l, w in points(layout):
            index, rest, stride = [0, 0], {"r": r, "l": l, "w": w}, [1, 1]
            for name, counts in (("r", per_thread), ("l", lanes), ("w", warps)):
                for dim in order:
                    index[dim] += rest[name] % counts[dim] * stride[dim]
                    rest[name] //= counts[dim]
                    stride[dim] *= counts[dim]
            for dim in order:  # registers left over repeat the tile
                repeats = shape[dim] // stride[dim]
                index[dim] += rest["r"] % repeats * stride[dim]
                rest["r"] //= repeats
            assert layout(register=r, lane=l, warp=w) == tuple(index)


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
@pytest.mark.parametrize("swizzle_bytes", [32, 64, 128])
def test_swizzled_follows_the_byte_formula(element_bytes, swizzle_bytes):
    """Address bits 4 and up are xor-ed with bits 7 and up: three, two or one for 128, 64 and 32 bytes."""
    columns = swizzle_bytes // element_bytes
    layout = swizzled((16, 2 * columns), element_bytes, swizzle_bytes)
    chunks = swizzle_bytes // 16
    for block, row, column in product(range(2), range(16), range(columns)):
        byte = row * swizzle_bytes + column * element_bytes
        byte ^= (byte >> 7 & chunks - 1) << 4
        offset = block * 16 * columns + byte // element_bytes
        assert layout(offset=offset) == (row, block * columns + column)


def test_row_major_is_the_flat_index():
    layout = row_major((4, 8, 2))
    assert [layout(offset=i) for i in range(64)] == list(np.ndindex(4, 8, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: blocked_for((3,), 4), "power of two, found 3"),
        (lambda: blocked((8, 8), (1, 1), (4, 8), (1, 1), (0, 0)), "each of 2 dimensions once"),
        (lambda: LinearLayout.of((4,), lane=[(1,)]), "must cover its tensor"),
        (lambda: LinearLayout.of((2,), lane=[(2,)]), "outside the shape"),
        (lambda: LinearLayout.of((2,), thread=[(1,)]), "unknown layout input 'thread'"),
        (lambda: row_major((2, 2)).reshape((8,)), "numbers of elements differ"),
        (lambda: row_major((2, 2)).transpose((0, 0)), "expected a permutation"),
        (lambda: row_major((2, 2)).broadcast((4, 2)), "only extents of 1 grow"),
        (lambda: row_major((2, 4)).split(), "not one register bit"),
        (lambda: swizzled((8, 16), 2, 128), "shorter than 128 bytes"),
        (lambda: swizzled((8, 64), 2, 48), "32, 64 or 128"),
        (lambda: vector_groups(blocked_for((64,), 1, 2), 0, 4), "holds 2 contiguous elements"),
        (lambda: index_pieces(row_major((4,)), 0), "has 32 lanes"),
    ],
)
def test_a_wrong_layout_says_what_was_found(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_full_reduction_leaves_a_scalar_in_every_thread():
    assert blocked_for((1024,), 4, 4).slice(0) == blocked_for((), 4)
    assert blocked_for((), 4)(register=0, lane=31, warp=3) == ()


def test_layouts_are_values():
    layout = blocked_for((64,), 4)
    with pytest.raises(AttributeError):
        layout.shape = (32,)
    assert {layout: 1}[LinearLayout.parse(str(layout))] == 1


# --- text
def test_text_is_one_line_of_literals():
    layout = blocked_for((2, 64), 1, 4)
    assert str(layout) == (
        "layout(register=[(0, 1), (0, 2)], lane=[(0, 4), (0, 8), (0, 16), (0, 32), (1, 0)], warp=[])"
    )
    assert str(row_major((1, 1))) == "layout(offset=[], shape=(1, 1))"
    assert str(blocked_for((), 2)) == "layout(register=[], lane=[(), (), (), (), ()], warp=[()])"


@pytest.mark.parametrize("num_warps", WARPS)
@pytest.mark.parametrize("shape", [(), *SHAPES], ids=str)
def test_text_reads_back(shape, num_warps):
    for layout in (blocked_for(shape, num_warps, 4), row_major(shape)):
        again = LinearLayout.parse(str(layout))
        assert again == layout
        assert hash(again) == hash(layout)


NO_LAYOUTS = """
layout
layout()
layout(1)
layout(**{})
layout(lane=1)
layout(lane=open)
layout(lane=[(3,)])
layout(lane=[(-1,)])
layout(lane=[(True,)])
layout(lane=[('a',)])
layout(lane=[(1,), (1, 2)])
layout(lane=[(1,)], lane=[(1,)])
layout(lane=[(1,)], shape=2)
layout(cell=[(1,)])
block(lane=[(1,)])
"""


@pytest.mark.parametrize("text", NO_LAYOUTS.split("\n")[:-1])
def test_text_that_is_no_layout_is_refused(text):
    with pytest.raises(ValueError, match="not a layout"):
        LinearLayout.parse(text)


# --- algebra
@quick
@given(layouts(pure=False), st.data())
def test_a_layout_is_linear(layout, data):
    names = [name for name, _ in layout.inputs]
    x, y = ({n: data.draw(st.integers(0, layout.size(n) - 1)) for n in names} for _ in range(2))
    both = {n: x[n] ^ y[n] for n in names}
    assert layout(**both) == tuple(a ^ b for a, b in zip(layout(**x), layout(**y), strict=True))


@quick
@given(layouts(pure=False))
def test_each_element_has_exactly_one_owner(layout):
    bits, owned = owner_bits(layout), Counter()
    for r, l, w in points(layout):
        owner = layout.is_owner(register=r, lane=l, warp=w)
        assert owner == (not r & bits.register and not (w * 32 + l) & bits.thread)
        assert owner <= (r in owner_registers(layout))
        owned[layout(register=r, lane=l, warp=w)] += owner
    assert set(owned) == set(np.ndindex(layout.shape))
    assert set(owned.values()) == {1}


@quick
@given(layouts(pure=False))
def test_pieces_and_register_offsets_rebuild_every_index(layout):
    offsets = register_offsets(layout)
    for dim in range(layout.rank):
        pieces = index_pieces(layout, dim)
        for r, l, w in points(layout):
            thread = evaluate(pieces, w * 32 + l)
            index = layout(register=r, lane=l, warp=w)[dim]
            assert thread ^ offsets[r][dim] == index
            if is_additive(layout, dim):
                assert sum((w * 32 + l >> s & m) * c for s, m, c in pieces) + offsets[r][dim] == index


def test_blocked_indices_are_sums_of_few_pieces():
    layout = blocked_for((64, 64), 4, 4)
    assert index_pieces(layout, 0) == ((4, 7, 1),)
    assert index_pieces(layout, 1) == ((0, 15, 4),)
    assert is_additive(layout, 0)
    assert is_additive(layout, 1)


def test_pieces_split_a_value_with_several_bits():
    assert pieces_of([0b11, 0b100, 0]) == ((0, 1, 1), (0, 3, 2))
    assert not are_disjoint(pieces_of([1, 1]))
    assert not are_disjoint(pieces_of([1, 2]), [4, 2])
    assert are_disjoint(pieces_of([1, 2]), [4, 8])


@quick
@given(layouts(pure=True))
def test_vector_groups_are_contiguous_aligned_runs(layout):
    for dim in range(layout.rank):
        widest = contiguous_elements(layout, dim)
        for width in (1 << bit for bit in range(widest.bit_length())):
            groups = vector_groups(layout, dim, width)
            assert sorted(r for group in groups for r in group) == list(range(layout.num_registers))
            for (l, w), group in product(product(range(32), range(layout.num_warps)), groups):
                run = [layout(register=r, lane=l, warp=w)[dim] for r in group]
                assert run == list(range(run[0], run[0] + width))
                assert run[0] % width == 0


def test_contiguous_elements_is_what_blocked_for_was_asked_for():
    assert contiguous_elements(blocked_for((64, 64), 4, 4), 1) == 4
    assert contiguous_elements(blocked_for((64, 64), 4, 4, order=(0, 1)), 0) == 4
    assert contiguous_elements(blocked_for((64, 64), 4, 4), 0) == 1


# --- structural maps, each against numpy on an array of element numbers
def held(layout, array):
    """What each point holds of `array`."""
    return {point: array[layout(register=point[0], lane=point[1], warp=point[2])] for point in points(layout)}


@quick
@given(layouts(pure=False), st.data())
def test_transpose_reshape_and_expand_dims_move_nothing(layout, data):
    array = np.arange(np.prod(layout.shape)).reshape(layout.shape)
    before = held(layout, array)
    permutation = data.draw(st.permutations(range(layout.rank)))
    assert held(layout.transpose(permutation), array.transpose(permutation)) == before
    axis = data.draw(st.integers(0, layout.rank))
    assert held(layout.expand_dims(axis), np.expand_dims(array, axis)) == before
    assert held(layout.reshape((array.size,)), array.reshape(-1)) == before
    assert layout.reshape((1, array.size, 1)).reshape(layout.shape) == layout


@quick
@given(layouts(pure=True), st.data())
def test_slice_keeps_threads_and_distinct_registers(layout, data):
    axis = data.draw(st.integers(0, layout.rank - 1))
    sliced, shape = layout.slice(axis), layout.shape[:axis] + layout.shape[axis + 1 :]
    assert sliced.shape == shape
    assert sliced.free_bits("register") == 0
    for l, w in product(range(32), range(layout.num_warps)):
        before = {layout(register=r, lane=l, warp=w) for r in range(layout.num_registers)}
        after = [sliced(register=r, lane=l, warp=w) for r in range(sliced.num_registers)]
        assert len(after) == len(set(after))
        assert set(after) == {index[:axis] + index[axis + 1 :] for index in before}
    projected = layout.project(axis)
    for point in points(layout):
        r, l, w = point
        index = layout(register=r, lane=l, warp=w)
        assert projected(register=r, lane=l, warp=w) == index[:axis] + (0,) + index[axis + 1 :]


@quick
@given(layouts(pure=False, max_bits=6), st.data())
def test_broadcast_repeats_the_registers(layout, data):
    shape = tuple(data.draw(st.sampled_from([1, 2, 4])) if extent == 1 else extent for extent in layout.shape)
    array = np.arange(np.prod(layout.shape)).reshape(layout.shape)
    before, after = held(layout, array), held(layout.broadcast(shape), np.broadcast_to(array, shape))
    for (r, l, w), value in after.items():
        assert value == before[r % layout.num_registers, l, w]
    assert set(elements(layout.broadcast(shape))) == set(np.ndindex(shape))


@quick
@given(layouts(pure=False, max_bits=6))
def test_join_interleaves_registers_and_split_undoes_it(layout):
    size = int(np.prod(layout.shape))
    first = np.arange(size).reshape(layout.shape)
    halves = [held(layout, first), held(layout, first + size)]
    joined = layout.join()
    for (r, l, w), value in held(joined, np.stack([first, first + size], axis=-1)).items():
        assert value == halves[r % 2][r // 2, l, w]
    assert joined.split() == (layout, 0)


def test_split_finds_its_register_anywhere():
    layout = blocked((4, 2), (1, 1), (1, 1), (1, 1), order=(0, 1))
    half, bit = layout.split()
    assert (half.shape, bit) == ((4,), 2)
    assert [half(register=r) for r in range(4)] == [(0,), (1,), (2,), (3,)]
