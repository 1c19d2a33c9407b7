"""Sorting along an axis: a bitonic network of butterflies."""

from __future__ import annotations

from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, here
from refcompiler.frontend.language.arguments import block_argument, normal_axis, static, static_bool, static_int
from refcompiler.frontend.profile import extent_fits
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import (
    I8,
    I32,
    SIGNED,
    BlockType,
    DType,
    element_of,
    power_of_two_above,
    shape_of,
    with_element,
)

_BITS = {dtype.bits: dtype for dtype in SIGNED}


@builtin(member=True)
def sort(x, dim=None, descending=False):
    """The elements of `x` in ascending order along `dim`, the last axis without it, or in descending order; NaN counts
    as the greatest, -0.0 as less than 0.0. Spec: sort.sort"""
    c = here()
    value = block_argument(c, x, "x", "sort.sort#E1", "sort")
    return _sorted(c, value, _axis(c, value, dim, "sort.sort#E2"), static_bool(c, descending, "descending"))


@builtin(member=True)
def topk(x, k, dim=None, descending=True):
    """The `k` greatest elements of `x` along `dim` in descending order, or the least in ascending order without
    `descending`. Spec: sort.topk"""
    c = here()
    value = block_argument(c, x, "x", "sort.sort#E1", "topk")
    axis = _axis(c, value, dim, "sort.sort#E2")
    count = static_int(c, k, "k")
    extent = shape_of(value.type)[axis]
    if not 1 <= count <= extent or not extent_fits(count, c.profile):
        raise c.error(
            "sort.topk#E1", f"k must be an extent from 1 to {extent}, in core a power of 2, found {count}", "k"
        )
    value = _sorted(c, value, axis, static_bool(c, descending, "descending"))
    return value if count == extent else _first(c, value, axis, count)


def _axis(c: Context, value: Value, dim: Any, id: str) -> int:
    rank = len(shape_of(value.type))
    return rank - 1 if static(c, dim, "dim") is None else normal_axis(c, dim, rank, "dim", id)


def _sorted(c: Context, value: Value, axis: int, descending: bool) -> Value:
    element, extent = element_of(value.type), shape_of(value.type)[axis]
    if not isinstance(element, DType):
        raise c.error("sort.sort#E1", f"only numbers have an order, found {value.type}", "x")
    keys = _keys(c, value, element)
    room = power_of_two_above(extent)
    if room > extent:  # the network needs a power of two: what is added comes last
        dtype = semantics.dtype_of(keys)
        index = c.emit("minimum", _index(c, room, axis, keys), Constant(extent - 1, I32))
        keys = _picked(c, keys, index, axis)
        inside = c.emit("cmp_lt", _index(c, room, axis, keys), Constant(extent, I32))
        keys = c.emit("select", inside, keys, Constant(dtype.min_int if descending else dtype.max_int, dtype))
    keys = _network(c, keys, axis, descending)
    if room > extent:
        keys = _first(c, keys, axis, extent)
    return _values(c, keys, element)


def _network(c: Context, keys: Value, axis: int, descending: bool) -> Value:
    """Batcher's bitonic network: sorted runs of 2^k, alternately up and down, become runs of 2^(k+1)."""
    extent = shape_of(keys.type)[axis]
    if extent == 1:
        return keys
    index = _index(c, extent, axis, keys)
    run = 2
    while run <= extent:
        distance = run // 2
        while distance:
            other = c.emit("butterfly", keys, axis=axis, mask=distance)
            place = index
            if run < extent:  # runs with that bit of the index set go the other way
                shift = Constant((run // distance).bit_length() - 1, I32)
                place = c.emit("xor", index, c.emit("shr", index, shift))
            bit = c.emit("and", place, Constant(distance, I32))
            takes_less = c.emit("cmp_ne" if descending else "cmp_eq", bit, Constant(0, I32))
            less, greater = c.emit("minimum", keys, other), c.emit("maximum", keys, other)
            keys = c.emit("select", takes_less, less, greater)
            distance //= 2
        run *= 2
    return keys


def _keys(c: Context, value: Value, element: DType) -> Value:
    """Integers in the order of the values."""
    if element.is_bool:
        return c.emit("cast", value, types=[with_element(value.type, I8)])
    if not element.is_float:
        return value
    dtype = _BITS[element.bits]
    keys = _folded(c, c.emit("bitcast", value, types=[with_element(value.type, dtype)]), dtype)
    return c.emit("select", c.emit("cmp_ne", value, value), Constant(dtype.max_int, dtype), keys)


def _values(c: Context, keys: Value, element: DType) -> Value:
    if element.is_bool:
        return c.emit("cmp_ne", keys, Constant(0, I8))
    if not element.is_float:
        return keys
    bits = _folded(c, keys, semantics.dtype_of(keys))
    return c.emit("bitcast", bits, types=[with_element(keys.type, element)])


def _folded(c: Context, bits: Value, dtype: DType) -> Value:
    """The bits of floats as integers of the same order, and back: negative ones have all bits but the sign flipped."""
    sign = c.emit("shr", bits, Constant(dtype.bits - 1, dtype))
    return c.emit("xor", bits, c.emit("and", sign, Constant(dtype.max_int, dtype)))


def _index(c: Context, extent: int, axis: int, like: Value) -> Value:
    """The index along ``axis``; all other axes have extent 1."""
    index = c.emit("arange", start=0, end=extent, types=[BlockType(I32, (extent,))])
    for other in range(len(shape_of(like.type))):
        if other != axis:
            index = c.emit("expand_dims", index, axis=other)
    return index


def _picked(c: Context, value: Value, index: Value, axis: int) -> Value:
    shape = shape_of(value.type)
    shape = (*shape[:axis], shape_of(index.type)[axis], *shape[axis + 1 :])
    return c.emit("gather", value, semantics.broadcast_value(c, index, shape), axis=axis)


def _first(c: Context, value: Value, axis: int, count: int) -> Value:
    return _picked(c, value, _index(c, count, axis, value), axis)
