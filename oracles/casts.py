"""Conversions between element types, by the language's rules: wrap, saturate, round to nearest even."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.formats import Format, format_of, to_format, widen
from oracles.registry import OracleError, Refs, oracle


def convert(x: Any, fmt: Any) -> np.ndarray:
    """`x` converted to a format, in that format's dtype.

    To bool: different from zero (NaN is true). Integer to integer: modulo 2^bits. Integer to float: nearest
    even, one rounding. Float to integer: toward zero, saturating, NaN to 0. Float to float: nearest even,
    overflow to infinity.
    """
    x = np.asarray(x)
    source, fmt = format_of(x), format_of(fmt)
    if source == fmt:
        return x.copy()
    if fmt.kind == "bool":
        return x != 0
    if not source.is_float:
        return _integer_to_float(x, fmt) if fmt.is_float else x.astype(fmt.dtype)
    wide = widen(x)
    return to_format(wide, fmt) if fmt.is_float else _float_to_integer(wide, fmt)


def _float_to_integer(x: np.ndarray, fmt: Format) -> np.ndarray:
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    low, high = fmt.min, fmt.max
    # 2^bits is exact in fp64 while max is not for 64 bits, so the upper test is against max + 1
    inside = (whole >= float(low)) & (whole < float(high + 1))
    middle = np.where(inside, whole, 0.0)
    values = middle.astype(np.uint64 if fmt.kind == "unsigned" else np.int64).astype(fmt.dtype)
    return np.where(inside, values, np.where(whole < 0, fmt.dtype.type(low), fmt.dtype.type(high)))


def _integer_to_float(x: np.ndarray, fmt: Format) -> np.ndarray:
    if fmt.name == "f64" or x.dtype.itemsize < 8:
        return to_format(x.astype(np.float64), fmt) if fmt.name != "f64" else x.astype(np.float64)
    negative = x < 0
    magnitude = np.where(negative, (~x).astype(np.uint64) + np.uint64(1), x.astype(np.uint64))
    # fp64 cannot hold 64 bits: keep the upper ones and make the last one sticky, so that the one rounding
    # that follows (24 bits or fewer) sees on which side of a tie the value lies
    upper = magnitude >> np.uint64(11)
    sticky = (magnitude & np.uint64(0x7FF)) != 0
    squeezed = (upper | sticky.astype(np.uint64)) << np.uint64(11)
    exact = np.where(magnitude >> np.uint64(53) != 0, squeezed, magnitude).astype(np.float64)
    return to_format(np.where(negative, -exact, exact), fmt)


@oracle(inputs="x", params="dtype via?")
def cast(inputs: Mapping[str, np.ndarray], params: Mapping[str, Any]) -> Refs:
    """`x.to(dtype)`, or `x.to(via).to(dtype)`; out has the format `dtype`, bit-exact."""
    x = convert(inputs["x"], params["via"]) if "via" in params else inputs["x"]
    return {"out": convert(x, params["dtype"])}


@oracle(inputs="x", params="dtype")
def bitcast(inputs: Mapping[str, np.ndarray], params: Mapping[str, Any]) -> Refs:
    """`x.to(dtype, bitcast=True)`: the same bits read as a format of the same width."""
    source, fmt = format_of(inputs["x"]), format_of(params["dtype"])
    if source.bits != fmt.bits:
        raise OracleError(f"bitcast from {source.name} to {fmt.name}: the widths differ")
    return {"out": np.ascontiguousarray(inputs["x"]).view(fmt.dtype)}
