"""Block pointers: a place in an array that is known by its base, extents and strides, moved in steps."""

from __future__ import annotations

from math import nan
from typing import Any

from refcompiler.dialects.tile.memory import pointee
from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import static, static_shape, static_text
from refcompiler.frontend.language.descriptor import integer_argument, sequence_argument
from refcompiler.frontend.types import block_pointer
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import BOOL, I32, I64, BlockType, DType, element_of, shape_of

_SPEC = "memory.block_pointers"


def _sequences(c: Context, given: dict[str, Any], rank: int | None = None) -> list[tuple]:
    """Sequences of one length, which is ``rank`` where that is given."""
    found = [sequence_argument(c, value, at, f"{_SPEC}#E2") for at, value in given.items()]
    wanted = len(found[0]) if rank is None else rank
    for at, values in zip(given, found, strict=True):
        if len(values) != wanted or not values:
            raise c.error(f"{_SPEC}#E2", f"expected {wanted or 'some'} elements of {at}, found {len(values)}", at)
    return found


@builtin
def make_block_ptr(base, shape, strides, offsets, block_shape, order):
    """A pointer to the block of the compile-time shape `block_shape` that begins at the element `offsets` of the array
    at `base`, whose extents are `shape` and whose strides, in elements, are `strides`.

    `tl.load` and `tl.store` access the block, `tl.advance` moves it. `order` names the dimensions from the most to the
    least contiguous one and changes nothing. Spec: memory.block_pointers
    """
    c = here()
    if not isinstance(base, Value) or shape_of(base.type) or pointee(base.type) is None:
        raise c.error(f"{_SPEC}#E1", f"a block pointer begins at a scalar pointer, found {describe(base)}", "base")
    fields = {"shape": shape, "strides": strides, "offsets": offsets, "block_shape": block_shape, "order": order}
    extents, steps, starts, _, ranks = _sequences(c, fields)
    if sorted(static(c, r, "order") for r in ranks) != list(range(len(extents))):
        raise c.error(f"{_SPEC}#E2", f"order is a permutation of the dimensions, found {list(ranks)}", "order")
    box = static_shape(c, block_shape, "block_shape")
    sizes = tuple(integer_argument(c, v, I64, "shape", f"{_SPEC}#E3") for v in extents)
    distances = tuple(integer_argument(c, v, I64, "strides", f"{_SPEC}#E3") for v in steps)
    return block_pointer(base, sizes, distances, tuple(_offset(c, v) for v in starts), box)


def _offset(c: Context, value: Any) -> Value:
    if isinstance(value, Value) and isinstance(value.type, DType) and value.type.is_int and value.type.bits > 32:
        message = f"offsets have at most 32 bits, found {describe(value)}; write offset.to(tl.int32)"
        raise c.error(f"{_SPEC}#E3", message, "offsets")
    return integer_argument(c, value, I32, "offsets", f"{_SPEC}#E3")


@builtin
def advance(base, offsets):
    """The block pointer `base` moved by `offsets` elements along each dimension. Spec: memory.block_pointers"""
    c = here()
    if not isinstance(base, block_pointer):
        raise c.error(f"{_SPEC}#E7", f"advance moves block pointers, found {describe(base)}", "base")
    (moves,) = _sequences(c, {"offsets": offsets}, len(base.block_shape))
    starts = [_sum(c, start, _offset(c, move)) for start, move in zip(base.offsets, moves, strict=True)]
    return block_pointer(base.base, base.shape, base.strides, tuple(starts), base.block_shape)


def _sum(c: Context, x: Value, y: Value) -> Value:
    return x if isinstance(y, Constant) and not y.value else c.emit("add", x, y)


