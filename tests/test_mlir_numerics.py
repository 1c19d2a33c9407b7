"""What MLIR makes of scalar functions, read in its PTX: correct rounding, no contraction, no flushing."""

import re

import pytest
from compiled import compile_func
from test_cuda_scalars import Text

from refcompiler import pipeline, toolchain
from refcompiler.dialects.scalar import ROWS
from refcompiler.ir.types import ARITHMETIC, BF16, BOOL, F16, F32, F64, FLOATS, I64, INTS, U64
from refcompiler.target import TARGETS

# Their results are within some ULP of the exact value, so they may use approximate instructions.
APPROXIMATE = {"exp", "exp2", "exp2_ftz", "log", "log2", "sin", "cos", "erf", "rsqrt", "rem"}


def ptx_of(text: Text, arch: str = "sm_90a") -> str:
    stages = compile_func(text.func(), num_warps=1, enable_fp_fusion=False, target=arch)
    ptx = toolchain.mlir_to_ptx(pipeline.emit(stages.simt, "mlir"), arch)
    toolchain.ptx_to_cubin(ptx, arch)
    return ptx


def one(name: str, dtype, arity: int, result=None) -> Text:
    text = Text(dict.fromkeys("xyz"[:arity], dtype))
    result = result or dtype
    text.store("out", text.add(f"{name} {', '.join(text.values)}", str(result)), result)
    return text


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_exact_functions_round_correctly(dtype, arch):
    text = Text(dict.fromkeys("xyz", dtype))
    for row in ROWS:
        if dtype in row.dtypes and row.name not in APPROXIMATE:
            result = BOOL if row.result == "bool" else dtype
            text.store(
                f"out_{row.name}", text.add(f"{row.name} {', '.join(text.values[: row.arity])}", str(result)), result
            )
    ptx = ptx_of(text, arch)
    assert not re.search(r"\.approx|\.ftz|\.full", ptx)


@pytest.mark.parametrize(
    ("name", "dtype", "instruction"),
    [
        ("add", F32, "add.rn.f32"),
        ("sub", F32, "sub.rn.f32"),
        ("mul", F32, "mul.rn.f32"),
        ("mul", F64, "mul.rn.f64"),
        ("div", F32, "div.rn.f32"),
        ("div_rn", F32, "div.rn.f32"),
        ("div", F64, "div.rn.f64"),
        ("sqrt", F32, "sqrt.rn.f32"),
        ("sqrt_rn", F32, "sqrt.rn.f32"),
        ("sqrt", F64, "sqrt.rn.f64"),
        ("fma", F32, "fma.rn.f32"),
        ("fma", F64, "fma.rn.f64"),
        ("fma", F16, "fma.rn.f16"),
        ("fma", BF16, "fma.rn.bf16"),
        ("maximum", F32, "max.f32"),
        ("minimum", F64, "min.f64"),
        ("maximum_nan", F32, "max.NaN.f32"),
    ],
)
def test_instruction(name, dtype, instruction):
    row = next(r for r in ROWS if r.name == name)
    assert re.search(rf"\t{re.escape(instruction)}(x2)?\s", ptx_of(one(name, dtype, row.arity)))


def test_no_contraction_by_llvm_or_by_the_assembler():
    text = Text(dict.fromkeys("xyz", F32))
    x, y, z = text.values
    text.store("out", text.add(f"add {text.add(f'mul {x}, {y}', 'f32')}, {z}", "f32"), F32)
    ptx = ptx_of(text)
    assert "fma" not in ptx
    sass = toolchain.instruction_mix(toolchain.disassemble(toolchain.ptx_to_cubin(ptx, "sm_90a")))
    assert sass["FMUL"] and sass["FADD"] and not sass["FFMA"]


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("source", ARITHMETIC, ids=str)
def test_conversions_round_once(source, arch):
    """To bf16 only f32 (exact, or its last bit sticky), or f64 where one instruction does it."""
    text = Text({"x": source})
    for target in ARITHMETIC:
        text.store(f"out_{target}", text.add(f"cast {text.values[0]}", str(target)), target)
    ptx = ptx_of(text, arch)
    assert not re.search(r"cvt\.rn\.bf16\.[su](32|64)\s|\.ftz", ptx)
    if source.is_int and source.bits >= 32:
        assert "cvt.rz.f32." in ptx
    if source in FLOATS:
        assert re.search(r"cvt\.rzi\.", ptx)


@pytest.mark.parametrize(("name", "dtype", "instruction"), [("shl", I64, "shl.b64"), ("shr", U64, "shr.u64")])
def test_amounts_of_wide_shifts_are_bounded_before_they_lose_bits(name, dtype, instruction):
    """PTX takes 32 bits of an amount; LLVM 22 would hand it those of 2**32, which are 0."""
    lines = [line.strip() for line in ptx_of(one(name, dtype, 2)).splitlines()]
    bounded = next(i for i, line in enumerate(lines) if re.match(r"min\.u64 .*, 63;", line))
    shifted = next(
        i for i, line in enumerate(lines) if re.match(rf"{re.escape(instruction)}\s+%rd\d+, %rd\d+, %r\d+;", line)
    )
    assert bounded < shifted


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_division_traps_on_nothing(dtype):
    """LLVM may assume that a divisor is not 0 and a quotient fits: both are decided before the division."""
    text = pipeline.emit(compile_func(one("div", dtype, 2).func(), num_warps=1).simt, "mlir")
    body = text[text.index(f"@int_div_{dtype}") : text.index("gpu.func")]
    word = "divsi" if dtype.kind == "int" else "divui"
    assert f"arith.{word} %x, %divisor" in body and "arith.select" in body
