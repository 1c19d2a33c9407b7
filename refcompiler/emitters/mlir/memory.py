"""Pointer arithmetic, and accesses to global and shared memory under their masks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from refcompiler.dialects.simt.memory import PTX_ACCESSES, ptx_flag, ptx_policy
from refcompiler.dialects.simt.registers import count_of
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.elementwise import cast
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.types import BOOL, I8, I64, Element, element_of


@writes("addptr")
def write_addptr(w: Writer, op: Op) -> None:
    count = count_of(op.result.type)
    base = w.value(op.pointer) if count_of(op.pointer.type) in (1, count) else w.whole(op.pointer, count)
    if distances(op) is not None:
        base = _opaque(w, base, t.type_of(op.pointer.type))
    offset, dtype = w.whole(op.offset, count), element_of(op.offset.type)
    if dtype.kind == "uint" and dtype.bits < 64:  # an index is read as signed
        offset, dtype = cast(w, offset, dtype, I64, count), I64
    types = f"{t.type_of(op.pointer.type)}, {t.vector(t.element_type(dtype), count)}"
    pointee = t.memory_type(element_of(op.pointer.type).pointee)
    w.define(op, f"llvm.getelementptr {base}[{offset}] : ({types}) -> {t.type_of(op.result.type)}, {pointee}")


def distances(op: Op) -> Sequence[int] | None:
    """What an ``addptr`` adds, in elements, where this is constants to one address."""
    if count_of(op.pointer.type) > 1 or isinstance(op.offset, Constant) or not isinstance(op.offset.owner, Op):
        return None
    return op.offset.owner.values if op.offset.owner.name == "constants" else None


def _opaque(w: Writer, address: str, type_: str) -> str:
    """An address of which LLVM does not know how it was computed. Else it adds each distance to what does not change in
    a loop, and holds two registers for each access; as it is the instructions take the distances."""
    return w.let(f'llvm.inline_asm asm_dialect = att "mov.b64 $0, $1;", "=l,l" {address} : ({type_}) -> {type_}')


@writes("shared_alloc")
def write_shared_alloc(w: Writer, op: Op) -> None:
    start = w.let(f"llvm.mlir.addressof @shared : {t.SHARED}")
    if op.offset:
        start = w.let(f"llvm.getelementptr {start}[{op.offset}] : ({t.SHARED}) -> {t.SHARED}, i8")
    w.names[op.result] = start


def _shared_places(w: Writer, op: Op) -> list[str]:
    """The address of each access to a shared buffer. What the index adds last is added to the address, of which the
    instruction takes it; LLVM would mix it with what comes before."""
    buffer, element = w.value(op.buffer), t.memory_type(element_of(op.buffer.type))
    index, offsets = index_and_distances(w, op.index)
    places = []
    for register, offset in zip(w.registers(index, len(offsets)), offsets, strict=True):
        place = w.let(f"llvm.getelementptr {buffer}[{register}] : ({t.SHARED}, i32) -> {t.SHARED}, {element}")
        if offset:
            place = w.let(f"llvm.getelementptr {place}[{offset}] : ({t.SHARED}) -> {t.SHARED}, {element}")
        places.append(place)
    return places


def index_and_distances(w: Writer, index: Value) -> tuple[Value, Sequence[int]]:
    """An index without the constants that it adds last, and these."""
    count = count_of(index.type)
    made = index.owner if not isinstance(index, Constant) else None
    if isinstance(made, Op) and made.name == "add" and made in w.ranges.exact:
        if isinstance(made.y, Constant):
            return made.x, [int(made.y.value)] * count
        if isinstance(made.y.owner, Op) and made.y.owner.name == "constants":
            return made.x, made.y.owner.values
    return index, [0] * count


@writes("ld_global")
def write_ld_global(w: Writer, op: Op) -> None:
    places = w.registers(op.pointer)
    masks = _masks(w, op.mask, len(places))
    element = element_of(op.result.type)
    type_ = t.vector(t.element_type(element), op.width)
    registers: list[str] = []
    for i, (place, mask) in enumerate(zip(places, masks, strict=True)):
        other = "" if mask is None else _other(w, op, i, element)
        loaded = w.chosen(mask, partial(_load, w, op, place, t.GLOBAL, element), other, type_)
        registers += w.unpack(loaded, t.element_type(element), op.width)
    w.set(op, registers)


@writes("ld_shared")
def write_ld_shared(w: Writer, op: Op) -> None:
    element = element_of(op.result.type)
    registers: list[str] = []
    for place in _shared_places(w, op):
        registers += w.unpack(_load(w, op, place, t.SHARED, element), t.element_type(element), op.width)
    w.set(op, registers)


@writes("st_global")
def write_st_global(w: Writer, op: Op) -> None:
    _store_all(w, op, w.registers(op.pointer), t.GLOBAL)


@writes("st_shared")
def write_st_shared(w: Writer, op: Op) -> None:
    _store_all(w, op, _shared_places(w, op), t.SHARED)


def _masks(w: Writer, mask: Value | None, count: int) -> Sequence[str | None]:
    return [None] * count if mask is None else w.registers(mask, count)


def _other(w: Writer, op: Op, access: int, element: Element) -> str:
    """What masked-off lanes get: anything, so zero, where the program does not say."""
    if op.other is None:
        return w.constant(0, element, op.width)
    if count_of(op.other.type) == 1:
        return w.whole(op.other, op.width)
    registers = w.registers(op.other)[access * op.width : (access + 1) * op.width]
    return w.pack(registers, t.element_type(element))


def _load(w: Writer, op: Op, place: str, space: str, element: Element) -> str:
    """``width`` registers by one access."""
    type_ = t.vector(t.memory_type(element), op.width)
    size = t.itemsize(element) * op.width
    flag = ptx_flag(op) if op.name == "ld_global" else None
    if flag:
        loaded = _ptx_load(w, f"ld.{PTX_ACCESSES[op.name][flag]}", ptx_policy(flag), place, type_, size)
    else:
        volatile = "volatile " if op.attrs.get("volatile") else ""
        loaded = w.let(f"llvm.load {volatile}{place} {{alignment = {size} : i64}} : {space} -> {type_}")
    return cast(w, loaded, I8, BOOL, op.width) if element is BOOL else loaded


def _store_all(w: Writer, op: Op, places: list[str], space: str) -> None:
    element = element_of(op.value.type)
    registers = w.registers(op.value, len(places) * op.width)
    for i, (place, mask) in enumerate(zip(places, _masks(w, op.mask, len(places)), strict=True)):
        value = w.pack(registers[i * op.width : (i + 1) * op.width], t.element_type(element))
        if element is BOOL:
            value = cast(w, value, BOOL, I8, op.width)
        w.guarded(mask, partial(_store, w, op, place, value, space, element))


def _store(w: Writer, op: Op, place: str, value: str, space: str, element: Element) -> None:
    type_ = t.vector(t.memory_type(element), op.width)
    size = t.itemsize(element) * op.width
    flag = ptx_flag(op) if op.name == "st_global" else None
    if flag:
        _ptx_store(w, f"st.{PTX_ACCESSES[op.name][flag]}", ptx_policy(flag), place, value, type_, size)
    else:
        w.line(f"llvm.store {value}, {place} {{alignment = {size} : i64}} : {type_}, {space}")


_ASM = "llvm.inline_asm has_side_effects asm_dialect = att"
# size in bytes -> (type of a register, its constraint, PTX type, number of registers)
_PTX = {
    1: ("i16", "h", "u8", 1),
    2: ("i16", "h", "b16", 1),
    4: ("i32", "r", "b32", 1),
    8: ("i64", "l", "b64", 1),
    16: ("i64", "l", "b64", 2),
}


def _ptx_load(w: Writer, instruction: str, policy: str, place: str, type_: str, size: int) -> str:
    """An access that LLVM cannot express, as one PTX instruction."""
    register, constraint, suffix, count = _PTX[size]
    outputs = ", ".join(f"${i}" for i in range(count))
    vector, target = (f".v{count}", f"{{{outputs}}}") if count > 1 else ("", outputs)
    text = f"{instruction}{vector}.{suffix} {target}, [${count}]{policy};"
    constraints = ",".join([f"={constraint}"] * count + ["l", "~{memory}"])
    result = f"!llvm.struct<({', '.join([register] * count)})>" if count > 1 else register
    loaded = w.let(f'{_ASM} "{text}", "{constraints}" {place} : ({t.GLOBAL}) -> {result}')
    if count > 1:
        parts = [w.let(f"llvm.extractvalue {loaded}[{i}] : {result}") for i in range(count)]
        loaded = w.pack(parts, register)
    held = t.vector(register, count)
    if size == 1:
        return w.let(f"arith.trunci {loaded} : i16 to {type_}")
    return loaded if held == type_ else w.let(f"llvm.bitcast {loaded} : {held} to {type_}")


def _ptx_store(w: Writer, instruction: str, policy: str, place: str, value: str, type_: str, size: int) -> None:
    register, constraint, suffix, count = _PTX[size]
    held = t.vector(register, count)
    if size == 1:
        value = w.let(f"arith.extui {value} : {type_} to i16")
    elif held != type_:
        value = w.let(f"llvm.bitcast {value} : {type_} to {held}")
    inputs = ", ".join(f"${i + 1}" for i in range(count))
    vector, source = (f".v{count}", f"{{{inputs}}}") if count > 1 else ("", inputs)
    text = f"{instruction}{vector}.{suffix} [$0], {source}{policy};"
    constraints = ",".join(["l"] + [constraint] * count + ["~{memory}"])
    operands = ", ".join([place, *w.unpack(value, register, count)])
    types = ", ".join([t.GLOBAL] + [register] * count)
    w.line(f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{constraints}" {operands} : ({types}) -> ()')
