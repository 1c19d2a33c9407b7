"""Kernels launched again and again on a GPU: arrays of CuPy and torch, views, streams, threads, changed values."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import LaunchError

SCALE = tl.constexpr(2)


@triton.jit
def scaled(x, out, n, step, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * step, mask=i < n) * factor * SCALE, mask=i < n)


@pytest.fixture(params=["cuda", "mlir"])
def backend(request, monkeypatch):
    if request.param == "mlir":
        pytest.importorskip("mlir.ir", reason="the MLIR wheels are not installed")
    monkeypatch.setenv("TILESPEC_BACKEND", request.param)


def prepared() -> int:
    """Launches that go the short way from now on."""
    return sum(len(call.launches) for call in scaled._launches.calls.values())


def test_cupy_arrays_and_their_views(cupy, backend):
    scaled.clear_cache()
    x = cupy.arange(1000, dtype="f4")
    for view, step in ((x, 1), (x[1:], 1), (x[::3], 3), (x[::-2], -2), (x.reshape(20, 50).T[3], 50)):
        n = view.size
        for factor in (1.0, 2.5, np.float32(0.5)):
            out = cupy.zeros(n, "f4")
            for grid in ((triton.cdiv(n, 256),), lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)):
                out.fill(0)
                scaled[grid](view, out, n, step, factor, BLOCK=256)
                assert (out == view * np.float32(factor) * 2).all()
    assert prepared() >= 4
    with pytest.raises(LaunchError) as caught:
        scaled[(1,)](x, np.zeros(1000, "f4"), 10, 1, 1.0, BLOCK=256)
    assert caught.value.id == "program.arguments#E6"
    wide = cupy.zeros(1000, "f8")
    scaled[(4,)](x.astype("f8"), wide, 1000, 1, 1.0, BLOCK=256)
    assert (wide == x * 2).all()


def test_torch_tensors(backend):
    torch = pytest.importorskip("torch")
    scaled.clear_cache()
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    for view, step in ((x, 1), (x[3:], 1), (x[::4], 4), (x.reshape(20, 50).t()[7], 50)):
        n = view.numel()
        for _ in range(3):
            out = torch.zeros(n, device="cuda")
            scaled[(triton.cdiv(n, 128),)](view, out, n, step, 3.0, BLOCK=128)
            assert bool((out == view * 6).all())
    assert prepared() >= 3
    with pytest.raises(LaunchError) as caught:
        scaled[(1,)](x, torch.zeros(1000), 10, 1, 1.0, BLOCK=128)
    assert caught.value.id == "program.arguments#E6"


def test_current_and_given_streams(cupy, backend):
    x, out = cupy.ones(1 << 20, "f4"), cupy.zeros(1 << 20, "f4")
    stream = cupy.cuda.Stream(non_blocking=True)
    for _ in range(3):
        with stream:
            out.fill(0)
            scaled[(4096,)](x, out, 1 << 20, 1, 1.0, BLOCK=256)
            assert (out == 2).all()
        out.fill(0)
        cupy.cuda.Stream.null.synchronize()
        scaled[(4096,)](x, out, 1 << 20, 1, 1.0, BLOCK=256, stream=stream)
        stream.synchronize()
        assert (out == 2).all()


def test_a_changed_global_is_noticed_between_warm_launches(cupy, backend, monkeypatch):
    x, out = cupy.ones(64, "f4"), cupy.zeros(64, "f4")
    for value in (2, 2, 5, 5, 2):
        monkeypatch.setitem(globals(), "SCALE", tl.constexpr(value))
        scaled[(1,)](x, out, 64, 1, 1.0, BLOCK=64)
        assert (out == value).all()


def test_threads_launch_at_once(cupy, backend):
    failures: list = []

    def work(who: int) -> None:
        try:
            with cupy.cuda.Stream(non_blocking=True) as stream:
                x, out = cupy.full(512, who, "f4"), cupy.zeros(512, "f4")
                for factor in range(100):
                    scaled[(8,)](x, out, 512, 1, float(factor), BLOCK=64 << who % 2)
                    stream.synchronize()
                    if not (out == who * factor * 2).all():
                        failures.append((who, factor))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
