"""Implicit conversion: the types that operands of different types meet in, as tables.

Source: the rules of Triton 3.9, feature arith.promotion.
"""

from __future__ import annotations

from typing import Any

from refcompiler.ir.types import BOOL, DTYPES, F32, F64, I32, I64, U32, U64, DType

_INTEGERS = """
      bool i8   i16  i32  i64  u8   u16  u32  u64
bool  bool i8   i16  i32  i64  u8   u16  u32  u64
i8    i8   i8   i16  i32  i64  u8   u16  u32  u64
i16   i16  i16  i16  i32  i64  i16  u16  u32  u64
i32   i32  i32  i32  i32  i64  i32  i32  u32  u64
i64   i64  i64  i64  i64  i64  i64  i64  i64  u64
u8    u8   u8   i16  i32  i64  u8   u16  u32  u64
u16   u16  u16  u16  i32  i64  u16  u16  u32  u64
u32   u32  u32  u32  u32  i64  u32  u32  u32  u64
u64   u64  u64  u64  u64  u64  u64  u64  u64  u64
"""

# `int` stands for every integer and bool.
_FLOATS = """
      int  f16  bf16 f32  f64
int   .    f16  f32  f32  f64
f16   f16  f16  f16  f32  f64
bf16  f32  f16  bf16 f32  f64
f32   f32  f32  f32  f32  f64
f64   f64  f64  f64  f64  f64
"""

# `/` computes in f32 at least, and so does `%` where a float takes part.
_DIVISION = """
      int  f16  bf16 f32  f64
int   f32  f32  f32  f32  f64
f16   f32  f32  f32  f32  f64
bf16  f32  f32  f32  f32  f64
f32   f32  f32  f32  f32  f64
f64   f64  f64  f64  f64  f64
"""


def _table(text: str) -> dict[tuple[str, str], DType]:
    header, *rows = (line.split() for line in text.strip().splitlines())
    return {
        (row[0], column): DTYPES[name]
        for row in rows
        for column, name in zip(header, row[1:], strict=True)
        if name != "."
    }


INTEGERS, FLOATS, DIVISION = _table(_INTEGERS), _table(_FLOATS), _table(_DIVISION)


def _column(dtype: DType) -> str:
    return dtype.name if dtype.is_float else "int"


def promote(x: DType, y: DType) -> DType:
    """The type that two run-time operands meet in."""
    if x.is_float or y.is_float:
        return FLOATS[_column(x), _column(y)]
    return INTEGERS[x.name, y.name]


def promote_division(x: DType, y: DType) -> DType:
    """The type that the operands of `/` meet in; the same for `%` where one is a float."""
    return DIVISION[_column(x), _column(y)]


def different_signs(x: DType, y: DType) -> bool:
    """Whether two integer types differ in signedness; bool counts as unsigned."""
    return not (x.is_float or y.is_float) and (x.kind == "int") != (y.kind == "int")


_KIND = {"bool": 0, "int": 1, "uint": 1, "float": 2}
_SMALLEST_NORMAL, _LARGEST = 2.0**-126, 3.4028234663852886e38


def literal_dtype(value: Any) -> DType | None:
    """The type of a literal that no operand decides: int1; the first of i32, u32, i64, u64 that holds it; f32, or f64
    where f32 would overflow or be subnormal. None for an integer beyond u64."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return next((d for d in (I32, U32, I64, U64) if d.min_int <= value <= d.max_int), None)
    size = abs(value)
    exact = size == 0 or size != size or size == float("inf") or _SMALLEST_NORMAL <= size <= _LARGEST
    return F32 if exact else F64


def literal_is_weak(literal: DType, tensor: DType) -> bool:
    """Whether a literal of this type takes the tensor's type: its kind (bool < integer < float) is not higher."""
    return _KIND[literal.kind] <= _KIND[tensor.kind]
