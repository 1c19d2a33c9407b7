"""Stand-ins for device arrays and for the CUDA driver, so that the launcher can be tested without a GPU."""

from __future__ import annotations

import ctypes
import types
from enum import IntEnum

import numpy as np

from refcompiler.runtime import KernelABI, Param

C_TYPES = {
    "bool": ("bool", ctypes.c_bool), "i8": ("signed char", ctypes.c_int8), "i16": ("short", ctypes.c_int16),
    "i32": ("int", ctypes.c_int32), "i64": ("long long", ctypes.c_int64), "u8": ("unsigned char", ctypes.c_uint8),
    "u16": ("unsigned short", ctypes.c_uint16), "u32": ("unsigned", ctypes.c_uint32),
    "u64": ("unsigned long long", ctypes.c_uint64), "f16": ("unsigned short", ctypes.c_uint16),
    "bf16": ("unsigned short", ctypes.c_uint16), "f32": ("float", ctypes.c_float), "f64": ("double", ctypes.c_double),
}  # fmt: skip


def abi_of(kinds, **fields) -> KernelABI:
    return KernelABI(
        tuple(
            Param(f"p{i}", "pointer" if k[0] == "*" else "scalar", k.lstrip("*") or "f32", **fields)
            for i, k in enumerate(kinds)
        )
    )


class OnDevice:
    """An array that claims to be on a GPU, by ``__cuda_array_interface__``."""

    def __init__(self, array: np.ndarray, *, readonly: bool = False, stream: int | None = None, device: int = 0):
        self.array, self.dtype = array, array.dtype
        self.device = types.SimpleNamespace(id=device)
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, readonly),
            "strides": None if array.flags.c_contiguous else array.strides,
            "version": 3,
            "stream": stream,
        }


class ThroughDLPack:
    """An array that shows nothing but DLPack."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Tensor:
    """A tensor with torch's methods."""

    def __init__(self, array: np.ndarray, device: str = "cuda", dtype: str = "torch.float32"):
        self.array, self.shape, self.dtype = array, array.shape, dtype
        self.device = types.SimpleNamespace(type=device, index=0)

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701


class Config(ctypes.Structure):
    """CUlaunchConfig: grid, block, dynamic shared bytes, stream, attributes and their number."""

    _fields_ = (
        *[(f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"],
        ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint),
    )  # fmt: skip

    def __iter__(self):
        return (getattr(self, name) for name, _ in self._fields_)


class StandInDriver:
    """Answers the driver functions the launcher calls, and keeps what they were given."""

    CUfunction = CUkernel = int
    CUresult = Status

    def __init__(self, abi_kinds=(), devices: int = 1, answers=()):
        self.kinds, self.devices, self.answers = abi_kinds, devices, list(answers)
        self.calls: list[tuple] = []
        self.launched: list[list] = []
        self.current = 0
        self.early = 0  # launches with an attribute: that they may begin before what was queued before has ended
        # The launch function as the driver gives it out: an address in memory.
        self.launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self._launch)

    def _launch(self, config, function, arguments, extra):
        *numbers, stream, attributes, count = Config.from_buffer_copy(ctypes.string_at(config, ctypes.sizeof(Config)))
        assert bool(attributes) == bool(count)
        self.early += bool(count)
        return int(self.cuLaunchKernel(function, *numbers, stream or 0, arguments, extra)[0])

    class CUdevice_attribute:
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = "optin"
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = "major"
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = "minor"
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = "multiprocessors"
        CU_DEVICE_ATTRIBUTE_CLOCK_RATE = "clock"

    class CUfunction_attribute:
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = "dynamic"

    class CUevent_flags:
        CU_EVENT_DISABLE_TIMING = 2

    def cuLaunchKernel(self, function, *rest):
        *_, address, _extra = rest
        pointers = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
        types_ = [ctypes.c_uint64 if kind[0] == "*" else C_TYPES[kind][1] for kind in self.kinds]
        self.launched.append([c_type.from_address(pointers[i]).value for i, c_type in enumerate(types_)])
        self.calls.append(("cuLaunchKernel", function, *rest[:-2]))
        return (self.answers.pop(0) if self.answers else Status.CUDA_SUCCESS,)

    def __getattr__(self, name):
        values = {
            "cuDeviceGetCount": self.devices, "cuDeviceGet": 0, "cuCtxGetDevice": self.current, "cuLibraryLoadData": 7,
            "cuLibraryGetKernel": 70, "cuEventCreate": 9, "cuDevicePrimaryCtxRetain": 5, "cuDriverGetVersion": 13000,
            "cuDeviceGetName": b"NVIDIA Test\0\0", "cuDeviceTotalMem": 1 << 37, "cuGetErrorString": b"said the driver",
            "cuGetProcAddress": ctypes.cast(self.launch, ctypes.c_void_p).value,
        }  # fmt: skip
        attributes = {"optin": 232448, "major": 9, "minor": 0, "multiprocessors": 132, "clock": 1980000}

        def call(*arguments):
            self.calls.append((name, *arguments))
            value = attributes[arguments[0]] if name == "cuDeviceGetAttribute" else values.get(name)
            return (Status.CUDA_SUCCESS, value)

        if not name.startswith("cu"):
            raise AttributeError(name)
        return call

    def named(self, name):
        return [call[1:] for call in self.calls if call[0] == name]
