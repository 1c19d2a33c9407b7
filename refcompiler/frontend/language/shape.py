"""Changing the shape of blocks."""

from __future__ import annotations

from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import (
    block_argument,
    normal_axis,
    static,
    static_int,
    static_shape,
    varargs,
)
from refcompiler.ir import Value
from refcompiler.ir.types import BlockType, element_of, join_shapes, shape_of


@builtin(member=True)
def expand_dims(input, axis):
    """`input` with axes of extent 1 inserted; `axis` is an int or a sequence, counted in the result.

    Spec: shape.expand_dims
    """
    c = here()
    value = semantics.to_value(c, input, "input")
    static(c, axis, "axis")
    axes = list(axis) if isinstance(axis, tuple | list) else [axis]
    rank = len(shape_of(value.type)) + len(axes)
    normal = []
    for a in axes:
        a = static_int(c, a, "axis")
        if not -rank <= a < rank:
            raise c.error("shape.expand_dims#E1", f"invalid axis {a}. Expected {-rank} <= axis < {rank}", "axis")
        normal.append(a % rank)
    if len(set(normal)) != len(normal):
        raise c.error("shape.expand_dims#E3", f"expand_dims received duplicate axes, {sorted(normal)}", "axis")
    for a in sorted(normal):
        value = c.emit("expand_dims", value, axis=a)
    return value


@builtin(member=True)
def broadcast_to(input, *shape):
    """`input` repeated along its axes of extent 1 to `shape`, of the same rank; a scalar fills it.

    Spec: shape.broadcast
    """
    c = here()
    value = semantics.to_value(c, input, "input")
    return semantics.broadcast_value(c, value, static_shape(c, varargs(shape), "shape"), "shape")


@builtin
def broadcast(input, other):
    """Both values broadcast to their common shape. Spec: shape.broadcast"""
    c = here()
    left, right = semantics.to_value(c, input, "input"), semantics.to_value(c, other, "other")
    return broadcast_pair(c, left, right, "other")


def broadcast_pair(c: Context, x: Value, y: Value, at: str) -> tuple[Value, Value]:
    """Both in their common shape; ``at`` is the argument to blame."""
    shape = join_shapes(shape_of(x.type), shape_of(y.type))
    if shape is None:
        shown = " and ".join(str(list(shape_of(v.type))) for v in (x, y))
        raise c.error("shape.broadcast#E1", f"the shapes {shown} do not broadcast", at)
    return _grown(c, x, shape), _grown(c, y, shape)


def _grown(c: Context, value: Value, shape: tuple[int, ...]) -> Value:
    if shape_of(value.type):
        while len(shape_of(value.type)) < len(shape):
            value = c.emit("expand_dims", value, axis=0)
    return semantics.broadcast_value(c, value, shape)


@builtin(member=True)
def reshape(input, *shape, can_reorder=False):
    """The same elements in row-major order under another shape of as many elements. Spec: shape.reshape"""
    c = here()
    value = block_argument(c, input, "input", "shape.reshape#E1", "reshape")
    static(c, can_reorder, "can_reorder")
    target = static_shape(c, varargs(shape), "shape")
    return reshaped(c, value, target)


def reshaped(c: Context, value: Value, target: tuple[int, ...]) -> Value:
    """``value`` under another shape; nothing where it has that shape."""
    result = BlockType(element_of(value.type), target)
    if result == value.type:
        return value
    if not target or result.numel != value.type.numel:
        raise c.error(
            "shape.reshape#E1",
            f"reshape cannot change the number of elements: {list(shape_of(value.type))} to {list(target)}",
            "shape",
        )
    return c.emit("reshape", value, types=[result])


@builtin(member=True)
def ravel(x, can_reorder=False):
    """The elements of `x` as a rank-1 block, in row-major order. Spec: shape.reshape"""
    c = here()
    value = block_argument(c, x, "x", "shape.reshape#E1", "ravel")
    static(c, can_reorder, "can_reorder")
    return reshaped(c, value, (value.type.numel,))


