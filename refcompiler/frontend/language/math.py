"""Elementwise mathematics, selection and conversion."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from typing import Any

from refcompiler.dialects.scalar import ROWS, Scalar
from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import element_type, static, static_bool
from refcompiler.ir import Value
from refcompiler.ir.types import F32, DType, PointerType, element_of, with_element


class PropagateNan(enum.Enum):
    """What minimum, maximum and clamp do with NaN: NONE gives the other operand, ALL gives NaN."""

    NONE = 0
    ALL = 0xFFFF


def _unary(name: str, x: Any) -> Value:
    c = here()
    value = semantics.to_value(c, x, "x")
    semantics.require_row(c, name, value, "x")
    return c.emit(name, value)


@builtin(member=True)
def exp(x):
    """e to the power x; float32 and float64. Spec: math.exp"""
    return _unary("exp", x)


@builtin(member=True)
def exp2(x):
    """2 to the power x; float32 and float64. Spec: math.exp2"""
    return _unary("exp2", x)


@builtin(member=True)
def log(x):
    """Natural logarithm; float32 and float64. Spec: math.log"""
    return _unary("log", x)


@builtin(member=True)
def log2(x):
    """Base-2 logarithm; float32 and float64. Spec: math.log2"""
    return _unary("log2", x)


@builtin(member=True)
def sin(x):
    """Sine of x radians; float32 and float64. Spec: math.sin"""
    return _unary("sin", x)


@builtin(member=True)
def cos(x):
    """Cosine of x radians; float32 and float64. Spec: math.cos"""
    return _unary("cos", x)


@builtin(member=True)
def erf(x):
    """Error function; float32 and float64. Spec: math.erf"""
    return _unary("erf", x)


@builtin(member=True)
def sqrt(x):
    """Square root; float32 and float64. Spec: math.sqrt"""
    return _unary("sqrt", x)


@builtin(member=True)
def sqrt_rn(x):
    """Square root rounded to nearest; float32. Spec: math.sqrt"""
    return _unary("sqrt_rn", x)


@builtin(member=True)
def rsqrt(x):
    """Reciprocal square root; float32 and float64. Spec: math.rsqrt"""
    return _unary("rsqrt", x)


@builtin(member=True)
def floor(x):
    """The largest integer not above x, as a float; float32 and float64. Spec: math.floor"""
    return _unary("floor", x)


@builtin(member=True)
def ceil(x):
    """The smallest integer not below x, as a float; float32 and float64. Spec: math.ceil"""
    return _unary("ceil", x)


@builtin(member=True)
def abs(x):
    """|x| of any number; the least integer stays, bool stays. Spec: math.abs"""
    c = here()
    value = semantics.to_value(c, x, "x")
    if not semantics.is_pointer(value) and semantics.dtype_of(value).is_bool:
        return value
    return _unary("abs", value)


def _pair(c: Context, x: Any, y: Any, name: str, division: bool = False) -> tuple[Value, Value]:
    if not isinstance(x, Value) and not isinstance(y, Value):
        x, y = semantics.to_value(c, x, "x"), semantics.to_value(c, y, "y")
    return semantics.meet(c, x, y, division, what=name)


def _require_operands(c: Context, name: str, x: Any, y: Any) -> None:
    """Each run-time operand has a dtype of ``name``'s itself, before they meet in one."""
    for value, at in ((x, "x"), (y, "y")):
        if isinstance(value, Value):
            semantics.require_row(c, name, value, at)


@builtin
def fdiv(x, y, ieee_rounding=False):
    """x / y of floats, float32 at least; `ieee_rounding` asks for rounding to nearest. Spec: arith.division"""
    c = here()
    literals = not (isinstance(x, Value) or isinstance(y, Value))
    for value, at in ((x, "x"), (y, "y")):
        is_float = semantics.dtype_is_float(value) if isinstance(value, Value) else isinstance(value, float)
        if not is_float and (literals or isinstance(value, Value)):
            raise c.error("arith.division#E1", f"fdiv divides floats, found {describe(value)}", at)
    left, right = _pair(c, x, y, "fdiv", division=True)
    nearest = static_bool(c, ieee_rounding, "ieee_rounding") and semantics.dtype_of(left) is F32
    return c.emit("div_rn" if nearest else "div", left, right)  # the f64 quotient is always the nearest


@builtin
def div_rn(x, y):
    """x / y of float32, rounded to nearest. Spec: arith.division"""
    c = here()
    _require_operands(c, "div_rn", x, y)
    left, right = _pair(c, x, y, "div_rn")
    semantics.require_row(c, "div_rn", left, "x")
    return c.emit("div_rn", left, right)


@builtin
def fma(x, y, z):
    """x * y + z of floats with one rounding. Spec: arith.fma"""
    return _ternary("fma", x, y, z)


def _ternary(name: str, x: Any, y: Any, z: Any) -> Value:
    c = here()
    left, right = _pair(c, x, y, name)
    left, third = semantics.meet(c, left, z, what=name, names=("x", "z"))
    right = semantics.cast(c, right, semantics.dtype_of(left))
    semantics.require_row(c, name, left, "x")
    return c.emit(name, left, right, third)


@builtin
def umulhi(x, y):
    """The high half of the product of two 32- or 64-bit integers read as unsigned. Spec: arith.umulhi"""
    c = here()
    _require_operands(c, "umulhi", x, y)
    left, right = _pair(c, x, y, "umulhi")
    semantics.require_row(c, "umulhi", left, "x")
    return c.emit("umulhi", left, right)


