"""Loads and stores: which elements of which array, whether they may be touched, and moving the data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from refcompiler.interpreter.affine import Affine
from refcompiler.interpreter.conflicts import Conflict
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.footprint import Footprint, Lattice, Scatter
from refcompiler.interpreter.memory import Array
from refcompiler.interpreter.programs import Programs, grid_position
from refcompiler.interpreter.values import (
    Dense,
    Numbers,
    Pointer,
    Poison,
    Val,
    ndim_of,
    rank_up,
    rank_up_poison,
    ranked,
)
from refcompiler.ir import Op
from refcompiler.ir.types import BOOL, DType


@interprets("load")
def load(programs: Programs, op: Op, pointer: Pointer, mask: Numbers | None, other: Numbers | None) -> Val:
    ndim = max(ndim_of(v) for v in (pointer, mask, other) if v is not None)
    lanes = active_lanes(programs, op, pointer, mask, ndim)
    dtype = pointer.pointee
    values = None
    for array, footprint, chosen in targets(programs, pointer, lanes, ndim):
        part = read(programs, op, array, footprint, chosen, dtype)
        if programs.loop is not None and part is not None:
            programs.loop.saw(op, footprint, part, op.volatile)
        if part is not None:
            values = part if values is None else np.where(chosen, part, values)
    if values is None:
        values = np.zeros((1,) * ndim, dtype.numpy)
    else:
        values = values != 0 if dtype is BOOL else values.view(dtype.numpy)
    if lanes is None:
        return Dense(values)
    off = ~lanes
    if other is None:
        shown = off if programs.active is None else off & programs.lanes_of(ndim)
        return Dense(values, Poison([(op, shown)]) if shown.any() else None)
    fill = rank_up(other.data, ndim)
    poison = rank_up_poison(other.poison, ndim)
    return Dense(np.where(lanes, values, fill), poison.restricted(off) if poison is not None else None)


@interprets("store")
def store(programs: Programs, op: Op, pointer: Pointer, value: Val, mask: Numbers | None) -> None:
    ndim = ndim_of(pointer)
    lanes = active_lanes(programs, op, pointer, mask, ndim)
    value = ranked(value, ndim)
    if value.poison is not None:
        poison = value.poison if lanes is None else value.poison.restricted(lanes)
        programs.reject_poison(op, "memory.store#E8", "the value stored", poison, "value")
    dtype = pointer.pointee
    bits = value.data.view(np.uint8 if dtype is BOOL else f"u{dtype.itemsize}")
    for array, footprint, chosen in targets(programs, pointer, lanes, ndim):
        write(programs, op, array, footprint, chosen, bits, dtype)


# The clauses for an access out of bounds, poison in an address or a mask, and a write to a read-only array.
_CLAUSES = {
    "load": ("memory.load#E7", "memory.load#E8", ""),
    "store": ("memory.store#E7", "memory.store#E8", "memory.store#E9"),
    "descriptor_load": ("memory.descriptors#E14", "memory.descriptors#E15", ""),
    "descriptor_store": ("memory.descriptors#E14", "memory.descriptors#E15", "memory.store#E9"),
    "atomic_rmw": ("atomic.rmw#E8", "atomic.rmw#E9", "atomic.rmw#E10"),
    "atomic_cas": ("atomic.rmw#E8", "atomic.rmw#E9", "atomic.rmw#E10"),
}
_WHAT = {"load": "load of", "store": "store to", "descriptor_load": "load of", "descriptor_store": "store to"}
_WHAT |= {"atomic_rmw": "atomic on", "atomic_cas": "atomic on"}


_HOW_TO_LEAVE_OUT = dict.fromkeys(
    ("descriptor_load", "descriptor_store"), "the descriptor's shape and strides reach beyond the array"
)


def active_lanes(programs: Programs, op: Op, pointer: Pointer, mask: Numbers | None, ndim: int) -> np.ndarray | None:
    """Which elements are accessed, as a bool array with ``ndim`` axes; None for all. Poison there is an error."""
    lanes = programs.active
    if lanes is not None:
        lanes = rank_up(lanes, ndim)
    if mask is not None:
        programs.reject_poison(op, _CLAUSES[op.name][1], "the mask", programs.live(mask.poison), "mask")
        given = rank_up(mask.data, ndim)
        lanes = given if lanes is None else lanes & given
    if lanes is not None and lanes.all():
        lanes = None
    if pointer.poison is not None:
        poison = rank_up_poison(pointer.poison, ndim)
        poison = poison if lanes is None else poison.restricted(lanes)
        programs.reject_poison(op, _CLAUSES[op.name][1], "an address", poison, "pointer")
    return lanes


def targets(programs: Programs, pointer: Pointer, lanes: np.ndarray | None, ndim: int) -> Iterator[tuple]:
    """(array, footprint, lanes) for each argument array that the pointers go into."""
    offset = pointer.offset
    if isinstance(offset, Affine):
        offset = offset.ranked(ndim - 1)
        footprint: Footprint = Lattice(offset.base, offset.strides, offset.shape)
    else:
        data = rank_up(offset.data, ndim)
        if data.size == data.shape[0]:
            footprint = Lattice(data.reshape(-1), (0,) * (ndim - 1), (1,) * (ndim - 1))
        else:
            footprint = Scatter(data)
    arrays = programs.memory.arrays
    if isinstance(pointer.arrays, int):
        yield arrays[pointer.arrays], footprint, lanes
        return
    ids = rank_up(pointer.arrays, ndim)
    for number in np.unique(ids).tolist():
        yield arrays[number], footprint, ids == number if lanes is None else lanes & (ids == number)


def read(programs: Programs, op: Op, array: Array, footprint: Footprint, lanes, dtype: DType) -> np.ndarray | None:
    """The elements as unsigned integers, anything where ``lanes`` is false; None where no lane is active."""
    if lanes is not None and not lanes.any():
        return None
    if lanes is not None and isinstance(footprint, Lattice):
        box = box_of(lanes, footprint.shape)
        if box is not None:
            part = read(programs, op, array, footprint.part(box), None, dtype)
            out = np.zeros((part.shape[0], *footprint.shape), part.dtype)
            out[(slice(None), *box)] = part
            return out
    flat = array.elements(dtype)
    if lanes is not None:
        footprint = Scatter(np.where(lanes, footprint.indices(), 0))
    check_bounds(programs, op, array, footprint, lanes, dtype)
    if array.region.record is not None:
        note_read(programs, op, array, footprint, lanes, dtype)
    values = footprint.read(flat)
    return values.copy() if array.region.written and values.base is not None else values


def write(
    programs: Programs, op: Op, array: Array, footprint: Footprint, lanes, bits: np.ndarray, dtype: DType
) -> None:
    """Store ``bits`` through the footprint where ``lanes`` is true; all three broadcast to each other."""
    if lanes is not None and not lanes.any():
        return
    check_writeable(programs, op, array)
    shape = np.broadcast_shapes(footprint.shape, bits.shape[1:], *(() if lanes is None else (lanes.shape[1:],)))
    footprint = footprint.broadcast(programs.count, shape)
    numbers = rank_up(programs.numbers, len(shape) + 1)
    if lanes is not None:
        box = box_of(lanes, shape) if isinstance(footprint, Lattice) else None
        if box is not None:
            cut = [b if n > 1 else slice(None) for b, n in zip(box, bits.shape[1:], strict=True)]
            footprint, bits, lanes = footprint.part(box), bits[(slice(None), *cut)], None
        else:
            footprint = Scatter(np.where(lanes, footprint.indices(), 0))
    flat = array.elements(dtype)
    check_bounds(programs, op, array, footprint, lanes, dtype)
    if lanes is not None:
        index, chosen, bits, numbers = np.broadcast_arrays(footprint.index, lanes, bits, numbers)
        footprint, bits, numbers = Scatter(index[chosen]), bits[chosen], numbers[chosen]
    array.region.before_write()
    if programs.loop is not None:
        programs.loop.changed |= bool((footprint.read(flat) != bits).any())
    if array.region.record is not None:
        found = array.conflict(footprint, dtype, numbers, "write")
        if found is not None:
            raise conflict_error(programs, op, array, found, "writes", dtype)
    footprint.write(flat, bits)
    if programs.memory.check and not footprint.distinct:
        check_duplicates(programs, op, array, footprint, numbers, footprint.read(flat) != bits, dtype)


def check_writeable(programs: Programs, op: Op, array: Array) -> None:
    if not array.writeable:
        message = f"{_WHAT[op.name]} {array.name}, which is read-only"
        raise programs.error(op, _CLAUSES[op.name][2], message, "pointer")


def box_of(lanes: np.ndarray, shape: tuple[int, ...]) -> tuple[slice, ...] | None:
    """The sub-block of ``shape`` in which the active lanes lie, if all programs have the same and it has no holes.

    An axis along which the shape does not vary counts as active where any of its lanes is.
    """
    if lanes.shape[0] != 1:
        return None
    lanes = lanes[0]
    flat_axes = tuple(k for k, n in enumerate(shape) if n == 1 and lanes.shape[k] > 1)
    if flat_axes:
        lanes = np.asarray(lanes.any(flat_axes, keepdims=True))
    box = []
    for axis, extent in enumerate(shape):
        if lanes.shape[axis] == 1:
            box.append(slice(0, extent))
            continue
        hit = np.flatnonzero(lanes.any(tuple(k for k in range(lanes.ndim) if k != axis)))
        box.append(slice(int(hit[0]), int(hit[-1]) + 1))
    filled = lanes[tuple(b if n > 1 else slice(None) for b, n in zip(box, lanes.shape, strict=True))]
    return tuple(box) if filled.all() else None


def check_bounds(
    programs: Programs, op: Op, array: Array, footprint: Footprint, lanes: np.ndarray | None, dtype: DType
) -> None:
    """Every active index is one of the array's elements."""
    size = array.elements(dtype).size
    low, high = footprint.bounds
    if low >= 0 and high < size:
        return
    index = footprint.indices()
    bad = ((index < 0) | (index >= size)) & (True if lanes is None else lanes)
    first = int(np.broadcast_to(index, bad.shape).reshape(-1)[np.flatnonzero(bad)[0]])
    reach = f"{array.name} has {size} elements"
    if array.origin:
        reach = f"it reaches from {array.shown(0, dtype)} to {array.shown(size - 1, dtype)}"
    raise programs.error(
        op,
        _CLAUSES[op.name][0],
        f"{_WHAT[op.name]} {array.shown(first, dtype)} is out of bounds: {reach} ({programs.place(bad)})",
        "pointer",
        [_HOW_TO_LEAVE_OUT.get(op.name, f"give the {op.name.split('_')[0]} a mask that is false for such elements")],
    )


