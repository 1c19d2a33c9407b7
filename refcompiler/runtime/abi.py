"""What a compiled kernel expects of its caller: parameters, their layout in the argument buffer, and the packing."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from refcompiler.dialects.numeric import cast
from refcompiler.dialects.simt.tensor_maps import TensorMap
from refcompiler.errors import InternalError, LaunchError
from refcompiler.ir.types import DTYPES, F64

# struct's format of each dtype; floats that struct does not know travel as their bits.
_FORMATS = {"bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q"}
_FORMATS |= {"f16": "e", "f32": "f", "f64": "d", "bf16": "H", "f8e4m3": "B", "f8e5m2": "B"}
AS_BITS = frozenset({"bf16", "f8e4m3", "f8e5m2"})
# The driver's CUlaunchConfig: grid, block, dynamic shared bytes, stream; then an array of attributes and its length.
_CONFIG, _ATTRIBUTES = struct.Struct("=7I4xQ"), struct.Struct("=QI4x")
# A CUlaunchAttribute: programmatic stream serialization, which is number 6, is allowed.
_MAY_BEGIN_EARLY = ctypes.create_string_buffer(struct.pack("=I4xI60x", 6, 1), 72)
# Parameters the caller does not see -> (format, alignment): a CUtensorMap, and the address of scratch memory.
_HIDDEN = {"tensor_map": ("128s", 64), "scratch": ("Q", 8)}
_INTEGERS = (bool, int, np.bool_, np.integer)
_NUMBERS = (*_INTEGERS, float, np.floating, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


@dataclass(frozen=True)
class Param:
    """One parameter: a ``pointer`` to elements of ``dtype``, a ``scalar`` of ``dtype``, or a hidden ``tensor_map`` or
    ``scratch``.

    ``written`` says that the kernel stores through the pointer. ``divisible_by`` is what the code was specialised on:
    bytes of a pointer's address, the value of an integer. ``tensor_map`` says what a hidden tensor map is made of.
    """

    name: str
    kind: str
    dtype: str = ""
    written: bool = False
    divisible_by: int = 1
    tensor_map: TensorMap | None = None

    def __post_init__(self) -> None:
        known = self.dtype in _FORMATS if self.kind in ("pointer", "scalar") else self.kind in _HIDDEN
        if not known or (self.kind == "tensor_map") != (self.tensor_map is not None):
            raise InternalError("runtime.abi", f"parameter {self.name}: no {self.kind} of {self.dtype!r}")

    @property
    def format(self) -> str:
        """Its format in :mod:`struct`."""
        if self.kind == "scalar":
            return _FORMATS[self.dtype]
        return "Q" if self.kind == "pointer" else _HIDDEN[self.kind][0]

    @property
    def alignment(self) -> int:
        """Bytes of which its offset is a multiple."""
        if self.kind in _HIDDEN:
            return _HIDDEN[self.kind][1]
        return 8 if self.kind == "pointer" else DTYPES[self.dtype].itemsize


@dataclass(frozen=True)
class KernelABI:
    """The parameters of a kernel in order; those of the caller come first, hidden ones last.

    ``waits`` says that the kernel waits by itself for what was queued before it, so it may begin before that has ended.
    """

    params: tuple[Param, ...]
    waits: bool = False

    def __post_init__(self) -> None:
        hidden = [param.kind in _HIDDEN for param in self.params]
        if hidden != sorted(hidden):
            raise InternalError("runtime.abi", "hidden parameters come after those of the caller")

    @cached_property
    def visible(self) -> tuple[Param, ...]:
        """The parameters for which the caller gives arguments."""
        return tuple(param for param in self.params if param.kind not in _HIDDEN)

    @cached_property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """What the hidden tensor maps are made of."""
        return tuple(param.tensor_map for param in self.params if param.tensor_map is not None)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The byte offset of each parameter, laid out as the members of a C structure."""
        offsets, at = [], 0
        for param in self.params:
            at += -at % param.alignment
            offsets.append(at)
            at += struct.calcsize("=" + param.format)
        return tuple(offsets)

    @cached_property
    def packing(self) -> struct.Struct:
        """Packs one value for each parameter, in order, at its offset."""
        text, at = "=", 0
        for param, offset in zip(self.params, self.offsets, strict=True):
            text += f"{offset - at}x{param.format}" if offset > at else param.format
            at = offset + struct.calcsize("=" + param.format)
        return struct.Struct(text)

    @cached_property
    def config_offset(self) -> int:
        """Where the configuration of a launch lies behind its packed arguments."""
        return -(-self.packing.size // 8) * 8

    @cached_property
    def launch_packing(self) -> struct.Struct:
        """Packs all of a launch: its arguments as ``packing`` does, then grid, block, shared bytes and stream."""
        gap = self.config_offset - self.packing.size
        return struct.Struct(f"{self.packing.format}{gap}x{_CONFIG.format[1:]}")

    def to_json(self) -> dict[str, Any]:
        """A JSON value from which :meth:`from_json` makes an equal ABI."""
        maps = [p.tensor_map and p.tensor_map.to_attribute() for p in self.params]
        params = zip(self.params, maps, strict=True)
        fields = [[p.name, p.kind, p.dtype, p.written, p.divisible_by, tensor] for p, tensor in params]
        return {"params": fields, "waits": self.waits}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KernelABI:
        """The inverse of :meth:`to_json`."""
        return cls(tuple(_param(*fields) for fields in value["params"]), value["waits"])


def _param(name: str, kind: str, dtype: str, written: bool, divisible_by: int, tensor: dict[str, Any] | None) -> Param:
    made = None if tensor is None else TensorMap.from_attribute(tensor)
    return Param(name, kind, dtype, written, divisible_by, made)


class LaunchBuffer:
    """Memory for one launch: the packed arguments and configuration, and the array of the arguments' addresses.

    ``config`` and ``arguments`` are the addresses of the configuration and of that array, as ctypes passes them on.
    """

    __slots__ = ("arguments", "config", "memory", "pointers")

    def __init__(self, abi: KernelABI):
        attributes = abi.launch_packing.size  # where they lie; no launch changes them
        size = attributes + _ATTRIBUTES.size
        raw = ctypes.create_string_buffer(size + 64)
        self.memory = (ctypes.c_char * size).from_buffer(raw, -ctypes.addressof(raw) % 64)  # as a CUtensorMap wants it
        start = ctypes.addressof(self.memory)
        self.pointers = (ctypes.c_void_p * max(1, len(abi.params)))(*[start + offset for offset in abi.offsets])
        if abi.waits:
            _ATTRIBUTES.pack_into(self.memory, attributes, ctypes.addressof(_MAY_BEGIN_EARLY), 1)
        self.config = ctypes.c_void_p.from_param(start + abi.config_offset)
        self.arguments = ctypes.c_void_p.from_param(ctypes.addressof(self.pointers))


def convert_scalar(param: Param, value: Any, kernel: str) -> Any:
    """``value`` as what :attr:`KernelABI.packing` takes for scalar ``param``; floats are rounded once, to nearest even.

    Raises LaunchError: launch.type for what is no number or a float for an integer, launch.range for an integer that
    the type cannot hold, launch.alignment for one that is no multiple of what the kernel was compiled for.
    """
    dtype = DTYPES[param.dtype]
    where = f"argument {param.name} of {kernel}"
    if not isinstance(value, _NUMBERS if dtype.is_float else _INTEGERS):
        wanted = "a number" if dtype.is_float else "an integer"
        raise LaunchError("launch.type", f"{where}: expected {wanted} for {dtype}, found {type(value).__name__}")
    if dtype.is_float:
        return _rounded(param.dtype, value, where)
    number = int(value)
    low, high = (0, 1) if dtype.is_bool else (dtype.min_int, dtype.max_int)
    if not low <= number <= high:
        raise LaunchError("launch.range", f"{where}: {number} does not fit {dtype}, which holds {low} to {high}")
    if number % param.divisible_by:
        only = f"the kernel was compiled for multiples of {param.divisible_by}"
        raise LaunchError("launch.alignment", f"{where} is {number}, {only}")
    return bool(number) if dtype.is_bool else number


def _rounded(name: str, value: Any, where: str) -> float | int:
    """``value`` in float format ``name``; as its bits where struct does not know the format."""
    try:
        wide = np.array(float(value))
    except OverflowError:
        raise LaunchError("launch.range", f"{where}: {value} is too large for any float") from None
    with np.errstate(over="ignore"):
        rounded = cast(wide, F64, DTYPES[name])
    return int(rounded.view(f"u{rounded.itemsize}")) if name in AS_BITS else float(rounded)
