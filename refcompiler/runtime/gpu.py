"""The GPU and its driver: whether one can be used, what it is, and the driver's own words when it refuses."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from refcompiler.errors import LaunchError


class GpuUnavailable(LaunchError):
    """No GPU can be used; the message says what failed, the notes what was looked for."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(
            "launch.no_gpu",
            f"no GPU can be used: {reason}",
            notes=[
                "looked for: the package cuda-bindings, the driver library libcuda.so.1, a device it can initialise",
                "kernels on NumPy arrays run in the interpreter and need no GPU",
            ],
        )

    def __reduce__(self) -> tuple:
        return (type(self), (self.reason,))


@functools.cache
def driver() -> Any:
    """``cuda.bindings.driver``, initialised; raises GpuUnavailable without a usable device."""
    try:
        from cuda.bindings import driver as cuda
    except ImportError as error:
        raise GpuUnavailable(f"cuda-bindings cannot be imported ({error})") from None
    try:
        (status,) = cuda.cuInit(0)
    except Exception as error:  # no driver library; the class differs between releases of the bindings
        raise GpuUnavailable(f"the driver library cannot be loaded ({error})") from None
    if status:
        raise GpuUnavailable(f"cuInit answers {status.name}")
    status, count = cuda.cuDeviceGetCount()
    if status or not count:
        raise GpuUnavailable("the driver reports no device")
    return cuda


def gpu_available() -> bool:
    """Whether kernels can be launched on a GPU in this process."""
    try:
        driver()
    except GpuUnavailable:
        return False
    return True


def ask(call: str, *arguments: Any) -> Any:
    """The result of driver function ``call``; raises LaunchError (launch.driver) when it fails."""
    status, *values = getattr(driver(), call)(*arguments)
    if status:
        raise driver_error(call, status)
    return values[0] if values else None


def launch_function() -> Callable[[Any, Any, Any, Any], int]:
    """The driver's ``cuLaunchKernelEx(config, function, arguments, extra)``; gives its status.

    ctypes passes on four addresses prepared once in less time than any binding takes for the eleven numbers of
    ``cuLaunchKernel``. It releases the interpreter's lock: a full queue may wait for a callback in Python.
    """
    address = ask("cuGetProcAddress", b"cuLaunchKernelEx", 12000, 0)
    return ctypes.CFUNCTYPE(ctypes.c_int)(int(address))


def driver_error(call: str, status: Any) -> LaunchError:
    """The error for a driver function that answered ``status``, in the driver's words."""
    text = driver().cuGetErrorString(status)[1]
    said = text.decode() if isinstance(text, bytes) else str(text)
    notes = []
    if status.name in ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED"):
        notes.append("kernels run asynchronously: an earlier kernel failed, and this process cannot use the GPU again")
        notes.append("the interpreter finds the access: pass NumPy arrays")
    return LaunchError("launch.driver", f"{call} failed: {status.name}: {said}", notes=notes)


@functools.cache
def device_count() -> int:
    """How many GPUs this process sees."""
    return ask("cuDeviceGetCount")


def native_arch(device: int = 0) -> str:
    """The architecture to compile for on GPU ``device``: with the features of that one from Hopper on (``sm_90a``)."""
    attributes = driver().CUdevice_attribute
    handle = ask("cuDeviceGet", device)
    major = ask("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle)
    minor = ask("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle)
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def identity(device: int = 0) -> str:
    """What times measured on GPU ``device`` hold for: its name, its architecture and the version of its driver."""
    name = ask("cuDeviceGetName", 128, ask("cuDeviceGet", device)).split(b"\0")[0].decode()
    return f"{name}, {native_arch(device)}, driver interface {ask('cuDriverGetVersion')}"


@functools.cache
def multiprocessors(device: int = 0) -> int:
    """How many multiprocessors GPU ``device`` has."""
    attribute = driver().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    return ask("cuDeviceGetAttribute", attribute, ask("cuDeviceGet", device))


def gpu_info(device: int = 0) -> dict[str, Any]:
    """GPU ``device`` for reports: name, arch, driver and CUDA versions, multiprocessors, memory, highest clock."""
    attributes = driver().CUdevice_attribute
    attribute = functools.partial(ask, "cuDeviceGetAttribute")
    handle = ask("cuDeviceGet", device)
    cuda = ask("cuDriverGetVersion")
    name = ask("cuDeviceGetName", 128, handle)
    return {
        "name": name.split(b"\0")[0].decode(),
        "arch": native_arch(device),
        "driver": _driver_release(),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
        "multiprocessors": multiprocessors(device),
        "memory_bytes": ask("cuDeviceTotalMem", handle),
        "max_sm_clock_mhz": attribute(attributes.CU_DEVICE_ATTRIBUTE_CLOCK_RATE, handle) // 1000,
    }


def _driver_release() -> str | None:
    """The release of the kernel driver (580.159.04), which the CUDA driver interface does not tell; None if unknown."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    return lines[0] if done.returncode == 0 and lines else None
