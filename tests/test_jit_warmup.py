"""Compiling ahead for arguments that are only described: the same kernels, with no array and no GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import ShapeDtype
from refcompiler.errors import LaunchError


@triton.jit
def kernel(x, out, n, KIND: tl.constexpr = "a", BLOCK: tl.constexpr = 64):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


class dtype:
    """As torch's dtypes print themselves."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


dtype.__module__ = "torch"


def head(*arguments, **keywords) -> str:
    return kernel.warmup(*arguments, **keywords).asm["tile"].splitlines()[0]


@pytest.mark.parametrize(
    ("described", "shown"),
    [
        (ShapeDtype((4, 8), "f32"), "ptr<f32> {divisible=16}"),
        (ShapeDtype((4,), np.float16), "ptr<f16> {divisible=16}"),
        (ShapeDtype((4,), np.dtype("i8")), "ptr<i64> {divisible=16}"),
        (ShapeDtype((4,), tl.bfloat16, aligned=False), "ptr<bf16>,"),
        (ShapeDtype((), dtype("uint8")), "ptr<u8> {divisible=16}"),
        (np.dtype(ml_dtypes.bfloat16), "ptr<bf16> {divisible=16}"),
        (np.int16, "ptr<i16> {divisible=16}"),
        (dtype("float32"), "ptr<f32> {divisible=16}"),
        (dtype("bool"), "ptr<bool> {divisible=16}"),
        ("*f32:16", "ptr<f32> {divisible=16}"),
        ("*fp32", "ptr<f32>,"),
    ],
    ids=str,
)
def test_described_arrays(described, shown):
    assert f"x: {shown}" in head(described, "*f32", "i32") + ","


@pytest.mark.parametrize(
    ("described", "shown"),
    [("i32", "i32,"), ("i64:16", "i64 {divisible=16}"), (1, "i32 {divisible=1}"), (32, "i32 {d")],
)
def test_described_scalars(described, shown):
    assert f"n: {shown}" in head("*f32", "*f32", described)


def test_a_text_is_a_value_where_the_parameter_is_constexpr():
    assert "KIND='i32'" in head("*f32", "*f32", "i32", "i32")


def test_descriptions_and_arrays_give_the_same_kernel(monkeypatch):
    base = np.zeros(68, "f4")
    x = base[(-base.ctypes.data // 4) % 4 :][:64]
    kernel.clear_cache()
    by_arrays = kernel.warmup(x, x, 5)
    assert kernel.warmup(ShapeDtype((64,), "float32"), np.float32, "i32") is by_arrays
    compiled = kernel.compile("x:*f32:16,out:*f32:16,n:i32", {"KIND": "a", "BLOCK": 64})
    assert compiled.key == by_arrays.key


def test_the_architecture_is_that_of_the_gpu_or_the_one_named(monkeypatch):
    assert kernel.warmup("*f32", "*f32", "i32", arch="sm_80").arch == "sm_80"
    monkeypatch.setattr("refcompiler.runtime.gpu_available", lambda: False)
    default = kernel.warmup("*f32", "*f32", "i32").arch
    monkeypatch.setattr("refcompiler.runtime.gpu_available", lambda: True)
    monkeypatch.setattr("refcompiler.runtime.native_arch", lambda device: "sm_100a")
    assert kernel.warmup("*f32", "*f32", "i32").arch == "sm_100a" != default
    assert kernel.warmup(np.zeros(4, "f4"), np.zeros(4, "f4"), "i32").arch == default


def test_machine_code_is_made_where_the_tools_are(tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    from refcompiler import toolchain
    from refcompiler.cache import shared_cache
    from refcompiler.toolchain import installed

    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    kernel.clear_cache()
    made = kernel.warmup("*f32", "*f32", "i32", grid=(7,), num_warps=2)
    assert shared_cache().get(made.key) == made.asm["cubin"]
    kernel.clear_cache(disk=True)
    assert shared_cache().get(made.key) is None

    def missing(*_):
        raise installed.unavailable("nvrtc", "nowhere")

    monkeypatch.setitem(toolchain.COMPILERS, "cuda", missing)
    assert kernel.warmup("*f32", "*f32", "i32", num_warps=2).asm["cuda"] == made.asm["cuda"]
    kernel.clear_cache()


@pytest.mark.parametrize(
    ("described", "id"),
    [
        (ShapeDtype((4,), "complex64"), "program.arguments#E8"),
        (ShapeDtype((4,), ">f4"), "program.arguments#E8"),
        (ShapeDtype((4,), dict), "program.arguments#E8"),
        ("*f33", "program.arguments#E2"),
        ("*f32:x", "program.arguments#E2"),
    ],
    ids=str,
)
def test_descriptions_of_nothing(described, id):
    with pytest.raises(LaunchError) as caught:
        kernel.warmup(described, "*f32", "i32")
    assert caught.value.id == id


@pytest.mark.parametrize("described", [ShapeDtype((4,), "f32"), np.float32, np.dtype("f4"), "*f32"], ids=str)
def test_descriptions_cannot_be_launched(described):
    with pytest.raises(LaunchError) as caught:
        kernel[(1,)](described, np.zeros(4, "f4"), 4)
    assert caught.value.id == "program.arguments#E2" and "`x`" in str(caught.value)


def test_clearing_everything(tmp_path, monkeypatch):
    from refcompiler.cache import shared_cache

    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    shared_cache().put("ab" * 32, b"data")
    first = kernel.warmup(np.zeros(4, "f4"), np.zeros(4, "f4"), 3)
    triton.clear_cache(disk=False)
    second = kernel.warmup(np.zeros(4, "f4"), np.zeros(4, "f4"), 3)
    assert second is not first and shared_cache().size()[0] == 1
    triton.clear_cache()
    assert kernel.warmup(np.zeros(4, "f4"), np.zeros(4, "f4"), 3) is not second and shared_cache().size()[0] == 0


def test_a_kernel_may_have_parameters_of_these_names():
    @triton.jit
    def named(arch, stream, warmup, backend):
        tl.store(arch, stream + warmup + backend)

    first = named.warmup(arch="*f32", stream="i32", warmup="i32", backend="i32").asm["tile"].splitlines()[0]
    assert "arch: ptr<f32>, stream: i32, warmup: i32, backend: i32" in first
