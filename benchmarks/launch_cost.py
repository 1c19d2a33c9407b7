"""Times a warm launch on the host: ours by CUDA C++ and by MLIR, upstream Triton, and CuPy's RawKernel, in one process.

Run ``python benchmarks/launch_cost.py [--rounds N] [--json FILE]`` on a machine with a GPU, CuPy and, for the
comparison, torch and Triton; parts that are not installed are left out. A launch adds two vectors of 256 elements and
returns before it has run; the time is that of one launch among 200 queued after each other, the best of the rounds, in
microseconds. ``--stub`` needs no GPU: the driver's launch function does nothing; what is left is our own Python.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import refcompiler as tile
import refcompiler.language as tl

N, BLOCK, LAUNCHES = 256, 256, 200


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


def microseconds(launches: dict[str, Callable[[], Any]], finish: Callable[[], Any], rounds: int) -> dict[str, float]:
    """The least mean time of each launch over the rounds, which take turns: no machine is equally fast all the time."""
    best = dict.fromkeys(launches, float("inf"))
    for _ in range(rounds):
        for name, launch in launches.items():
            launch()
            finish()
            started = time.perf_counter()
            for _ in range(LAUNCHES):
                launch()
            best[name] = min(best[name], time.perf_counter() - started)
            finish()
    return {name: seconds / LAUNCHES * 1e6 for name, seconds in best.items()}


def measure(rounds: int) -> dict[str, float]:
    import cupy

    launches: dict[str, Callable[[], Any]] = {}
    outputs: dict[str, Any] = {}
    x, y = cupy.arange(N, dtype="f4"), cupy.ones(N, "f4")
    n = np.int32(N)
    raw = cupy.RawKernel(RAW, "add")

    def include(name: str, launch: Callable[[Any], Callable[[], Any]], out: Any) -> None:
        try:
            launch(out)()
        except Exception as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
        else:
            launches[name], outputs[name] = launch(out), out

    include("ours, CUDA C++, CuPy", lambda out: lambda: add[(1,)](x, y, out, N, BLOCK=BLOCK), x * 0)
    include("the same, grid a function", lambda out: lambda: add[lambda meta: (1,)](x, y, out, N, BLOCK=BLOCK), x * 0)
    include("ours, MLIR, CuPy", lambda out: lambda: add[(1,)](x, y, out, N, BLOCK=BLOCK, backend="mlir"), x * 0)
    include("CuPy RawKernel", lambda out: lambda: raw((1,), (256,), (x, y, out, n)), x * 0)
    _with_torch(include, x, y)
    found = microseconds(launches, cupy.cuda.runtime.deviceSynchronize, rounds)
    for name, out in outputs.items():
        assert bool((cupy.asarray(out) == x + y).all()), name
    return found


def _with_torch(include: Callable, x: Any, y: Any) -> None:
    try:
        import torch
    except ImportError:
        return
    tx, ty = torch.as_tensor(x, device="cuda"), torch.as_tensor(y, device="cuda")

    def zeros() -> Any:
        return torch.zeros(N, device="cuda")

    include("ours, CUDA C++, torch", lambda out: lambda: add[(1,)](tx, ty, out, N, BLOCK=BLOCK), zeros())
    try:
        import triton
    except ImportError:
        return
    theirs = types.FunctionType(add.fn.__code__, {**add.fn.__globals__, "tl": triton.language}, "add")
    theirs.__annotations__ = add.fn.__annotations__
    upstream = triton.jit(theirs)
    name = f"Triton {triton.__version__}, torch"
    include(name, lambda out: lambda: upstream[(1,)](tx, ty, out, N, BLOCK=BLOCK), zeros())


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
    return microseconds({"ours, no driver": lambda: add[(1,)](x, y, out, N, BLOCK=BLOCK)}, lambda: None, rounds)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
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
