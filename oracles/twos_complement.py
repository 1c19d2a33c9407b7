"""Two's complement arithmetic at a type's width: wrap, C division, shifts by any amount."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oracles.casts import convert
from oracles.formats import Format, format_of


def as_integers(x: Any, fmt: Any) -> np.ndarray:
    """`x` converted to an integer format, as an array of Python integers: no width, no overflow."""
    return convert(x, fmt).astype(object)


def wrap(values: Any, fmt: Any) -> np.ndarray:
    """Python integers reduced modulo 2^bits into the format, two's complement; a bool is one bit."""
    fmt = format_of(fmt)
    values = np.asarray(values, dtype=object)
    if not values.ndim:  # of arrays without axes NumPy makes its own integers, which are no Python integers
        values = np.asarray(int(values[()]), dtype=object)
    values = values & ((1 << fmt.bits) - 1)
    if fmt.kind == "signed":
        values = values - ((values >> (fmt.bits - 1)) << fmt.bits)
    return np.asarray(values).astype(fmt.dtype)


def ring(function: Callable[[np.ndarray, np.ndarray], np.ndarray], x: Any, y: Any, fmt: Any) -> np.ndarray:
    """A sum, difference or product, wrapped: modulo 2^64 first, of which every width is a part."""
    fmt = format_of(fmt)
    a, b = (convert(v, fmt).astype(np.int64 if fmt.kind == "signed" else np.uint64).view(np.uint64) for v in (x, y))
    total = function(a, b)
    if fmt.kind == "bool":
        return (total & np.uint64(1)).astype(bool)
    return total.astype(f"u{fmt.bits // 8}").view(fmt.dtype)


def divide(x: Any, y: Any, fmt: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C division at run time: (quotient toward zero, remainder with the dividend's sign, where y is zero).

    The lowest value divided by -1 wraps to itself with remainder 0. Where y is zero nothing is specified; 0
    is given.
    """
    a, b = np.broadcast_arrays(as_integers(x, fmt), as_integers(y, fmt))
    zero = (b == 0).astype(bool)
    divisor = np.where(zero, 1, b)
    quotient = abs(a) // abs(divisor)
    quotient = np.where(((a < 0) != (divisor < 0)).astype(bool), -quotient, quotient)
    remainder = a - quotient * divisor
    return wrap(np.where(zero, 0, quotient), fmt), wrap(np.where(zero, 0, remainder), fmt), zero


def shift_left(x: Any, amount: Any, fmt: Any) -> np.ndarray:
    """x 2^amount modulo 2^bits; zero once the amount (read as unsigned) reaches the width."""
    fmt = format_of(fmt)
    a, n = np.broadcast_arrays(as_integers(x, fmt), _amount(amount, fmt))
    return wrap(a << n, fmt)


def shift_right(x: Any, amount: Any, fmt: Any, arithmetic: bool) -> np.ndarray:
    """x shifted right, its bits read at the width of `fmt`; sign bits come in if arithmetic, else zeros.

    An amount (read as unsigned) of the width or more leaves only sign bits, or zero.
    """
    fmt = format_of(fmt)
    bits = as_integers(x, fmt) & ((1 << fmt.bits) - 1)
    if arithmetic:
        bits = bits - ((bits >> (fmt.bits - 1)) << fmt.bits)
    # Without axes these are Python integers, which NumPy would make into its own, of two types.
    a, n = np.broadcast_arrays(*(np.asarray(v, dtype=object) for v in (bits, _amount(amount, fmt))))
    return wrap(a >> n, fmt)


def _amount(amount: Any, fmt: Format) -> np.ndarray:
    unsigned = as_integers(amount, fmt) & ((1 << fmt.bits) - 1)
    return np.minimum(np.asarray(unsigned, dtype=object), fmt.bits)


def multiply_high(x: Any, y: Any, fmt: Any) -> np.ndarray:
    """The upper half of the product of the operands read as unsigned."""
    fmt = format_of(fmt)
    mask = (1 << fmt.bits) - 1
    return wrap(((as_integers(x, fmt) & mask) * (as_integers(y, fmt) & mask)) >> fmt.bits, fmt)


def floor_divide(x: int, y: int) -> tuple[int, int]:
    """Python's quotient and remainder, the rule between two compile-time integers."""
    return x // y, x % y
