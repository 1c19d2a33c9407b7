"""The launcher without a GPU: what it hands to the driver, what it refuses, whose stream it takes."""

from __future__ import annotations

import copy
import sys
import threading
import types

import numpy as np
import pytest
from stand_ins import OnDevice, StandInDriver, Status, Tensor, abi_of

from refcompiler import runtime
from refcompiler.errors import LaunchError
from refcompiler.runtime import describe, gpu, launcher


@pytest.fixture
def use(monkeypatch):
    """Installs a stand-in driver and gives the function of a kernel with the given parameters."""

    def install(driver: StandInDriver, **fields) -> launcher.Function:
        monkeypatch.setattr(gpu, "driver", lambda: driver)
        monkeypatch.setattr(gpu, "device_count", lambda: driver.devices)
        monkeypatch.setattr(launcher, "_functions", {})
        return runtime.load_function(b"cubin", "k", abi_of(driver.kinds, **fields))

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    return install


def test_a_launch_hands_over_grid_threads_stream_and_arguments(use):
    driver = StandInDriver(("*f32", "*i64", "i32", "f32", "bool", "bf16"))
    function = use(driver)
    x, y = OnDevice(np.zeros(8, "f4")), OnDevice(np.zeros((2, 3), "i8").T)
    runtime.launch(function, (4, 5), 128, [x, describe(y), -7, 1, True, 1.0], stream=99, shared_bytes=64)
    assert driver.named("cuLaunchKernel") == [(70, 4, 5, 1, 128, 1, 1, 64, 99)]
    assert driver.launched == [[x.array.ctypes.data, y.array.ctypes.data, -7, 1.0, True, 0x3F80]]


def test_numpy_scalars_and_floats_past_the_range(use):
    driver = StandInDriver(("i32", "f32", "u64", "i8"))
    function = use(driver)
    runtime.launch(function, 1, 32, [np.int16(3), np.float64(1e300), np.uint64(2**64 - 1), np.True_])
    assert driver.launched == [[3, np.inf, 2**64 - 1, 1]]


def test_a_function_is_loaded_once_and_its_buffers_are_used_again(use):
    driver = StandInDriver(("i32",))
    function = use(driver)
    assert runtime.load_function(b"cubin", "k", abi_of(("i32",))) is function
    assert runtime.load_function(b"cubin", "k", abi_of(("i64",))) is not function
    assert driver.named("cuLibraryLoadData")[0] == (b"cubin", [], [], 0, [], [], 0)
    assert driver.named("cuLibraryGetKernel")[0] == (7, b"k")
    for i in range(3):
        runtime.launch(function, 1, 32, [i])
    assert driver.launched == [[0], [1], [2]] and len(function.buffers) == 1


def test_threads_do_not_mix_their_arguments(use):
    driver = StandInDriver(("i64", "i64"))
    function = use(driver)

    def work(who: int) -> None:
        for _ in range(200):
            runtime.launch(function, 1, 32, [who, who])

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.launched) == 800 and all(a == b for a, b in driver.launched)


@pytest.mark.parametrize(
    "grid, expected",
    [
        (3, (3, 1, 1)),
        ((3,), (3, 1, 1)),
        ([2, 3, 4], (2, 3, 4)),
        ((np.int64(5), 1), (5, 1, 1)),
        ((2**31 - 1, 65535, 65535), (2**31 - 1, 65535, 65535)),
    ],
)
def test_grids(use, grid, expected):
    driver = StandInDriver()
    runtime.launch(use(driver), grid, 32, [])
    assert driver.named("cuLaunchKernel")[0][1:4] == expected


@pytest.mark.parametrize("grid", [-1, (-3,), (4, -1), (2**31,), (1, 65536), (1, 1, 65536), (), (1, 1, 1, 1)])
def test_grids_out_of_range(use, grid):
    _refused_grid(use, grid)


@pytest.mark.parametrize("grid", [0, (0,), (4, 0), (4, 3, 0)])
def test_grids_without_programs_queue_nothing(use, grid):
    driver = StandInDriver()
    runtime.launch(use(driver), grid, 32, [])
    assert driver.launched == []


def test_a_view_is_the_address_of_its_first_element(use):
    driver = StandInDriver(("*f32", "*f32"))
    views = F4[::2], F4[::-1]
    runtime.launch(use(driver), 1, 32, [OnDevice(view) for view in views])
    assert driver.launched == [[F4.ctypes.data, F4.ctypes.data + 28]]


@pytest.mark.parametrize("grid", [1.0, (1.0,), True, (True,), "12", None, {"x": 1}, (None,)])
def test_grids_of_another_kind(use, grid):
    _refused_grid(use, grid)


def _refused_grid(use, grid):
    driver = StandInDriver()
    function = use(driver)
    with pytest.raises(LaunchError, match=r"k: the grid is .*, expected") as caught:
        runtime.launch(function, grid, 32, [])
    assert caught.value.id == "launch.grid" and driver.launched == []


