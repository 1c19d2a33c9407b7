"""Which executor a kernel runs on: the argument, else TILESPEC_BACKEND, else the side of its arrays."""

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import toolchain
from refcompiler.errors import LaunchError
from refcompiler.jit.backends import executor


@triton.jit
def double(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 2)


@triton.jit
def named(x, backend, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), backend)


@pytest.fixture
def arrays(monkeypatch):
    monkeypatch.delenv("TILESPEC_BACKEND", raising=False)
    return np.arange(32, dtype=np.float32), np.zeros(32, np.float32)


@pytest.mark.parametrize("variable", [None, "auto", "interp", "simt", "cuda", "mlir"])
@pytest.mark.parametrize("argument", ["interp", "simt"])
def test_the_argument_of_a_launch_wins(argument, variable, arrays, monkeypatch):
    if variable is not None:
        monkeypatch.setenv("TILESPEC_BACKEND", variable)
    x, out = arrays
    assert double[(1,)](x, out, BLOCK=32, backend=argument).backend == argument
    assert (out == 2 * x).all()


@pytest.mark.parametrize("variable", ["interp", "simt"])
def test_the_variable_is_what_a_launch_runs_on(variable, arrays, monkeypatch):
    monkeypatch.setenv("TILESPEC_BACKEND", variable)
    x, out = arrays
    assert double[(1,)](x, out, BLOCK=32).backend == variable
    assert (out == 2 * x).all()
    assert double.compile("x:*f32,out:*f32", {"BLOCK": 32}).backend == variable


def test_an_unknown_backend_is_refused(arrays, monkeypatch):
    with pytest.raises(LaunchError, match="unknown backend 'cude'; known are 'interp', 'simt', 'cuda', 'mlir'"):
        double[(1,)](*arrays, BLOCK=32, backend="cude")
    with pytest.raises(LaunchError, match="unknown backend"):
        double.compile("x:*f32,out:*f32", {"BLOCK": 32}, backend="llvm")
    monkeypatch.setenv("TILESPEC_BACKEND", "cude")
    with pytest.raises(LaunchError, match="TILESPEC_BACKEND is 'cude', expected auto, interp, simt, cuda or mlir"):
        double[(1,)](*arrays, BLOCK=32)


def test_a_parameter_of_that_name_is_the_kernels(arrays):
    x, _ = arrays
    named[(1,)](x, 7.0, BLOCK=32)
    named[(1,)](x, backend=7.0, BLOCK=32)
    assert (x == 7.0).all()


def test_a_kernel_keeps_one_specialisation_for_each_backend(monkeypatch):
    monkeypatch.delenv("TILESPEC_BACKEND", raising=False)
    made = {b: double.compile("x:*f32,out:*f32", {"BLOCK": 64}, backend=b) for b in ("cuda", "mlir")}
    assert made["mlir"].build.cubin != made["cuda"].build.cubin
    assert "LLVM NVPTX" in made["mlir"].asm["ptx"] and "NVVM" in made["cuda"].asm["ptx"]
    assert made["mlir"].asm["mlir"] == made["cuda"].asm["mlir"]  # both texts of one SIMT function
    assert toolchain.resources(made["mlir"].asm["cubin"], "double")["stack"] == 0
    monkeypatch.setenv("TILESPEC_BACKEND", "mlir")
    assert double.compile("x:*f32,out:*f32", {"BLOCK": 64}) is made["mlir"]
    assert double.compile("x:*f32,out:*f32", {"BLOCK": 64}, backend="cuda") is made["cuda"]


@pytest.mark.parametrize(
    ("asked", "compiled", "on_host", "runs_on"),
    [
        ("auto", "cuda", True, "interp"),
        ("auto", "mlir", True, "interp"),
        ("auto", "simt", True, "simt"),
        ("auto", "cuda", False, "cuda"),
        ("auto", "mlir", False, "mlir"),
        ("cuda", "mlir", False, "mlir"),  # compiled by an argument, which beats the variable
        ("mlir", "mlir", False, "mlir"),
        ("interp", "mlir", True, "interp"),
        ("cuda", "cuda", True, "cuda"),  # the launcher refuses host arrays
    ],
)
def test_executor(asked, compiled, on_host, runs_on):
    assert executor(asked, compiled, on_host) == runs_on
