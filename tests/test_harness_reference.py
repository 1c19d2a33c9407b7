"""The reference adapters: kernel files as people write them, errors as answers, arrays inside storage on a device."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from conformance.adapters import (
    CallArgument,
    CompileRequest,
    Ran,
    Rejected,
    TargetUnavailable,
    Unsupported,
    Valid,
    load,
)
from conformance.adapters.kernel_source import Absent, kernel_module
from conformance.adapters.reference import DeviceArray
from conformance.buffers import guarded
from conformance.calls import bind, call_arguments, make_arrays
from conformance.cli import main
from conformance.model import Program
from conformance.signatures import parse_argument
from conformance.smoke import LEGAL, SIGNATURE, smoke
from refcompiler.runtime import describe

TUTORIAL = '''
"""A file as upstream users write it."""
from __future__ import annotations
import torch
from no_such.package import thing
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()

class Net(torch.nn.Module):
    pass

@triton.jit
def twice(x):
    return x * 2

@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4)], key=["n"])
@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, twice(tl.load(x + i, mask=i < n)), mask=i < n)

@triton.testing.perf_report(triton.testing.Benchmark(x_names=["n"]))
def benchmark(n):
    return torch.rand(n, device=DEVICE)
'''


def request(**changes):
    fields = {"source": LEGAL, "entry": "copy", "signature": SIGNATURE, "constexprs": (("BLOCK", 32),), **changes}
    return CompileRequest(**fields)


def test_interp_passes_the_smoke_test():
    assert smoke(load("interp")) == ""


def test_a_file_with_imports_that_are_not_here_compiles(tmp_path):
    file = tmp_path / "tutorial.py"
    file.write_text(TUTORIAL)
    words = ["compile", f"{file}::double", "--signature", "x:*f32,out:*f32,n:i32", "--set", "BLOCK=128"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("func @double(x: ptr<f32>, out: ptr<f32>, n: i32, BLOCK=128)")
    written = CliRunner().invoke(main, [*words, "--emit", "tile,tile_opt", "--out", str(tmp_path / "out")])
    assert written.exit_code == 0 and sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "tile.txt",
        "tile_opt.txt",
    ]


def test_specification_text_imports_nothing_leniently():
    answer = load("interp").compile(request(source="import no_such_package\n" + LEGAL))
    assert isinstance(answer, Rejected) and answer.id == "source.import"


def test_absent_things_are_harmless_and_named():
    gone = Absent("torch")
    assert repr(gone.nn.functional.relu(3)) == "<torch.nn.functional.relu, which is not here>"
    assert gone.jit(len) is len
    assert kernel_module("import torch_that_is_not_here as t\nx = t.zeros(3)\n", "f.py").x.name.startswith("torch_that")


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_a_target_for_one_architecture_compiles_and_says_that_it_never_ran(backend):
    try:
        adapter = load(f"{backend}@sm_80")
    except TargetUnavailable as e:
        pytest.skip(str(e))
    info = adapter.info()
    assert (info.name, info.compiles) == (f"{backend}@sm_80", True)
    assert info.runs or "never executed" in info.why_not
    answer = adapter.compile(CompileRequest(LEGAL, "copy", SIGNATURE, (("BLOCK", 128),), emit=("ptx",)))
    assert isinstance(answer, Valid) and ".target sm_80" in answer.texts["ptx"]
    with pytest.raises(TargetUnavailable, match=r"sm_70.*expected one of"):
        load(f"{backend}@sm_70")
    with pytest.raises(TargetUnavailable, match="there is no target"):
        load("interp@sm_80")


def test_errors_of_the_compiler_are_answers_with_spans():
    source = LEGAL.replace("i < n)", "i < nowhere)", 1)
    answer = load("interp").compile(request(source=source))
    assert isinstance(answer, Rejected) and answer.phase in ("parse", "type")
    line, col, _, end = answer.span
    assert source.splitlines()[line - 1][col:end] == "nowhere"


def test_run_errors_are_answers_and_leave_arrays_alone():
    adapter = load("interp")
    compiled = adapter.compile(request(source=LEGAL.replace(", mask=i < n", "")))
    assert isinstance(compiled, Valid)
    x = guarded("x", "in", "f32", (40,), np.arange(40, dtype=np.float32), 0)
    out = guarded("out", "out", "f32", (40,), None, 0)
    arguments = [CallArgument(a.name, a.array, a.storage, a.offset) for a in (x, out)]
    answer = adapter.run(compiled, (2,), [*arguments, CallArgument("n", 40)])
    assert isinstance(answer, Rejected) and answer.phase == "run"
    assert out.untouched() and x.untouched()


@pytest.mark.parametrize("shift", [0, 1])
def test_hints_are_not_claimed_for_arrays_that_are_moved(shift):
    adapter = load("interp")
    compiled = adapter.compile(request())
    x = guarded("x", "in", "f32", (40,), np.arange(40, dtype=np.float32), shift)
    out = guarded("out", "out", "f32", (40,), None, shift)
    arguments = [CallArgument(a.name, a.array, a.storage, a.offset) for a in (x, out)]
    assert isinstance(adapter.run(compiled, (2,), [*arguments, CallArgument("n", 33)]), Ran)
    assert (out.array[:33] == x.array[:33]).all() and out.complaint() is None


def test_unknown_passes_and_targets_are_told():
    assert isinstance(load("interp").transform("func @f() {\n}\n", ["no_such_pass"]), Unsupported)
    with pytest.raises(TargetUnavailable, match="there is no target tpu; there are interp, simt, cuda"):
        load("tpu")


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "i8", "bool", "u64"])
def test_device_arrays_describe_what_lies_in_the_storage(dtype):
    a = (
        guarded("x", "inout", dtype, (3, 5), np.ones((3, 5), bool), 1)
        if dtype == "bool"
        else guarded("x", "inout", dtype, (3, 5), None, 1)
    )
    device = SimpleNamespace(data=SimpleNamespace(ptr=1 << 40))
    info = describe(DeviceArray(device, CallArgument("x", a.array, a.storage, a.offset)))
    assert info.dtype == dtype and tuple(info.shape) == (3, 5) and tuple(info.strides) == (5, 1)
    assert info.ptr == (1 << 40) + a.offset and info.device == 0 and not info.readonly


def test_device_arrays_keep_read_only():
    a = guarded("x", "in", "f32", (4,), np.ones(4, np.float32), 0)
    view = a.array.view()
    view.flags.writeable = False
    device = SimpleNamespace(data=SimpleNamespace(ptr=4096))
    assert describe(DeviceArray(device, CallArgument("x", view, a.storage, a.offset))).readonly


def launched(**fields):
    """How a program's launch is built: the grid as passed on, and the arguments after the case's changes."""
    arguments = tuple(parse_argument(text) for text in ("x: *f32[N]", "n: i32 = N"))
    program = Program("k", "copy", LEGAL, arguments, **{"grid": ("cdiv(n, BLOCK)",), **fields})
    return bind(program, {"N": 40, "BLOCK": 32})


def test_grids_are_passed_in_the_form_asked_for():
    assert launched().launch_grid == (2,)
    assert launched(grid_form="list").launch_grid == [2]
    assert launched(grid_form="int").launch_grid == 2
    grid = launched(grid_form="function").launch_grid
    assert grid({"n": 65, "BLOCK": 32}) == (3,)  # of the arguments of the launch, not of the case
    assert launched(grid=("n / 16",)).launch_grid == (2.5,)
    assert launched(grid=("n == 40",)).launch_grid == (True,)


def test_arguments_are_renamed_and_passed_by_position():
    call = launched()
    arrays = make_arrays(call, {"x": "random"}, "seed")
    x, n = call_arguments(call, arrays, {"x": "positional", "n": "named(m)"})
    assert (x.name, x.positional, n.name, n.positional) == ("x", True, "m", False) and x.bent and n.bent
    assert call_arguments(call, arrays, {"x": "dtype(complex64)"})[0].value.dtype == np.complex64


@pytest.mark.parametrize("name", ["cuda", "mlir"])
def test_a_compiling_target_claims_its_own_text(name):
    info = load(name).info()
    assert info.name == name and info.toolchain.startswith(f"{name}-")
    assert {"cuda", "mlir"} & set(info.stages) == {name} and {"ptx", "sass", "resources"} <= set(info.stages)
