"""Matrix products on tensor cores, as the PTX instructions that both backends share."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.simt.matrices import Ldmatrix, Stmatrix
from refcompiler.dialects.simt.registers import count_of
from refcompiler.dialects.simt.tensor_cores import MmaSync, packed
from refcompiler.dialects.simt.warpgroup import Tile, Wgmma, WgmmaWait
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.core import Value
from refcompiler.ir.types import F32, I64, DType, element_of

_ASM = "llvm.inline_asm has_side_effects asm_dialect = att"


@writes("mma_sync")
def write_mma_sync(w: Writer, op: MmaSync) -> None:
    """One instruction for each tile, k by k, so that neighbours do not wait for each other."""
    a, b, c = words(w, op.a), words(w, op.b), accumulators(w, op.c)
    of_a, of_b, of_c = (n // packed(e) for n, e in zip(op.fragments, op.elements, strict=True))
    element = op.elements[2]
    tiles_m, tiles_n, tiles_k = op.tiles
    type_, constraint = ("f32", "f") if element is F32 else ("i32", "r")
    text = op.text("$")
    constraints = ",".join([f"={constraint}"] * of_c + ["r"] * (of_a + of_b) + [constraint] * of_c)
    types = ", ".join(["i32"] * (of_a + of_b) + [type_] * of_c)
    result = f"!llvm.struct<({', '.join([type_] * of_c)})>"
    for k in range(tiles_k):
        for m in range(tiles_m):
            for n in range(tiles_n):
                first, second, third = (m * tiles_k + k) * of_a, (n * tiles_k + k) * of_b, (m * tiles_n + n) * of_c
                given = [*a[first : first + of_a], *b[second : second + of_b], *c[third : third + of_c]]
                asm = f'llvm.inline_asm asm_dialect = att "{text}", "{constraints}" {", ".join(given)}'
                made = w.let(f"{asm} : ({types}) -> {result}")
                c[third : third + of_c] = [w.let(f"llvm.extractvalue {made}[{i}] : {result}") for i in range(of_c)]
    w.set(op, c if element is F32 else from_words(w, c, element))


def words(w: Writer, value: Value) -> list[str]:
    """The registers of an operand in words of 32 bits."""
    dtype, registers = element_of(value.type), w.registers(value)
    element, count = t.element_type(dtype), packed(dtype)
    groups = [w.pack(registers[i : i + count], element) for i in range(0, len(registers), count)]
    if element == "i32":
        return groups
    return [w.let(f"llvm.bitcast {group} : {t.vector(element, count)} to i32") for group in groups]


def accumulators(w: Writer, value: Value) -> list[str]:
    """The registers of accumulators as PTX takes them: f32 as they are."""
    return list(w.registers(value)) if element_of(value.type) is F32 else words(w, value)


def from_words(w: Writer, found: Sequence[str], dtype: DType) -> list[str]:
    """Registers of ``dtype`` that PTX gave in words of 32 bits."""
    element, count = t.element_type(dtype), packed(dtype)
    if element == "i32":
        return list(found)
    vector = t.vector(element, count)
    return [r for x in found for r in w.unpack(w.let(f"llvm.bitcast {x} : i32 to {vector}"), element, count)]


@writes("wgmma")
def write_wgmma(w: Writer, op: Wgmma) -> None:
    """All steps are one statement, in which the accumulators stay where they are."""
    element, count = op.result.type.element, count_of(op.result.type)
    type_, constraint = ("f32", "f") if element is F32 else ("i32", "r")
    a_words = [] if op.a_shared else words(w, op.a)
    a_low = _descriptor_low(w, op.a, op.a_index, op.a_tile) if op.a_shared else ""
    b_low = _descriptor_low(w, op.b, op.b_index, op.b_tile)
    inputs: list[tuple[str, str, str]] = []  # value, type, constraint
    for step in range(op.k_steps):
        if op.a_shared:
            inputs.append((_descriptor(w, a_low, op.a_tile, step), "i64", "l"))
        else:
            inputs += [(x, "i32", "r") for x in a_words[step * op.a_words : (step + 1) * op.a_words]]
        inputs.append((_descriptor(w, b_low, op.b_tile, step), "i64", "l"))
    if op.c is not None:
        inputs += [(x, type_, str(i)) for i, x in enumerate(accumulators(w, op.c))]
    outputs = f"={'&' if op.c is None else ''}{constraint}"
    constraints = ",".join([outputs] * count + [c for _, _, c in inputs])
    result = f"!llvm.struct<({', '.join([type_] * count)})>"
    values, types = ", ".join(v for v, _, _ in inputs), ", ".join(t for _, t, _ in inputs)
    made = w.let(f'{_ASM} "{" ".join(op.text("$"))}", "{constraints}" {values} : ({types}) -> {result}')
    w.set(op, [w.let(f"llvm.extractvalue {made}[{i}] : {result}") for i in range(count)])


def _descriptor_low(w: Writer, buffer: Value, index: Value, tile: Tile) -> str:
    """The lower half of the descriptor of a tile's first step."""
    address = _address(w, buffer, w.value(index))
    within = w.let(f"arith.andi {address}, {w.constant(0x3FFFF)} : i32")
    units = w.let(f"arith.shrui {within}, {w.constant(4)} : i32")
    return w.let(f"arith.ori {units}, {w.constant(tile.low)} : i32")


