"""Arrays of every library as kernel arguments, and the one launcher of compiled kernels."""

from refcompiler.runtime.abi import KernelABI, Param
from refcompiler.runtime.arrays import ArrayInfo, describe, is_array, is_device_array
from refcompiler.runtime.gpu import GpuUnavailable, gpu_available, gpu_info, native_arch
from refcompiler.runtime.launcher import Function, launch, load_function

__all__ = [
    "ArrayInfo",
    "Function",
    "GpuUnavailable",
    "KernelABI",
    "Param",
    "describe",
    "gpu_available",
    "gpu_info",
    "is_array",
    "is_device_array",
    "launch",
    "load_function",
    "native_arch",
]
