"""What operators mean on run-time values: which types meet, which casts appear, which op is emitted.

Each function emits the casts that promotion asks for (left operand first) and then its own op. A literal never needs a
cast op: it becomes a literal of the other type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.dialects.scalar import BY_NAME
from refcompiler.frontend.context import WIDEN, Context, describe
from refcompiler.frontend.promotion import (
    different_signs,
    literal_dtype,
    literal_is_weak,
    promote,
    promote_division,
)
from refcompiler.frontend.types import BY_IR
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import (
    BESIDE_FLOAT8,
    BOOL,
    F32,
    FLOATS8,
    I64,
    SIGNED,
    DType,
    Element,
    PointerType,
    block_or_scalar,
    element_of,
    join_shapes,
    shape_of,
    with_element,
)

Number = bool | int | float
_OPERANDS = (Value, bool, int, float)


def is_pointer(value: Any) -> bool:
    return isinstance(value, Value) and isinstance(element_of(value.type), PointerType)


def dtype_of(value: Value) -> DType:
    """The element dtype of a value known not to be a pointer."""
    element = element_of(value.type)
    assert isinstance(element, DType)
    return element


def triton_name(dtype: Element) -> str:
    """The name kernels use: `tl.float32`."""
    return repr(BY_IR[dtype]) if isinstance(dtype, DType) else str(dtype)


# --- values from literals, casts


def to_value(c: Context, value: Any, at: str | None = None) -> Value:
    """A run-time value from a literal by the literal rule; run-time values stay."""
    if isinstance(value, Value):
        return value
    if not isinstance(value, Number):
        raise c.error("arith.promotion#E5", f"expected a number or a block, found {describe(value)}", at)
    dtype = literal_dtype(value)
    if dtype is None:
        raise c.error("arith.promotion#E1", f"{value} does not fit in 64 bits", at)
    return Constant(value, dtype)


def cast(c: Context, value: Value, target: Element) -> Value:
    """``value`` with elements of type ``target``; nothing where it has them, a literal where it is one."""
    source = element_of(value.type)
    if source == target:
        return value
    if isinstance(value, Constant) and isinstance(source, DType) and isinstance(target, DType):
        with np.errstate(all="ignore"):
            converted = numeric.cast(np.array(value.value, source.numpy), source, target)
        return Constant(np.asarray(converted).item(), target)
    for one, other, at in ((target, source, "dtype"), (source, target, "input")):
        if one in FLOATS8 and other not in BESIDE_FLOAT8:
            names = f"{triton_name(source)} to {triton_name(target)}"
            raise c.error("cast.fp8#E2", f"cannot cast {names}; cast to tl.float32 on the way", at)
    return c.emit("cast", value, types=[with_element(value.type, target)])


def literal(c: Context, value: Number, target: DType, at: str | None = None) -> Constant:
    """A literal beside an operand of type ``target``; it must fit."""
    if target.is_int:
        if target.kind == "uint" and value < 0:
            raise c.error(
                "arith.promotion#E2",
                f"the negative literal {value} meets the unsigned type {triton_name(target)}; "
                f"cast the operand to a signed type first",
                at,
            )
        if not target.min_int <= value <= target.max_int:
            raise c.error(
                "arith.promotion#E1",
                f"the literal {value} is out of range for {triton_name(target)} "
                f"[{target.min_int}, {target.max_int}]; cast the operand to a wider type first",
                at,
            )
    return Constant(value, target)


def fits(value: Number, target: Element) -> bool:
    """Whether a literal beside a value of type ``target`` takes that type."""
    dtype = literal_dtype(value)
    return isinstance(target, DType) and dtype is not None and literal_is_weak(dtype, target)


# --- meeting of operands


def meet(
    c: Context, x: Any, y: Any, division: bool = False, what: str = "arithmetic", names: tuple[str, str] = ("x", "y")
) -> tuple[Value, Value]:
    """Both operands in the type they meet in. ``division`` selects the rule of `/`."""
    _require_numbers(c, x, y, what, names)
    if what != "where" or not _same_dtype(x, y):
        _no_float8(c, x, y, what, names)
    return _convert(c, x, y, _meeting_type(c, x, y, division, names), names)


def _same_dtype(x: Any, y: Any) -> bool:
    """Whether both are of one dtype, or one is a literal that becomes one."""
    return len({dtype_of(v) for v in (x, y) if isinstance(v, Value)}) < 2


def _no_float8(c: Context, x: Any, y: Any, what: str, names: tuple[str, str]) -> None:
    for value, at in zip((x, y), names, strict=True):
        if isinstance(value, Value) and dtype_of(value) in FLOATS8:
            symbol = f"`{what}`" if what in _SYMBOLS.values() else what
            raise c.error("cast.fp8#E1", f"{symbol} is not defined for {triton_name(dtype_of(value))}; {WIDEN}", at)


def _require_numbers(c: Context, x: Any, y: Any, what: str, names: tuple[str, str]) -> None:
    for value, at in zip((x, y), names, strict=True):
        if is_pointer(value):
            advice = "; a pointer moves by + and - and is read with tl.load"
            raise c.error("arith.promotion#E4", f"{what} is not defined for pointers, found {value.type}{advice}", at)
        if not isinstance(value, _OPERANDS):
            raise c.error("arith.promotion#E5", f"{what} needs numbers or blocks, found {describe(value)}", at)


def _convert(c: Context, x: Any, y: Any, dtype: DType, names: tuple[str, str]) -> tuple[Value, Value]:
    left, right = (
        cast(c, value, dtype) if isinstance(value, Value) else literal(c, value, dtype, at)
        for value, at in zip((x, y), names, strict=True)
    )
    _check_shapes(c, [left, right])
    return left, right


def _meeting_type(c: Context, x: Any, y: Any, division: bool, names: tuple[str, str]) -> DType:
    rule = promote_division if division else promote
    if (float8 := next((dtype_of(v) for v in (x, y) if isinstance(v, Value)), None)) in FLOATS8:
        return float8  # of both, or of the one that is no literal: see ``meet``
    if isinstance(x, Value) == isinstance(y, Value):
        return rule(*(dtype_of(to_value(c, v, at)) for v, at in zip((x, y), names, strict=True)))
    number, value, at = (y, x, names[1]) if isinstance(x, Value) else (x, y, names[0])
    tensor = dtype_of(value)
    weak = literal_dtype(number)
    if tensor.is_int and isinstance(number, int):
        literal(c, number, tensor, at)  # range errors speak of the operand's type
    if weak is None:
        raise c.error("arith.promotion#E1", f"{number} does not fit in 64 bits", at)
    if literal_is_weak(weak, tensor):
        return promote_division(tensor, tensor) if division else tensor
    return rule(tensor, weak)


def _check_shapes(c: Context, values: list[Value]) -> None:
    shapes = [shape_of(v.type) for v in values]
    if join_shapes(*shapes) is None:
        shown = " and ".join(str(list(s)) for s in shapes)
        raise c.error(
            "shape.broadcast#E1",
            f"the shapes {shown} do not broadcast: aligned at the right, extents must be equal or 1",
        )


def require_row(c: Context, name: str, value: Value, at: str | None = None) -> None:
    """Check that the scalar function ``name`` is defined for the value's dtype."""
    row, element = BY_NAME[name], element_of(value.type)
    if element in row.dtypes:
        return
    if element in FLOATS8 and F32 in row.dtypes:
        raise c.error("cast.fp8#E1", f"{name} is not defined for {triton_name(element)}; {WIDEN}", at)
    if isinstance(element, PointerType):
        raise c.error("arith.promotion#E4", f"{name} is not defined for pointers, found {value.type}", at)
    accepted = ", ".join(map(str, row.dtypes))
    advice = "; cast it first: x.to(tl.float32)" if F32 in row.dtypes else ""
    raise c.error(f"{row.spec}#E1", f"{name} is not defined for {element}; it takes {accepted}{advice}", at)


