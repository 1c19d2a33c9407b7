"""Matrix products on tensor cores, as the PTX instructions that both backends share."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.simt.tensor_cores import MmaSync, packed
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.core import Value
from refcompiler.ir.types import F32, DType, element_of


@writes("mma_sync")
def write_mma_sync(w: Writer, op: MmaSync) -> None:
    """One instruction for each tile, k by k, so that neighbours do not wait for each other."""
    a, b, c = words(w, op.a), words(w, op.b), accumulators(w, op.c)
    of_a, of_b, of_c = (n // packed(e) for n, e in zip(op.fragments, op.elements, strict=True))
    element = op.elements[2]
    tiles_m, tiles_n, tiles_k = op.tiles
    type_, constraint = ("f32", "f") if element is F32 else ("i32", "r")
    places = [_braces(0, of_c), _braces(of_c, of_a), _braces(of_c + of_a, of_b)]
    text = f"{op.instruction} {places[0]}, {places[1]}, {places[2]}, {_braces(of_c + of_a + of_b, of_c)};"
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
    w.set(op, from_words(w, c, element))


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
    """The inverse of :func:`accumulators`."""
    element, count = t.element_type(dtype), packed(dtype)
    if count == 1:
        return list(found)
    vector = t.vector(element, count)
    return [r for x in found for r in w.unpack(w.let(f"llvm.bitcast {x} : i32 to {vector}"), element, count)]


def _braces(first: int, count: int) -> str:
    return "{" + ", ".join(f"${i}" for i in range(first, first + count)) + "}"
