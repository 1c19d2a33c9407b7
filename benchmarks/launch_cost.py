"""Times a warm launch on the host: ours by CUDA C++ and by MLIR, upstream Triton, and CuPy's RawKernel, in one process.

Run ``python benchmarks/launch_cost.py [--rounds N] [--json FILE]`` on a machine with a GPU, CuPy and, for the
comparison, torch and Triton; parts that are not installed are left out. A launch adds two vectors of 256 elements and
returns before it has run; the time is that of one launch among 500 queued after each other, the best of the rounds, in
microseconds. ``--stub`` needs no GPU: the driver's launch function does nothing; what is left is our own Python.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import refcompiler as tile
import refcompiler.language as tl

N, BLOCK, LAUNCHES = 256, 256, 500


@tile.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


RAW = """
extern "C" __global__ void add(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
"""


def microseconds(launch: Callable[[], Any], finish: Callable[[], Any], rounds: int) -> float:
    """The least mean time of a launch over the rounds."""
    launch()
    finish()
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        best = min(best, time.perf_counter() - started)
        finish()
    return best / LAUNCHES * 1e6


def measure(rounds: int) -> dict[str, float]:
    import cupy

    found: dict[str, float] = {}
    x, y = cupy.arange(N, dtype="f4"), cupy.ones(N, "f4")
    wanted = x + y
    finish = cupy.cuda.runtime.deviceSynchronize

    def record(name: str, launch: Callable[[Any], Callable[[], Any]], out: Any) -> None:
        found[name] = microseconds(launch(out), finish, rounds)
        assert bool((cupy.asarray(out) == wanted).all()), name

    def ours(out: Any) -> Callable[[], Any]:
        return lambda: add[(1,)](x, y, out, N, BLOCK=BLOCK)

    record("ours, CUDA C++, CuPy arrays", ours, cupy.zeros(N, "f4"))
    record("the same, grid a function", lambda out: lambda: add[lambda meta: (1,)](x, y, out, N, BLOCK=BLOCK), x * 0)
    try:
        os.environ["TILESPEC_BACKEND"] = "mlir"
        record("ours, MLIR, CuPy arrays", ours, cupy.zeros(N, "f4"))
    except Exception as error:
        print(f"MLIR left out: {error}", file=sys.stderr)
    del os.environ["TILESPEC_BACKEND"]
    raw = cupy.RawKernel(RAW, "add")
    n = np.int32(N)
    record("CuPy RawKernel", lambda out: lambda: raw((1,), (256,), (x, y, out, n)), cupy.zeros(N, "f4"))
    _with_torch(record, x, y)
    return found


def _with_torch(record: Callable, x: Any, y: Any) -> None:
    try:
        import torch
    except ImportError:
        return
    tx, ty = torch.as_tensor(x, device="cuda"), torch.as_tensor(y, device="cuda")
    record(
        "ours, CUDA C++, torch tensors",
        lambda out: lambda: add[(1,)](tx, ty, out, N, BLOCK=BLOCK),
        torch.zeros(N, device="cuda"),
    )
    try:
        import triton
    except ImportError:
        return
    upstream = triton.jit(add.fn)
    add.fn.__globals__["tl"] = triton.language
    try:
        record(
            f"Triton {triton.__version__}, torch tensors",
            lambda out: lambda: upstream[(1,)](tx, ty, out, N, BLOCK=BLOCK),
            torch.zeros(N, device="cuda"),
        )
    finally:
        add.fn.__globals__["tl"] = tl


def stubbed(rounds: int) -> dict[str, float]:
    """The cost of our Python alone, on objects with torch's methods and a driver that does nothing."""
    from refcompiler.runtime import gpu, launcher

    class Tensor:
        is_cuda, dtype, shape = True, "torch.float32", (N,)
        device = SimpleNamespace(type="cuda", index=0)

        def __init__(self) -> None:
            self.address = np.zeros(N, "f4").ctypes.data & ~15

        def data_ptr(self) -> int:
            return self.address

        def stride(self) -> tuple[int, ...]:
            return (1,)

    capability = {"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 9, "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 0}

    class Driver(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            return lambda *_: (0, 1)

    driver = Driver(
        CUfunction=int,
        CUdevice_attribute=SimpleNamespace(**capability),
        cuDeviceGetAttribute=lambda value, _: (0, value),
        cuLaunchKernel=lambda *_: (0,),
    )
    gpu.driver = lambda: driver
    gpu.device_count = lambda: 1
    launcher._functions.clear()
    add.clear_cache()
    os.environ["TILESPEC_BACKEND"] = "cuda"
    x, y, out = Tensor(), Tensor(), Tensor()
    return {"ours, no driver": microseconds(lambda: add[(1,)](x, y, out, N, BLOCK=BLOCK), lambda: None, rounds)}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--stub", action="store_true", help="no GPU: our Python alone")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    found = stubbed(chosen.rounds) if chosen.stub else measure(chosen.rounds)
    for name, value in found.items():
        print(f"{name:40}{value:8.2f} us")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
