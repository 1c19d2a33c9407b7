"""CUDA C++ written by hand, through the toolchain and the launcher, on arrays of CuPy and torch."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from refcompiler import runtime, toolchain
from refcompiler.errors import LaunchError
from refcompiler.runtime import KernelABI, Param

ADD = """
extern "C" __global__ void add(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
"""
POINTERS = (Param("x", "pointer", "f32"), Param("y", "pointer", "f32"), Param("out", "pointer", "f32", written=True))
ADD_ABI = KernelABI((*POINTERS, Param("n", "scalar", "i32")))

# Writes every scalar as f64, so that one array shows what arrived.
SCALARS = """
__device__ float half_of(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ float bfloat_of(unsigned short h) { return __int_as_float((int)h << 16); }
extern "C" __global__ void scalars(bool a, signed char b, double c, short d, int e, unsigned char f, long long g,
                                   unsigned short h, float i, unsigned short j, unsigned long long k, double* out) {
    double all[] = {(double)a, (double)b, c, (double)d, (double)e, (double)f, (double)g, half_of(h), i, bfloat_of(j),
                    (double)k};
    for (int n = 0; n < 11; n++) out[n] = all[n];
}
"""

SHARED = """
extern "C" __global__ void reverse(float* x, int n) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = s[n - 1 - i];
}
"""

SPIN = """
extern "C" __global__ void slow_set(float* x, float value) {
    long long start = clock64();
    while (clock64() - start < 200000000) {}
    x[0] = value;
}
"""


def load(source: str, entry: str, abi: KernelABI) -> runtime.Function:
    return runtime.load_function(toolchain.cuda_to_cubin(source, runtime.native_arch()), entry, abi)


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch without CUDA")
    return torch


@pytest.mark.parametrize("n", [1, 1000, 12345])
def test_add_on_cupy_arrays(cupy, n):
    x, y = cupy.arange(n, dtype="f4"), cupy.full(n, 0.5, "f4")
    out = cupy.full(n + 8, -1, "f4")
    runtime.launch(load(ADD, "add", ADD_ABI), (-(-n // 128),), 128, [x, y, out, n])
    assert (out.get() == np.append(np.arange(n, dtype="f4") + np.float32(0.5), np.full(8, -1, "f4"))).all()


def test_add_on_torch_tensors(torch):
    x, y = torch.arange(1000, device="cuda", dtype=torch.float32), torch.ones(1000, device="cuda")
    out = torch.zeros(1000, device="cuda")
    runtime.launch(load(ADD, "add", ADD_ABI), 8, 128, [x, y, out, 1000])
    assert (out.cpu().numpy() == np.arange(1000) + 1).all()


def test_bf16_tensors_are_described(torch):
    info = runtime.describe(torch.zeros((4, 6), device="cuda", dtype=torch.bfloat16).T)
    assert (info.dtype, info.shape, info.strides, info.device, info.nbytes) == ("bf16", (6, 4), (1, 6), 0, 48)


class Only:
    """A CuPy array behind one interface."""

    def __init__(self, array, *names):
        self.array = array
        for name in names:
            setattr(type(self), name, property(lambda self, name=name: getattr(self.array, name)))


class OnlyDLPack(Only):
    pass


class OnlyInterface(Only):
    pass


def test_add_through_dlpack_and_the_array_interface(cupy):
    x = OnlyDLPack(cupy.arange(100, dtype="f4"), "__dlpack__", "__dlpack_device__")
    y = OnlyInterface(cupy.ones(100, "f4"), "__cuda_array_interface__")
    out = cupy.zeros(100, "f4")
    assert runtime.is_device_array(x) and runtime.is_device_array(y)
    assert runtime.describe(x)[:5] == runtime.describe(x.array)[:5]
    runtime.launch(load(ADD, "add", ADD_ABI), 1, 128, [x, y, out, 100])
    assert (out.get() == np.arange(100) + 1).all()


def test_every_scalar_arrives(cupy):
    kinds = ("bool", "i8", "f64", "i16", "i32", "u8", "i64", "f16", "f32", "bf16", "u64")
    abi = KernelABI((*(Param(kind, "scalar", kind) for kind in kinds), Param("out", "pointer", "f64", written=True)))
    values = [True, -128, -0.1, -32768, -(2**31), 255, -(2**53), 0.1, 0.1, 0.1, 2**53]
    out = cupy.zeros(11, "f8")
    runtime.launch(load(SCALARS, "scalars", abi), 1, 1, [*values, out])
    # 0.1 in f16, f32 and bf16, written out.
    expected = [1, -128, -0.1, -32768, -(2**31), 255, -(2**53), 1638 / 2**14, 13421773 / 2**27, 205 / 2**11, 2**53]
    assert out.get().tolist() == expected


def test_more_shared_memory_than_the_default(cupy):
    n = 40_000  # 160,000 bytes
    optin = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
    function = load(SHARED, "reverse", KernelABI((Param("x", "pointer", "f32", True), Param("n", "scalar", "i32"))))
    if 4 * n > optin:
        with pytest.raises(LaunchError, match="bytes of shared memory"):
            runtime.launch(function, 1, 256, [cupy.zeros(n, "f4"), n], shared_bytes=4 * n)
        return
    x = cupy.arange(n, dtype="f4")
    runtime.launch(function, 1, 256, [x, n], shared_bytes=4 * n)
    assert (x.get() == np.arange(n)[::-1]).all()
    with pytest.raises(LaunchError, match="bytes of shared memory"):
        runtime.launch(function, 1, 256, [x, n], shared_bytes=optin + 4)


def test_kernels_run_in_order_of_the_current_stream(cupy):
    function = load(SPIN, "slow_set", KernelABI((Param("x", "pointer", "f32", True), Param("v", "scalar", "f32"))))
    x = cupy.zeros(1, "f4")
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        runtime.launch(function, 1, 1, [x, 3.0])
        assert not stream.done  # on this stream, and asynchronous
        y = x + 1  # queued behind the kernel
        stream.synchronize()
    assert float(y[0]) == 4.0


def test_torchs_current_stream_is_used(torch):
    function = load(SPIN, "slow_set", KernelABI((Param("x", "pointer", "f32", True), Param("v", "scalar", "f32"))))
    x = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        runtime.launch(function, 1, 1, [x, 3.0])
        assert not stream.query()
        y = x + 1
    stream.synchronize()
    assert float(y[0]) == 4.0


def test_a_thread_that_never_touched_cuda(cupy):
    x, out = cupy.ones(32, "f4"), cupy.zeros(32, "f4")
    infos = [runtime.describe(a) for a in (x, x, out)]
    cupy.cuda.Device().synchronize()
    function = load(ADD, "add", ADD_ABI)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            runtime.launch(function, 1, 32, [*infos, 32], stream=0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == [] and (out.get() == 2).all()


def test_wrong_arguments_leave_arrays_as_they_were(cupy):
    x, out = cupy.ones(64, "f4"), cupy.zeros(64, "f4")
    function = load(ADD, "add", ADD_ABI)
    for args, id in (
        ([x, x, out.astype("f8"), 32], "launch.dtype"),
        ([x, x, out.get(), 32], "launch.host_array"),
        ([x, x, out, 2**31], "launch.range"),
        ([x, x, out], "launch.arguments"),
    ):
        with pytest.raises(LaunchError) as caught:
            runtime.launch(function, 1, 32, args)
        assert caught.value.id == id
    with pytest.raises(LaunchError) as caught:
        runtime.launch(function, -1, 32, [x, x, out, 32])
    assert caught.value.id == "launch.grid"
    runtime.launch(function, 0, 32, [x, x, out, 32])  # no programs
    assert (out.get() == 0).all()


def test_the_driver_refuses_a_cubin_of_another_architecture():
    other = "sm_80" if not runtime.native_arch().startswith("sm_8") else "sm_90a"
    cubin = toolchain.cuda_to_cubin(ADD, other)
    with pytest.raises(LaunchError, match="CUDA_ERROR") as caught:
        function = runtime.load_function(cubin, "add", ADD_ABI)
        runtime.launch(function, 1, 1, [runtime.ArrayInfo(0, "f32", (0,), (1,), 0, False, 0, "other")] * 3 + [0])
    assert caught.value.id == "launch.driver"


def test_gpu_info_names_the_machine():
    info = runtime.gpu_info()
    assert info["arch"] == runtime.native_arch() and info["name"] and info["multiprocessors"] > 0
    assert info["memory_bytes"] > 2**30 and info["max_sm_clock_mhz"] > 100