def _address(w: Writer, buffer: Value, index: str) -> str:
    """The 32-bit address of an element in shared memory."""
    element = t.memory_type(element_of(buffer.type))
    place = w.let(f"llvm.getelementptr {w.value(buffer)}[{index}] : ({t.SHARED}, i32) -> {t.SHARED}, {element}")
    return w.let(f"llvm.ptrtoint {place} : {t.SHARED} to i32")


def _descriptor(w: Writer, low: str, tile: Tile, step: int) -> str:
    if tile.start(step):
        low = w.let(f"arith.addi {low}, {w.constant(tile.start(step) >> 4)} : i32")
    wide = w.let(f"arith.extui {low} : i32 to i64")
    return w.let(f"arith.ori {wide}, {w.constant(tile.high << 32, I64)} : i64")


@writes("ldmatrix")
def write_ldmatrix(w: Writer, op: Ldmatrix) -> None:
    element = element_of(op.buffer.type)
    constraints = ",".join(["=r"] * op.words + ["r", "~{memory}"])
    result = f"!llvm.struct<({', '.join(['i32'] * op.words)})>" if op.words > 1 else "i32"
    found: list[str] = []
    for index in w.registers(op.index):
        asm = f'{_ASM} "{op.text("$")}", "{constraints}" {_address(w, op.buffer, index)} : (i32) -> {result}'
        made = w.let(asm)
        single = op.words == 1
        parts = [made] if single else [w.let(f"llvm.extractvalue {made}[{i}] : {result}") for i in range(op.words)]
        found += from_words(w, parts, element)
    w.set(op, found)


@writes("stmatrix")
def write_stmatrix(w: Writer, op: Stmatrix) -> None:
    constraints, types = ",".join(["r"] * (op.words + 1) + ["~{memory}"]), ", ".join(["i32"] * (op.words + 1))
    values = words(w, op.value)
    for number, index in enumerate(w.registers(op.index)):
        given = [_address(w, op.buffer, index), *values[number * op.words : (number + 1) * op.words]]
        w.line(f'{_ASM} "{op.text("$")}", "{constraints}" {", ".join(given)} : ({types}) -> ()')


@writes("wgmma_wait")
def write_wgmma_wait(w: Writer, op: WgmmaWait) -> None:
    """An empty statement redefines each register, or LLVM would read it above the wait."""
    w.line(f"nvvm.wgmma.wait.group.sync.aligned {op.pending}")
    for result, value in zip(op.results, op.values, strict=True):
        type_, constraint = ("f32", "f") if element_of(value.type) is F32 else ("i32", "r")
        settled = [w.let(f'{_ASM} "", "={constraint},0" {x} : ({type_}) -> {type_}') for x in w.registers(value)]
        w.names[result] = w.pack(settled, type_)
        w.parts[result] = settled