# --- binary operators

_BOOL_OPS = {"add": "xor", "sub": "xor", "mul": "and", "maximum": "or", "minimum": "and"}  # arithmetic modulo 2
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "floordiv": "//"}


def arithmetic(c: Context, name: str, x: Any, y: Any, names: tuple[str, str] = ("x", "y")) -> Value:
    """`+ - *`, minimum and maximum; pointers move by `+` and `-`."""
    if name in ("add", "sub") and (is_pointer(x) or is_pointer(y)):
        return pointer_arithmetic(c, name, x, y)
    left, right = meet(c, x, y, what=_SYMBOLS.get(name, name), names=names)
    if dtype_of(left).is_bool:
        name = _BOOL_OPS.get(name, name)
    elif name.endswith("_nan") and not dtype_of(left).is_float:
        name = name.removesuffix("_nan")
    return c.emit(name, left, right)


def pointer_arithmetic(c: Context, name: str, x: Any, y: Any) -> Value:
    """`pointer + offset`, `offset + pointer`, `pointer - offset`: one `addptr`."""
    if is_pointer(x) and is_pointer(y):
        raise c.error(
            "memory.pointers#E3", "two pointers cannot be added or subtracted; a pointer moves by an integer offset"
        )
    if is_pointer(y) and name == "sub":
        raise c.error("memory.pointers#E3", "a pointer cannot be subtracted from an integer")
    pointer, offset, at = (x, y, "y") if is_pointer(x) else (y, x, "x")
    if isinstance(offset, bool) or not isinstance(offset, Value | int):
        raise c.error("memory.pointers#E2", f"a pointer moves by integers, found {describe(offset)}", at)
    if isinstance(offset, int):
        number = -offset if name == "sub" else offset
        dtype = literal_dtype(number)
        if dtype is None:
            raise c.error("arith.promotion#E1", f"{number} does not fit in 64 bits", at)
        return c.emit("addptr", pointer, Constant(number, dtype))
    element = element_of(offset.type)
    if not (isinstance(element, DType) and element.is_int):
        raise c.error("memory.pointers#E2", f"a pointer moves by integers, found {offset.type}", at)
    if name == "sub":
        if not element.is_signed:
            offset = cast(c, offset, I64)  # negated in its own type it would wrap
        offset = c.emit("neg", offset)
    _check_shapes(c, [pointer, offset])
    return c.emit("addptr", pointer, offset)


