"""Programs, creation and shape ops: mostly bookkeeping on axes of extent 1."""

from __future__ import annotations

import numpy as np

from refcompiler.interpreter import affine
from refcompiler.interpreter.affine import Affine
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import Dense, Pointer, Poison, Val, ranked, transformed
from refcompiler.ir import Op
from refcompiler.ir.types import I32, DType, element_of, shape_of


@interprets("program_id")
def program_id(programs: Programs, op: Op) -> Val:
    x, y, _ = programs.grid
    inner = (1, x, x * y)[op.axis]
    ids = programs.numbers // inner
    if ids[0] == ids[-1]:
        ids = ids[:1]
    return Dense(ids % programs.grid[op.axis])


@interprets("num_programs")
def num_programs(programs: Programs, op: Op) -> Val:
    return Dense(np.array([programs.grid[op.axis]], np.int32))


@interprets("arange")
def arange(programs: Programs, op: Op) -> Val:
    return affine.arange(op.start, op.end, I32)


@interprets("full", "broadcast")
def splat(programs: Programs, op: Op, value: Val) -> Val:
    return ranked(value, len(shape_of(op.result.type)) + 1)


@interprets("empty")
def empty(programs: Programs, op: Op) -> Val:
    element, axes = element_of(op.result.type), (1,) * (len(shape_of(op.result.type)) + 1)
    poison = Poison([(op, np.ones(axes, np.bool_))])
    if isinstance(element, DType):
        return Dense(np.zeros(axes, element.numpy), poison)
    return Pointer(0, Dense(np.zeros(axes, np.int64), poison), element.pointee)


@interprets("expand_dims")
def expand_dims(programs: Programs, op: Op, x: Val) -> Val:
    axis = op.axis
    if isinstance(x, Affine):
        return inserted(x, axis)
    if isinstance(x, Pointer) and isinstance(x.offset, Affine) and isinstance(x.arrays, int):
        return Pointer(x.arrays, inserted(x.offset, axis), x.pointee)
    return transformed(x, lambda a: np.expand_dims(a, axis + 1))


def inserted(x: Affine, axis: int) -> Affine:
    strides, shape = x.strides, x.shape
    return x.with_axes((*strides[:axis], 0, *strides[axis:]), (*shape[:axis], 1, *shape[axis:]))


@interprets("trans")
def trans(programs: Programs, op: Op, x: Val) -> Val:
    order = op.order
    if isinstance(x, Affine):
        return x.with_axes(tuple(x.strides[i] for i in order), tuple(x.shape[i] for i in order))
    return transformed(x, lambda a: a.transpose(0, *(i + 1 for i in order)))


@interprets("reshape")
def reshape(programs: Programs, op: Op, x: Val) -> Val:
    before, after = shape_of(op.x.type), shape_of(op.result.type)

    def reshaped(array: np.ndarray) -> np.ndarray:
        if array.size == array.shape[0]:  # nothing varies along the block's axes
            return array.reshape(-1, *(1,) * len(after))
        return np.broadcast_to(array, (array.shape[0], *before)).reshape(-1, *after)

    return transformed(x, reshaped)