def load_block(
    c: Context, block: block_pointer, mask: Any, other: Any, checks: Any, padding: Any, **fields: Any
) -> Value:
    """What `tl.load` means for a block pointer."""
    for value, at in ((mask, "mask"), (other, "other")):
        if value is not None:
            raise c.error(f"{_SPEC}#E4", f"a block pointer takes no {at}, but boundary_check and padding_option", at)
    padding = static_text(c, padding, "padding_option", f"{_SPEC}#E6")
    fills = {"": None, "zero": 0, "nan": nan}
    if padding not in fills or (padding == "nan" and not block.element.is_float):
        message = (
            f"padding_option {padding!r} is not supported for {block.element}; one of '', 'zero', for floats 'nan'"
        )
        raise c.error(f"{_SPEC}#E6", message, "padding_option")
    pointers, inside = _addresses(c, block, checks)
    fill = None if inside is None or not padding else Constant(fills[padding], block.element)
    return c.emit("load", pointers, inside, fill, **fields)


def store_block(c: Context, block: block_pointer, value: Any, mask: Any, checks: Any, **fields: Any) -> None:
    """What `tl.store` means for a block pointer."""
    if mask is not None:
        raise c.error(f"{_SPEC}#E4", "a block pointer takes no mask, but boundary_check", "mask")
    if not isinstance(value, Value) or shape_of(value.type) != block.block_shape:
        message = f"expected a value of shape {list(block.block_shape)}, found {describe(value)}"
        raise c.error(f"{_SPEC}#E8", message, "value")
    if not isinstance(element_of(value.type), DType):
        raise c.error("cast.numeric#E1", f"cannot cast {value.type} to {block.element}", "value")
    if block.base.type.const:
        raise c.error("memory.store#E2", "cannot store to a constant pointer", "pointer")
    pointers, inside = _addresses(c, block, checks)
    c.op("store", pointers, semantics.cast(c, value, block.element), inside, **fields)


def reject_checks(c: Context, checks: Any, padding: Any = "") -> None:
    """What is for block pointers only was given for other pointers."""
    for value, at in ((checks, "boundary_check"), (padding, "padding_option")):
        if value not in ((), "", None):
            raise c.error(f"{_SPEC}#E5", f"{at} is for block pointers; give other pointers a mask", at)


def _addresses(c: Context, block: block_pointer, checks: Any) -> tuple[Value, Value | None]:
    """The addresses of the elements, and which of them lie inside along the dimensions to check; None for all."""
    axes = _axes(c, block, checks)
    indices = [_index(c, block, axis) for axis in range(len(block.block_shape))]
    pointers = block.base
    for index, stride in zip(indices, block.strides, strict=True):
        wide = semantics.cast(c, index, I64)
        one = isinstance(stride, Constant) and stride.value == 1
        pointers = c.emit("addptr", pointers, wide if one else c.emit("mul", wide, stride))
    inside = None
    for axis in axes:
        wide = semantics.cast(c, indices[axis], I64)
        for test in (c.emit("cmp_ge", indices[axis], Constant(0, I32)), c.emit("cmp_lt", wide, block.shape[axis])):
            inside = test if inside is None else c.emit("and", inside, test)
    if inside is not None and shape_of(inside.type) != block.block_shape:
        inside = c.emit("broadcast", inside, types=[BlockType(BOOL, block.block_shape)])
    return pointers, inside


def _axes(c: Context, block: block_pointer, checks: Any) -> list[int]:
    found = [static(c, v, "boundary_check") for v in sequence_argument(c, checks, "boundary_check", f"{_SPEC}#E5")]
    rank = len(block.block_shape)
    if len(set(found)) != len(found) or not all(isinstance(v, int) and 0 <= v < rank for v in found):
        message = f"boundary_check names dimensions from 0 to {rank - 1}, each once, found {found}"
        raise c.error(f"{_SPEC}#E5", message, "boundary_check")
    return sorted(found)


def _index(c: Context, block: block_pointer, axis: int) -> Value:
    """The indices along one dimension, as a block that varies along it."""
    extent, offset = block.block_shape[axis], block.offsets[axis]
    index = c.emit("arange", start=0, end=extent, types=[BlockType(I32, (extent,))])
    index = _sum(c, index, offset)
    for other in range(len(block.block_shape)):
        if other != axis:
            index = c.emit("expand_dims", index, axis=other)
    return index
