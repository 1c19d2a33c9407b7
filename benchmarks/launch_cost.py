"""Times a warm launch on the host: ours by CUDA C++ and by MLIR, upstream Triton, and CuPy's RawKernel, in one process.

Run ``python benchmarks/launch_cost.py [--rounds N] [--json FILE]`` on a machine with a GPU, CuPy and, for the
comparison, torch and Triton; parts that are not installed are left out. A launch adds two vectors of 256 elements and
returns before it has run; the time is that of one launch among 200 queued after each other, the best of the rounds, in
microseconds. ``--stub`` needs no GPU: the driver's launch function does nothing; what is left is our own Python.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
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
    _with_driver(include, x, y)
    _with_torch(include, x, y)
    found = microseconds(launches, cupy.cuda.runtime.deviceSynchronize, rounds)
    for name, out in outputs.items():
        assert bool((cupy.asarray(out) == x + y).all()), name
    return found


def _with_driver(include: Callable, x: Any, y: Any) -> None:
    """The driver's own launch function, called in several ways on arguments that are packed already."""
    import cupy
    from cuda.bindings import driver

    from refcompiler.runtime import gpu
    from refcompiler.runtime.abi import LaunchBuffer

    kernel = add.warmup(x, y, x, N, BLOCK=BLOCK)
    function, threads = kernel.function, kernel.build.threads
    block, handle = (1, 1, 1, threads, 1, 1, kernel.build.shared_bytes, 0), int(function.kernel)
    in_cupy = getattr(cupy.cuda.driver, "launchKernel", None)
    address = int(gpu.ask("cuGetProcAddress", b"cuLaunchKernel", 12000, 0))
    by_ctypes = ctypes.CFUNCTYPE(ctypes.c_int)(address)

    def packed(out: Any) -> tuple[LaunchBuffer, int]:
        buffer = LaunchBuffer(function.abi)
        function.pack(buffer.memory, 0, x.data.ptr, y.data.ptr, out.data.ptr, N, *block)
        return buffer, ctypes.addressof(buffer.pointers)

    def configured(out: Any) -> Callable[[], Any]:
        buffer, _ = packed(out)
        return lambda: function.queue(buffer.config, function.handle, buffer.arguments, None)

    def through_ctypes(out: Any) -> Callable[[], Any]:
        buffer, _ = packed(out)
        null = ctypes.c_void_p.from_param(0)
        return lambda: by_ctypes(function.handle, *block[:-1], null, buffer.arguments, null)

    def through_bindings(out: Any) -> Callable[[], Any]:
        buffer, pointers = packed(out)
        return lambda: (buffer, driver.cuLaunchKernel(function.kernel, *block, pointers, 0))

    def through_cupy(out: Any) -> Callable[[], Any]:
        buffer, pointers = packed(out)
        return lambda: (buffer, in_cupy(handle, *block, pointers, 0))

    include("driver alone, ctypes, cuLaunchKernelEx", configured, x * 0)
    include("driver alone, ctypes", through_ctypes, x * 0)
    include("driver alone, cuda.bindings", through_bindings, x * 0)
    include("driver alone, CuPy", through_cupy, x * 0)


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

    nothing = ctypes.CDLL(ctypes.util.find_library("m")).fegetround  # a C function that answers 0 whatever it is given
    driver = Driver(
        CUfunction=int,
        CUdevice_attribute=SimpleNamespace(**capability),
        cuDeviceGetAttribute=lambda value, _: (0, value),
        cuGetProcAddress=lambda *_: (0, ctypes.cast(nothing, ctypes.c_void_p).value),
    )
    gpu.driver = lambda: driver
    gpu.device_count = lambda: 1
    launcher._functions.clear()
    add.clear_cache()
    os.environ["TILESPEC_BACKEND"] = "cuda"
    # As torch's own, a C function: abs(0) is 0, the default stream.
    sys.modules["torch"] = SimpleNamespace(_C=SimpleNamespace(_cuda_getCurrentRawStream=abs))  # type: ignore[assignment]
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
