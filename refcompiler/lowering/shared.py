"""Accesses of threads to shared memory as the layouts plan them: by vectors, or by matrices."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.ir.core import Value
from refcompiler.ir.types import BOOL, DType
from refcompiler.layouts import SharedAccess
from refcompiler.layouts.matrices import MatrixAccess
from refcompiler.lowering.memory import owned
from refcompiler.lowering.state import Lowering

WIDEST_BITS = 32  # of an element that ldmatrix and stmatrix move


def moves_matrices(element: object) -> bool:
    """Whether ldmatrix and stmatrix move elements of that type."""
    return isinstance(element, DType) and element is not BOOL and element.bits <= WIDEST_BITS


def loaded(
    state: Lowering, buffer: Value, first: Value | None, load: SharedAccess | MatrixAccess, accesses: Sequence[int]
) -> Value:
    """What the accesses with these numbers give, from the element ``first`` of the buffer on; the elements of an access
    beside each other."""
    index = _index(state, first, load, accesses)
    if isinstance(load, MatrixAccess):
        return state.op("ldmatrix", buffer, index, count=load.count, trans=load.trans)
    return state.op("ld_shared", buffer, index, width=load.vector)


def store(
    state: Lowering, buffer: Value, first: Value | None, access: SharedAccess | MatrixAccess, value: Value
) -> None:
    """Every thread stores its registers, from the element ``first`` of the buffer on."""
    index = _index(state, first, access, range(len(access.vectors)))
    data = state.pick(value, [register for _, vector in access.vectors for register in vector])
    if isinstance(access, MatrixAccess):
        count = len(access.vectors) * len(access.vectors[0][1])
        data = state.splat(data, count)
        state.builder.op("stmatrix", buffer, index, data, count=access.count, trans=access.trans)
        return
    state.builder.op("st_shared", buffer, index, data, owned(state, None, access.idle_threads), width=access.vector)


def _index(state: Lowering, first: Value | None, access: SharedAccess | MatrixAccess, accesses: Sequence[int]) -> Value:
    """Where these accesses begin."""
    constants = [access.vectors[number][0] for number in accesses]
    return state.splat(state.index(access.pieces, constants, access.additive, first), len(accesses))
