"""Programs, creation and shape ops: mostly bookkeeping on axes of extent 1."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.tile.program import Arange, NumPrograms, ProgramId
from refcompiler.dialects.tile.shape import Butterfly, ExpandDims, Gather, Reshape, Trans
from refcompiler.interpreter import affine
from refcompiler.interpreter.affine import Affine
from refcompiler.interpreter.descriptor import unset_descriptor
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import Dense, Numbers, Pointer, Poison, Val, ranked, with_shape
from refcompiler.ir import Op
from refcompiler.ir.types import I32, DescriptorType, DType, element_of, shape_of


@interprets("program_id")
def program_id(programs: Programs, op: ProgramId) -> Val:
    x, y, _ = programs.grid
    inner = (1, x, x * y)[op.axis]
    ids = programs.numbers // inner
    if ids[0] == ids[-1]:
        ids = ids[:1]
    return Dense(ids % programs.grid[op.axis])


@interprets("num_programs")
def num_programs(programs: Programs, op: NumPrograms) -> Val:
    return Dense(np.array([programs.grid[op.axis]], np.int32))


@interprets("arange")
def arange(programs: Programs, op: Arange) -> Val:
    return affine.arange(op.start, op.end, I32)


@interprets("full", "broadcast")
def splat(programs: Programs, op: Op, value: Val) -> Val:
    return ranked(value, len(shape_of(op.result.type)) + 1)


@interprets("hint")
def hint(programs: Programs, op: Op, x: Val) -> Val:
    return x


@interprets("empty")
def empty(programs: Programs, op: Op) -> Val:
    if isinstance(op.result.type, DescriptorType):
        return unset_descriptor(op, op.result.type)
    element, axes = element_of(op.result.type), (1,) * (len(shape_of(op.result.type)) + 1)
    poison = Poison([(op, np.ones(axes, np.bool_))])
    if isinstance(element, DType):
        return Dense(np.zeros(axes, element.numpy), poison)
    return Pointer(0, Dense(np.zeros(axes, np.int64), poison), element.pointee)


@interprets("expand_dims")
def expand_dims(programs: Programs, op: ExpandDims, x: Val) -> Val:
    axis = op.axis

    def inserted(block: Affine) -> Affine:
        strides, shape = block.strides, block.shape
        return block.with_axes((*strides[:axis], 0, *strides[axis:]), (*shape[:axis], 1, *shape[axis:]))

    return with_shape(x, lambda array: np.expand_dims(array, axis + 1), inserted)


@interprets("trans")
def trans(programs: Programs, op: Trans, x: Val) -> Val:
    order = op.order

    def permuted(block: Affine) -> Affine:
        return block.with_axes(tuple(block.strides[i] for i in order), tuple(block.shape[i] for i in order))

    return with_shape(x, lambda array: array.transpose(0, *(i + 1 for i in order)), permuted)


@interprets("reshape")
def reshape(programs: Programs, op: Reshape, x: Val) -> Val:
    before, after = shape_of(op.x.type), shape_of(op.result.type)

    def reshaped(array: np.ndarray) -> np.ndarray:
        if array.size == array.shape[0]:  # nothing varies along the block's axes
            return array.reshape(-1, *(1,) * len(after))
        return np.broadcast_to(array, (array.shape[0], *before)).reshape(-1, *after)

    return with_shape(x, reshaped)


@interprets("gather")
def gather(programs: Programs, op: Gather, x: Val, index: Numbers) -> Val:
    axis, extent = op.axis + 1, op.x.type.shape[op.axis]
    poison = programs.live(index.poison)
    programs.reject_poison(op, "shape.gather#E7", "an index of gather", poison, "index")
    places = index.data.astype(np.int64)
    outside = (places < 0) | (places >= extent)
    if programs.active is not None:
        outside = outside & programs.lanes_of(outside.ndim)
    if outside.any():
        message = f"an index of gather is not in [0, {extent}) ({programs.place(outside)})"
        raise programs.error(op, "shape.gather#E6", message, "index")
    places = np.clip(places, 0, extent - 1)

    def picked(array: np.ndarray) -> np.ndarray:
        """What varies along no axis stays one element; along the other axes the two broadcast."""
        if array.shape[axis] == 1:
            return np.broadcast_to(array, np.broadcast_shapes(array.shape, places.shape))
        others = np.broadcast_shapes(*((*a.shape[:axis], 1, *a.shape[axis + 1 :]) for a in (array, places)))
        wide = np.broadcast_to(array, [*others[:axis], extent, *others[axis + 1 :]])
        at = np.broadcast_to(places, [*others[:axis], places.shape[axis], *others[axis + 1 :]])
        return np.take_along_axis(wide, at, axis)

    return with_shape(x, picked)


@interprets("butterfly")
def butterfly(programs: Programs, op: Butterfly, x: Val) -> Val:
    axis, extent = op.axis + 1, op.x.type.shape[op.axis]
    order = np.arange(extent) ^ op.mask
    return with_shape(x, lambda array: array if array.shape[axis] == 1 else np.take(array, order, axis))
