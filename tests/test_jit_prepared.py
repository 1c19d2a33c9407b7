"""Warm launches: what a prepared launch hands to the driver, and that no check is lost on the way."""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref

import numpy as np
import pytest
from stand_ins import StandInDriver, Status, Tensor

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import LaunchError
from refcompiler.jit import function, launch_text
from refcompiler.jit.prepared import PreparedLaunches
from refcompiler.runtime import gpu, launcher

SCALE = tl.constexpr(2)


@triton.jit
def kernel(x, out, n, factor, BLOCK: tl.constexpr = 64, flag: tl.constexpr = 1.0):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor * SCALE, mask=i < n)


class CudaTensor(Tensor):
    """As torch's tensors: on a GPU or not, with a dtype that is no NumPy dtype."""

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"


class Driver(StandInDriver):
    """Keeps the entry and arguments of each launch; the kernel's own ABI says what these are."""

    def cuLaunchKernel(self, handle, *rest):
        *_, address, _extra = rest
        pointers = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_float)
        self.launched.append([kind.from_address(pointers[i]).value for i, kind in enumerate(kinds)])
        self.calls.append(("cuLaunchKernel", handle, *rest[:-2]))
        return (self.answers.pop(0) if self.answers else Status.CUDA_SUCCESS,)


@pytest.fixture
def driver(monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    made = Driver()
    monkeypatch.setattr(gpu, "driver", lambda: made)
    monkeypatch.setattr(gpu, "device_count", lambda: made.devices)
    monkeypatch.setattr(launcher, "_functions", {})
    for library in ("cupy", "torch"):
        monkeypatch.delitem(sys.modules, library, raising=False)
    kernel.clear_cache()
    yield made
    kernel.clear_cache()


def tensors(n: int = 64) -> tuple[CudaTensor, CudaTensor]:
    made = []
    for _ in range(2):
        base = np.zeros(n + 4, "f4")
        made.append(CudaTensor(base[(-base.ctypes.data // 4) % 4 :][:n]))
    return made[0], made[1]


@pytest.fixture
def long_way(monkeypatch):
    """Counts the launches that go the long way."""
    found: list[tuple] = []
    whole = function.bind

    def counted(source, args, kwargs):
        found.append(tuple(args))
        return whole(source, args, kwargs)

    monkeypatch.setattr(function, "bind", counted)
    return found


def test_the_second_launch_hands_over_what_the_first_does(driver, long_way):
    x, out = tensors()
    first = kernel[(2, 3)](x, out, 60, 1.5, num_warps=2)
    y, other = tensors()
    assert kernel[(4,)](y, other, 44, 2.5, num_warps=2) is first
    assert len(long_way) == 1
    assert driver.launched == [[x.data_ptr(), out.data_ptr(), 60, 1.5], [y.data_ptr(), other.data_ptr(), 44, 2.5]]
    assert [call[1:4] + call[4:5] for call in driver.named("cuLaunchKernel")] == [(2, 3, 1, 64), (4, 1, 1, 64)]


@pytest.mark.parametrize(
    "launch",
    [
        lambda x, y: kernel[(1,)](out=y, x=x, factor=1.0, n=50),
        lambda x, y: kernel[(1,)](x, y, factor=1.0, n=np.int64(50)),
        lambda x, y: kernel[1](x, y, 50, np.float32(1.0), BLOCK=64),
        lambda x, y: kernel[lambda meta: (meta["n"] - 49, meta["BLOCK"] // 64)](x, y, 50, 1.0),
        lambda x, y: kernel[[np.int32(1), 1]](x, y, 50, 1.0, stream=0),
    ],
)
def test_every_form_of_call(driver, long_way, launch):
    x, y = tensors()
    for _ in range(3):
        launch(x, y)
    assert len(long_way) == 1
    assert driver.launched == [[x.data_ptr(), y.data_ptr(), 50, 1.0]] * 3
    assert {call[1:4] for call in driver.named("cuLaunchKernel")} == {(1, 1, 1)}


def test_what_code_depends_on_is_asked_every_time(driver, long_way):
    x, out = tensors()
    unaligned = CudaTensor(x.array[1:])
    wide = CudaTensor(np.zeros(64), dtype="torch.float64")
    kernels = [
        kernel[(1,)](x, out, n, 1.0, BLOCK=block, flag=flag)
        for n in (5, 16, 8, 1, 2**31, 2**63)
        for block in (64, 32)
        for flag in (1, 1.0, True)
    ]
    kernels += [kernel[(1,)](unaligned, out, 5, 1.0), kernel[(1,)](wide, out, 5, 1.0)]
    kernels += [kernel[(1,)](x, out, 5, 1.0, flag=v) for v in (0.0, -0.0, float("nan"), "a", (1, 2), (1.0, 2), None)]
    assert len(set(map(id, kernels))) == len(kernels) == len(long_way)
    heads = [k.asm["tile"].splitlines()[0] for k in kernels[:-9]]
    assert (
        sum("n: i32 {divisible=16}" in h for h in heads) == 6 and sum("n: i32 {divisible=8}" in h for h in heads) == 6
    )
    assert sum("n: i64" in h for h in heads) == 6
    assert sum("n: u64" in h for h in heads) == 6


def test_a_nan_is_the_same_compile_time_value_again(driver, long_way):
    x, out = tensors()
    for _ in range(3):
        kernel[(1,)](x, out, 5, 1.0, flag=float("nan"))
        kernel[(1,)](x, out, 5, 1.0, flag=np.float32("nan"))
    assert len(long_way) == 2


def test_errors_of_arguments_on_warm_launches(driver):
    x, out = tensors()
    host = np.zeros(64, "f4")
    kernel[(1,)](x, out, 5, 1.0)
    for arguments, id in (
        ((x, out, 2**64, 1.0), "program.arguments#E3"),
        ((x, out, -(2**63) - 1, 1.0), "program.arguments#E3"),
        ((x, host, 5, 1.0), "program.arguments#E6"),
        ((x, CudaTensor(host, "cpu"), 5, 1.0), "program.arguments#E6"),
        ((x, out, "5", 1.0), "program.arguments#E2"),
        ((x, out, 5), "program.arguments#E1"),
        ((x, out, 5, 1.0, {}), "program.arguments#E2"),
    ):
        with pytest.raises(LaunchError) as caught:
            kernel[(1,)](*arguments)
        assert caught.value.id == id, arguments
    for grid, id in (
        ((-1,), "#E2"),
        ((1, 65536), "#E2"),
        ((1.0,), "#E1"),
        (True, "#E1"),
        ((), "#E1"),
        (None, "#E1"),
        (lambda meta: lambda meta: 1, "#E1"),
    ):
        with pytest.raises(LaunchError) as caught:
            kernel[grid](x, out, 5, 1.0)
        assert caught.value.id == "program.grid" + id, grid
    assert len(driver.launched) == 1
    for grid in (0, (0,), (3, 0)):
        kernel[grid](x, out, 5, 1.0)
    assert len(driver.launched) == 1


def test_floats_past_the_range_and_the_failures_of_the_driver(driver):
    x, out = tensors()
    for factor, given in ((1.0, 1.0), (1e300, np.inf), (-1e39, -np.inf), (0.1, np.float32(0.1))):
        kernel[(1,)](x, out, 5, factor)
        assert driver.launched[-1][3] == given
    driver.answers[:] = [Status.CUDA_ERROR_INVALID_CONTEXT, Status.CUDA_SUCCESS]
    kernel[(1,)](x, out, 5, 1.0)
    assert driver.named("cuCtxSetCurrent") == [(5,)]
    driver.answers[:] = [Status.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS"):
        kernel[(1,)](x, out, 5, 1.0)
    kernel[(1,)](x, out, 6, 1.0)
    assert driver.launched[-1][2] == 6


def test_changes_outside_of_the_kernel_are_seen(driver, monkeypatch):
    x, out = tensors()
    first = kernel[(1,)](x, out, 5, 1.0)
    assert kernel[(1,)](x, out, 5, 1.0) is first
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(7))
    second = kernel[(1,)](x, out, 5, 1.0)
    assert second is not first and kernel[(1,)](x, out, 5, 1.0) is second
    monkeypatch.setenv("TILESPEC_BACKEND", "interp")
    with pytest.raises(LaunchError):
        kernel[(1,)](x, CudaTensor(np.zeros(64, "f4"), "cpu"), 5, 1.0)


TABLE = tl.constexpr([2, 3])


@triton.jit
def guarded(x, y, z, n, row, wide, huge, one, factor, BLOCK: tl.constexpr, flag: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n) * factor * SCALE * TABLE[0] * flag + row + wide + huge + one
    tl.store(y + i, value, mask=i < n)
    tl.store(z + i, value, mask=i < n)


def blinded(monkeypatch, blind: int | None):
    """A launch of ``guarded`` of which one guard never fails, its guards, and a call that it serves. For a call that it
    does not serve it gives "other"."""
    guards: list[str] = []
    written = launch_text.LaunchText.guard_surroundings
    find = PreparedLaunches.other

    def write(self, dependencies):
        written(self, dependencies)
        guards[:] = self.guards
        if blind is not None:
            self.guards[blind] = f"(({guards[blind]}) or True)"

    def other(self, failed, *call):
        return "other" if failed else find(self, failed, *call)

    monkeypatch.setattr(launch_text.LaunchText, "guard_surroundings", write)
    monkeypatch.setattr(PreparedLaunches, "other", other)
    (x, y), (_, z) = tensors(), tensors()
    call = {
        "x": x,
        "y": y,
        "z": CudaTensor(z.array[1:]),
        "n": 48,
        "row": 40,
        "wide": np.int64(2**40 + 1),
        "huge": 2**63,
        "one": 1,
    }
    call |= {"factor": 1.5, "BLOCK": 64, "flag": 0.0}
    guarded.clear_cache()
    guarded[(1,)](**call)
    return guarded._launches.current, guards, call


class AnotherTensor(CudaTensor):
    """Another type with the same methods."""


def changes(call) -> list[dict]:
    """What makes a call one that the launch prepared for ``call`` must not serve: each is stopped by one guard."""
    x, y, z = call["x"], call["y"], call["z"]
    made: list[dict] = [{"num_warps": 2}]
    made += [{name: AnotherTensor(call[name].array)} for name in "xyz"]
    made += [
        {"n": np.int32(48)},
        {"row": np.int32(40)},
        {"row": 2**31 + 8},
        {"wide": int(call["wide"])},
        {"huge": np.uint64(2**63)},
        {"one": True},
    ]
    made += [{"factor": np.float32(1.5)}, {"BLOCK": np.int64(64)}, {"flag": np.float64(0.0)}]
    made += [{name: CudaTensor(call[name].array, dtype="torch.int32")} for name in "xyz"]
    made += [{name: CudaTensor(call[name].array, "cpu")} for name in "xyz"]
    made += [{"x": CudaTensor(x.array[1:])}, {"y": CudaTensor(y.array[2:])}, {"z": CudaTensor(z.array[3:])}]
    made += [
        {"n": 2**31},
        {"n": -(2**31) - 16},
        {"n": 49},
        {"n": 40},
        {"n": 1},
        {"row": 48},
        {"row": 44},
        {"row": 1},
        {"one": 2},
        {"one": 2**32 + 1},
    ]
    made += [
        {"wide": np.int64(5)},
        {"wide": np.int64(2**40)},
        {"wide": np.int64(2**40 + 8)},
        {"huge": 2**63 - 16},
        {"huge": 2**64},
        {"huge": 2**63 + 1},
    ]
    return [*made, {"BLOCK": 32}, {"flag": -0.0}]


def surroundings() -> list:
    """The same of what lies outside of the call: how to change it, given a monkeypatch."""
    return [
        lambda patch: patch.setenv("TILESPEC_BACKEND", "mlir"),
        lambda patch: patch.setitem(globals(), "SCALE", tl.constexpr(7)),
        lambda patch: patch.setattr(TABLE, "value", [5, 3]),
    ]


def accepted(monkeypatch, blind: int | None) -> tuple[int, list[str]]:
    """How many of the changed calls a launch takes for its own, and its guards."""
    run, guards, call = blinded(monkeypatch, blind)
    assert run((1,), **call) != "other"
    found = 0
    for change in changes(call):
        try:
            found += run((1,), **call | change) != "other"
        except Exception:  # what no guard stopped may fail later
            found += 1
    for change in surroundings():
        with monkeypatch.context() as patch:
            change(patch)
            found += run((1,), **call) != "other"
    return found, guards


def test_every_guard_stops_what_no_other_guard_stops(driver, monkeypatch):
    found, guards = accepted(monkeypatch, None)
    assert not found and len(guards) > 25
    for blind, guard in enumerate(guards):
        with monkeypatch.context() as patch:
            assert accepted(patch, blind)[0], guard


def test_equal_objects_pass_the_guards(driver, long_way, monkeypatch):
    x, out = tensors()
    first = kernel[(1,)](x, out, 5, 1.0, BLOCK=64)
    current = kernel._launches.current
    x.dtype = "".join(["torch.", "float32"])
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(2))
    assert kernel[(1,)](x, out, 5, 1.0, BLOCK=6 * 10 + 4) is first
    assert kernel._launches.current is current and len(long_way) == 1


def test_a_launcher_that_is_kept_serves_every_call(driver, long_way):
    x, out = tensors()
    kept = kernel[(3,)]
    for _ in range(2):
        kept(x, out, 5, 1.0)
        kept(x, out, 16, 2.0, BLOCK=32)
        kept(BLOCK=32, n=7, factor=1.0, x=x, out=out)
        kept(factor=1.0, n=7, BLOCK=32, out=out, x=x)
    assert len(long_way) == 4
    kernel.clear_cache()
    kept(x, out, 5, 1.0)
    assert len(long_way) == 5 and [row[2] for row in driver.launched] == [5, 16, 7, 7] * 2 + [5]


def test_no_array_is_kept(driver):
    x, out = tensors()
    for _ in range(2):
        kernel[(1,)](x, out, 5, 1.0)
    there = weakref.ref(x)
    del x
    assert there() is None


def test_launches_of_like_form_share_their_code(driver):
    @triton.jit
    def another(x, out, n, factor, BLOCK: tl.constexpr = 64, flag: tl.constexpr = 1.0):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n) + factor + SCALE, mask=i < n)

    x, out = tensors()
    codes = []
    for launched in (kernel, another):
        launched[(1,)](x, out, 5, 1.0)
        codes.append(launched._launches.current.__code__)
    assert codes[0] is codes[1]
    assert not {"out", "factor"} & set(codes[0].co_names + codes[0].co_varnames)


def test_streams(driver, monkeypatch):
    x, out = tensors()
    current = [11]
    monkeypatch.setattr(launcher.streams, "torch_stream", lambda device: current[0])
    for _ in range(2):
        kernel[(1,)](x, out, 5, 1.0)
        kernel[(1,)](x, out, 5, 1.0, stream=99)
        current[0] += 1
    kernel[(1,)](x, out, 5, 1.0, stream=None)
    assert [call[8] for call in driver.named("cuLaunchKernel")] == [11, 99, 12, 99, 13]
    for wrong in (-1, 2**64, True, "0"):
        for _ in range(2):
            with pytest.raises(LaunchError) as caught:
                kernel[(1,)](x, out, 5, 1.0, stream=wrong)
            assert caught.value.id == "launch.stream"


def test_several_gpus_go_the_long_way(driver, long_way):
    driver.devices = 2
    x, out = tensors()
    for _ in range(2):
        kernel[(1,)](x, out, 5, 1.0)
    assert len(long_way) == 2


def test_annotated_parameters_go_the_long_way(driver, long_way):
    @triton.jit
    def annotated(x, out, n: tl.int32, factor: tl.float32):
        tl.store(out, tl.load(x) * factor + n)

    x, out = tensors()
    annotated[(1,)](x, out, 5, 1.0)
    annotated[(1,)](x, out, 5, 1.0)
    with pytest.raises(LaunchError) as caught:
        annotated[(1,)](x, out, 2**31, 1.0)
    assert caught.value.id == "program.arguments#E3" and len(long_way) == 3


def test_threads_launch_their_own_arguments(driver):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    wrong: list = []
    arrays = [tensors() for _ in range(8)]

    def work(who: int) -> None:
        x, out = arrays[who]
        for i in range(60):
            made = kernel[(1,)](x, out, 2 + who, float(i), BLOCK=32 << who % 2)
            if f"BLOCK={32 << who % 2}" not in made.asm["tile"]:
                wrong.append(who)
        mine = [row for row in driver.launched if row[0] == x.data_ptr()]
        if mine != [[x.data_ptr(), out.data_ptr(), 2 + who, float(i)] for i in range(60)]:
            wrong.append((who, mine[:3]))

    try:
        threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong and len(driver.launched) == 480
