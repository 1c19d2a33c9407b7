"""The arrays a launch was given: their memory, which of it overlaps, who accessed it, and how to undo all writes."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

import numpy as np

from refcompiler.analysis.pointers import Pointers
from refcompiler.dialects.atomic import Atomic
from refcompiler.errors import LaunchError
from refcompiler.interpreter.conflicts import AccessRecord, Conflict, Kind, Order
from refcompiler.interpreter.footprint import Footprint
from refcompiler.ir import Func, Value
from refcompiler.ir.types import DType, PointerType, element_of

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Region:
    """A stretch of memory that one or several overlapping arguments cover.

    ``written`` and ``read`` say whether the kernel contains a store or load that may reach it; ``unit`` is the number
    of bytes whose accesses are recorded together.
    """

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.written = self.read = False
        self.unit = 0
        self.start = self.end = 0
        self.record: AccessRecord | None = None
        self.backup: list[np.ndarray] | None = None

    def before_write(self) -> None:
        """Keep a copy of every array's bytes, once."""
        if self.backup is None:
            self.backup = [borrowed(a.bytes.size) for a in self.arrays]
            for array, saved in zip(self.arrays, self.backup, strict=True):
                saved[: array.bytes.size] = array.bytes

    def restore(self) -> None:
        """Bring the bytes back that the arrays had before the first write."""
        if self.backup is not None:
            for array, saved in zip(self.arrays, self.backup, strict=True):
                if array.writeable:
                    array.bytes[:] = saved[: array.bytes.size]

    def release(self) -> None:
        """Give the memory of the copies back."""
        for saved in self.backup or ():
            give_back(saved)
        self.backup = None