def _suffix(c: Context, propagate_nan: Any) -> str:
    mode = static(c, propagate_nan, "propagate_nan")
    if not isinstance(mode, PropagateNan):
        raise c.error(
            "select.extrema#E2",
            f"propagate_nan is tl.PropagateNan.NONE or tl.PropagateNan.ALL, found {mode!r}",
            "propagate_nan",
        )
    return "_nan" if mode is PropagateNan.ALL else ""


def _extremum(c: Context, name: str, x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> Value:
    if not isinstance(x, Value) and not isinstance(y, Value):
        x, y = semantics.to_value(c, x, names[0]), semantics.to_value(c, y, names[1])
    return semantics.arithmetic(c, name, x, y, names)


@builtin
def maximum(x, y, propagate_nan=PropagateNan.NONE):
    """The larger of x and y, elementwise; NaN by `propagate_nan`. Spec: select.extrema"""
    c = here()
    return _extremum(c, "maximum" + _suffix(c, propagate_nan), x, y)


@builtin
def minimum(x, y, propagate_nan=PropagateNan.NONE):
    """The smaller of x and y, elementwise; NaN by `propagate_nan`. Spec: select.extrema"""
    c = here()
    return _extremum(c, "minimum" + _suffix(c, propagate_nan), x, y)


@builtin
def clamp(x, min, max, propagate_nan=PropagateNan.NONE):
    """x limited to [min, max]: the minimum of `max` and of the maximum of x and `min`. Spec: select.clamp"""
    c = here()
    suffix = _suffix(c, propagate_nan)
    lower = _extremum(c, "maximum" + suffix, x, min, ("x", "min"))
    return _extremum(c, "minimum" + suffix, lower, max, ("x", "max"))


@builtin
def where(condition, x, y):
    """x where `condition` is true, else y; both are evaluated and broadcast. Spec: select.where"""
    return semantics.select(here(), condition, x, y)


@builtin(member=("cast", "to"))
def cast(input, dtype, fp_downcast_rounding=None, bitcast=False):
    """`input` as `dtype`; `bitcast` keeps the bits instead of the value. Spec: cast.numeric, cast.bitcast

    Integers wrap, floats round to nearest even, float to integer goes toward zero, saturates and takes NaN to 0.
    """
    c = here()
    target = element_type(c, dtype, "dtype")
    value = semantics.to_value(c, input, "input")
    source = element_of(value.type)
    if static_bool(c, bitcast, "bitcast"):
        return _bitcast(c, value, target)
    _check_rounding(c, fp_downcast_rounding, source, target)
    if isinstance(source, PointerType) and isinstance(target, PointerType):
        return _bitcast(c, value, target)
    if isinstance(source, PointerType) or isinstance(target, PointerType):
        raise c.error("cast.numeric#E1", f"cannot cast {source} to {target}", "dtype")
    return semantics.cast(c, value, target)


def _bitcast(c: Context, value: Value, target: Any) -> Value:
    source = element_of(value.type)
    if source == target:
        return value
    pointers = isinstance(source, PointerType), isinstance(target, PointerType)
    if any(pointers) != all(pointers) or (not any(pointers) and source.bits != target.bits):
        raise c.error("cast.bitcast#E1", f"cannot bitcast {source} to {target}: the widths differ", "dtype")
    return c.emit("bitcast", value, types=[with_element(value.type, target)])


def _check_rounding(c: Context, rounding: Any, source: Any, target: Any) -> None:
    rounding = static(c, rounding, "fp_downcast_rounding")
    if rounding is None:
        return
    floats = isinstance(source, DType) and isinstance(target, DType) and source.is_float and target.is_float
    if not floats or source.bits <= target.bits:
        raise c.error(
            "cast.numeric#E3",
            f"fp_downcast_rounding is for narrowing a float, found {source} to {target}",
            "fp_downcast_rounding",
        )
    if rounding != "rtne":
        known = "'rtz' is not in this edition yet" if rounding == "rtz" else f"{rounding!r} is none of 'rtne', 'rtz'"
        raise c.error("cast.numeric#E4", f"rounding mode: {known}; use 'rtne'", "fp_downcast_rounding")


def functions_of(rows: Iterable[Scalar], known: Collection[str]) -> dict[str, Any]:
    """A language function for each row of the scalar table that is a feature of its own name (``math.tanh`` for the
    row ``tanh``) and not ``known``: a new function needs its row only. Operands meet in one type, as for `+`."""
    made = {}
    for row in rows:
        if row.spec.rpartition(".")[2] == row.name and row.name not in known:
            made[row.name] = _FORMS[row.arity](row)
    return made


def _named(function: Any, row: Scalar) -> Any:
    function.__name__ = function.__qualname__ = row.name
    function.__doc__ = f"{row.doc} Spec: {row.spec}"
    return builtin(function, member=row.arity == 1)


def _of_one(row: Scalar) -> Any:
    def function(x):
        return _unary(row.name, x)

    return _named(function, row)


def _of_two(row: Scalar) -> Any:
    def function(x, y):
        c = here()
        left, right = _pair(c, x, y, row.name)
        semantics.require_row(c, row.name, left, "x")
        return c.emit(row.name, left, right)

    return _named(function, row)


def _of_three(row: Scalar) -> Any:
    def function(x, y, z):
        return _ternary(row.name, x, y, z)

    return _named(function, row)


_FORMS = {1: _of_one, 2: _of_two, 3: _of_three}
FROM_TABLE = functions_of(ROWS, tuple(globals()))
globals().update(FROM_TABLE)
