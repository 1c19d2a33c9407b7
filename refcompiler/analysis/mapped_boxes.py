"""Which boxes the copy engine can move: those of arrays that tensor maps describe, and why others are not moved."""

from __future__ import annotations

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.host_values import host_expression
from refcompiler.analysis.warpgroup_products import ROWS, is_power
from refcompiler.dialects.tile.descriptor import (
    ALIGNMENT,
    BoxAccess,
    DescriptorStore,
    MakeDescriptor,
    without_ones,
)
from refcompiler.ir.core import Func, Op
from refcompiler.ir.types import PointerType, element_of, shape_of
from refcompiler.layouts import swizzle_bytes
from refcompiler.remarks import Refusal

MAX_ROWS = 256  # of one box
COPIED_BYTES = 128  # of a row that is copied out


def refused_box(access: BoxAccess, func: Func, axis: AxisAnalysis) -> Refusal | None:
    """Why no tensor map can describe the array of an access, or boxes of one its block; None: one can. Boxes begin at
    multiples of 16 bytes in a row, for the machine stops at others."""
    made = access.pointer.owner
    if not isinstance(made, MakeDescriptor):
        return Refusal(
            "its descriptor is carried by a loop or chosen by a branch", "make it before the loop, and use it"
        )
    return _refused_shape(access, made) or _refused_array(access, made, func, axis)


def _refused_shape(access: BoxAccess, made: MakeDescriptor) -> Refusal | None:
    if made.padding != "zero":
        return Refusal(
            f"its padding is {made.padding}, and the copy engine fills with zeros", "use padding_option='zero'"
        )
    sizes = without_ones(made.block_shape)
    if len(sizes) != 2 or made.block_shape[-1] == 1 or shape_of(access.block)[-2:] != sizes:
        shape = "x".join(map(str, made.block_shape))
        return Refusal(f"its box of {shape} is no matrix", "use boxes with two extents above 1, the last one included")
    rows, columns = sizes
    if rows > MAX_ROWS or rows % 8:
        return Refusal(f"its box has {rows} rows, and copied boxes 8, 16 ... {MAX_ROWS}")
    row_bytes = columns * made.base.type.pointee.itemsize
    if row_bytes % swizzle_bytes(row_bytes) or row_bytes < 32 or not is_power(swizzle_bytes(row_bytes)):
        return Refusal(f"the rows of its box have {row_bytes} bytes, and copied boxes 32, 64, 128 or more times 128")
    if not is_power(rows) and row_bytes > COPIED_BYTES:
        return Refusal(f"its box has {rows} rows of {row_bytes} bytes, and no power of two of rows has {COPIED_BYTES}")
    return None


def _refused_array(access: BoxAccess, made: MakeDescriptor, func: Func, axis: AxisAnalysis) -> Refusal | None:
    itemsize = made.base.type.pointee.itemsize
    divisor = axis.of(access.offsets[-1]).divisor
    if divisor * itemsize % ALIGNMENT:
        wanted = ALIGNMENT // itemsize
        return Refusal(
            f"its box may begin at any multiple of {divisor * itemsize} bytes in a row, and copied boxes begin at "
            f"multiples of {ALIGNMENT}",
            f"let the last offset be a multiple of {wanted}, or promise it: tl.multiple_of(..., {wanted})",
        )
    if any(host_expression(v, func) is None for v in made.sizes):
        return Refusal(
            "an extent or a stride of its array is not known when the kernel is launched",
            "compute it from parameters by + - * alone, or pass it",
        )
    if base_parameter(made, func) is None:
        return Refusal(
            "its array begins at an address that is computed",
            "describe the whole array from its pointer parameter, and move the offsets instead",
        )
    return None


def refused_bulk(store: DescriptorStore, warpgroups: int, func: Func, axis: AxisAnalysis) -> Refusal | None:
    """Why warpgroups cannot hand a block over to be copied out in boxes of 128 bytes a row; None: they can."""
    rows, columns = (1, *shape_of(store.value.type))[-2:]
    row_bytes = columns * element_of(store.value.type).itemsize
    if rows % (ROWS * warpgroups):
        return Refusal(f"its block has {rows} rows, no multiple of {ROWS * warpgroups}: {ROWS} for each warpgroup")
    if row_bytes % COPIED_BYTES:
        return Refusal(f"its rows have {row_bytes} bytes, no multiple of {COPIED_BYTES}")
    return refused_box(store, func, axis)


def base_parameter(made: MakeDescriptor, func: Func) -> str | None:
    """The pointer parameter at which the array of a descriptor begins."""
    value = made.base
    while isinstance(value.owner, Op) and value.owner.name == "hint":
        value = value.owner.operands[0]
    found = any(value is p for p in func.params) and isinstance(value.type, PointerType)
    return str(value.name) if found else None
