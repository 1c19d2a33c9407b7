"""Hold blocks that all rounds of a loop read in shared memory, where what the rounds compute needs the registers."""

from __future__ import annotations

from typing import Any, NamedTuple

from refcompiler.dialects.scf import For
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import I32, BlockType, DType, SharedType
from refcompiler.layouts import LinearLayout, contiguous_elements, owner_bits, vector_groups
from refcompiler.layouts.staging import staging
from refcompiler.remarks import remark

ACCESS_BYTES = 16
REGISTER_BYTES = 4
MOST_REGISTERS = 16  # of each thread that may be held throughout a loop, or an eighth of what it can have
REGISTERS = 1 << 16  # of a multiprocessor
OTHER_BYTES = 16 << 10  # left to exchanges


def hold_in_shared(func: Func, context: Any) -> None:
    """Put what is loaded before a counted loop and read in it into shared memory, and take it from there in each round,
    where it would fill more than ``MOST_REGISTERS`` of each thread. Each thread takes what it has put there itself.

    Products have their own places for what they multiply: loops with one stay as they are.
    """
    room = context.shared_room - OTHER_BYTES
    room -= sum(op.result.type.nbytes for op in func.walk() if op.name == "stages")
    _block(func.body, context, room, func.attrs["num_warps"] * 32)


class Held(NamedTuple):
    """Where a block is held: a buffer of one stage, and the layout there."""

    buffer: Value
    layout: str


def _block(block: Block, context: Any, room: int, threads: int) -> None:
    loaded: dict[Value, LinearLayout] = {}  # what was loaded in this block so far, as it lies in shared memory
    held: dict[Value, Held] = {}
    ops, block.ops = block.ops, []
    for op in ops:
        if isinstance(op, For):
            for value in _chosen(op, loaded, held, room, threads):
                held[value] = _put(value, Builder(block, op.span), str(loaded[value]))
                room -= _bytes(value)
                message = "the block is held in shared memory while the loop runs"
                remark(context, "hold_in_shared", value.owner, message, applied=True)
            inner, op.body.ops = op.body.ops, []
            _take(inner, op.body, held)
        elif op.name == "load" and (layout := _private_layout(op.result)) is not None:
            loaded[op.result] = layout
        _take([op], block, held)


def _chosen(
    loop: For, loaded: dict[Value, LinearLayout], held: dict[Value, Held], room: int, threads: int
) -> list[Value]:
    """What the loop reads of ``loaded`` that is to be held."""
    inside = list(loop.body.walk())
    if any(inner.name == "dot" or inner.name.startswith(("ring", "warpgroup")) for inner in inside):
        return []
    read = [value for value in loaded if any(value in inner.operands for inner in inside)]
    if sum(map(_bytes, read)) <= min(MOST_REGISTERS, REGISTERS // threads // 8) * REGISTER_BYTES * threads:
        return []
    chosen = []
    for value in (value for value in read if value not in held):
        if _bytes(value) <= room:
            room -= _bytes(value)
            chosen.append(value)
    return chosen


def _put(value: Value, build: Builder, layout: str) -> Held:
    buffer = build.value("stages", types=[SharedType(value.type.element, value.type.numel)], private=True)
    build.op("stage_put", buffer, Constant(0, I32), value, layout=layout)
    return Held(buffer, layout)


def _take(ops: list[Op], block: Block, held: dict[Value, Held]) -> None:
    """Append ops to a block that reads what is held, which is taken once, before the first of them that needs it."""
    taken: dict[Value, Value] = {}
    for op in ops:
        for reader in (op, *(inner for region in op.regions for inner in region.walk())):
            for value in held:
                if value in reader.operands and value not in taken and reader.name != "stage_put":
                    place = held[value]
                    taken[value] = Builder(block, op.span).value(
                        "stage_take", place.buffer, Constant(0, I32), layout=place.layout, types=[value.type]
                    )
            reader.operands = [o if o is None else taken.get(o, o) for o in reader.operands]
        block.append(op)


def _private_layout(value: Value) -> LinearLayout | None:
    """The shared layout in which the vectors of each thread lie side by side; None where threads hold replicas."""
    type_ = value.type
    if not isinstance(type_, BlockType) or not isinstance(type_.element, DType) or owner_bits(type_.layout).thread:
        return None
    widths = [contiguous_elements(type_.layout, dim) for dim in range(type_.rank)]
    dim = widths.index(max(widths))
    width = min(widths[dim], ACCESS_BYTES // type_.element.itemsize)
    members = vector_groups(type_.layout, dim, width)[0]
    vector = tuple(type_.layout.packed_at(register=members[1 << bit]) for bit in range(width.bit_length() - 1))
    return staging(type_.layout, type_.layout, type_.element.itemsize, vector)


def _bytes(value: Value) -> int:
    return value.type.numel * value.type.element.itemsize
