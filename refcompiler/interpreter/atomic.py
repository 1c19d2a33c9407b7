"""Atomics: program after program, in the order of their numbers, and within one in the order of the elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from refcompiler.dialects import atomic
from refcompiler.interpreter.access import active_lanes, check_bounds, check_writeable, conflict_error, targets
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.footprint import Scatter
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import Dense, Numbers, Pointer, Poison, Val, rank_up, ranked
from refcompiler.ir.types import shape_of

Change = Callable[[np.ndarray, np.ndarray, list[np.ndarray]], np.ndarray]  # memory's bits, indices, operands -> old


@interprets("atomic_rmw")
def atomic_rmw(programs: Programs, op: atomic.AtomicRmw, pointer: Pointer, value: Numbers, mask: Numbers | None) -> Val:
    def change(bits: np.ndarray, index: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        return atomic.rmw(op.op, pointer.pointee, bits, index, values[0])

    return access(programs, op, pointer, [value], mask, change)


@interprets("atomic_cas")
def atomic_cas(
    programs: Programs, op: atomic.AtomicCas, pointer: Pointer, compare: Numbers, value: Numbers, mask: Numbers | None
) -> Val:
    def change(bits: np.ndarray, index: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        return atomic.cas(bits, index, *(v.view(bits.dtype) for v in values))

    return access(programs, op, pointer, [compare, value], mask, change)


def access(
    programs: Programs,
    op: atomic.Atomic,
    pointer: Pointer,
    operands: list[Numbers],
    mask: Numbers | None,
    change: Change,
) -> Val:
    """Apply ``change`` to the active elements; what they were, poison elsewhere."""
    shape = (programs.count, *shape_of(op.pointer.type))
    pointer = cast("Pointer", ranked(pointer, len(shape)))
    lanes = active_lanes(programs, op, pointer, mask, len(shape))
    for operand in operands:
        poison = ranked(operand, len(shape)).poison
        if poison is not None:
            poison = poison if lanes is None else poison.restricted(lanes)
            programs.reject_poison(op, "atomic.rmw#E9", "the value of an atomic", poison, "value")
    dtype = pointer.pointee
    arrays = [np.broadcast_to(rank_up(v.data, len(shape)), shape) for v in operands]
    numbers = np.broadcast_to(rank_up(programs.numbers, len(shape)), shape)
    bits = np.zeros(shape, f"u{dtype.itemsize}")
    programs.memory.order.begin(op, programs.numbers[slice(None) if programs.active is None else programs.active])
    for array, footprint, chosen in targets(programs, pointer, lanes, len(shape)):
        mine = np.ones(shape, np.bool_) if chosen is None else np.broadcast_to(chosen, shape)
        if not mine.any():
            continue
        check_writeable(programs, op, array)
        index = np.where(mine, np.broadcast_to(footprint.indices(), shape), 0)
        check_bounds(programs, op, array, Scatter(index), mine, dtype)
        array.region.before_write()
        places = index[mine]
        if array.region.record is not None:
            conflict = array.conflict(Scatter(places), dtype, numbers[mine], "atomic")
            if conflict is not None:
                raise conflict_error(programs, op, array, conflict, "changes", dtype)
        cells = array.elements(dtype)
        before = cells[places] if programs.loop is not None else None
        old = change(cells, places, [a[mine] for a in arrays])
        bits[mine] = old.view(bits.dtype)
        if programs.loop is not None:
            programs.loop.saw(op, Scatter(places), bits[mine], True)
            programs.loop.changed |= bool((cells[places] != before).any())
    found = bits.view(dtype.numpy)
    if lanes is None:
        return Dense(found)
    off = ~lanes if programs.active is None else ~lanes & programs.lanes_of(len(shape))
    return Dense(found, Poison([(op, np.broadcast_to(off, shape))]) if off.any() else None)
