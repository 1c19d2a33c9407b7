"""Elementwise ops: the scalar table over whole arrays, the symbolic form of integers where it holds, casts, select."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.dialects.elementwise import ELEMENTWISE, Bitcast, Cast, Elementwise, Select
from refcompiler.dialects.tile.memory import AddPtr
from refcompiler.interpreter import affine
from refcompiler.interpreter.affine import Affine
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import (
    Dense,
    Numbers,
    Pointer,
    Poison,
    Val,
    aligned,
    choose,
    join_poison,
    ndim_of,
    rank_up_poison,
    ranked,
)
from refcompiler.ir import Op
from refcompiler.ir.types import BOOL, I64, DType, PointerType, element_of


def as_affine(value: Numbers, dtype: DType) -> Affine | None:
    """``value`` in symbolic form, if it has one."""
    if isinstance(value, Affine):
        return value
    return affine.from_scalars(value.data, dtype) if value.poison is None else None


def symbolic(op: Op, operands: tuple[Numbers, ...]) -> Numbers | None:
    """The result of integer arithmetic or of a comparison on symbolic operands, or None."""
    if op.name not in affine.ARITHMETIC and op.name not in affine.COMPARISONS:
        return None
    dtype = element_of(op.operands[0].type)
    x, y = (as_affine(v, dtype) for v in operands)
    if x is None or y is None:
        return None
    if op.name in affine.ARITHMETIC:
        return affine.ARITHMETIC[op.name](x, y, dtype)
    truth = affine.compare(op.name, x, y)
    return None if truth is None else Dense(truth)


@interprets(*ELEMENTWISE)
def elementwise(programs: Programs, op: Elementwise, *operands: Numbers) -> Val:
    if any(isinstance(v, Affine) for v in operands):
        result = symbolic(op, operands)
        if result is not None:
            return result
    if op.name in ("and", "or") and (decided := decided_mask(op, *operands)) is not None:
        return decided
    arrays, poison = aligned(operands)
    return Dense(op.row.numpy(*arrays), poison)


def decided_mask(op: Op, x: Numbers, y: Numbers) -> Val | None:
    """``x and y`` or ``x or y`` where one of them is one truth value for all elements; None elsewhere."""
    for one, other in ((x, y), (y, x)):
        if one.data.size == 1 and one.data.dtype == np.bool_ and one.poison is None and other.poison is None:
            neutral = op.name == "and"
            chosen = other if bool(one.data.reshape(-1)[0]) == neutral else one
            return ranked(chosen, max(ndim_of(x), ndim_of(y)))
    return None


@interprets("select")
def select(programs: Programs, op: Select, condition: Numbers, x: Val, y: Val) -> Val:
    result = choose(condition.data, x, y)
    if condition.poison is None:
        return result
    held = result.offset if isinstance(result, Pointer) else result
    ndim = ndim_of(held)
    poison = join_poison([rank_up_poison(condition.poison, ndim), held.poison])
    held = Dense(held.data, poison)
    return Pointer(result.arrays, held, result.pointee) if isinstance(result, Pointer) else held


@interprets("cast")
def cast(programs: Programs, op: Cast, x: Numbers) -> Val:
    source, target = element_of(op.x.type), element_of(op.result.type)
    if isinstance(x, Affine) and target.is_int:
        converted = x.as_dtype(target)
        if converted is not None:
            return converted
    return Dense(numeric.cast(x.data, source, target), x.poison)


@interprets("bitcast")
def bitcast(programs: Programs, op: Bitcast, x: Val) -> Val:
    target = element_of(op.result.type)
    if isinstance(x, Pointer):
        return repointed(op, x, target)
    if target is BOOL:
        return Dense(x.data.view(np.uint8) != 0, x.poison)
    return Dense(x.data.view(target.numpy), x.poison)


def repointed(op: Op, x: Pointer, target: PointerType) -> Pointer:
    """The pointer with its offset counted in the new pointee; poison where that does not divide it."""
    old, new = x.pointee.itemsize, target.pointee.itemsize
    if old == new:
        return Pointer(x.arrays, x.offset, target.pointee)
    in_bytes = x.offset.data * old
    split = in_bytes % new != 0
    poison = x.poison
    if split.any():
        poison = join_poison([poison, Poison([(op, split)])])
    return Pointer(x.arrays, Dense(in_bytes // new, poison), target.pointee)


@interprets("addptr")
def addptr(programs: Programs, op: AddPtr, pointer: Pointer, offset: Numbers) -> Pointer:
    moved = moved_by(pointer.offset, offset, element_of(op.offset.type))
    arrays = pointer.arrays
    if not isinstance(arrays, int):
        arrays = ranked(Dense(arrays), ndim_of(moved)).data
    return Pointer(arrays, moved, pointer.pointee)


def moved_by(base: Numbers, offset: Numbers, dtype: DType) -> Numbers:
    """``base`` (int64) + ``offset`` of an integer ``dtype``."""
    if isinstance(base, Affine) or isinstance(offset, Affine):
        x, y = as_affine(base, I64), as_affine(offset, dtype)
        total = affine.add(x, y, I64) if x is not None and y is not None else None
        if total is not None:
            return total
    (start, distance), poison = aligned((base, offset))
    return Dense(start + distance.astype(np.int64, copy=False), poison)
