"""Putting blocks together and taking them apart, and turning them round."""

from __future__ import annotations

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, here
from refcompiler.frontend.language.arguments import block_argument, normal_axis, static, static_bool
from refcompiler.frontend.language.shape import broadcast_pair, permuted, reshape, reshaped
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import BOOL, I32, SIGNED, BlockType, DType, element_of, shape_of, with_element

_BITS = {dtype.bits: dtype for dtype in SIGNED}


def _first(c: Context, rank: int) -> Value:
    """Whether an index along a last axis of extent 2 is 0, in a block of that rank."""
    index = c.emit("arange", start=0, end=2, types=[BlockType(I32, (2,))])
    for axis in range(rank - 1):
        index = c.emit("expand_dims", index, axis=axis)
    return c.emit("cmp_eq", index, Constant(0, I32))


@builtin
def join(a, b):
    """`a` and `b`, broadcast to one shape, along a new last axis of extent 2; scalars give a block of two.

    Spec: shape.join
    """
    c = here()
    left, right = (semantics.to_value(c, v, at) for v, at in ((a, "a"), (b, "b")))
    if element_of(left.type) != element_of(right.type):
        raise c.error("shape.join#E1", f"join needs one dtype, found {left.type} and {right.type}", "b")
    left, right = broadcast_pair(c, left, right, "b")
    rank = len(shape_of(left.type)) + 1
    if rank > 1:
        left, right = (c.emit("expand_dims", v, axis=rank - 1) for v in (left, right))
    return c.emit("select", _first(c, rank), left, right)


@builtin(member=True)
def split(a):
    """The two halves of a last axis of extent 2; of a block of two its elements, as scalars. Spec: shape.split"""
    c = here()
    value = block_argument(c, a, "a", "shape.split#E1", "split")
    shape, element = shape_of(value.type), element_of(value.type)
    if shape[-1] != 2:
        raise c.error("shape.split#E1", f"split needs a last axis of extent 2, found {shape[-1]}", "a")
    if not isinstance(element, DType):
        raise c.error("shape.split#E2", f"split takes numbers, found {value.type}", "a")
    bits = value
    if element.is_float:
        bits = c.emit("bitcast", value, types=[with_element(value.type, _BITS[element.bits])])
    zero = Constant(False, BOOL) if element.is_bool else Constant(0, element_of(bits.type))
    first = _first(c, len(shape))
    halves = []
    for pair in ((bits, zero), (zero, bits)):
        half = c.emit("reduce", c.emit("select", first, *pair), axis=len(shape) - 1, combine="or")
        halves.append(c.emit("bitcast", half, types=[with_element(half.type, element)]) if element.is_float else half)
    return tuple(halves)


@builtin
def interleave(a, b):
    """The elements of `a` and `b` by turns along the last axis: a0, b0, a1, b1, ... Spec: shape.join"""
    c = here()
    joined = join(a, b)
    shape = shape_of(joined.type)
    return joined if len(shape) == 1 else reshaped(c, joined, (*shape[:-2], 2 * shape[-2]))


@builtin
def cat(input, other, can_reorder=False, dim=0):
    """`input` and then `other`, two blocks of one shape, along the axis `dim`; the order is kept, with `can_reorder`
    too. Spec: shape.cat"""
    c = here()
    left = block_argument(c, input, "input", "shape.cat#E1", "cat")
    right = block_argument(c, other, "other", "shape.cat#E1", "cat")
    static_bool(c, can_reorder, "can_reorder")
    shape = shape_of(left.type)
    if left.type != right.type:
        raise c.error("shape.cat#E1", f"cat needs two blocks of one type, found {left.type} and {right.type}", "other")
    axis = normal_axis(c, dim, len(shape), "dim", "shape.cat#E2")
    joined = join(left, right)
    order = (*range(axis), len(shape), *range(axis, len(shape)))
    return reshaped(c, permuted(c, joined, order), (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))


@builtin(member=True)
def flip(x, dim=None):
    """`x` with the order of its elements along `dim`, the last axis without it, turned round. Spec: shape.flip"""
    c = here()
    value = block_argument(c, x, "x", "shape.flip#E2", "flip")
    shape = shape_of(value.type)
    axis = len(shape) - 1
    if static(c, dim, "dim") is not None:
        axis = normal_axis(c, dim, len(shape), "dim", "shape.flip#E1")
    extent = shape[axis]
    if extent == 1:
        return value
    if not extent & (extent - 1):
        return c.emit("butterfly", value, axis=axis, mask=extent - 1)
    index = c.emit("arange", start=0, end=extent, types=[BlockType(I32, (extent,))])
    index = c.emit("sub", Constant(extent - 1, I32), index)
    for other in range(len(shape)):
        if other != axis:
            index = c.emit("expand_dims", index, axis=other)
    return c.emit("gather", value, semantics.broadcast_value(c, index, shape), axis=axis)


@builtin(member=True)
def view(input, *shape):
    """The same as reshape. Spec: shape.reshape"""
    return reshape(input, *shape)


@builtin(member=True)
def squeeze(x, dim):
    """`x` without its axis `dim` of extent 1. Spec: shape.squeeze"""
    c = here()
    value = block_argument(c, x, "x", "shape.squeeze#E1", "squeeze")
    shape = shape_of(value.type)
    axis = normal_axis(c, dim, len(shape), "dim", "shape.squeeze#E2")
    if shape[axis] != 1 or len(shape) == 1:
        message = f"squeeze drops an axis of extent 1 beside another axis, found axis {axis} of {list(shape)}"
        raise c.error("shape.squeeze#E3", message, "dim")
    return reshaped(c, value, (*shape[:axis], *shape[axis + 1 :]))


@builtin(member=True)
def unsqueeze(x, dim):
    """`x` with an axis of extent 1 at `dim`, counted in the result. Spec: shape.squeeze"""
    c = here()
    value = block_argument(c, x, "x", "shape.squeeze#E1", "unsqueeze")
    axis = normal_axis(c, dim, len(shape_of(value.type)) + 1, "dim", "shape.squeeze#E2")
    return c.emit("expand_dims", value, axis=axis)