def _same_signs(c: Context, symbol: str, x: Any, y: Any) -> None:
    if isinstance(x, Value) and isinstance(y, Value) and not (is_pointer(x) or is_pointer(y)):
        left, right = dtype_of(x), dtype_of(y)
        if different_signs(left, right):
            raise c.error(
                "arith.promotion#E3",
                f"`{symbol}` of {triton_name(left)} and {triton_name(right)}, which differ in signedness, is unlikely "
                "to be meant; cast one of them",
            )


def true_divide(c: Context, x: Any, y: Any) -> Value:
    """`/`: floats divide in at least f32; integers become f32."""
    _same_signs(c, "/", x, y)
    left, right = meet(c, x, y, division=True, what="/")
    return c.emit("div", left, right)


def floor_divide(c: Context, x: Any, y: Any) -> Value:
    """`//` of run-time integers: toward zero."""
    _same_signs(c, "//", x, y)
    for value, at in ((x, "x"), (y, "y")):
        if isinstance(value, float) or (isinstance(value, Value) and dtype_is_float(value)):
            raise c.error(
                "arith.promotion#E5", f"`//` divides integers, found {describe(value)}; use tl.floor(x / y)", at
            )
    left, right = meet(c, x, y, what="//")
    require_row(c, "div", left)
    return c.emit("div", left, right)


def remainder(c: Context, x: Any, y: Any) -> Value:
    """`%`: C remainder, the sign of the dividend; 16-bit floats compute in f32."""
    _same_signs(c, "%", x, y)
    floating = any(isinstance(v, float) or (isinstance(v, Value) and dtype_is_float(v)) for v in (x, y))
    left, right = meet(c, x, y, division=floating, what="%")
    require_row(c, "rem", left)
    return c.emit("rem", left, right)


def dtype_is_float(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, DType) and element.is_float


def bitwise(c: Context, name: str, x: Any, y: Any) -> Value:
    """`& | ^`: integers and bool."""
    _require_integers(c, name, x, y)
    left, right = meet(c, x, y, what=name)
    return c.emit(name, left, right)


def _require_integers(c: Context, name: str, x: Any, y: Any) -> None:
    for value, at in ((x, "x"), (y, "y")):
        if isinstance(value, float) or (isinstance(value, Value) and dtype_is_float(value)):
            raise c.error("arith.promotion#E5", f"`{name}` works on integers and bool, found {describe(value)}", at)