class Array:
    """One pointer argument: its name, element type, and memory as unsigned integers of the element's width.

    The pointer is the address of the element ``origin`` of ``data``; messages count from there.
    """

    def __init__(self, name: str, dtype: DType, data: np.ndarray, region: Region, origin: int = 0):
        self.name, self.dtype, self.region, self.origin = name, dtype, region, origin
        self.writeable = data.flags.writeable
        self.bytes = flat_bytes(data)
        self.address = data.__array_interface__["data"][0]
        self._views: dict[int, np.ndarray] = {}

    def elements(self, dtype: DType) -> np.ndarray:
        """The memory as a flat array of unsigned integers as wide as ``dtype``; a rest that fills none is left out."""
        width = dtype.itemsize
        if width not in self._views:
            whole = self.bytes.size // width * width
            self._views[width] = self.bytes[:whole].view(_UNSIGNED[width])
        return self._views[width]

    def shown(self, index: int, dtype: DType) -> str:
        """An index into ``elements(dtype)`` as the kernel counts: from its pointer."""
        return f"{self.name}[{index - self.origin * self.dtype.itemsize // dtype.itemsize}]"

    def conflict(self, footprint: Footprint, dtype: DType, programs: np.ndarray, kind: Kind) -> Conflict | None:
        """Record an access by ``programs`` (which broadcast to the footprint); the first conflict with another."""
        region = self.region
        if region.record is None:
            return None
        units = dtype.itemsize // region.unit
        if units > 1:
            footprint, programs = footprint.expanded(units), programs[..., None]
        offset = (self.address - region.start) // region.unit
        found = region.record.note(footprint.moved(offset) if offset else footprint, programs, kind)
        if found is None:
            return None
        return Conflict((found.unit - offset) // units, found.one, found.other, found.did)


def flat_bytes(data: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array (in C or Fortran order) as a flat view."""
    ordered = data if data.flags.c_contiguous else data.T
    return ordered.reshape(-1).view(np.uint8)


class Memory:
    """All pointer arguments of one launch. ``check`` turns the conflict check between programs on; ``origins`` are the
    indices of the elements that pointers start at, where these are not 0."""

    def __init__(
        self, func: Func, args: dict[str, Any], programs: int, check: bool, origins: Mapping[str, int] | None = None
    ):
        self.origins = origins or {}
        pointers = [p for p in func.params if isinstance(p.type, PointerType)]
        self.index = {p: i for i, p in enumerate(pointers)}
        self.check = check
        self.arrays: list[Array] = []
        self.regions: list[Region] = []
        arguments = [(p.name, p.type.pointee, checked_array(func, p, args[p.name])) for p in pointers]
        self._make_regions(arguments)
        atomics = [op for op in func.walk() if isinstance(op, Atomic)]
        self.order = Order(programs)
        order = self.order if any(op.acquires or op.releases for op in atomics) else None
        reached = {effect: Pointers(func).reached(effect) for effect in ("read", "write")}
        for region in self.regions:
            params = {p for p, i in self.index.items() if self.arrays[i].region is region}
            region.read = bool(params & reached["read"])
            region.written = bool(params & reached["write"])
            self._set_unit(region, narrowest_access(func))
            if check and programs > 1 and region.written:
                region.record = AccessRecord((region.end - region.start) // region.unit, region.read, order)

    def _make_regions(self, arguments: list[tuple[str, DType, np.ndarray]]) -> None:
        """Group the arrays whose address ranges overlap; an empty array is alone."""
        slots: list[Array | None] = [None] * len(arguments)
        current: Region | None = None
        by_address = sorted(range(len(arguments)), key=lambda i: arguments[i][2].__array_interface__["data"][0])
        for i in by_address:
            name, dtype, data = arguments[i]
            start = data.__array_interface__["data"][0]
            if current is None or start >= current.end or not data.nbytes:
                region = Region()
                region.start = region.end = start
                self.regions.append(region)
                current = region if data.nbytes else current
            else:
                region = current
            region.end = max(region.end, start + data.nbytes)
            slots[i] = Array(name, dtype, data, region, self.origins.get(name, 0))
            region.arrays.append(slots[i])
        self.arrays = [slot for slot in slots if slot is not None]

    @staticmethod
    def _set_unit(region: Region, narrowest: int) -> None:
        unit = narrowest
        for array in region.arrays:
            unit = gcd(unit, array.dtype.itemsize, array.address - region.start)
        region.unit = unit

    def restore(self) -> None:
        """Undo every write of the launch."""
        for region in self.regions:
            region.restore()

    def release(self) -> None:
        """End the launch; nothing can be undone after that."""
        for region in self.regions:
            region.release()


# Copies of finished launches, for the next one: the system takes longer to give fresh pages than NumPy to fill them.
_SPARE: list[np.ndarray] = []
MOST_SPARE, LARGEST_SPARE = 4, 32 << 20


def borrowed(size: int) -> np.ndarray:
    """An array of at least ``size`` bytes with any contents."""
    try:
        spare = _SPARE.pop()
    except IndexError:
        return np.empty(size, np.uint8)
    return spare if size <= spare.size <= 4 * size else np.empty(size, np.uint8)


def give_back(buffer: np.ndarray) -> None:
    if buffer.size <= LARGEST_SPARE:
        _SPARE.append(buffer)
        del _SPARE[:-MOST_SPARE]


def checked_array(func: Func, param: Value, data: Any) -> np.ndarray:
    """``data`` if it is an array that fits the pointer parameter, else LaunchError."""
    pointee = param.type.pointee
    if not isinstance(data, np.ndarray):
        raise LaunchError(
            "program.arguments#E2", f"{param.name} needs a NumPy array, got {type(data).__name__}", func.span
        )
    if data.dtype != pointee.numpy:
        message = f"{param.name} is an array of {data.dtype}, the kernel was compiled for {pointee}"
        raise LaunchError("program.arguments#E8", message, func.span)
    if not (data.flags.c_contiguous or data.flags.f_contiguous):
        raise LaunchError(
            "launch.contiguous",
            f"{param.name} is not contiguous (strides {data.strides}); pass numpy.ascontiguousarray({param.name})",
            func.span,
        )
    return data


def narrowest_access(func: Func) -> int:
    """0 where every access has the width of its array's elements, else the least width that a bitcast pointer has."""
    widths = [
        element.pointee.itemsize
        for op in func.walk()
        if op.name == "bitcast" and isinstance(element := element_of(op.result.type), PointerType)
    ]
    return min(widths, default=0)
