"""Constructors of layouts: blocked over threads, row-major and swizzled over shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from refcompiler.layouts.linear import LANE_BITS, LinearLayout, log2


def _strides(shape: Sequence[int]) -> list[int]:
    """Per dimension the number of low bits below it in a packed index."""
    low = [0] * len(shape)
    for dim in reversed(range(len(shape) - 1)):
        low[dim] = low[dim + 1] + log2(shape[dim + 1])
    return low


def blocked(
    shape: Sequence[int],
    per_thread: Sequence[int],
    lanes: Sequence[int],
    warps: Sequence[int],
    order: Sequence[int] | None = None,
) -> LinearLayout:
    """A tile of per_thread * lanes * warps elements per dimension, repeated over the tensor by registers.

    `order` lists the dimensions from the fastest to the slowest (default: last dimension fastest).  Where the
    tile is larger than the tensor, surplus registers are dropped and surplus lanes and warps hold replicas.

    >>> blocked((2, 64), per_thread=(1, 4), lanes=(2, 16), warps=(1, 1))(register=1, lane=17)
    (1, 5)
    """
    order = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"order must name each of {len(shape)} dimensions once, found {order}")
    low, width, used = _strides(shape), [log2(extent) for extent in shape], [0] * len(shape)

    def take(counts: Sequence[int]) -> list[int]:
        bases = []
        for dim in order:
            for _ in range(log2(counts[dim])):
                bases.append(1 << low[dim] + used[dim] if used[dim] < width[dim] else 0)
                used[dim] += 1
        return bases

    registers, lane, warp = [b for b in take(per_thread) if b], take(lanes), take(warps)
    for dim in order:
        registers += [1 << low[dim] + bit for bit in range(used[dim], width[dim])]
    return LinearLayout.packed(shape, {"register": registers, "lane": lane, "warp": warp})


def blocked_for(
    shape: Sequence[int], num_warps: int, vector: int = 1, order: Sequence[int] | None = None
) -> LinearLayout:
    """The blocked layout for coalesced access to a block of any shape by any power-of-two `num_warps`.

    `vector` is how many elements, contiguous along the fastest dimension, a thread accesses at once; it is
    lowered where the fastest dimension is shorter or where it would leave threads without an element of their
    own.  Lanes fill the fastest dimensions first, warps the slowest, so that rows stay within one warp where
    they can; what remains is held in registers, and threads that remain hold replicas.

    >>> blocked_for((1024,), num_warps=4, vector=4)(register=5, lane=1, warp=1)
    (645,)
    """
    order = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    order = tuple(sorted(order, key=lambda dim: shape[dim] == 1))  # an extent of 1 is nobody's fastest dimension
    return _blocked_for(tuple(shape), num_warps, vector, order)


@lru_cache(maxsize=4096)
def _blocked_for(shape: tuple[int, ...], num_warps: int, vector: int, order: tuple[int, ...]) -> LinearLayout:
    if not shape:
        return LinearLayout.packed((), {"lane": [0] * LANE_BITS, "warp": [0] * log2(num_warps)})
    size = 1 << sum(map(log2, shape))
    rest = list(shape)

    def take(budget: int, dims: Sequence[int]) -> list[int]:
        counts = [1] * len(shape)
        for dim in dims:
            counts[dim] = min(budget, rest[dim])
            rest[dim] //= counts[dim]
            budget //= counts[dim]
        counts[dims[-1]] *= budget  # what the tensor is too small for: replicas
        return counts

    vector = min(vector, shape[order[0]], max(1, size // (num_warps << LANE_BITS)))
    per_thread = take(vector, order[:1])
    lanes = take(1 << LANE_BITS, order)
    warps = take(num_warps, order[::-1])
    return blocked(shape, per_thread, lanes, warps, order)


def outer_product(shape: Sequence[int], num_warps: int) -> LinearLayout:
    """The blocked layout in which threads hold squares of the last two dimensions, of at most 4 x 4 neighbours each.

    A thread that adds up outer products reads 4 + 4 elements for 16 products.  Warps fill the dimensions before the
    last two first.

    >>> outer_product((32, 64), num_warps=4)(register=5, lane=9)
    (5, 5)
    """
    *batch, rows, columns = shape
    own = [1, 1]
    while own[0] * own[1] < 16 and prod(own) * (num_warps << LANE_BITS) < prod(shape):
        dim = own.index(min(own))
        own[dim] *= 2
    own = [min(own[0], rows), min(own[1], columns)]
    across = min(1 << LANE_BITS - 2, max(1, columns // own[1]))
    lanes = [(1 << LANE_BITS) // across, across]
    rest, outer = num_warps, []
    for extent in batch:
        outer.append(min(rest, extent))
        rest //= outer[-1]
    ones = [1] * len(batch)
    return blocked(
        shape, [*ones, *own], [*ones, *lanes], [*outer, *_warps_of_squares((rows, columns), own, lanes, rest)]
    )


def _warps_of_squares(
    shape: tuple[int, int], own: Sequence[int], lanes: Sequence[int], num_warps: int
) -> tuple[int, int]:
    """How many warps lie along rows and columns so that what a thread holds is as square as it can be."""
    warps = [1, 1]
    while prod(warps) < num_warps:
        room = [shape[dim] > own[dim] * lanes[dim] * warps[dim] for dim in range(2)]
        held = [shape[dim] // (lanes[dim] * warps[dim]) for dim in range(2)]
        across = room[1] and not (room[0] and held[0] >= held[1])
        warps[across] *= 2
    return warps[0], warps[1]


def outer_operand(result: LinearLayout, depth: int, left: bool) -> LinearLayout:
    """The layout of an operand of products whose `result` is added up in that layout: each thread holds all that its
    elements multiply, steps along K first.

    >>> outer_operand(outer_product((32, 64), num_warps=4), 8, left=True)(register=9, lane=9)
    (5, 1)
    """
    *batch, rows, columns = result.shape
    shape = (*batch, rows, depth) if left else (*batch, depth, columns)
    along_k = -1 if left else -2
    strides = [prod(shape[dim + 1 :]) for dim in range(len(shape))]

    def place(basis: tuple[int, ...]) -> int:
        return sum(i * s for dim, (i, s) in enumerate(zip(basis, strides, strict=True)) if dim != len(shape) + along_k)

    bases = {name: [place(basis) for basis in result.bases(name)] for name, _ in result.inputs}
    steps = [strides[along_k] << bit for bit in range(log2(depth))]
    bases["register"] = [*steps, *filter(None, bases["register"])]
    return LinearLayout.packed(shape, bases)


def in_every_thread(shape: Sequence[int], num_warps: int) -> LinearLayout:
    """The layout in which each thread has all elements, in row-major order of its registers.

    >>> in_every_thread((4,), num_warps=2)(register=3, lane=7, warp=1)
    (3,)
    """
    registers = [1 << bit for bit in range(sum(map(log2, shape)))]
    return LinearLayout.packed(shape, {"register": registers, "lane": [0] * LANE_BITS, "warp": [0] * log2(num_warps)})


def row_major(shape: Sequence[int]) -> LinearLayout:
    """The shared layout in which offset i is the i-th element in row-major order.

    >>> row_major((4, 8))(offset=9)
    (1, 1)
    """
    return LinearLayout.packed(shape, {"offset": [1 << bit for bit in range(sum(map(log2, shape)))]})


def swizzle_bytes(row_bytes: int) -> int:
    """The widest swizzle of rows of so many bytes.

    >>> swizzle_bytes(512), swizzle_bytes(64)
    (128, 64)
    """
    return min(128, row_bytes)


def swizzled(shape: Sequence[int], element_bytes: int, swizzle_bytes: int = 128) -> LinearLayout:
    """The shared layout of (rows, columns) in rows of `swizzle_bytes`, 32, 64 or 128, with xor-ed chunks.

    The chunk index within a row is xor-ed by the row (128), row / 2 (64) or row / 4 (32), modulo the chunks
    of a row: what the tensor memory accelerator writes and wgmma and ldmatrix read (PTX ISA, "Swizzling
    Modes").  Wider tiles are several such column blocks one after the other.

    >>> swizzled((8, 64), element_bytes=2)(offset=64 + 8)
    (1, 0)
    """
    rows, columns = shape
    if swizzle_bytes not in (32, 64, 128):
        raise ValueError(f"swizzle_bytes is 32, 64 or 128, found {swizzle_bytes}")
    column_bits, chunk = log2(columns), log2(16 // element_bytes)
    row_bits = log2(swizzle_bytes // element_bytes)
    if column_bits < row_bits:
        raise ValueError(f"a row of {columns} elements of {element_bytes} bytes is shorter than {swizzle_bytes} bytes")
    offsets = [1 << bit for bit in range(row_bits)]
    skipped = 3 - log2(swizzle_bytes // 16)  # low row bits that share one 128-byte line of banks
    for bit in range(log2(rows)):
        flip = 1 << chunk + bit - skipped if skipped <= bit < 3 else 0
        offsets.append(1 << column_bits + bit | flip)
    offsets += [1 << bit for bit in range(row_bits, column_bits)]
    return LinearLayout.packed(shape, {"offset": offsets})
