"""Elementwise ops on whole register vectors, conversions, and ops that only rearrange registers."""

from __future__ import annotations

import re

from refcompiler.dialects.elementwise import ELEMENTWISE, Elementwise
from refcompiler.dialects.simt.registers import count_of
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.core import Op
from refcompiler.ir.types import BF16, BOOL, F16, F32, FLOATS8, I32, DType, PointerType, element_of

# What a function of the prelude is where the second operand is one that LLVM has a meaning for.
_DEFINED = {
    "int_div": {"int": "arith.divsi", "uint": "arith.divui"},
    "int_rem": {"int": "arith.remsi", "uint": "arith.remui"},
    "shift_left": {"int": "arith.shli", "uint": "arith.shli"},
    "shift_right": {"int": "arith.shrsi", "uint": "arith.shrui"},
}
_SUMS = frozenset({"arith.addi", "arith.subi", "arith.muli"})
_LITERAL = re.compile(r"\{(-?\d+)\}")


@writes(*ELEMENTWISE)
def write_elementwise(w: Writer, op: Elementwise) -> None:
    """A row of the scalar table: an op of MLIR on vectors, or a function called for each register."""
    dtype, count = element_of(op.operands[0].type), count_of(op.result.type)
    spelling = op.row.mlir_for(dtype)
    if spelling in _DEFINED and w.ranges.defined(op):
        spelling = _DEFINED[spelling][dtype.kind]
    if spelling == "{x}":
        w.names[op.result] = w.whole(op.operands[0], count)
    elif "." not in spelling or spelling.startswith("llvm."):
        element, result = t.element_type(dtype), t.element_type(element_of(op.result.type))
        operands = zip(*(w.registers(o, count) for o in op.operands), strict=True)
        w.set(op, [call(w, spelling, list(o), element, result, dtype) for o in operands])
    else:
        fields = {name: w.whole(o, count) for name, o in zip("xyz", op.operands, strict=False)}
        text = _LITERAL.sub(lambda found: w.constant(int(found[1]), dtype, count), spelling)
        text = text.format(**fields) if "{" in text else f"{text} {', '.join(fields.values())}"
        if spelling in _SUMS and op in w.ranges.exact:  # lets LLVM take constants out of addresses
            text += f" overflow<{'nsw' if dtype.kind == 'int' else 'nuw'}>"
        w.define(op, f"{text} : {t.vector(t.element_type(dtype), count)}")


def call(w: Writer, function: str, operands: list[str], source: str, target: str, dtype: DType) -> str:
    """A call on scalars: of an intrinsic of LLVM, or of the prelude's function for this dtype."""
    types = ", ".join([source] * len(operands))
    arguments = ", ".join(operands)
    if function.startswith("llvm."):
        return w.let(f'llvm.call_intrinsic "{function}"({arguments}) : ({types}) -> {target}')
    return w.let(f"llvm.call @{function}_{dtype}({arguments}) : ({types}) -> {target}")


@writes("select")
def write_select(w: Writer, op: Op) -> None:
    count = count_of(op.result.type)
    condition, x, y = (w.whole(o, count) for o in op.operands)
    type_ = t.type_of(op.result.type)
    w.define(op, f"arith.select {condition}, {x}, {y} : {t.vector('i1', count)}, {type_}")


@writes("cast")
def write_cast(w: Writer, op: Op) -> None:
    count = count_of(op.result.type)
    source, target = element_of(op.x.type), element_of(op.result.type)
    w.names[op.result] = cast(w, w.whole(op.x, count), source, target, count)


