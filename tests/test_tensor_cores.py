"""Ops of tensor cores: what each architecture takes, and the machine code of both backends."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from refcompiler import toolchain
from refcompiler.errors import CompileError
from refcompiler.ir.parser import parse_func
from refcompiler.ir.verifier import check_target
from refcompiler.jit.text import from_simt
from refcompiler.target import TARGETS

ROOT = Path(__file__).parents[1]


def program(name, feature="tensor_cores", **params):
    """A program of the feature with its parameters filled in."""
    loaded = YAML(typ="safe").load((ROOT / f"spec/features/exec/{feature}.yaml").read_text())
    return re.sub(r"\{([A-Z]+)\}", lambda found: params[found[1]], loaded["programs"][name]["source"])


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize(
    ("arch", "name", "params", "instruction"),
    [
        ("sm_80", "half", {"T": "bf16", "C": "f32"}, "HMMA.16816.F32.BF16"),
        ("sm_80", "half", {"T": "f16", "C": "f16"}, "HMMA.16816.F16"),
        ("sm_80", "tiles", {}, "HMMA.1688.F32.TF32"),
        ("sm_89", "bytes", {"A": "i8", "B": "u8", "C": "i32"}, "IMMA.16832.S8.U8"),
        ("sm_89", "bytes", {"A": "f8e4m3", "B": "f8e5m2", "C": "f32"}, "QMMA.16832.F32.E4M3.E5M2"),
    ],
)
def test_machine_code_has_one_instruction_for_each_tile(backend, arch, name, params, instruction):
    kernel = from_simt(program(name, **params), "<test>", arch, backend)
    found = [i for i in toolchain.instructions(kernel.asm["sass"]) if i.startswith(("HMMA", "IMMA", "QMMA"))]
    assert len(found) == (8 if name == "tiles" else 1)
    assert all(i.startswith(instruction) for i in found)
    assert kernel.resources["stack"] == 0


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_fragments_that_ldmatrix_gives_need_no_packing(backend):
    text = program("product", "ldmatrix", TRANS="True", ROW="8", MATRIX="64")
    kernel = from_simt(text, "<test>", "sm_80", backend)
    mix = toolchain.instruction_mix(kernel.asm["sass"])
    assert (mix["LDSM"], mix["HMMA"], mix["PRMT"], kernel.resources["stack"]) == (3, 2, 0, 0)


def test_stmatrix_is_refused_before_sm_90():
    text = program("back", "ldmatrix", LOAD="{count=4}", STORE="{count=4}")
    with pytest.raises(CompileError, match="stmatrix needs an architecture with stmatrix, sm_89 has none"):
        from_simt(text, "<test>", "sm_89", "mlir").asm["mlir"]


class _Needs:
    """A target that lacks a feature that all real ones have."""

    has_async_copy = False

    def __str__(self):
        return "sm_70"


def test_an_op_without_an_instruction_is_refused_where_it_stands(monkeypatch):
    func = parse_func(program("half", T="bf16", C="f32"))
    for target in TARGETS.values():
        check_target(func, target)
    op = next(op for op in func.walk() if op.name == "mma_sync")
    monkeypatch.setattr(type(op), "feature", lambda self: "has_async_copy")
    with pytest.raises(CompileError, match="mma_sync needs an architecture with async copy, sm_70 has none") as caught:
        check_target(func, _Needs())
    assert caught.value.id == "target.instruction"


def test_float8_is_refused_before_sm_89():
    func = parse_func(program("bytes", A="f8e4m3", B="f8e4m3", C="f32"))
    with pytest.raises(CompileError, match="mma_sync needs an architecture with fp8 mma, sm_80 has none"):
        check_target(func, TARGETS["sm_80"])
