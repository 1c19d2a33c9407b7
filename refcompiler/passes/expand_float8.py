"""Conversion of float8 in integer arithmetic, for targets that have no instruction for it."""

from __future__ import annotations

import struct
from typing import Any

from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.rewriter import Rewriter, rewrite
from refcompiler.ir.types import F8E4M3, F16, F32, FLOATS8, U8, U16, U32, DType, element_of, with_element

# Bits of the mantissa, bias of the exponent, largest number.
_FORMATS = {"f8e4m3": (3, 7, 448.0), "f8e5m2": (2, 15, 57344.0)}


def expand_float8(func: Func, context: Any) -> None:
    """Replace casts from and to float8 where the target lacks them; those from infinity saturate, NaN stays NaN."""
    if context.target is not None and not context.target.has_fp8_cvt:
        Rewriter((expand,), fold=False).run(func)


@rewrite("cast")
def expand(op: Op, rw: Rewriter) -> Value | None:
    """One cast as shifts, a few integer operations and one operation of floats that is exact or rounds as it should."""
    source, target = element_of(op.x.type), element_of(op.result.type)
    if source in FLOATS8:
        return _cast(rw, _widened(rw, op.x, source), target)
    return _narrowed(rw, _cast(rw, op.x, F32), target) if target in FLOATS8 else None


def _widened(rw: Rewriter, x: Value, dtype: DType) -> Value:
    """An f16 for e5m2, whose upper byte it is; an f32 for e4m3."""
    byte = _as(rw, x, U8)
    if dtype is not F8E4M3:
        return _as(rw, rw.op("shl", _cast(rw, byte, U16), Constant(8, U16)), F16)
    word = _cast(rw, byte, U32)
    magnitude = rw.op("and", word, Constant(0x7F, U32))
    # Exponent and mantissa at their places in f32, of which the bias is 120 more; subnormals come right as well.
    small = _as(rw, rw.op("shl", magnitude, Constant(20, U32)), F32)
    number = _as(rw, rw.op("mul", small, Constant(2.0**120, F32)), U32)
    is_nan = rw.op("cmp_eq", magnitude, Constant(0x7F, U32))
    number = rw.op("select", is_nan, Constant(0x7FC00000, U32), number)
    sign = rw.op("shl", rw.op("and", word, Constant(0x80, U32)), Constant(24, U32))
    return _as(rw, rw.op("or", number, sign), F32)


def _narrowed(rw: Rewriter, x: Value, dtype: DType) -> Value:
    mantissa, bias, largest = _FORMATS[dtype.name]
    least = 2.0 ** (1 - bias)  # normal number
    drop = 23 - mantissa
    word = _as(rw, x, U32)
    magnitude = rw.op("and", word, Constant(0x7FFFFFFF, U32))
    is_nan = rw.op("cmp_gt", magnitude, Constant(0x7F800000, U32))
    magnitude = rw.op("minimum", magnitude, Constant(_bits(largest), U32))
    # To nearest even: half of the last place less one, and one more where the last bit kept is set.
    last = rw.op("and", rw.op("shr", magnitude, Constant(drop, U32)), Constant(1, U32))
    raised = rw.op("add", rw.op("add", magnitude, Constant((1 << (drop - 1)) - 1, U32)), last)
    normal = rw.op("shr", raised, Constant(drop, U32))
    normal = rw.op("sub", normal, Constant((127 - bias) << mantissa, U32))
    # A sum in which the last place of f32 is the least subnormal number rounds to a multiple of that.
    place = least * 2.0**drop
    sum_ = rw.op("add", _as(rw, magnitude, F32), Constant(place, F32))
    subnormal = rw.op("sub", _as(rw, sum_, U32), Constant(_bits(place), U32))
    is_small = rw.op("cmp_lt", magnitude, Constant(_bits(least), U32))
    code = rw.op("select", is_small, subnormal, normal)
    code = rw.op("select", is_nan, Constant(0x7F, U32), code)
    sign = rw.op("and", rw.op("shr", word, Constant(24, U32)), Constant(0x80, U32))
    return _as(rw, _cast(rw, rw.op("or", code, sign), U8), dtype)


def _bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def _as(rw: Rewriter, x: Value, dtype: DType) -> Value:
    return rw.op("bitcast", x, types=[with_element(x.type, dtype)])


def _cast(rw: Rewriter, x: Value, dtype: DType) -> Value:
    return x if element_of(x.type) is dtype else rw.op("cast", x, types=[with_element(x.type, dtype)])
