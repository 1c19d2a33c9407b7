"""Arrays of NumPy, CuPy, torch and any library that speaks DLPack or ``__cuda_array_interface__``, described alike.

None of these libraries but NumPy is imported here: an array of a library shows that the library is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from refcompiler.errors import LaunchError
from refcompiler.ir.types import DTYPES
from refcompiler.runtime import dlpack

# Names that libraries give to dtypes -> ours.
_NAMES = {name: name for name in DTYPES}
_NAMES |= {str(dtype.numpy): name for name, dtype in DTYPES.items()}
_NAMES |= {dtype.triton_name: name for name, dtype in DTYPES.items()}
# Dtype objects -> our name and the bytes of an element: NumPy's, and torch's once met.
_NUMPY_DTYPES: dict[Any, tuple[str, int]] = {d.numpy: (name, d.itemsize) for name, d in DTYPES.items()}
_TORCH_DTYPES: dict[Any, tuple[str, int]] = {}


class ArrayInfo(NamedTuple):
    """What the launcher and the specialiser need to know of an array.

    ``ptr`` is the address of the element whose indices are all 0, ``dtype`` our short name, ``strides`` are in
    elements, ``device`` is the GPU's index, None for host memory. ``stream`` is the handle of a stream that may still
    write the array, where its interface names one; ``library`` is numpy, cupy, torch or other.
    """

    ptr: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    nbytes: int
    readonly: bool
    device: int | None
    library: str
    stream: int | None = None

    @property
    def divisible_by_16(self) -> bool:
        return self.ptr % 16 == 0

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie next to each other, the last axis fastest."""
        strides = zip(self.shape, self.strides, _contiguous(self.shape), strict=True)
        return 0 in self.shape or all(extent == 1 or given == dense for extent, given, dense in strides)


def dtype_name(dtype: Any) -> str:
    """Our short name of a dtype of NumPy (an object, a class or a name) or torch. Raises LaunchError (launch.dtype)."""
    text = str(dtype).removeprefix("torch.")
    if text in _NAMES:
        return _NAMES[text]
    try:
        return _numpy_dtype(np.dtype(dtype))[0]
    except TypeError:
        raise _unknown_dtype(text) from None


def is_array(x: object) -> bool:
    """Whether ``x`` is an array that :func:`describe` accepts, in host or device memory."""
    return _describer(x) is not None


def is_device_array(x: Any) -> bool:
    """Whether ``x`` is an array in the memory of a CUDA device."""
    found = _describer(x)
    if found is _describe_torch:
        return getattr(getattr(x, "device", None), "type", "cuda") == "cuda"
    if found is _describe_dlpack:
        return x.__dlpack_device__()[0] in dlpack.CUDA
    return found is not None and found is not _describe_numpy


def describe(x: Any) -> ArrayInfo:
    """The description of array ``x``; it stays true as long as ``x`` lives.

    Raises LaunchError for anything else than an array (launch.array), for a dtype that kernels have no name for
    (launch.dtype) and for memory that neither the interpreter nor a CUDA device can reach (launch.device).
    """
    found = _describer(x)
    if found is None:
        raise LaunchError(
            "launch.array",
            f"expected an array, found {type(x).__name__}",
            notes=["arrays of NumPy, CuPy and torch, and objects with DLPack or __cuda_array_interface__ are accepted"],
        )
    return found(x)


def reachable(info: ArrayInfo) -> tuple[np.ndarray, int]:
    """The memory that a kernel may access through a host array, as a row of elements that shares it, and the index
    there of the element whose indices are all 0: from the lowest to the highest element, gaps included.

    The row is valid as long as the array lives.
    """
    dtype = DTYPES[info.dtype].numpy
    if 0 in info.shape:
        return np.empty(0, dtype), 0
    reach = [(extent - 1) * stride for extent, stride in zip(info.shape, info.strides, strict=True)]
    origin = -sum(r for r in reach if r < 0)
    count = 1 + sum(map(abs, reach))
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(info.ptr - origin * dtype.itemsize)
    row = np.frombuffer(memoryview(raw), dtype)
    row.flags.writeable = not info.readonly
    return row, origin


class DeviceReader(NamedTuple):
    """How launches read the arrays of one library: ``facts`` of an array decide which code runs on it, ``address`` is
    that of element 0. As Python text, {0} being the array: its address, and whether it is on a GPU; both have a dtype.
    """

    library: str
    facts: Callable[[Any], Any]
    address: Callable[[Any], int]
    address_text: str
    on_gpu_text: str


def device_reader(library: str, example: Any) -> DeviceReader | None:
    """The reader of arrays like ``example`` of a library, None where they must be described one by one."""
    return _READERS.get(library) if library != "torch" or hasattr(type(example), "is_cuda") else None


_READERS = {
    "cupy": DeviceReader("cupy", operator.attrgetter("dtype"), operator.attrgetter("data.ptr"), "{0}.data.ptr", "True"),
    "torch": DeviceReader(
        "torch",
        operator.attrgetter("dtype", "is_cuda"),
        operator.methodcaller("data_ptr"),
        "{0}.data_ptr()",
        "{0}.is_cuda",
    ),
}

# The describer of each type met, so that the launch path pays one look-up.
_DESCRIBERS: dict[type, Callable[[Any], ArrayInfo] | None] = dict.fromkeys((bool, int, float, str, type(None)))


def _describer(x: object) -> Callable[[Any], ArrayInfo] | None:
    cls = type(x)
    try:
        return _DESCRIBERS[cls]
    except KeyError:
        found = _DESCRIBERS[cls] = _find_describer(x)
        return found


