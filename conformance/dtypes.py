"""The element types of the language as the harness sees them: NumPy type, Triton name, precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """`precision` counts the hidden bit (0 for integers); `bits` is the width in memory."""

    name: str
    numpy: Any
    triton: str
    bits: int
    precision: int = 0

    @property
    def is_float(self) -> bool:
        return self.precision > 0


def _table() -> dict[str, DType]:
    rows = [
        ("bool", np.bool_, "int1", 8, 0),
        ("i8", np.int8, "int8", 8, 0),
        ("i16", np.int16, "int16", 16, 0),
        ("i32", np.int32, "int32", 32, 0),
        ("i64", np.int64, "int64", 64, 0),
        ("u8", np.uint8, "uint8", 8, 0),
        ("u16", np.uint16, "uint16", 16, 0),
        ("u32", np.uint32, "uint32", 32, 0),
        ("u64", np.uint64, "uint64", 64, 0),
        ("f8e4m3", ml_dtypes.float8_e4m3fn, "float8e4nv", 8, 4),
        ("f8e5m2", ml_dtypes.float8_e5m2, "float8e5", 8, 3),
        ("f16", np.float16, "float16", 16, 11),
        ("bf16", ml_dtypes.bfloat16, "bfloat16", 16, 8),
        ("f32", np.float32, "float32", 32, 24),
        ("f64", np.float64, "float64", 64, 53),
    ]
    return {n: DType(n, np.dtype(t), s, b, p) for n, t, s, b, p in rows}


DTYPES = _table()
BY_NUMPY = {d.numpy: d for d in DTYPES.values()}


def of(array: np.ndarray) -> DType:
    """The language's name for an array's element type."""
    return BY_NUMPY[array.dtype]


def bits(array: np.ndarray) -> np.ndarray:
    """The array's elements as unsigned integers of the same width (a view)."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
