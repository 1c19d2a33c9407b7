"""C++ expressions with their precedence: literals, types, scalar functions, casts."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from refcompiler.dialects.scalar import BY_NAME
from refcompiler.emitters.cuda.prelude import C_TYPES
from refcompiler.ir.core import Constant
from refcompiler.ir.printer import format_literal
from refcompiler.ir.types import BF16, BOOL, F16, F32, F64, FLOATS8, DType, Element, PointerType

PRIMARY, UNARY, CONDITIONAL = 16, 15, 2
_BINARY = {
    "*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11, "<": 10, "<=": 10, ">": 10, ">=": 10,
    "==": 9, "!=": 9, "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip
_ASSOCIATIVE = frozenset({"*", "+", "&", "|", "^", "&&", "||"})
_MIXING_IS_UNCLEAR = frozenset({"<<", ">>", "&", "|", "^", "&&", "||", "==", "!="})
_WRAP = re.compile(r"wrap\((.*)\)\Z")
_INFIX = re.compile(r"(\{x\}|\d+) (\S+) \{([xy])\}\Z")
_DEDUCES = re.compile(r"(int_\w+|shift_\w+)(?=\()")  # operators on narrow operands would deduce int
_PREFIX = re.compile(r"([-!~])\{x\}\Z")


@dataclass(frozen=True)
class Expr:
    """Text and how tightly it binds. ``modulo`` is the same value modulo 2**width in unsigned arithmetic."""

    text: str
    precedence: int = PRIMARY
    modulo: Expr | None = None

    def within(self, precedence: int) -> str:
        """The text, in parentheses where an operator of ``precedence`` would take it apart."""
        return self.text if self.precedence >= precedence else f"({self.text})"

    def __str__(self) -> str:
        return self.text


def c_type(element: Element, const: bool = False) -> str:
    """The type of a register: floats of 16 and 8 bits are held as their bits."""
    if isinstance(element, PointerType):
        return f"{'const ' if const or element.const else ''}{memory_type(element.pointee)}*"
    return C_TYPES[element.name]


def memory_type(dtype: DType) -> str:
    """The type in global memory: a bool is one byte, of which any bit may be set."""
    return "unsigned char" if dtype is BOOL else C_TYPES[dtype.name]


def literal(constant: Constant) -> Expr:
    """A scalar literal that denotes exactly this value in this type."""
    value, dtype = constant.value, constant.type
    if dtype is BOOL:
        return Expr("true" if value else "false")
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    value = int(value)
    if dtype.bits < 32:
        return Expr(f"({C_TYPES[dtype.name]}){value}", UNARY)
    suffix = ("" if dtype.kind == "int" else "u") + ("ll" if dtype.bits == 64 else "")
    modulo = Expr(f"{value % (1 << dtype.bits)}{'u' if dtype.kind == 'int' else ''}{suffix}")
    if value == dtype.min_int and dtype.kind == "int":
        return Expr(f"({value + 1}{suffix} - 1)", PRIMARY, modulo)
    if value < 0:
        return Expr(f"{value}{suffix}", UNARY, modulo)
    return Expr(f"{value}{suffix}", PRIMARY, modulo)


def _float_literal(value: float, dtype: DType) -> Expr:
    if dtype.bits <= 16:
        bits = int(np.asarray(value, dtype.numpy).view(f"u{dtype.itemsize}"))
        return Expr(f"({C_TYPES[dtype.name]})0x{bits:0{dtype.bits // 4}x}", UNARY)
    if not math.isfinite(value):
        if dtype is F32:
            return Expr(f"__int_as_float(0x{struct.unpack('<I', struct.pack('<f', value))[0]:08x})")
        return Expr(f"__longlong_as_double(0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x})")
    text = format_literal(value, dtype)
    if dtype is F32 and not _rounds_once(text, value):
        text = f"{value:.9g}"
        text = text if any(c in text for c in ".e") else text + ".0"
    return Expr(text + ("f" if dtype is F32 else ""), UNARY if text.startswith("-") else PRIMARY)


def _rounds_once(text: str, value: float) -> bool:
    """True if the decimal is well within half an ULP of the f32, so that no second rounding can matter."""
    fraction, exponent = math.frexp(value)
    exponent -= abs(fraction) == 0.5  # below a power of two numbers lie twice as close
    ulp = Fraction(2) ** (max(exponent, -125) - 24)
    return abs(Fraction(text) - Fraction(value)) * 2 <= ulp * Fraction(255, 256)


def call(function: str, *arguments: Expr | str) -> Expr:
    return Expr(f"{function}({', '.join(map(str, arguments))})")


def cast_to(type_: str, x: Expr) -> Expr:
    return Expr(f"({type_}){x.within(UNARY)}", UNARY)


def binary(x: Expr, operator: str, y: Expr) -> Expr:
    """x operator y, with parentheses where C++ needs them and where a reader does."""
    precedence = _BINARY[operator]

    def side(e: Expr, right: bool) -> str:
        if e.precedence < precedence or (right and e.precedence == precedence and operator not in _ASSOCIATIVE):
            return f"({e.text})"
        if right and e.precedence == precedence and operator in "+*":
            return f"({e.text})"  # floats do not associate
        unclear = operator in _MIXING_IS_UNCLEAR and precedence < e.precedence < UNARY
        return f"({e.text})" if unclear and operator not in ("&&", "||", "==", "!=") else e.text

    return Expr(f"{side(x, False)} {operator} {side(y, True)}", precedence)


def conditional(condition: Expr, x: Expr, y: Expr) -> Expr:
    return Expr(f"{condition.within(3)} ? {x.within(3)} : {y.within(CONDITIONAL)}", CONDITIONAL)


def scalar_function(name: str, dtype: DType, operands: Sequence[Expr], exact: bool) -> Expr:
    """A row of the scalar table over rendered operands; ``exact`` says that integer arithmetic cannot wrap here."""
    template = BY_NAME[name].cuda_for(dtype)
    wrapped = _WRAP.match(template)
    if wrapped:
        return _wrapping(wrapped[1], dtype, operands, exact)
    if dtype.is_int and dtype.bits < 32 and (function := _DEDUCES.match(template)):
        template = f"{function[1]}<{C_TYPES[dtype.name]}>{template[function.end() :]}"
    return _fill(template, operands)


def _fill(template: str, operands: Sequence[Expr]) -> Expr:
    prefix, infix = _PREFIX.match(template), _INFIX.match(template)
    if prefix:
        text = operands[0].within(UNARY)
        return Expr(f"{prefix[1]}{'' if not text.startswith('-') else ' '}{text}", UNARY)
    if infix:
        names = {"{x}": 0, "x": 0, "y": 1}
        left = operands[names[infix[1]]] if infix[1] in names else Expr(infix[1])
        return binary(left, infix[2], operands[names[infix[3]]])
    if template == "{x}":
        return operands[0]
    fields = {key: operand.text for key, operand in zip("xyz", operands, strict=False)}
    start = template.startswith("(")
    return Expr(template.format(**fields), UNARY if start else PRIMARY)


def _wrapping(template: str, dtype: DType, operands: Sequence[Expr], exact: bool) -> Expr:
    """Integer arithmetic modulo 2**width: plain where it cannot wrap, else in the unsigned type."""
    type_ = C_TYPES[dtype.name]
    if dtype.bits >= 32 and dtype.kind == "uint":
        return _fill(template, operands)
    if exact:
        plain = _fill(template, operands)
        return plain if dtype.bits >= 32 else cast_to(type_, plain)
    unsigned = "unsigned" if dtype.bits <= 32 else "unsigned long long"
    if dtype.bits < 32:  # promoted to int, which holds sums but not all products
        operands = [cast_to("unsigned", o) for o in operands] if "*" in template else operands
        return cast_to(type_, _fill(template, operands))
    converted = [o.modulo or o for o in operands]
    if not any(o.modulo for o in operands):
        converted[-1] = cast_to(unsigned, converted[-1])
    modulo = _fill(template, converted)
    return Expr(f"({type_}){modulo.within(UNARY)}", UNARY, modulo)


def cast(x: Expr, source: DType, target: DType) -> Expr:
    """A numeric conversion with the meaning of PTX cvt."""
    type_ = C_TYPES[target.name]
    if source == target:
        return x
    if source in FLOATS8:
        return cast(call(f"{source}_to_f16", x), F16, target)
    if target in FLOATS8:
        return call(f"f32_to_{target}", cast(x, source, F32))
    if source in (F16, BF16):
        return cast(call(f"{source}_to_f32", x), F32, target)
    if target is BOOL:
        zero = {F32: "0.0f", F64: "0.0"}.get(source, "0")
        return binary(x, "!=", Expr(zero))
    if target in (F16, BF16):
        if source is F64 or (source.is_int and source.bits >= 32):
            x = call(f"{source}_to_f32_odd", x)
        elif source is not F32:
            x = cast_to("float", x)
        return call(f"f32_to_{target}", x)
    if source.is_float and target.is_int:
        return call(f"{source}_to_{target}", x)
    return cast_to(type_, x)


_SAME_BITS = {
    ("f32", "i32"): "__float_as_int",
    ("f32", "u32"): "__float_as_uint",
    ("i32", "f32"): "__int_as_float",
    ("u32", "f32"): "__uint_as_float",
    ("f64", "i64"): "__double_as_longlong",
    ("i64", "f64"): "__longlong_as_double",
}


def bitcast(x: Expr, source: Element, target: Element, const: bool = False) -> Expr:
    """The same bits as another type of that width."""
    if isinstance(source, PointerType) or isinstance(target, PointerType):
        return cast_to(c_type(target, const), x)
    if target is BOOL:
        return binary(x, "!=", Expr("0"))
    function = _SAME_BITS.get((source.name, target.name))
    if function:
        return call(function, x)
    if source is F64:
        return cast_to(C_TYPES[target.name], call("__double_as_longlong", x))
    if target is F64:
        return call("__longlong_as_double", cast_to("long long", x))
    return cast_to(C_TYPES[target.name], x)
