"""MLIR's spelling of types and constants."""

from __future__ import annotations

import math
import struct

import numpy as np

from refcompiler.dialects.simt.registers import count_of
from refcompiler.ir.types import BOOL, F32, FLOATS8, DType, Element, PointerType, Type, element_of

GLOBAL, SHARED = "!llvm.ptr<1>", "!llvm.ptr<3>"


def element_type(element: Element) -> str:
    """The type of one register: integers have no sign, float8 is its bits, a pointer points to global memory."""
    if isinstance(element, PointerType):
        return GLOBAL
    if element is BOOL:
        return "i1"
    return element.name if element.is_float and element not in FLOATS8 else f"i{element.bits}"


def memory_type(element: Element) -> str:
    """The type in memory: a bool is one byte, of which any bit may be set."""
    return "i8" if element is BOOL else element_type(element)


def itemsize(element: Element) -> int:
    """Bytes in memory."""
    return element.itemsize if isinstance(element, DType) else 8


def vector(element: str, count: int) -> str:
    """``count`` elements; a single one is a scalar."""
    return f"vector<{count}x{element}>" if count > 1 else element


def type_of(type_: Type) -> str:
    """A scalar, or a vector of the registers."""
    return vector(element_type(element_of(type_)), count_of(type_))


def literal(value: bool | int | float, dtype: DType) -> str:
    """The number as an attribute that denotes exactly this value in this type."""
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype in FLOATS8:
        value = _bits(float(value), dtype)
    elif dtype.is_float:
        return _float(float(value), dtype)
    value = int(value)  # MLIR reads an integer without a sign modulo 2**bits
    return str(value - (1 << dtype.bits) if value >= 1 << (dtype.bits - 1) else value)


def _float(value: float, dtype: DType) -> str:
    """Decimal digits that denote the number in f64, of which the conversion to ``dtype`` is exact; else its bits."""
    if not math.isfinite(value):
        return f"0x{_bits(value, dtype):0{dtype.bits // 4}X}"
    text = repr(value)
    if "." in text:
        return text
    digits, exponent, power = text.partition("e")
    return f"{digits}.0{exponent}{power}"


def _bits(value: float, dtype: DType) -> int:
    if dtype.bits <= 16:
        return int(np.asarray(value, dtype.numpy).view(f"u{dtype.itemsize}"))
    word, number = ("<I", "<f") if dtype is F32 else ("<Q", "<d")
    return struct.unpack(word, struct.pack(number, value))[0]
