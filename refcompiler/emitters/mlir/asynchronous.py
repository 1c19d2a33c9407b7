"""Asynchronous copies, their barriers and tensor maps: inline PTX, as the other backend prints it."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.simt.asynchronous import Argument, CpAsync, MbarrierAlloc, PtxOp, SetMaxRegisters, TensorMapOp
from refcompiler.dialects.simt.ptx import Instruction
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.memory import distances, index_and_distances
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.core import Constant, Op
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import I32, element_of

MAP = "!llvm.ptr"
MAP_ATTRIBUTES = "{llvm.byval = !llvm.array<16 x i64>, llvm.align = 64 : i64, nvvm.grid_constant}"
_KINDS = {
    "shared": ("i32", "r"),
    "global": (t.GLOBAL, "l"),
    "map": (MAP, "l"),
    "word": ("i32", "r"),
    "long": ("i64", "l"),
}


@writes("tensor_map")
def write_tensor_map(w: Writer, op: TensorMapOp) -> None:
    w.names[op.result] = w.maps[op.descriptor]


@writes("mbarrier_alloc")
def write_mbarrier_alloc(w: Writer, op: MbarrierAlloc) -> None:
    start = w.let(f"llvm.mlir.addressof @shared : {t.SHARED}")
    w.names[op.result] = w.let(f"llvm.getelementptr {start}[{op.offset}] : ({t.SHARED}) -> {t.SHARED}, i8")


@writes("set_max_registers")
def write_set_max_registers(w: Writer, op: SetMaxRegisters) -> None:
    """An op of MLIR, which knows that all threads of a warpgroup execute it together."""
    w.line(f"nvvm.setmaxregister {'increase' if op.increase else 'decrease'} {op.count}")


_OWN = {"cp_async", "set_max_registers"}


@writes(*sorted(name for name, op in OPS.items() if issubclass(op, PtxOp) and name not in _OWN))
def write_ptx(w: Writer, op: PtxOp) -> None:
    words = [_argument(w, argument) for argument in op.arguments]
    predicate = getattr(op, "predicate", None)
    if predicate is None:
        _write(w, op.instruction, words)
    else:
        _write(w, op.instruction, words, w.let(f"arith.extui {w.value(predicate)} : i1 to i32"))


@writes("cp_async")
def write_cp_async(w: Writer, op: CpAsync) -> None:
    """Distances from one address stand in the instructions, of which LLVM sees the text only."""
    index, to = index_and_distances(w, op.index)
    made = None if isinstance(op.pointer, Constant) else op.pointer.owner
    beyond = distances(made) if isinstance(made, Op) and made.name == "addptr" else None
    pointers = w.registers(op.pointer) if beyond is None else [w.value(made.pointer)] * len(to)
    beyond = beyond or [0] * len(to)
    masks = [None] * len(to) if op.mask is None else w.registers(op.mask, len(to))
    item = t.itemsize(element_of(op.buffer.type))
    addresses = [_address(w, op.buffer, register) for register in w.registers(index, len(to))]
    for i, mask in enumerate(masks):
        size = w.constant(op.bytes)
        if mask is not None:
            size = w.let(f"arith.select {mask}, {size}, {w.constant(0)} : i32")
        _write(w, op.instruction, [addresses[i], pointers[i], size], added=[to[i] * item, beyond[i] * item])


def _argument(w: Writer, argument: Argument) -> str:
    if isinstance(argument, int):
        return w.constant(argument, I32)
    return _address(w, argument[0], w.value(argument[1])) if isinstance(argument, tuple) else w.value(argument)


def _address(w: Writer, buffer, index: str) -> str:
    """The 32-bit address of an element of a shared buffer."""
    element = t.memory_type(element_of(buffer.type))
    place = w.let(f"llvm.getelementptr {w.value(buffer)}[{index}] : ({t.SHARED}, i32) -> {t.SHARED}, {element}")
    return w.let(f"llvm.ptrtoint {place} : {t.SHARED} to i32")


def _write(
    w: Writer, instruction: Instruction, words: list[str], predicate: str = "", added: Sequence[int] = ()
) -> None:
    """An instruction, with what it adds to the addresses that come first."""
    types, constraints = [], []
    for _, kind in instruction.operands:
        type_, constraint = _KINDS[kind]
        types.append(type_)
        constraints.append(constraint)
    places = [f"${i}" for i in range(len(words))]
    text = instruction.inline(places, f"${len(words)}" if predicate else "", added)
    if predicate:
        words, types, constraints = [*words, predicate], [*types, "i32"], [*constraints, "r"]
    asm = f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{",".join([*constraints, "~{memory}"])}"'
    w.line(f"{asm} {', '.join(words)}{' ' if words else ''}: ({', '.join(types)}) -> ()")
