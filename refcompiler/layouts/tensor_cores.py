"""Layouts of the operands and accumulators of tensor core instructions, register for register as PTX orders them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refcompiler.layouts.linear import LinearLayout, log2

WORD_BYTES = 4  # operands are 32-bit registers of packed elements
ATOM_ROWS, ATOM_COLUMNS = 16, 8  # m and n of mma.sync
WARPGROUP_WARPS, WARPGROUP_ROWS = 4, 64  # m of wgmma


def mma_accumulator(shape: Sequence[int], warps: tuple[int, int]) -> LinearLayout:
    """The layout of the (M, N) accumulators of mma.sync m16n8, in the register order [m tile][n tile][fragment].

    `warps` says how many warps lie along M and along N; the ones along M hold neighbouring tiles of 16 rows, the ones
    along N neighbouring parts of N / warps columns.  Warps for which the tensor is too small hold replicas.  Source:
    PTX ISA, "Matrix Fragments for mma.m16n8k16", the C and D fragments, which are the same for every k and type.

    >>> mma_accumulator((16, 8), (1, 1))(register=3, lane=6)
    (9, 5)
    """
    _require(shape, (ATOM_ROWS, ATOM_COLUMNS), "an accumulator")
    place = _placer(shape)
    rows, columns = _split(shape[0], ATOM_ROWS, warps[0]), _split_columns(shape[1], warps[1])
    fragment = [place(0, 1), place(8, 0)]
    tiles = [place(0, n) for n in columns.tiles] + [place(m, 0) for m in rows.tiles]
    lane = [place(0, 2), place(0, 4), *(place(m, 0) for m in (1, 2, 4))]
    warp = [place(m, 0) for m in rows.warps] + [place(0, n) for n in columns.warps]
    return LinearLayout.packed(shape, {"register": fragment + tiles, "lane": lane, "warp": warp})


def mma_operand_a(shape: Sequence[int], warps: tuple[int, int], element_bytes: int) -> LinearLayout:
    """The layout of the (M, K) left operands of mma.sync in the register order [m tile][k tile][fragment].

    A k tile is 32 bytes: k16 of 16-bit elements, k8 of 32-bit (tf32), k32 of 8-bit.  With four warps along M for each
    warpgroup it is also the layout of wgmma's operand in registers.  Source: PTX ISA, "Matrix Fragments for
    mma.m16n8k8" (tf32), "m16n8k16" (16 bits), "m16n8k32" (8 bits), the A fragments.

    >>> mma_operand_a((16, 16), (1, 1), element_bytes=2)(register=5, lane=1)
    (0, 11)
    """
    word = WORD_BYTES // element_bytes
    _require(shape, (ATOM_ROWS, 8 * word), "an A operand")
    place = _placer(shape)
    rows = _split(shape[0], ATOM_ROWS, warps[0])
    fragment = [*(place(0, k) for k in _powers(1, word)), place(8, 0), place(0, 4 * word)]
    tiles = [place(0, k) for k in _powers(8 * word, shape[1])] + [place(m, 0) for m in rows.tiles]
    lane = [place(0, word), place(0, 2 * word), *(place(m, 0) for m in (1, 2, 4))]
    warp = [place(m, 0) for m in rows.warps] + [0] * log2(warps[1])
    return LinearLayout.packed(shape, {"register": fragment + tiles, "lane": lane, "warp": warp})


def mma_operand_b(shape: Sequence[int], warps: tuple[int, int], element_bytes: int) -> LinearLayout:
    """The layout of the (K, N) right operands of mma.sync in the register order [n tile][k tile][fragment].

    Warps along M hold replicas.  Source: as `mma_operand_a`, the B fragments.

    >>> mma_operand_b((16, 8), (1, 1), element_bytes=2)(register=3, lane=5)
    (11, 1)
    """
    word = WORD_BYTES // element_bytes
    _require(shape, (8 * word, ATOM_COLUMNS), "a B operand")
    place = _placer(shape)
    columns = _split_columns(shape[1], warps[1])
    fragment = [*(place(k, 0) for k in _powers(1, word)), place(4 * word, 0)]
    tiles = [place(k, 0) for k in _powers(8 * word, shape[0])] + [place(0, n) for n in columns.tiles]
    lane = [place(word, 0), place(2 * word, 0), *(place(0, n) for n in (1, 2, 4))]
    warp = [0] * log2(warps[0]) + [place(0, n) for n in columns.warps]
    return LinearLayout.packed(shape, {"register": fragment + tiles, "lane": lane, "warp": warp})


def wgmma_accumulator(shape: Sequence[int], warpgroups: int) -> LinearLayout:
    """The layout of the (M, N) accumulators of wgmma m64, in the register order [m tile][n tile of 8][fragment].

    Warpgroups take neighbouring tiles of 64 rows; those beyond M share out the columns.  Source: PTX ISA, "Register
    Fragments and Shared Memory Matrix Layouts" of wgmma, the D fragment.

    >>> wgmma_accumulator((128, 64), 2)(register=4, lane=1, warp=5)
    (80, 10)
    """
    _require(shape, (WARPGROUP_ROWS, ATOM_COLUMNS), "an accumulator of wgmma")
    along_m = min(warpgroups, shape[0] // WARPGROUP_ROWS)
    return mma_accumulator(shape, (WARPGROUP_WARPS * along_m, warpgroups // along_m))


def batched(layout: LinearLayout, batches: int, warps: int) -> LinearLayout:
    """The layout of as many matrices in `layout`: neighbouring ones in `warps` times as many warps, the others in
    registers, matrix after matrix.

    >>> batched(mma_accumulator((16, 8), (1, 1)), 4, 2)(register=4, warp=1)
    (3, 0, 0)
    """
    numel = layout.shape[0] * layout.shape[1]
    places = [numel << bit for bit in range(log2(batches))]
    own = log2(warps)
    bases = {name: list(layout.packed_bases(name)) for name, _ in layout.inputs}
    bases["register"] = [*bases["register"], *places[own:]]
    bases["warp"] = [*bases["warp"], *places[:own]]
    return LinearLayout.packed((batches, *layout.shape), bases)


class _Split:
    """The bases along one dimension of what warps select, and of what tiles within a warp do."""

    def __init__(self, warps: list[int], tiles: list[int]):
        self.warps, self.tiles = warps, tiles


def _split(extent: int, atom: int, warps: int) -> _Split:
    """Warps hold neighbouring tiles."""
    own = _powers(atom, atom * warps)
    return _Split([i if i < extent else 0 for i in own], _powers(atom * warps, extent))


def _split_columns(extent: int, warps: int) -> _Split:
    """Each warp holds neighbouring tiles of its own, so that they are the columns of one wide instruction."""
    own = max(ATOM_COLUMNS, extent // warps)
    found = _powers(own, own * warps)
    return _Split([i if i < extent else 0 for i in found], _powers(ATOM_COLUMNS, own))


def _powers(start: int, end: int) -> list[int]:
    """The powers of two times `start` below `end`."""
    return [start << bit for bit in range(log2(end // start))] if end > start else []


def _placer(shape: Sequence[int]) -> Callable[[int, int], int]:
    columns = shape[1]
    return lambda row, column: row * columns + column


def _require(shape: Sequence[int], atom: tuple[int, int], what: str) -> None:
    if len(shape) != 2 or shape[0] < atom[0] or shape[1] < atom[1]:
        raise ValueError(f"{what} has at least {atom[0]} x {atom[1]} elements, found {tuple(shape)}")
