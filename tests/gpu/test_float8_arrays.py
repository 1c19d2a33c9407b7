"""Float8 on a GPU: tensors of torch, bytes of CuPy, and conversion of every number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.dialects import numeric
from refcompiler.ir.types import DTYPES, F32
from refcompiler.runtime import native_arch


@pytest.fixture(params=["cuda", "mlir"])
def backend(request, monkeypatch):
    if request.param == "mlir":
        pytest.importorskip("mlir.ir", reason="the MLIR wheels are not installed")
    monkeypatch.setenv("TILESPEC_BACKEND", request.param)


@triton.jit
def convert(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@triton.jit
def through_f32(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(tl.float32))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_tensors_of_torch(backend, name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    bits = torch.arange(256, dtype=torch.uint8, device="cuda")
    wide = torch.zeros(256, device="cuda")
    for _ in range(3):
        convert[(2,)](bits.view(dtype), wide, BLOCK=128)
    expected = bits.cpu().numpy().view(getattr(ml_dtypes, name)).astype("f4")
    assert np.array_equal(wide.cpu().numpy(), expected, equal_nan=True)
    back = torch.zeros(256, dtype=torch.uint8, device="cuda").view(dtype)
    convert[(2,)](wide, back, BLOCK=128)
    finite = np.isfinite(expected)
    assert (back.view(torch.uint8).cpu().numpy() == np.arange(256))[finite].all()


@pytest.mark.parametrize("name", ["f8e4m3", "f8e5m2"])
def test_every_upper_half_of_f32(cupy, backend, name):
    """65,536 numbers of all magnitudes, middles of neighbours among them, and one ULP beside each."""
    dtype = DTYPES[name]
    x = np.concatenate([(np.arange(1 << 16, dtype=np.uint32) << 16) + d for d in (0, 1, 0xFFFF)]).view(np.float32)
    out = cupy.zeros(x.size, "u1")
    kernel = convert.compile(f"x:*f32:16,out:*{name}:16", {"BLOCK": 512}, arch=native_arch())
    kernel[(x.size // 512,)](cupy.asarray(x), out)
    with np.errstate(all="ignore"):
        expected = numeric.cast(x, F32, dtype)
    nan = np.isnan(x)
    assert (out.get() == expected.view(np.uint8))[~nan].all()
    assert np.isnan(out.get().view(dtype.numpy).astype("f4"))[nan].all()


def test_bytes_of_cupy(cupy, backend):
    x = cupy.arange(128, dtype="u1") & 0x77  # no NaN
    out = cupy.zeros(128, "u1")
    kernel = through_f32.compile("x:*fp8e4nv,out:*fp8e5", {"BLOCK": 128}, arch=native_arch())
    for _ in range(2):
        kernel[(1,)](x, out)
    expected = x.get().view(ml_dtypes.float8_e4m3fn).astype("f4").astype(ml_dtypes.float8_e5m2)
    assert (out.get() == expected.view(np.uint8)).all()
