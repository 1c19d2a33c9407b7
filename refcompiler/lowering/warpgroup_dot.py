"""Products of warpgroups: tiles of 64 rows each, whose operands are found in shared memory by address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from refcompiler.analysis.warpgroup_products import PROMOTED
from refcompiler.dialects.rings import WarpgroupDot, WarpgroupWait
from refcompiler.ir.core import Block, Constant, Value
from refcompiler.ir.types import FLOATS8, SharedType, element_of, shape_of
from refcompiler.layouts import LinearLayout, register_offsets
from refcompiler.lowering.state import Lowering, SharedBlock, inverse, layout_of, lowers, part
from refcompiler.lowering.stepwise import Stepwise

ROWS, STEP_BYTES = 64, 32  # of an instruction, and of k in each row
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
    """One op for each tile of 64 rows that a warpgroup has. Sums of float8, which have fewer bits, are added in f32."""
    rows, depth = shape_of(op.x.type)
    element = element_of(op.x.type)
    tiles = rows // (ROWS * state.num_warps // 4)
    kept = columns_of(layout_of(op.result), op.columns)
    acc = None if op.acc is None else state.pick(state.vector(op.acc), kept)
    parts = [None if acc is None else part(state, acc, tile, tiles) for tile in range(tiles)]
    if op.stepwise:
        results = [_steps(state, op, parts[0], depth)]
    elif element not in FLOATS8:
        results = _products(state, op, parts, 0, depth)
        if not op.asynchronous:
            results = state.builder.op("wgmma_wait", *results).results
    else:
        results = parts
        for start in range(0, depth, PROMOTED):
            sums = _products(state, op, [None] * tiles, start, min(depth, PROMOTED))
            sums = state.builder.op("wgmma_wait", *sums).results
            results = [s if r is None else state.op("add", r, s) for r, s in zip(results, sums, strict=True)]
    _set_columns(state, op.result, results[0] if tiles == 1 else state.op("pack", *results), kept)


def _products(state: Lowering, op: WarpgroupDot, parts: Sequence[Value | None], start: int, depth: int) -> list[Value]:
    """The group of products along ``depth`` elements from ``start`` on, added to ``parts``; on their way."""
    itemsize, tile = element_of(op.y.type).itemsize, tile_of(layout_of(op.y))
    right: SharedBlock = state.values[op.y]
    index = state.op("add", right.index, state.constant(tile.offset(start, 0))) if start else right.index
    fields: dict[str, Any] = {"n": op.columns or shape_of(op.y.type)[1], "k_steps": depth * itemsize // STEP_BYTES}
    fields |= {"swizzle": tile.wide * itemsize, "b_major": "kn"[tile.axis], "b_stride": tile.stride}
    lefts = [_left(state, op, number, len(parts), start) for number in range(len(parts))]
    held = [left for (left, _), _ in lefts if len(parts) > 1 and not isinstance(left.type, SharedType)]
    registers = [*parts, *(left for (left, _), _ in lefts)]
    if held or not _is_fenced(state.builder.block, registers):
        state.builder.op("wgmma_fence", *held)
    results = []
    for own, (left, more) in zip(parts, lefts, strict=True):
        results.append(state.op("wgmma", own, *left, right.buffer, index, **fields, **more))
    state.builder.op("wgmma_commit")
    return results


def _steps(state: Lowering, op: WarpgroupDot, acc: Value | None, depth: int) -> Value:
    """The products of one tile whose left operand is in registers, each right after the registers that it takes."""
    tile = tile_of(layout_of(op.y))
    right: SharedBlock = state.values[op.y]
    elements = STEP_BYTES // element_of(op.x.type).itemsize
    fields: dict[str, Any] = {"n": op.columns or shape_of(op.y.type)[1], "k_steps": 1, "b_major": "kn"[tile.axis]}
    fields |= {"swizzle": tile.wide * element_of(op.y.type).itemsize, "b_stride": tile.stride}
    left = Stepwise(state, state.vector(op.x), acc, right.index)
    registers = left.count * elements // depth
    for step in range(depth // elements):
        own = left.part(range(step * registers, (step + 1) * registers))
        index = right.index
        if step:
            index = state.op("add", index, state.constant(tile.offset(step * elements, 0)))
        state.builder.op("wgmma_fence")
        acc = state.op("wgmma", acc, own, None, right.buffer, index, **fields)
    state.builder.op("wgmma_commit")
    left.finish()
    assert acc is not None
    return acc


def _is_fenced(block: Block, registers: Sequence[Value | None]) -> bool:
    """Whether a fence orders all that was done to ``registers``: nothing came after it but products and addresses."""
    for op in reversed(block.ops):
        if op.name == "wgmma_fence":
            return True
        products = op.name in ("wgmma", "wgmma_commit")
        if any(result in registers for result in op.results) or not (products or (op.pure and not op.regions)):
            return False
    return False


def _left(
    state: Lowering, op: WarpgroupDot, tile: int, tiles: int, start: int
) -> tuple[list[Value | None], dict[str, Any]]:
    """The left operand of a tile of 64 rows: its place in shared memory, or its registers."""
    value = state.values[op.x]
    if not isinstance(value, SharedBlock):
        return [part(state, state.vector(op.x), tile, tiles), None], {}
    found = tile_of(layout_of(op.x))
    warpgroups = state.num_warps // 4
    index = value.index
    if tile or start:
        index = state.op("add", index, state.constant(found.offset(ROWS * warpgroups * tile, start)))
    if warpgroups > 1:  # powers of two, so that each warpgroup begins as many elements after the one before it
        number = state.op("shr", state.thread, state.constant(WARPGROUP_BITS))
        number = state.op("shfl_idx", number, state.constant(0))  # one for the warp: descriptors are uniform registers
        index = state.op("add", index, state.op("mul", number, state.constant(found.offset(ROWS, 0))))
    return [value.buffer, index], {"a_major": "mk"[found.axis], "a_stride": found.stride}


@lowers("warpgroup_wait")
def lower_warpgroup_wait(state: Lowering, op: WarpgroupWait) -> None:
    results = state.builder.op("wgmma_wait", *map(state.vector, op.products), pending=op.pending).results
    for old, new in zip(op.results, results, strict=True):
        state.set(old, new)


def columns_of(layout: LinearLayout, columns: int) -> list[int]:
    """The registers of a product's first ``columns``; 0: of all."""
    places = register_offsets(layout)
    return [register for register, at in enumerate(places) if not columns or at[-1] < columns]


def _set_columns(state: Lowering, old: Value, value: Value, kept: list[int]) -> None:
    """``old`` has ``value`` in the registers ``kept``, and nothing of interest in others."""
    count = layout_of(old).num_registers
    if len(kept) < count:
        beyond = state.splat(Constant(0, element_of(old.type)), count - len(kept))
        others = sorted(set(range(count)) - set(kept))
        value = state.pick(state.op("pack", value, beyond), inverse([*kept, *others]))
    state.set(old, value)
