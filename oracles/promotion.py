"""The implicit conversion of operands: which format an operation of two formats computes in and returns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oracles.casts import convert
from oracles.formats import FORMATS, Format, format_of, to_format
from oracles.registry import OracleError

# Row and column in the order of the heading; symmetric.
_HEADING = "bool i8 i16 i32 i64 u8 u16 u32 u64".split()
_INTEGERS = """
bool i8  i16 i32 i64 u8  u16 u32 u64
i8   i8  i16 i32 i64 u8  u16 u32 u64
i16  i16 i16 i32 i64 i16 u16 u32 u64
i32  i32 i32 i32 i64 i32 i32 u32 u64
i64  i64 i64 i64 i64 i64 i64 i64 u64
u8   u8  i16 i32 i64 u8  u16 u32 u64
u16  u16 u16 i32 i64 u16 u16 u32 u64
u32  u32 u32 u32 i64 u32 u32 u32 u64
u64  u64 u64 u64 u64 u64 u64 u64 u64
"""
INTEGER_TABLE = {
    (row, column): result
    for row, line in zip(_HEADING, _INTEGERS.strip().splitlines(), strict=True)
    for column, result in zip(_HEADING, line.split(), strict=True)
}
# Floating pairs; "int" stands for bool and every integer format.
_FLOATS = {
    ("f16", "int"): "f16",
    ("f16", "f16"): "f16",
    ("f16", "bf16"): "f16",
    ("bf16", "int"): "f32",
    ("bf16", "bf16"): "bf16",
    ("f32", "int"): "f32",
    ("f32", "f16"): "f32",
    ("f32", "bf16"): "f32",
    ("f32", "f32"): "f32",
    ("f64", "int"): "f64",
    ("f64", "f16"): "f64",
    ("f64", "bf16"): "f64",
    ("f64", "f32"): "f64",
    ("f64", "f64"): "f64",
}
DIVISIONS = ("/", "//", "%")
BITWISE = ("&", "|", "^", "<<", ">>")
_KINDS = {"bool": 0, "signed": 1, "unsigned": 1, "float": 2}


def promote(x: Any, y: Any, operator: str = "+") -> Format:
    """The format in which `x operator y` is computed, for two typed operands (formats, dtypes or arrays).

    `/` `//` `%` have rules of their own, `& | ^ << >>` take no floats; every other operator follows `+`.
    Raises OracleError where the language rejects the pair.
    """
    a, b = format_of(x), format_of(y)
    floating = a.is_float or b.is_float
    if floating and (operator in BITWISE or operator == "//"):
        raise OracleError(f"{a.name} {operator} {b.name}: the operands must be integers")
    if operator in DIVISIONS and not floating:
        if (a.kind == "signed") != (b.kind == "signed"):
            raise OracleError(f"{a.name} {operator} {b.name}: operands of different signedness")
        if operator == "/":
            return FORMATS["f32"]
    if not floating:
        return FORMATS[INTEGER_TABLE[a.name, b.name]]
    first, second = (f.name if f.is_float else "int" for f in (a, b))
    result = FORMATS[_FLOATS.get((first, second)) or _FLOATS[second, first]]
    return FORMATS["f32"] if operator in DIVISIONS and result.bits == 16 else result


def literal_format(value: bool | int | float, tensor: Any) -> Format:
    """The format of a Python literal beside a typed operand: that operand's, unless the literal's kind is higher.

    An integer beside bool: the first of i32, u32, i64, u64 that holds it. A float beside bool or an
    integer: f32 if zero, infinite, NaN or in f32's normal range, else f64. Raises OracleError for an
    integer out of the range of the operand's format.
    """
    other = format_of(tensor)
    kind = 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2
    if kind <= _KINDS[other.kind]:
        if kind == 1 and not other.is_float and not other.min <= value <= other.max:
            raise OracleError(f"literal {value} is out of the range of {other.name}")
        return other
    if kind == 1:
        fitting = [f for f in map(FORMATS.get, ("i32", "u32", "i64", "u64")) if f and f.min <= value <= f.max]
        if not fitting:
            raise OracleError(f"literal {value} needs more than 64 bits")
        return fitting[0]
    f32 = FORMATS["f32"]
    small = value == 0 or not math.isfinite(value) or f32.min_normal <= abs(value) <= f32.max
    return f32 if small else FORMATS["f64"]


def typed(x: Any, beside: Any) -> np.ndarray:
    """An operand as an array: arrays and NumPy scalars as they are, a Python literal in its format beside `beside`."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)
    if not isinstance(beside, (np.ndarray, np.generic)):
        raise OracleError(f"operands {x!r} and {beside!r}: at least one must be an array or a NumPy scalar")
    fmt = literal_format(x, beside)
    if not fmt.is_float:
        return np.asarray(x).astype(fmt.dtype)
    if isinstance(x, int) and not isinstance(x, bool):
        return convert(np.asarray(x, np.int64 if x < 2**63 else np.uint64), fmt)
    return to_format(float(x), fmt)


def pair(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both operands of a binary operation as typed arrays."""
    return typed(x, y), typed(y, x)