def note_read(
    programs: Programs, op: Op, array: Array, footprint: Footprint, lanes: np.ndarray | None, dtype: DType
) -> None:
    """Record who reads; a conflict with an earlier writer is an error."""
    footprint = footprint.broadcast(programs.count, footprint.shape)
    numbers = rank_up(programs.numbers, len(footprint.shape) + 1)
    if lanes is not None:
        index, chosen, numbers = np.broadcast_arrays(footprint.indices(), lanes, numbers)
        footprint, numbers = Scatter(index[chosen]), numbers[chosen]
    if op.volatile:  # the one way to look at what other programs change, but for atomics
        programs.memory.order.acquired[numbers] = programs.memory.order.now + 1
    found = array.conflict(footprint, dtype, numbers, "atomic" if op.volatile else "read")
    if found is not None:
        raise conflict_error(programs, op, array, found, "reads", dtype)


def conflict_error(programs: Programs, op: Op, array: Array, found: Conflict, does: str, dtype: DType):
    one, other = (grid_position(n, programs.grid) for n in (found.one, found.other))
    return programs.error(
        op,
        "memory.order#E1",
        f"program {one} {does} {array.shown(found.unit, dtype)}, which program {other} {found.did}",
        "pointer",
        ["the order of two programs is undefined; give each program its own elements, or use atomics"],
    )


def check_duplicates(
    programs: Programs, op: Op, array: Array, footprint: Footprint, numbers, lost: np.ndarray, dtype: DType
) -> None:
    """One store of a program may not give one element two values."""
    if not lost.any():
        return
    lane = np.flatnonzero(lost)[0]
    index = int(np.broadcast_to(footprint.indices(), lost.shape).flat[lane])
    program = grid_position(int(np.broadcast_to(numbers, lost.shape).flat[lane]), programs.grid)
    message = f"one store gives {array.shown(index, dtype)} two different values (program {program})"
    raise programs.error(op, "memory.store#E10", message, "pointer")