def shift(c: Context, name: str, x: Any, y: Any) -> Value:
    """`<< >>`; `>>` is arithmetic where the left operand is signed, whatever the promoted type is."""
    _require_integers(c, name, x, y)
    names = ("x", "y")
    _require_numbers(c, x, y, name, names)
    dtype = _meeting_type(c, x, y, False, names)
    signed_left = dtype_of(x).is_signed if isinstance(x, Value) else dtype.is_signed
    if name == "shr" and signed_left and not dtype.is_signed:
        # signed >> wider unsigned: shift in the signed type, then read the bits as unsigned
        left, right = _convert(c, x, y, next(d for d in SIGNED if d.bits == dtype.bits), names)
        return cast(c, c.emit(name, left, right), dtype)
    left, right = _convert(c, x, y, dtype, names)
    require_row(c, name, left)
    return c.emit(name, left, right)


def compare(c: Context, name: str, x: Any, y: Any) -> Value:
    """`< <= > >= == !=`, giving bool."""
    left, right = meet(c, x, y, what="a comparison")
    return c.emit(name, left, right)


BINARY = {
    "Add": lambda c, x, y: arithmetic(c, "add", x, y),
    "Sub": lambda c, x, y: arithmetic(c, "sub", x, y),
    "Mult": lambda c, x, y: arithmetic(c, "mul", x, y),
    "Div": true_divide,
    "FloorDiv": floor_divide,
    "Mod": remainder,
    "BitAnd": lambda c, x, y: bitwise(c, "and", x, y),
    "BitOr": lambda c, x, y: bitwise(c, "or", x, y),
    "BitXor": lambda c, x, y: bitwise(c, "xor", x, y),
    "LShift": lambda c, x, y: shift(c, "shl", x, y),
    "RShift": lambda c, x, y: shift(c, "shr", x, y),
}
COMPARE = {"Lt": "cmp_lt", "LtE": "cmp_le", "Gt": "cmp_gt", "GtE": "cmp_ge", "Eq": "cmp_eq", "NotEq": "cmp_ne"}


# --- unary operators, selection


def negate(c: Context, x: Value) -> Value:
    """`-x`: flips the sign of floats (also of zero); integers wrap."""
    if is_pointer(x):
        raise c.error("arith.promotion#E4", f"`-` is not defined for pointers, found {x.type}")
    dtype = dtype_of(x)
    if dtype.is_bool:
        return c.emit("xor", Constant(False, BOOL), x)
    if dtype.kind == "uint":
        return c.emit("sub", Constant(0, dtype), x)
    return c.emit("neg", x)


def invert(c: Context, x: Value) -> Value:
    """`~x`: every bit flipped; on bool the logical complement."""
    require_row(c, "not", x, "x")
    return c.emit("not", x)


def require_bool(c: Context, x: Value, word: str, at: str | None = None) -> None:
    if element_of(x.type) is not BOOL:
        raise c.error(
            "compare.logical#E1", f"`{word}` needs bool, found {describe(x)}; compare it first, such as x != 0", at
        )


def logical_not(c: Context, x: Value) -> Value:
    """`not x` of a run-time bool, elementwise on blocks."""
    require_bool(c, x, "not", "x")
    return c.emit("not", x)


def select(c: Context, condition: Any, x: Any, y: Any) -> Value:
    """`tl.where`: both arms are evaluated and meet in one type."""
    condition = to_value(c, condition, "condition")
    if element_of(condition.type) is not BOOL:
        raise c.error(
            "select.where#E1",
            f"the condition of where must be bool, found {condition.type}; compare it first, such as c != 0",
            "condition",
        )
    if is_pointer(x) and is_pointer(y) and element_of(x.type) == element_of(y.type):
        left, right = x, y
    else:
        if not isinstance(x, Value) and not isinstance(y, Value):
            x, y = to_value(c, x, "x"), to_value(c, y, "y")
        left, right = meet(c, x, y, what="where")
    _check_shapes(c, [condition, left, right])
    return c.emit("select", condition, left, right)


def broadcast_value(c: Context, value: Value, shape: tuple[int, ...], at: str | None = None) -> Value:
    """``value`` repeated to ``shape``; nothing where it has that shape."""
    source = shape_of(value.type)
    if source == shape:
        return value
    if source and len(source) != len(shape):
        raise c.error(
            "shape.broadcast#E2",
            f"cannot broadcast {list(source)} to {list(shape)}: the ranks differ; insert axes with x[None, :]",
            at,
        )
    if not all(s in (1, t) for s, t in zip(source, shape, strict=False)):
        raise c.error(
            "shape.broadcast#E3", f"cannot broadcast {list(source)} to {list(shape)}: only extents of 1 grow", at
        )
    return c.emit("broadcast", value, types=[block_or_scalar(element_of(value.type), shape)])
