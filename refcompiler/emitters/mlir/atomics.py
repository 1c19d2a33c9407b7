"""Atomics, as the PTX instructions that both backends share."""

from __future__ import annotations

from functools import partial

from refcompiler.dialects.atomic import Atomic, ptx
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.types import element_of

_CONSTRAINTS = {16: ("i16", "h"), 32: ("i32", "r"), 64: ("i64", "l")}
_FLOATS = {"f32": "f", "f64": "d"}


@writes("atomic_rmw", "atomic_cas")
def write_atomic(w: Writer, op: Atomic) -> None:
    places = w.registers(op.pointer)
    element = element_of(op.result.type)
    masks = [None] * len(places) if op.mask is None else w.registers(op.mask, len(places))
    fields = ("compare", "value") if op.kind == "cas" else ("value",)
    operands = zip(*(w.registers(getattr(op, f), len(places)) for f in fields), strict=True)
    zero = w.constant(0, element, 1) if op.mask is not None else ""
    found = [
        w.chosen(mask, partial(_access, w, op, place, list(values)), zero, t.element_type(element))
        for place, mask, values in zip(places, masks, operands, strict=True)
    ]
    w.set(op, found)


def _access(w: Writer, op: Atomic, place: str, values: list[str]) -> str:
    """One access; what it finds."""
    dtype = element_of(op.result.type)
    type_ = t.element_type(dtype)
    register, constraint = _CONSTRAINTS[dtype.bits]
    if op.kind == "add" and type_ in _FLOATS:
        register, constraint = type_, _FLOATS[type_]
    text = ptx(op, dtype).format(d="$0", p="$1", c="$2", v="$3" if op.kind == "cas" else "$2")
    constraints = ",".join([f"=&{constraint}", "l", *[constraint] * len(values), "~{memory}"])
    if register != type_:
        values = [w.let(f"llvm.bitcast {v} : {type_} to {register}") for v in values]
    types = ", ".join([t.GLOBAL, *[register] * len(values)])
    asm = f'llvm.inline_asm has_side_effects asm_dialect = att "{text}", "{constraints}" {", ".join([place, *values])}'
    found = w.let(f"{asm} : ({types}) -> {register}")
    return found if register == type_ else w.let(f"llvm.bitcast {found} : {register} to {type_}")