def cast(w: Writer, x: str, source: DType, target: DType, count: int) -> str:
    """A numeric conversion with the meaning of PTX cvt."""
    if source == target:
        return x

    def convert(operation: str) -> str:
        types = (t.vector(t.element_type(d), count) for d in (source, target))
        return w.let(f"{operation} {x} : {' to '.join(types)}")

    if source in FLOATS8:
        halves = [call(w, "to_f16", [r], "i8", "f16", source) for r in w.unpack(x, "i8", count)]
        return cast(w, w.pack(halves, "f16"), F16, target, count)
    if target in FLOATS8:
        singles = w.unpack(cast(w, x, source, F32, count), "f32", count)
        return w.pack([call(w, "from_f32", [r], "f32", "i8", target) for r in singles], "i8")
    if target is BOOL:
        zero = w.constant(0, source, count)
        compare = "arith.cmpf une" if source.is_float else "arith.cmpi ne"
        return w.let(f"{compare}, {x}, {zero} : {t.vector(t.element_type(source), count)}")
    if source.is_float and target.is_float:
        if source is BF16 and target is F32 and count % 2 == 0:
            return _widened_pairs(w, x, count)
        if {source, target} == {F16, BF16}:
            return cast(w, cast(w, x, source, F32, count), F32, target, count)
        return convert("arith.extf" if target.bits > source.bits else "arith.truncf")
    if source.is_float:
        return _saturate(w, x, source, target, count)
    if not target.is_float:
        if target.bits == source.bits:
            return x
        if target.bits < source.bits:
            return convert("arith.trunci")
        return convert("arith.extsi" if source.kind == "int" else "arith.extui")
    if target is BF16 and source.bits >= 32:  # no architecture before sm_90 rounds once
        registers = w.unpack(x, t.element_type(source), count)
        return w.pack([call(w, "to_bf16", [r], t.element_type(source), "bf16", source) for r in registers], "bf16")
    return convert("arith.sitofp" if source.kind == "int" else "arith.uitofp")


def _widened_pairs(w: Writer, x: str, count: int) -> str:
    """f32 of bfloat16: a shift for the lower half of a word, a mask for the upper one; LLVM takes two for that."""
    words = w.let(f"llvm.bitcast {x} : {t.vector('bf16', count)} to {t.vector('i32', count // 2)}")
    type_ = t.vector("i32", count // 2)
    low = w.let(f"arith.shli {words}, {w.constant(16, I32, count // 2)} : {type_}")
    high = w.let(f"arith.andi {words}, {w.constant(-65536, I32, count // 2)} : {type_}")
    halves = [
        w.unpack(w.let(f"arith.bitcast {half} : {type_} to {t.vector('f32', count // 2)}"), "f32", count // 2)
        for half in (low, high)
    ]
    return w.pack([register for pair in zip(*halves, strict=True) for register in pair], "f32")


def _saturate(w: Writer, x: str, source: DType, target: DType, count: int) -> str:
    """A float as an integer: toward zero, within the type's range, NaN to 0."""
    if source in (F16, BF16):
        return _saturate(w, cast(w, x, source, F32, count), F32, target, count)
    element, result = t.element_type(source), t.element_type(target)
    shape = f"v{count}" if count > 1 else ""
    name = f"llvm.fpto{'s' if target.kind == 'int' else 'u'}i.sat.{shape}{result}.{shape}{element}"
    return w.let(f'llvm.call_intrinsic "{name}"({x}) : ({t.vector(element, count)}) -> {t.vector(result, count)}')


@writes("bitcast")
def write_bitcast(w: Writer, op: Op) -> None:
    source, target = t.type_of(op.x.type), t.type_of(op.result.type)
    x = w.value(op.x)
    if source == target or isinstance(element_of(op.x.type), PointerType):
        w.names[op.result] = x
    else:
        w.define(op, f"arith.bitcast {x} : {source} to {target}")


@writes("splat")
def write_splat(w: Writer, op: Op) -> None:
    w.names[op.result] = w.whole(op.x, count_of(op.result.type))


@writes("constants")
def write_constants(w: Writer, op: Op) -> None:
    dtype = element_of(op.result.type)
    values = ", ".join(t.literal(v, dtype) for v in op.values)
    w.define(
        op, f"arith.constant {f'dense<[{values}]>' if len(op.values) > 1 else values} : {t.type_of(op.result.type)}"
    )


@writes("pack")
def write_pack(w: Writer, op: Op) -> None:
    w.set(op, [r for value in op.operands for r in w.registers(value)])


@writes("extract")
def write_extract(w: Writer, op: Op) -> None:
    registers = w.registers(op.x)
    w.set(op, [registers[i] for i in op.indices])
