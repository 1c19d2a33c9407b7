"""Operations on integers: division, remainder, bits and shifts, at run time and between constexprs."""

from __future__ import annotations

from typing import Any

import numpy as np

from oracles import twos_complement
from oracles.casts import convert
from oracles.elementwise import Inputs, Params, operands
from oracles.formats import format_of, to_format
from oracles.promotion import promote
from oracles.registry import Refs, oracle


@oracle(operands="x y")
def floordiv(inputs: Inputs, params: Params) -> Refs:
    """x // y of run-time integers: toward zero; unspecified where y is 0."""
    x, y = operands(inputs, params)
    quotient, _, zero = twos_complement.divide(x, y, promote(x, y, "//"))
    return {"out": quotient, "out.unspecified": zero}


@oracle(operands="x y")
def mod(inputs: Inputs, params: Params) -> Refs:
    """x % y at run time: C remainder, fmod for floats; unspecified where an integer y is 0."""
    x, y = operands(inputs, params)
    fmt = promote(x, y, "%")
    if fmt.is_float:
        return {"out": to_format(np.fmod(convert(x, fmt).astype(np.float64), convert(y, fmt).astype(np.float64)), fmt)}
    _, remainder, zero = twos_complement.divide(x, y, fmt)
    return {"out": remainder, "out.unspecified": zero}


@oracle(operands="x y")
def cdiv(inputs: Inputs, params: Params) -> Refs:
    """tl.cdiv(x, y) = (x + (y - 1)) // y at run time."""
    x, y = operands(inputs, params)
    fmt = promote(x, y, "//")
    total = twos_complement.wrap(twos_complement.as_integers(x, fmt) + twos_complement.as_integers(y, fmt) - 1, fmt)
    quotient, _, zero = twos_complement.divide(total, y, fmt)
    return {"out": quotient, "out.unspecified": zero}


@oracle(params="x y")
def constexpr_floordiv(inputs: Inputs, params: Params) -> Refs:
    """x // y of two constexprs: Python's floor."""
    return {"out": np.asarray(twos_complement.floor_divide(params["x"], params["y"])[0])}


@oracle(params="x y")
def constexpr_mod(inputs: Inputs, params: Params) -> Refs:
    """x % y of two constexprs: the sign of the divisor, as in Python."""
    return {"out": np.asarray(twos_complement.floor_divide(params["x"], params["y"])[1])}


# ------------------------------------------------------------------------------------- bits
def _bitwise(inputs: Inputs, params: Params, operator: str, function: Any) -> Refs:
    x, y = operands(inputs, params)
    fmt = promote(x, y, operator)
    return {"out": function(convert(x, fmt), convert(y, fmt))}


@oracle(operands="x y")
def and_(inputs: Inputs, params: Params) -> Refs:
    """x & y in the promoted type."""
    return _bitwise(inputs, params, "&", np.bitwise_and)


@oracle(operands="x y")
def or_(inputs: Inputs, params: Params) -> Refs:
    """x | y in the promoted type."""
    return _bitwise(inputs, params, "|", np.bitwise_or)


@oracle(operands="x y")
def xor(inputs: Inputs, params: Params) -> Refs:
    """x ^ y in the promoted type."""
    return _bitwise(inputs, params, "^", np.bitwise_xor)


@oracle(operands="x y")
def shl(inputs: Inputs, params: Params) -> Refs:
    """x << y: 0 once y reaches the width."""
    x, y = operands(inputs, params)
    return {"out": twos_complement.shift_left(x, y, promote(x, y, "<<"))}


@oracle(operands="x y")
def shr(inputs: Inputs, params: Params) -> Refs:
    """x >> y: arithmetic if x is signed, whatever the promoted type; all sign bits or 0 once y reaches the width."""
    x, y = operands(inputs, params)
    return {"out": twos_complement.shift_right(x, y, promote(x, y, ">>"), format_of(x).kind == "signed")}


@oracle(operands="x y")
def umulhi(inputs: Inputs, params: Params) -> Refs:
    """The upper half of the product, operands read as unsigned."""
    x, y = operands(inputs, params)
    return {"out": twos_complement.multiply_high(x, y, promote(x, y))}


@oracle(inputs="x")
def invert(inputs: Inputs, params: Params) -> Refs:
    """~x, in the type of x; bool is negated."""
    return {"out": np.invert(inputs["x"])}


@oracle(inputs="x")
def logical_not(inputs: Inputs, params: Params) -> Refs:
    """not x, elementwise."""
    return {"out": ~convert(inputs["x"], "bool")}