F4 = np.zeros(8, "f4")


@pytest.mark.parametrize(
    "id, words, args, fields",
    [
        ("launch.host_array", "argument p0 of k is in host memory", [F4, 1], {}),
        ("launch.dtype", "argument p0 of k is an array of f64, expected f32", [OnDevice(np.zeros(8)), 1], {}),
        ("launch.dtype", "argument p0 of k: arrays of complex64", [OnDevice(np.zeros(8, "c8")), 1], {}),
        ("launch.readonly", "argument p0 of k is read-only", [OnDevice(F4, readonly=True), 1], {"written": True}),
        ("launch.alignment", "multiples of 4096", [OnDevice(np.zeros(2048, "f4")[1:]), 4096], {"divisible_by": 4096}),
        ("launch.array", "argument p0 of k: expected an array, found float", [1.0, 1], {}),
        ("launch.array", "argument p0 of k: expected an array, found int", [1234, 1], {}),
        ("launch.type", "argument p1 of k: expected an integer for i32, found float", [OnDevice(F4), 1.5], {}),
        (
            "launch.type",
            "argument p1 of k: expected an integer for i32, found OnDevice",
            [OnDevice(F4), OnDevice(F4)],
            {},
        ),
        ("launch.range", "argument p1 of k: 2147483648 does not fit i32", [OnDevice(F4), 2**31], {}),
        ("launch.range", "argument p1 of k: -2147483649 does not fit i32", [OnDevice(F4), np.int64(-(2**31) - 1)], {}),
        ("launch.arguments", r"takes 2 arguments \(p0, p1\), found 1", [OnDevice(F4)], {}),
    ],
)
def test_bad_arguments(use, id, words, args, fields):
    driver = StandInDriver(("*f32", "i32"))
    function = use(driver, **fields)
    with pytest.raises(LaunchError, match=words) as caught:
        runtime.launch(function, 1, 32, args)
    assert caught.value.id == id and driver.launched == []
    # The same kernel takes what it should.
    if "divisible_by" not in fields:
        runtime.launch(function, 1, 32, [OnDevice(F4), 1])
        assert driver.launched == [[F4.ctypes.data, 1]]


def test_an_integer_that_breaks_its_specialisation(use):
    driver = StandInDriver(("i32",))
    function = use(driver, divisible_by=16)
    with pytest.raises(LaunchError, match="p0 of k is 8, the kernel was compiled for multiples of 16"):
        runtime.launch(function, 1, 32, [8])
    runtime.launch(function, 1, 32, [48])
    assert driver.launched == [[48]]


@pytest.mark.parametrize("threads", [0, -32, 1025])
def test_bad_thread_counts(use, threads):
    with pytest.raises(LaunchError, match=f"{threads} threads a block, expected 1 to 1024"):
        runtime.launch(use(StandInDriver()), 1, threads, [])


def test_the_stream_is_cupys_current_one(use, monkeypatch):
    driver = StandInDriver(("*f32",))
    function = use(driver)
    current = types.SimpleNamespace(ptr=11)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(get_current_stream=lambda: current))
    runtime.launch(function, 1, 32, [OnDevice(F4)])
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    runtime.launch(function, 1, 32, [OnDevice(F4)])
    assert [call[-1] for call in driver.named("cuLaunchKernel")] == [0, 11]


