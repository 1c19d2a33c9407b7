"""Vectors of more registers than a thread has: arrays in local memory, written in loops over a few registers each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from refcompiler.dialects.scf import Structured
from refcompiler.dialects.simt.registers import count_of, registers
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.elementwise import cast
from refcompiler.emitters.mlir.writer import WRITERS, Writer
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.types import BOOL, I8, I32, DType, Element, element_of

MAX_REGISTERS = 256  # LLVM takes time and memory that grow with the square of a vector's length
_AT_ONCE = 16
_LOCAL = "!llvm.ptr"
_PER_ACCESS = {
    "ld_global": "pointer", "st_global": "pointer", "ld_shared": "index", "st_shared": "index", "ldmatrix": "index",
    "stmatrix": "index",
}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """Elements in memory, a bool as one byte."""

    pointer: str
    space: str
    element: Element

    @property
    def aligned(self) -> str:
        return f"alignment = {t.itemsize(self.element)} : i64"

    def place(self, w: Writer, index: str) -> str:
        types = f"({self.space}, i32) -> {self.space}, {t.memory_type(self.element)}"
        return w.let(f"llvm.getelementptr {self.pointer}[{index}] : {types}")

    def load(self, w: Writer, index: str, count: int) -> str:
        type_ = t.vector(t.memory_type(self.element), count)
        loaded = w.let(f"llvm.load {self.place(w, index)} {{{self.aligned}}} : {self.space} -> {type_}")
        return cast(w, loaded, I8, BOOL, count) if self.element is BOOL else loaded

    def store(self, w: Writer, value: str, index: str, count: int) -> None:
        if self.element is BOOL:
            value = cast(w, value, BOOL, I8, count)
        type_ = t.vector(t.memory_type(self.element), count)
        w.line(f"llvm.store {value}, {self.place(w, index)} {{{self.aligned}}} : {type_}, {self.space}")


def is_long(op: Op) -> bool:
    """True for an op, not one with regions, on more registers than a thread has."""
    values = [*op.results, *(o for o in op.operands if o is not None)]
    return not isinstance(op, Structured) and any(count_of(v.type) > MAX_REGISTERS for v in values)


def write_long(w: Writer, op: Op) -> None:
    """An op for which :func:`is_long` is true."""
    special = {"constants": _constants, "extract": _extract, "pack": _pack, "mma_sync": _products}
    special.get(op.name, _registerwise)(w, op)


def _allocate(w: Writer, value: Value) -> Array:
    element = element_of(value.type)
    size = w.constant(count_of(value.type), I32)
    name = w.allocate(f"llvm.alloca {size} x {t.memory_type(element)} {{alignment = 16 : i64}} : (i32) -> {_LOCAL}")
    return Array(name, _LOCAL, element)


def _array(w: Writer, value: Value) -> Array:
    """The array that holds ``value``; a copy of a vector that is none."""
    if value in w.arrays:
        return w.arrays[value]
    array = _allocate(w, value)
    array.store(w, w.value(value), w.constant(0), count_of(value.type))
    return array


@contextmanager
def _loop(w: Writer, trips: int) -> Iterator[str]:
    """A loop of so many trips; gives its index."""
    index = w.fresh()
    w.line(f"scf.for {index} = {w.constant(0)} to {w.constant(trips)} step {w.constant(1)} : i32 {{")
    with w.region():
        yield index
    w.line("}")


def _times(w: Writer, index: str, factor: int) -> str:
    return index if factor == 1 else w.let(f"arith.muli {index}, {w.constant(factor)} : i32")


def _registerwise(w: Writer, op: Op) -> None:
    """An op whose registers, or accesses, have nothing to do with each other: a few of them in each trip."""
    one_each = [getattr(op, _PER_ACCESS[op.name])] if op.name in _PER_ACCESS else [*op.results, *op.operands]
    accesses = max(count_of(v.type) for v in one_each if v is not None)
    at_once = math.gcd(accesses, max(1, _AT_ONCE // op.attrs.get("width", 1)))
    arrays = {v: _array(w, v) for v in op.operands if v is not None and count_of(v.type) > 1}
    result = _allocate(w, op.result) if op.results else None
    with _loop(w, accesses // at_once) as index:
        part = _part(w, op, arrays, index, accesses, at_once)
        WRITERS[op.name](w, part)
        if result is not None:
            count = count_of(part.result.type)
            result.store(w, w.value(part.result), _times(w, index, count), count)
    if result is not None:
        w.arrays[op.result] = result


def _products(w: Writer, op: Op) -> None:
    """One row of tiles after the other: its registers of the left operand and of the sums are next to each other."""
    rows, result = op.tiles[0], _allocate(w, op.result)
    arrays = {v: _array(w, v) for v in (op.a, op.c)}
    for row in range(rows):
        parts = []
        for value, array in arrays.items():
            count = count_of(value.type) // rows
            parts.append(Value(registers(array.element, count)))
            w.names[parts[-1]] = array.load(w, w.constant(row * count), count)
        one = type(op)(parts[0], op.b, parts[1], **{**op.attrs, "tiles": (1, *op.tiles[1:])})
        WRITERS[op.name](w, one)
        count = count_of(one.result.type)
        result.store(w, w.value(one.result), w.constant(row * count), count)
    w.arrays[op.result] = result


def _part(w: Writer, op: Op, arrays: dict[Value, Array], index: str, accesses: int, at_once: int) -> Op:
    """The op on the registers of one trip."""
    loaded: dict[Value | None, Value | None] = {}
    for value, array in arrays.items():
        count = count_of(value.type) // accesses * at_once
        loaded[value] = Value(registers(array.element, count))
        w.names[loaded[value]] = array.load(w, _times(w, index, count), count)
    operands = [loaded.get(o, o) for o in op.operands]
    types = [registers(element_of(r.type), count_of(r.type) // accesses * at_once) for r in op.results]
    return type(op)(*operands, types=types, **op.attrs)


def _table(w: Writer, values: Sequence[int], element: DType) -> Array:
    """Numbers that are known, in the program's own memory."""
    type_ = t.element_type(element)
    numbers = ", ".join(t.literal(v, element) for v in values)
    name = w.table(
        f"dense<[{numbers}]> : tensor<{len(values)}x{type_}>) {{addr_space = 1 : i32}} : "
        f"!llvm.array<{len(values)} x {type_}>"
    )
    return Array(w.let(f"llvm.mlir.addressof @{name} : {t.GLOBAL}"), t.GLOBAL, element)


def _constants(w: Writer, op: Op) -> None:
    w.arrays[op.result] = _table(w, op.values, element_of(op.result.type))


def _extract(w: Writer, op: Op) -> None:
    source, count = _array(w, op.x), len(op.indices)
    if count <= MAX_REGISTERS:
        w.set(op, [source.load(w, w.constant(i), 1) for i in op.indices])
        return
    indices, result = _table(w, op.indices, I32), _allocate(w, op.result)
    with _loop(w, count) as index:
        result.store(w, source.load(w, indices.load(w, index, 1), 1), index, 1)
    w.arrays[op.result] = result


def _pack(w: Writer, op: Op) -> None:
    result, start = _allocate(w, op.result), 0
    for value in op.operands:
        count = count_of(value.type)
        if isinstance(value, Constant) or count <= MAX_REGISTERS:
            result.store(w, w.value(value), w.constant(start), count)
        else:
            source, at_once = _array(w, value), math.gcd(count, _AT_ONCE)
            with _loop(w, count // at_once) as index:
                offset = _times(w, index, at_once)
                moved = w.let(f"arith.addi {offset}, {w.constant(start)} : i32")
                result.store(w, source.load(w, offset, at_once), moved, at_once)
        start += count
    w.arrays[op.result] = result
