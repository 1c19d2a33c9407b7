"""One CTA after the other, all its threads in step: values are arrays over (threads, registers)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.simt.registers import count_of
from refcompiler.dialects.tile.memory import pointee
from refcompiler.errors import RunError
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BOOL, DType, PointerType, RegType, element_of
from refcompiler.simulator.memory import GARBAGE, AccessCounts, GlobalMemory, Memory, count_sectors, count_wavefronts

POINTER_BYTES = 8
HANDLERS: dict[str, Callable] = {}


def run(func: Func, grid: tuple[int, ...], args: dict[str, Any], *, count: bool = True) -> AccessCounts:
    """Run a SIMT function for every CTA of ``grid``, writing into the arrays of ``args`` in place.

    The sectors and wavefronts of all accesses are the result; without ``count`` they stay 0, which saves a third.

    ``args`` maps each parameter to a scalar or a contiguous NumPy array. Raises RunError: simt.race for two accesses of
    different threads of a CTA, one a write, with no barrier between; simt.bounds, simt.alignment, simt.uninitialized,
    simt.divergence and simt.assert for what these say.
    """
    arrays = [args[p.name] for p in func.params if isinstance(p.type, PointerType)]
    memory = GlobalMemory(arrays)
    counts = AccessCounts()
    counted = counts if count else None
    epoch = 1
    x, y, z = (*grid, 1, 1)[:3]
    with np.errstate(all="ignore"):
        for k, j, i in product(range(z), range(y), range(x)):
            cta = _Cta(func, (i, j, k), (x, y, z), args, memory, counted, epoch)
            cta.block(func.body)
            epoch = cta.epoch + 1
    memory.write_back()
    return counts


def _handles(*names: str) -> Callable:
    def mark(handler: Callable) -> Callable:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return mark


def _numpy(type_) -> np.dtype:
    element = element_of(type_)
    return np.dtype(np.int64) if isinstance(element, PointerType) else element.numpy


class _Cta:
    """The threads of one CTA. Scalars are arrays (threads,), register vectors (threads, count), pointers addresses."""

    def __init__(self, func: Func, at, grid, args, memory: GlobalMemory, counts: AccessCounts | None, epoch: int):
        self.func, self.at, self.grid, self.memory, self.counts = func, at, grid, memory, counts
        self.threads = func.attrs["threads"]
        self.shared = Memory(np.full(max(1, func.attrs.get("shared_bytes", 0)), GARBAGE, np.uint8), "shared memory")
        self.start = self.epoch = epoch  # counts barriers; every CTA continues where the last one stopped
        self.values: dict[Value, np.ndarray] = {}
        for param in func.params:
            value = args[param.name]
            value = value.ctypes.data if isinstance(param.type, PointerType) else value
            if isinstance(param.type, DType) and param.type.is_int:
                value = param.type.wrap(int(value))
            self.values[param] = np.full(self.threads, value, _numpy(param.type))

    # --- running
    def block(self, block: Block) -> list[np.ndarray]:
        """Run the ops; what the region yields."""
        for op in block.ops:
            if op.terminator:
                return [self.get(v) for v in op.operands]
            if isinstance(op, Elementwise):
                self.set(op, op.row.numpy(*self.aligned(op, op.operands)))
            else:
                HANDLERS[op.name](self, op)
        return []

    def get(self, value: Value) -> np.ndarray:
        if isinstance(value, Constant):
            return np.full(self.threads, value.value, _numpy(value.type))
        return self.values[value]

    def full(self, value: Value, count: int) -> np.ndarray:
        """A value as (threads, count), a scalar repeated."""
        array = self.get(value)
        return np.broadcast_to(array.reshape(self.threads, -1), (self.threads, count))

    def aligned(self, op: Op, operands: list[Value]) -> list[np.ndarray]:
        """Operands of an elementwise op in one shape."""
        if isinstance(op.results[0].type, RegType):
            return [self.full(o, op.results[0].type.count) for o in operands]
        return [self.get(o) for o in operands]

    def set(self, op: Op, array: np.ndarray) -> None:
        type_ = op.results[0].type
        shape = (self.threads, type_.count) if isinstance(type_, RegType) else (self.threads,)
        self.values[op.results[0]] = np.ascontiguousarray(
            np.asarray(array).reshape(shape).astype(_numpy(type_), copy=False)
        )

    def uniform(self, op: Op, value: Value) -> int:
        """A scalar that all threads agree on."""
        array = self.get(value)
        if (array != array[0]).any():
            self.fail(op)("threads disagree on a bound of a loop", "simt.divergence")
        return int(array[0])

    def fail(self, op: Op) -> Callable[[str, str], None]:
        def raise_(message: str, id: str) -> None:
            raise RunError(id, f"{op.name} in CTA {self.at}: {message}", op.span)

        return raise_


# --- values
@_handles("thread_id")
def _thread_id(cta: _Cta, op: Op) -> None:
    cta.set(op, np.arange(cta.threads))


@_handles("program_id", "num_programs")
def _program(cta: _Cta, op: Op) -> None:
    cta.set(op, np.full(cta.threads, (cta.at if op.name == "program_id" else cta.grid)[op.axis]))


@_handles("constants")
def _constants(cta: _Cta, op: Op) -> None:
    cta.set(op, np.tile(np.array(op.values), (cta.threads, 1)))


@_handles("splat")
def _splat(cta: _Cta, op: Op) -> None:
    cta.set(op, cta.full(op.x, op.result.type.count))


@_handles("pack")
def _pack(cta: _Cta, op: Op) -> None:
    cta.set(op, np.concatenate([cta.full(v, count_of(v.type)) for v in op.values], axis=1))


@_handles("extract")
def _extract(cta: _Cta, op: Op) -> None:
    cta.set(op, cta.full(op.x, count_of(op.x.type))[:, list(op.indices)])


@_handles("select")
def _select(cta: _Cta, op: Op) -> None:
    cta.set(op, np.where(*cta.aligned(op, op.operands)))


@_handles("cast")
def _cast(cta: _Cta, op: Op) -> None:
    cta.set(op, numeric.cast(cta.get(op.x), element_of(op.x.type), element_of(op.result.type)))


@_handles("bitcast")
def _bitcast(cta: _Cta, op: Op) -> None:
    cta.set(op, cta.get(op.x).view(_numpy(op.result.type)))


@_handles("addptr")
def _addptr(cta: _Cta, op: Op) -> None:
    pointer, offset = cta.aligned(op, op.operands)
    cta.set(op, pointer + offset.astype(np.int64) * pointee(op.pointer.type).itemsize)


# --- exchange
@_handles("shfl_xor", "shfl_idx")
def _shuffle(cta: _Cta, op: Op) -> None:
    thread = np.arange(cta.threads)
    lane = thread ^ op.mask if op.name == "shfl_xor" else thread & ~31 | cta.get(op.lane) & 31
    cta.set(op, cta.get(op.x)[lane])


@_handles("barrier")
def _barrier(cta: _Cta, op: Op) -> None:
    cta.epoch += 1


# --- memory
@_handles("shared_alloc")
def _shared_alloc(cta: _Cta, op: Op) -> None:
    cta.values[op.result] = np.array(op.offset)


@_handles("ld_global", "ld_shared")
def _load(cta: _Cta, op: Op) -> None:
    element = element_of(op.results[0].type)
    dtype = np.dtype(np.uint8) if element is BOOL else _numpy(element)
    memory, places, active = _accesses(cta, op, dtype.itemsize)
    accesses = places.shape[1]
    out = np.full((cta.threads, accesses, op.width * dtype.itemsize), GARBAGE, np.uint8)
    if getattr(op, "other", None) is not None:
        other = cta.full(op.other, accesses * op.width).astype(dtype)
        out[:] = np.ascontiguousarray(other).view(np.uint8).reshape(out.shape)
    for access in range(accesses):
        threads = np.flatnonzero(active[:, access])
        at, size = places[threads, access], op.width * dtype.itemsize
        out[threads, access] = memory.read(at, size, threads, cta.epoch, cta.fail(op))
        if memory is cta.shared and (memory.written_in[at[:, None] + np.arange(size)] < cta.start).any():
            cta.fail(op)("shared memory is read before it was written", "simt.uninitialized")
    values = out.reshape(cta.threads, -1).view(dtype)
    cta.set(op, values != 0 if element is BOOL else values)


@_handles("st_global", "st_shared")
def _store(cta: _Cta, op: Op) -> None:
    element = element_of(op.value.type)
    dtype = np.dtype(np.uint8) if element is BOOL else _numpy(element)
    memory, places, active = _accesses(cta, op, dtype.itemsize)
    accesses = places.shape[1]
    values = np.ascontiguousarray(cta.full(op.value, accesses * op.width).astype(dtype))
    data = values.view(np.uint8).reshape(cta.threads, accesses, -1)
    for access in range(accesses):
        threads = np.flatnonzero(active[:, access])
        memory.write(places[threads, access], data[threads, access], threads, cta.epoch, cta.fail(op))


def _accesses(cta: _Cta, op: Op, itemsize: int) -> tuple[Memory, np.ndarray, np.ndarray]:
    """The memory, the first byte of each access as (threads, accesses), and which of them happen."""
    address = op.index if op.name.endswith("_shared") else op.pointer
    accesses = count_of(address.type)
    mask = getattr(op, "mask", None)
    active = cta.full(mask, accesses) if mask is not None else np.ones((cta.threads, accesses), bool)
    size, fail = op.width * itemsize, cta.fail(op)
    places = cta.full(address, accesses).astype(np.int64)
    if address is op.operands[0]:
        outside, what = cta.memory.outside(places, size), "an address outside every array"
        _check(active, places % size != 0, f"an address that is not aligned to {size} bytes", "simt.alignment", fail)
        for access in range(accesses if cta.counts else 0):
            count_sectors(places[:, access], active[:, access], size, cta.counts)
        memory: Memory = cta.memory
        offsets = cta.memory.offset(places)
    else:
        offsets = int(cta.values[op.buffer]) + places * itemsize
        outside, what = (places < 0) | (places + op.width > op.buffer.type.count), "an index outside the buffer"
        _check(active, offsets % size != 0, f"an offset that is not aligned to {size} bytes", "simt.alignment", fail)
        for access in range(accesses if cta.counts else 0):
            count_wavefronts(offsets[:, access], active[:, access], size, cta.counts)
        memory = cta.shared
    _check(active, outside, what, "simt.bounds", fail)
    return memory, offsets, active


def _check(active: np.ndarray, wrong: np.ndarray, what: str, id: str, fail: Callable[[str, str], None]) -> None:
    bad = active & wrong
    if bad.any():
        thread, access = np.argwhere(bad)[0]
        fail(f"thread {thread} has {what} in access {access}", id)


# --- control
@_handles("for")
def _for(cta: _Cta, op: Op) -> None:
    bounds = range(*(cta.uniform(op, v) for v in op.operands[:3]))
    carried = [cta.get(v) for v in op.inits]
    index, *args = op.body.args
    for i in bounds:
        cta.values[index] = np.full(cta.threads, i, _numpy(index.type))
        cta.values.update(zip(args, carried, strict=True))
        carried = cta.block(op.body)
    cta.values.update(zip(op.results, carried, strict=True))


@_handles("assert")
def _assert(cta: _Cta, op: Op) -> None:
    if not cta.get(op.condition).all():
        cta.fail(op)(op.message or "the assertion does not hold", "simt.assert")