def test_the_stream_is_torchs_current_one_for_its_tensors(use, monkeypatch):
    driver = StandInDriver(("*f32",))
    function = use(driver)
    stream = types.SimpleNamespace(cuda_stream=22)
    torch = types.SimpleNamespace(
        _C=types.SimpleNamespace(), cuda=types.SimpleNamespace(current_stream=lambda _: stream)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    runtime.launch(function, 1, 32, [Tensor(F4)])
    runtime.launch(function, 1, 32, [OnDevice(F4)])
    torch._C._cuda_getCurrentRawStream = lambda device: 33
    runtime.launch(function, 1, 32, [Tensor(F4)])
    runtime.launch(function, 1, 32, [Tensor(F4)], stream=stream)
    assert [call[-1] for call in driver.named("cuLaunchKernel")] == [22, 0, 33, 22]


def test_stream_objects(use):
    driver = StandInDriver()
    function = use(driver)

    class Protocol:
        def __cuda_stream__(self):
            return (0, 5)

    for stream in (4, Protocol(), types.SimpleNamespace(ptr=6), types.SimpleNamespace(cuda_stream=7)):
        runtime.launch(function, 1, 32, [], stream=stream)
    assert [call[-1] for call in driver.named("cuLaunchKernel")] == [4, 5, 6, 7]
    with pytest.raises(LaunchError, match="expected a CUDA stream, found str"):
        runtime.launch(function, 1, 32, [], stream="default")


def test_the_launch_waits_for_the_stream_that_an_array_names(use):
    driver = StandInDriver(("*f32",))
    function = use(driver)
    for stream in (1, 44, 55):
        runtime.launch(function, 1, 32, [OnDevice(F4, stream=stream)], stream=0 if stream == 1 else 44)
    assert driver.named("cuEventRecord") == [(9, 55)] and driver.named("cuStreamWaitEvent") == [(44, 9, 0)]
    names = [call[0] for call in driver.calls]
    assert names.index("cuStreamWaitEvent") < len(names) - 1 - names[::-1].index("cuLaunchKernel")


def test_a_thread_without_a_context_gets_the_primary_one(use):
    driver = StandInDriver(("i32",), answers=[Status.CUDA_ERROR_INVALID_CONTEXT])
    runtime.launch(use(driver), 1, 32, [3])
    assert driver.named("cuCtxSetCurrent") == [(5,)] and driver.launched == [[3], [3]]


def test_waiting_for_a_stream_needs_a_context_too(use):
    driver = StandInDriver(("*f32",))
    function = use(driver)
    driver.cuCtxGetDevice = lambda: (Status.CUDA_ERROR_INVALID_CONTEXT, None)
    runtime.launch(function, 1, 32, [OnDevice(F4, stream=55)])
    names = [call[0] for call in driver.calls]
    assert names.index("cuCtxSetCurrent") < names.index("cuEventCreate") < names.index("cuLaunchKernel")


def test_a_failing_driver_is_quoted(use):
    driver = StandInDriver(("i32",), answers=[Status.CUDA_ERROR_ILLEGAL_ADDRESS])
    function = use(driver)
    with pytest.raises(LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS: said the driver") as caught:
        runtime.launch(function, 1, 32, [3])
    assert caught.value.id == "launch.driver" and "earlier kernel" in str(caught.value)


def test_much_shared_memory_is_asked_for_once(use):
    driver = StandInDriver()
    function = use(driver)
    for shared in (1000, 100_000, 90_000):
        runtime.launch(function, 1, 32, [], shared_bytes=shared)
    assert driver.named("cuKernelSetAttribute") == [("dynamic", 100_000, 70, 0)]
    with pytest.raises(LaunchError, match="needs 300000 bytes of shared memory a block, GPU 0 has 232448"):
        runtime.launch(function, 1, 32, [], shared_bytes=300_000)


def test_arrays_on_other_gpus(use):
    driver = StandInDriver(("*f32", "*f32"), devices=2)
    function = use(driver)
    here, there = OnDevice(F4), OnDevice(F4, device=1)
    with pytest.raises(LaunchError, match=r"on GPUs \[0, 1\], expected one"):
        runtime.launch(function, 1, 32, [here, there])
    with pytest.raises(LaunchError, match="on GPU 1, and the current one is GPU 0"):
        runtime.launch(function, 1, 32, [there, there])
    driver.current = 1
    runtime.launch(function, 1, 32, [there, there])
    assert len(driver.launched) == 1


def test_gpu_info_and_native_arch(use, monkeypatch):
    use(StandInDriver())
    monkeypatch.setattr(gpu, "_driver_release", lambda: "580.1")
    assert runtime.native_arch() == "sm_90a"
    assert runtime.gpu_info() == {
        "name": "NVIDIA Test", "arch": "sm_90a", "driver": "580.1", "cuda": "13.0", "multiprocessors": 132,
        "memory_bytes": 1 << 37, "max_sm_clock_mhz": 1980,
    }  # fmt: skip


class Failing:
    """A driver module in which one function answers something else."""

    def __init__(self, init, count=(0, 0)):
        self.init, self.count = init, count

    def cuInit(self, _):
        if isinstance(self.init, Exception):
            raise self.init
        return (self.init,)

    def cuDeviceGetCount(self):
        return self.count


@pytest.mark.parametrize(
    "module, words",
    [
        (Failing(RuntimeError("Failed to dlopen libcuda.so.1")), "the driver library cannot be loaded"),
        (Failing(Status.CUDA_ERROR_INVALID_CONTEXT), "cuInit answers CUDA_ERROR_INVALID_CONTEXT"),
        (Failing(0), "the driver reports no device"),
        (None, "cuda-bindings cannot be imported"),
    ],
)
def test_a_missing_gpu_says_what_was_looked_for(monkeypatch, module, words):
    if module is None:
        monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    else:
        bindings = types.ModuleType("cuda.bindings")
        bindings.driver = module
        monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    with pytest.raises(runtime.GpuUnavailable, match=words) as caught:
        gpu.driver.__wrapped__()
    assert caught.value.id == "launch.no_gpu" and "libcuda.so.1" in str(caught.value)
    assert str(copy.copy(caught.value)) == str(caught.value)
