"""DLPack: where the array of a library that speaks nothing else is, read from the capsule it exports."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from refcompiler.errors import LaunchError
from refcompiler.runtime.streams import LEGACY_DEFAULT, cupy_stream

# DLPack's numbers for kinds of memory, and for kinds of number formats.
HOST = (1, 3)  # plain, pinned
CUDA = (2, 13)  # device, managed
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


class Tensor(NamedTuple):
    """What a capsule says: the address of element 0, the dtype's name, strides in elements (None: contiguous)."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    device: int | None


class _DLTensor(ctypes.Structure):
    """The structure at the start of what a capsule named ``dltensor`` points to."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def read(x: Any) -> Tensor:
    """Where the array of ``x`` is. Its library orders the work queued on a GPU array before CuPy's current stream.

    Raises LaunchError (launch.device) for memory that neither the host nor a CUDA device reaches.
    """
    kind, _ = x.__dlpack_device__()
    if kind not in HOST + CUDA:
        raise LaunchError("launch.device", f"an array on DLPack device kind {kind} has no memory a kernel can reach")
    capsule = x.__dlpack__(stream=cupy_stream() or LEGACY_DEFAULT) if kind in CUDA else x.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    # Only read, never consumed: the capsule frees what it holds when it goes, and x keeps the memory.
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    dtype = "bool" if tensor.code == 6 else f"{_KINDS.get(tensor.code, f'DLPack kind {tensor.code} of ')}{tensor.bits}"
    return Tensor(
        (tensor.data or 0) + tensor.byte_offset,
        dtype if tensor.lanes == 1 else f"{tensor.lanes} lanes of {dtype}",
        tuple(tensor.shape[: tensor.ndim]),
        tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None,
        tensor.device if kind in CUDA else None,
    )