@builtin(member=True)
def trans(input, *dims):
    """`input` with its axes permuted by `dims`; without them the last two are swapped. Spec: shape.trans"""
    c = here()
    value = block_argument(c, input, "input", "shape.trans#E1", "trans")
    order: Any = varargs(dims)
    rank = len(shape_of(value.type))
    if not order:
        if rank < 2:
            raise c.error("shape.trans#E1", f"trans swaps the last two axes, found rank {rank}", "input")
        order = (*range(rank - 2), rank - 1, rank - 2)
    return permuted(c, value, order)


@builtin(member=True)
def permute(input, *dims):
    """`input` with axis i of the result being axis `dims[i]`. Spec: shape.trans"""
    c = here()
    value = block_argument(c, input, "input", "shape.trans#E1", "permute")
    return permuted(c, value, varargs(dims))


def permuted(c: Context, value: Value, dims: Any) -> Value:
    """``value`` with its axes in the order ``dims``."""
    order = tuple(static_int(c, d, "dims") for d in dims)
    rank = len(shape_of(value.type))
    if sorted(order) != list(range(rank)):
        raise c.error("shape.trans#E1", f"the axes must be a permutation of 0 to {rank - 1}, found {order}", "dims")
    return c.emit("trans", value, order=order)


@builtin(member=True)
def gather(src, index, axis):
    """Elements of `src` picked along `axis`: the result has the shape of `index`, an integer block of the same rank
    that is as long as `src` along all other axes. Spec: shape.gather"""
    c = here()
    value = block_argument(c, src, "src", "shape.gather#E1", "gather")
    if not isinstance(index, Value) or semantics.is_pointer(index) or not semantics.dtype_of(index).is_int:
        raise c.error("shape.gather#E2", f"index must be an integer block, found {describe(index)}", "index")
    source, picked = shape_of(value.type), shape_of(index.type)
    if len(source) != len(picked):
        message = f"src and index must have the same rank, found {len(source)} and {len(picked)}"
        raise c.error("shape.gather#E3", message, "index")
    position = normal_axis(c, axis, len(source), "axis", "shape.gather#E4")
    for dim, (wanted, found) in enumerate(zip(source, picked, strict=True)):
        if dim != position and wanted != found:
            message = f"index dim {dim} must match src's, found {found} and {wanted}"
            raise c.error("shape.gather#E5", message, "index")
    return c.emit("gather", value, index, axis=position, at={"x": "src"})


def transposed(c: Context, value: Value) -> Value:
    """`x.T` of a rank-2 block."""
    if len(shape_of(value.type)) != 2:
        raise c.error("shape.trans#E1", f".T needs a block of rank 2, found {describe(value)}")
    return c.emit("trans", value, order=(1, 0))


def indexed(c: Context, value: Value, items: tuple[Any, ...]) -> Value:
    """`x[:, None]`: `None` inserts an axis of extent 1, `:` keeps one."""
    kept = sum(1 for item in items if item is not None)
    rank = len(shape_of(value.type))
    for item in items:
        if item is not None and item != slice(None):
            shown = describe(item) if not isinstance(item, slice) else "a slice"
            if semantics.is_pointer(value):
                message = f"a pointer is not indexed, found {shown}; move it by + and read it: tl.load(x + i)"
                raise c.error("shape.expand_dims#E2", message)
            raise c.error(
                "shape.expand_dims#E2",
                f"unsupported index: only `None` and `:` index a block, found {shown}; use masks, tl.where or a "
                "reduction to pick elements",
            )
    if kept > rank:
        raise c.error("shape.expand_dims#E2", f"too many indices: {kept} for a value of rank {rank}")
    for axis, item in enumerate(items):
        if item is None:
            value = c.emit("expand_dims", value, axis=axis)
    return value
