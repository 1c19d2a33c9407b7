"""Products of warpgroups: tiles of 64 rows each, whose operands are found in shared memory by address."""

from __future__ import annotations

from typing import Any, NamedTuple

from refcompiler.dialects.rings import WarpgroupDot, WarpgroupWait
from refcompiler.ir.core import Value
from refcompiler.ir.types import element_of, shape_of
from refcompiler.layouts import LinearLayout
from refcompiler.lowering.state import Lowering, SharedBlock, layout_of, lowers

ROWS, DEPTH = 64, 16  # of an instruction on 16-bit elements
WARPGROUP_BITS = 7  # of a thread's index below the number of its warpgroup


class Tile(NamedTuple):
    """How a block lies in shared memory: ``rows`` rows of ``wide`` swizzled elements, one part of the columns after
    another; columns run along ``axis`` of the block."""

    rows: int
    wide: int
    axis: int

    @property
    def stride(self) -> int:
        """The elements from one part of the columns to the next."""
        return self.rows * self.wide

    def offset(self, first: int, second: int) -> int:
        """Where the element (first, second) of the block lies, at the start of a pattern of the swizzle."""
        row, column = (first, second) if self.axis else (second, first)
        return column // self.wide * self.stride + row * self.wide + column % self.wide


def tile_of(layout: LinearLayout) -> Tile:
    """The tile that a shared layout of a block of rank 2 is."""
    bases = layout.bases("offset")
    axis = int(bases[0][1] == 1)
    wide = 1
    for index in bases:  # one after another along a row, until the next row
        if index[axis] != wide or index[1 - axis]:
            break
        wide *= 2
    return Tile(layout.shape[1 - axis], wide, axis)


@lowers("warpgroup_dot")
def lower_warpgroup_dot(state: Lowering, op: WarpgroupDot) -> None:
    """One op for each tile of 64 rows that a warpgroup has."""
    (rows, depth), itemsize = shape_of(op.x.type), element_of(op.x.type).itemsize
    warpgroups = state.num_warps // 4
    tiles = rows // (ROWS * warpgroups)
    right = tile_of(layout_of(op.y))
    buffer: SharedBlock = state.values[op.y]
    fields: dict[str, Any] = {"n": shape_of(op.y.type)[1], "k_steps": depth // DEPTH, "swizzle": right.wide * itemsize}
    fields |= {"b_major": "kn"[right.axis], "b_stride": right.stride}
    acc = None if op.acc is None else state.vector(op.acc)
    state.builder.op("wgmma_fence")
    results = []
    for tile in range(tiles):
        own = None if acc is None else part(state, acc, tile, tiles)
        left, more = _left(state, op, tile, tiles)
        results.append(state.op("wgmma", own, *left, buffer.buffer, buffer.index, **fields, **more))
    state.builder.op("wgmma_commit")
    if not op.asynchronous:
        results = state.builder.op("wgmma_wait", *results).results
    state.set(op.result, results[0] if tiles == 1 else state.op("pack", *results))


def _left(state: Lowering, op: WarpgroupDot, tile: int, tiles: int) -> tuple[list[Value | None], dict[str, Any]]:
    """The left operand of a tile of 64 rows: its place in shared memory, or its registers."""
    value = state.values[op.x]
    if not isinstance(value, SharedBlock):
        return [part(state, state.vector(op.x), tile, tiles), None], {}
    found = tile_of(layout_of(op.x))
    warpgroups = state.num_warps // 4
    index = value.index
    if tile:
        index = state.op("add", index, state.constant(found.offset(ROWS * warpgroups * tile, 0)))
    if warpgroups > 1:  # powers of two, so that each warpgroup begins as many elements after the one before it
        number = state.op("shr", state.thread, state.constant(WARPGROUP_BITS))
        index = state.op("add", index, state.op("mul", number, state.constant(found.offset(ROWS, 0))))
    return [value.buffer, index], {"a_major": "mk"[found.axis], "a_stride": found.stride}


def part(state: Lowering, value: Value, tile: int, tiles: int) -> Value:
    """The registers of one of ``tiles`` equal parts."""
    if tiles == 1:
        return value
    count = value.type.count // tiles
    return state.pick(value, range(tile * count, (tile + 1) * count))


@lowers("warpgroup_wait")
def lower_warpgroup_wait(state: Lowering, op: WarpgroupWait) -> None:
    results = state.builder.op("wgmma_wait", *map(state.vector, op.products), pending=op.pending).results
    for old, new in zip(op.results, results, strict=True):
        state.set(old, new)
