"""What the arrays of a generated kernel hold: a few kinds of contents, from random bits that a number fixes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.dtypes import DTYPES, DType
from conformance.fuzzing.nodes import Array
from conformance.inputs import special_values
from oracles.formats import to_format


def contents(array: Array, programs: int) -> np.ndarray:
    """The elements before the run, the same on every machine."""
    kind, size = DTYPES[array.dtype], array.region * programs
    words, seed = array.contents
    bits = np.random.Philox(key=seed).random_raw(size)
    if kind.name == "bool":
        return (bits & np.uint64(1)).astype(bool)
    return _KINDS[words](kind, bits)


def _number(kind: DType, values: np.ndarray) -> np.ndarray:
    return to_format(values.astype(np.float64), kind.name) if kind.is_float else values.astype(kind.numpy)


def _zeros(kind: DType, bits: np.ndarray) -> np.ndarray:
    return np.zeros(bits.size, kind.numpy)


def _counting(kind: DType, bits: np.ndarray) -> np.ndarray:
    return _number(kind, np.arange(bits.size) % 128)


def _small(kind: DType, bits: np.ndarray) -> np.ndarray:
    low = 0 if kind.name.startswith("u") else 8
    return _number(kind, (bits % np.uint64(low + 8 or 8)).astype(np.int64) - low)


def _bits(kind: DType, bits: np.ndarray) -> np.ndarray:
    return bits.astype(f"u{kind.numpy.itemsize}").view(kind.numpy)


def _special(kind: DType, bits: np.ndarray) -> np.ndarray:
    found = special_values(kind)
    if kind.is_float:
        words = [0.0, -0.0, 1.0, -1.0, *found.values(), -found["inf"], -found["min_sub"], 1.5, 2.5, -0.5, 3.0]
        table = to_format(np.array(words, np.float64), kind.name)
    else:
        low, high = found["min"], found["max"]
        table = np.array([0, 1, low, high, low + 1, high - 1, 2, 31, 64, 7], dtype=object).astype(kind.numpy)
    return table[(bits % np.uint64(len(table))).astype(np.int64)]


def _normal(kind: DType, bits: np.ndarray) -> np.ndarray:
    if not kind.is_float:
        return _bits(kind, bits)
    parts = [((bits >> np.uint64(s)) & np.uint64(0xFFFF)).astype(np.float64) for s in (0, 16, 32, 48)]
    return to_format((sum(parts) - 2.0 * 65535.0) / 32768.0, kind.name)


_KINDS: dict[str, Callable[[DType, np.ndarray], np.ndarray]] = {
    "zeros": _zeros,
    "small": _small,
    "counting": _counting,
    "special": _special,
    "bits": _bits,
    "normal": _normal,
}