def _find_describer(x: Any) -> Callable[[Any], ArrayInfo] | None:
    """The describer of ``x``; objects of one class are taken to have the same interfaces."""
    if isinstance(x, np.ma.MaskedArray):
        return _describe_masked
    if isinstance(x, np.ndarray):
        return _describe_numpy
    if isinstance(x, type):
        return None
    if type(x).__module__.partition(".")[0] == "cupy" and hasattr(x, "data"):
        return _describe_cupy
    if hasattr(x, "data_ptr") and hasattr(x, "dtype"):
        return _describe_torch
    if hasattr(x, "__cuda_array_interface__"):
        return _describe_interface
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _describe_dlpack
    return None


def _describe_masked(x: np.ma.MaskedArray) -> ArrayInfo:
    raise LaunchError(
        "launch.array",
        "a NumPy masked array cannot be passed: kernels would not see its mask",
        notes=["pass x.data and x.mask as two arrays"],
    )


def _describe_numpy(x: np.ndarray) -> ArrayInfo:
    name, itemsize = _NUMPY_DTYPES.get(x.dtype) or _numpy_dtype(x.dtype)
    strides = _elements(x.strides, itemsize)
    return ArrayInfo(x.ctypes.data, name, x.shape, strides, x.nbytes, not x.flags.writeable, None, "numpy")


def _describe_cupy(x: Any) -> ArrayInfo:
    data, dtype = x.data, x.dtype
    name, itemsize = _NUMPY_DTYPES.get(dtype) or _numpy_dtype(dtype)
    strides = _elements(x.strides, itemsize)
    # Not ArrayInfo(...): this runs for each argument of each launch, and that call takes three times as long.
    fields = (data.ptr, name, x.shape, strides, x.nbytes, False, data.device_id, "cupy", None)
    return tuple.__new__(ArrayInfo, fields)


def _describe_torch(x: Any) -> ArrayInfo:
    """torch tensors, and what else has ``data_ptr()`` and ``dtype``: without a shape it counts as one element."""
    dtype = x.dtype
    known = _TORCH_DTYPES.get(dtype)
    if known is None:
        name = _name(str(dtype).removeprefix("torch."))
        known = _TORCH_DTYPES[dtype] = (name, DTYPES[name].itemsize)
    name, itemsize = known
    device = getattr(x, "device", None)
    where = getattr(device, "type", "cuda")
    if where not in ("cuda", "cpu"):
        raise LaunchError("launch.device", f"a tensor on device {device} has no memory that a kernel can reach")
    index = (getattr(device, "index", None) or 0) if where == "cuda" else None
    shape = tuple(getattr(x, "shape", ()))
    strides = x.stride() if hasattr(x, "stride") else _contiguous(shape)
    fields = (x.data_ptr(), name, shape, strides, itemsize * prod(shape), False, index, "torch", None)
    return tuple.__new__(ArrayInfo, fields)


def _describe_interface(x: Any) -> ArrayInfo:
    """``__cuda_array_interface__``, versions 2 and 3; it does not say on which GPU the array is: 0, unless x knows."""
    interface = x.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise LaunchError("launch.array", "an array with a mask cannot be passed: kernels would not see the mask")
    dtype = np.dtype(interface["typestr"])
    # Formats that NumPy lacks travel as raw bytes; the object itself often knows better.
    named = getattr(getattr(x, "dtype", None), "name", str(dtype))
    name = _NUMPY_DTYPES[dtype][0] if dtype in _NUMPY_DTYPES else _name(named)
    ptr, readonly = interface["data"]
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    elements = _contiguous(shape) if strides is None else _elements(tuple(strides), dtype.itemsize)
    nbytes = dtype.itemsize * prod(shape)
    device = getattr(getattr(x, "device", None), "id", 0)
    stream = interface.get("stream")
    return ArrayInfo(ptr or 0, name, shape, elements, nbytes, readonly, device, "other", stream)


def _describe_dlpack(x: Any) -> ArrayInfo:
    tensor = dlpack.read(x)
    name = _name(tensor.dtype)
    strides = _contiguous(tensor.shape) if tensor.strides is None else tensor.strides
    nbytes = DTYPES[name].itemsize * prod(tensor.shape)
    return ArrayInfo(tensor.address, name, tensor.shape, strides, nbytes, False, tensor.device, "other")


@functools.lru_cache(maxsize=4096)
def _elements(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes -> in elements."""
    for stride in strides:
        if stride % itemsize:
            raise LaunchError(
                "launch.strides",
                f"the elements of an array take {itemsize} bytes and are {stride} bytes apart: no stride in elements",
                notes=["pass a contiguous copy"],
            )
    return tuple(stride // itemsize for stride in strides)


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _numpy_dtype(dtype: np.dtype) -> tuple[str, int]:
    """As the table of NumPy's dtypes, for one that is not in it: an alias, or an error."""
    if not dtype.isnative:
        raise _unknown_dtype(f"{dtype} of the other byte order")
    return _name(dtype.name), dtype.itemsize


def _name(theirs: str) -> str:
    if theirs not in _NAMES:
        raise _unknown_dtype(theirs)
    return _NAMES[theirs]


def _unknown_dtype(theirs: str) -> LaunchError:
    accepted = f"accepted are {', '.join(DTYPES)}"
    return LaunchError("launch.dtype", f"arrays of {theirs} cannot be passed to a kernel", notes=[accepted])
