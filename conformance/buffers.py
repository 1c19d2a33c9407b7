"""Arrays for a run: outputs filled with poison, guard bands around everything, and the check of both afterwards."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np

from conformance.dtypes import DTYPES, DType

GUARD = 512  # bytes before and after each array
ALIGNMENT = 256
POISON = np.frombuffer(b"\xad\xde\xff\xff", dtype=np.uint8)  # 0xFFFFDEAD: a NaN as f32, and recognisable as an integer
GUARD_BYTE = 0xA7


@dataclass
class GuardedArray:
    """One array inside `storage`, with what it held before the run.

    `array` is a C-contiguous view of `storage` at byte `offset`. Outputs start as poison; `initial` is a copy of the
    contents before the run in either case.
    """

    name: str
    role: str
    storage: np.ndarray
    offset: int
    array: np.ndarray
    initial: np.ndarray = field(init=False)
    _before: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.initial = self.array.copy()
        self._before = hashlib.sha256(self.storage.tobytes()).digest()

    def complaint(self) -> str | None:
        """What happened to bytes that must not change: the guard bands, and all of an input."""
        end = self.offset + self.array.nbytes
        for place, band in (("before", self.storage[: self.offset]), ("after", self.storage[end:])):
            touched = np.flatnonzero(band != GUARD_BYTE)
            if touched.size:
                at = int(touched[0]) - self.offset if place == "before" else int(touched[0])
                distance = f"byte {at} from its start" if place == "before" else f"byte {at} past its end"
                return f"{touched.size} bytes {place} array {self.name!r} were written, the first at {distance}"
        if self.role == "in" and hashlib.sha256(self.storage.tobytes()).digest() != self._before:
            return f"the input array {self.name!r} was changed"
        return None

    def untouched(self) -> bool:
        """Whether no byte of the array or its guards changed."""
        return hashlib.sha256(self.storage.tobytes()).digest() == self._before


def guarded(
    name: str, role: str, dtype: str, shape: tuple[int, ...], contents: np.ndarray | None, shift: int
) -> GuardedArray:
    """A guarded array; `contents` None means poison; `shift` elements move it off its 256-byte alignment."""
    kind = DTYPES[dtype]
    nbytes = math.prod(shape) * kind.numpy.itemsize
    raw = np.full(nbytes + 2 * GUARD + ALIGNMENT + shift * kind.numpy.itemsize, GUARD_BYTE, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    storage = raw[start : start + nbytes + 2 * GUARD + shift * kind.numpy.itemsize]
    offset = GUARD + shift * kind.numpy.itemsize
    data = storage[offset : offset + nbytes]
    data[:] = poison_bytes(kind, nbytes) if contents is None else np.ascontiguousarray(contents).view(np.uint8).ravel()
    return GuardedArray(name, role, storage, offset, data.view(kind.numpy).reshape(shape))


def poison_bytes(kind: DType, nbytes: int) -> np.ndarray:
    """The poison pattern; booleans get 1, because other bytes are no booleans."""
    if kind.name == "bool":
        return np.ones(nbytes, np.uint8)
    return np.resize(POISON, nbytes)


def never_written(array: GuardedArray) -> np.ndarray:
    """Elements that still hold the poison bytes although poison is no ordinary value of the dtype (f32, f64: a NaN)."""
    if array.array.dtype.kind != "f" or array.array.dtype.itemsize < 4:
        return np.zeros(array.array.shape, bool)
    width = f"u{array.array.dtype.itemsize}"
    return (array.array.view(width) == array.initial.view(width)) & np.isnan(array.array)
