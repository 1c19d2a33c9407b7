"""Device functions that generated kernels call, for one dtype each; a module holds only those that it uses."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

from refcompiler.emitters.mlir.trigonometry import COS, QUARTER_TURNS, SIN, SIN_OF_TURNS
from refcompiler.ir.types import DTYPES, DType


def _function(name: str, parameters: str, result: str, body: str) -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"  llvm.func internal @{name}({parameters}) -> {result} attributes {{always_inline}} {{\n{lines}\n  }}\n"


def _binary(name: str, dtype: DType, body: str) -> str:
    """A function of two integers; T in the body is their type, s stands for signed."""
    type_ = f"i{dtype.bits}"
    sign = "s" if dtype.kind == "int" else "u"
    text = re.sub(r"\bT\b", type_, body).replace("SIGN", sign)
    return _function(f"{name}_{dtype}", f"%x: {type_}, %y: {type_}", type_, text)


def _int_div(dtype: DType) -> str:
    """x / 0 is unpredictable and traps nowhere; the least integer / -1 wraps."""
    if dtype.kind == "uint":
        body = """
            %zero = arith.constant 0 : T
            %one = arith.constant 1 : T
            %none = arith.cmpi eq, %y, %zero : T
            %divisor = arith.select %none, %one, %y : T
            %quotient = arith.divui %x, %divisor : T
            %result = arith.select %none, %zero, %quotient : T
            llvm.return %result : T
        """
    else:
        body = """
            %zero = arith.constant 0 : T
            %one = arith.constant 1 : T
            %minus_one = arith.constant -1 : T
            %none = arith.cmpi eq, %y, %zero : T
            %negates = arith.cmpi eq, %y, %minus_one : T
            %special = arith.ori %none, %negates : i1
            %divisor = arith.select %special, %one, %y : T
            %quotient = arith.divsi %x, %divisor : T
            %negated = arith.subi %zero, %x : T
            %defined = arith.select %negates, %negated, %quotient : T
            %result = arith.select %none, %zero, %defined : T
            llvm.return %result : T
        """
    return _binary("int_div", dtype, body)


def _int_rem(dtype: DType) -> str:
    """As for division: the remainder of a division by 0 or -1 is 0."""
    special = """
        %negates = arith.cmpi eq, %y, %minus_one : T
        %special = arith.ori %none, %negates : i1
    """
    body = f"""
        %zero = arith.constant 0 : T
        %one = arith.constant 1 : T
        %minus_one = arith.constant -1 : T
        %none = arith.cmpi eq, %y, %zero : T
        {special.strip() if dtype.kind == "int" else "%special = arith.ori %none, %none : i1"}
        %divisor = arith.select %special, %one, %y : T
        %remainder = arith.remSIGNi %x, %divisor : T
        %result = arith.select %special, %zero, %remainder : T
        llvm.return %result : T
    """
    return _binary("int_rem", dtype, body)


def _int_abs(dtype: DType) -> str:
    """The least integer is its own absolute value."""
    body = """
        %zero = arith.constant 0 : T
        %negated = arith.subi %zero, %x : T
        %result = arith.maxsi %x, %negated : T
        llvm.return %result : T
    """
    type_ = f"i{dtype.bits}"
    return _function(f"int_abs_{dtype}", f"%x: {type_}", type_, re.sub(r"\bT\b", type_, body))


def _shift(operation: str, dtype: DType) -> str:
    """0 where y, read as unsigned, is not below the width.

    PTX takes amounts of 32 bits. LLVM 22 merges the select into its shift and cuts an amount of 64 bits off; a limited
    amount, which is not the one compared, is left alone.
    """
    limited = dtype.bits == 64
    limit = f"%last = arith.constant {dtype.bits - 1} : T\n        %amount = arith.minui %y, %last : T\n        "
    return f"""
        %zero = arith.constant 0 : T
        %width = arith.constant {dtype.bits} : T
        %inside = arith.cmpi ult, %y, %width : T
        {limit if limited else ""}%shifted = {operation} %x, {"%amount" if limited else "%y"} : T
        %result = arith.select %inside, %shifted, %zero : T
        llvm.return %result : T
    """


def _shift_left(dtype: DType) -> str:
    return _binary("shift_left", dtype, _shift("arith.shli", dtype))


def _shift_right(dtype: DType) -> str:
    """0, or all sign bits, where y, read as unsigned, is not below the width."""
    if dtype.kind == "int":
        body = f"""
            %last = arith.constant {dtype.bits - 1} : T
            %amount = arith.minui %y, %last : T
            %result = arith.shrsi %x, %amount : T
            llvm.return %result : T
        """
    else:
        body = _shift("arith.shrui", dtype)
    return _binary("shift_right", dtype, body)


def _umulhi(dtype: DType) -> str:
    body = """
        %low, %high = arith.mului_extended %x, %y : T
        llvm.return %high : T
    """
    return _binary("umulhi", dtype, body)


def _trip_count(dtype: DType) -> str:
    """How often a loop from start to stop runs; counting up or down, without overflow."""
    type_, sign = f"i{dtype.bits}", "s" if dtype.kind == "int" else "u"
    body = f"""
        %zero = arith.constant 0 : T
        %one = arith.constant 1 : T
        %up = arith.cmpi {sign}gt, %step, %zero : T
        %down = arith.cmpi {sign}lt, %step, %zero : T
        %below = arith.cmpi {sign}lt, %start, %stop : T
        %above = arith.cmpi {sign}lt, %stop, %start : T
        %rises = arith.andi %up, %below : i1
        %falls = arith.andi %down, %above : i1
        %runs = arith.ori %rises, %falls : i1
        %ahead = arith.subi %stop, %start : T
        %behind = arith.subi %start, %stop : T
        %distance = arith.select %up, %ahead, %behind : T
        %negated = arith.subi %zero, %step : T
        %stride = arith.select %up, %step, %negated : T
        %divisor = arith.maxui %stride, %one : T
        %reach = arith.subi %distance, %one : T
        %more = arith.divui %reach, %divisor : T
        %trips = arith.addi %more, %one : T
        %result = arith.select %runs, %trips, %zero : T
        llvm.return %result : T
    """
    text = re.sub(r"\bT\b", type_, body)
    return _function(f"trip_count_{dtype}", f"%start: {type_}, %stop: {type_}, %step: {type_}", type_, text)


def _to_bf16(dtype: DType) -> str:
    """By way of f32 toward zero, its last bit set where inexact: rounding once more to 16 bits is then exact."""
    word = {"i32": "i", "u32": "ui", "i64": "ll", "u64": "ull"}[dtype.name]
    type_ = f"i{dtype.bits}"
    body = f"""
        %near = llvm.call_intrinsic "llvm.nvvm.{word}2f.rz"(%x) : ({type_}) -> f32
        %back = llvm.call_intrinsic "llvm.nvvm.f2{word}.rz"(%near) : (f32) -> {type_}
        %inexact = arith.cmpi ne, %back, %x : {type_}
        %sticky = arith.extui %inexact : i1 to i32
        %bits = arith.bitcast %near : f32 to i32
        %odd = arith.ori %bits, %sticky : i32
        %y = arith.bitcast %odd : i32 to f32
        %result = arith.truncf %y : f32 to bf16
        llvm.return %result : bf16
    """
    return _function(f"to_bf16_{dtype}", f"%x: {type_}", "bf16", body)


ROUND_TF32 = """
    %bits = llvm.call_intrinsic "llvm.nvvm.f2tf32.rna"(%x) : (f32) -> i32
    %result = llvm.bitcast %bits : i32 to f32
    llvm.return %result : f32
"""


MOVED = """
    %result = llvm.inline_asm "mul.rn.f32 $0, $1, 0f3F800000;", "=f,f" %x : (f32) -> f32
    llvm.return %result : f32
"""


_FLOAT8 = {"f8e4m3": "e4m3x2", "f8e5m2": "e5m2x2"}  # LLVM's names of two


def _to_f16(dtype: DType) -> str:
    body = f"""
        %two = arith.extui %x : i8 to i16
        %halves = llvm.call_intrinsic "llvm.nvvm.{_FLOAT8[dtype.name]}.to.f16x2.rn"(%two) : (i16) -> vector<2xf16>
        %result = vector.extract %halves[0] : f16 from vector<2xf16>
        llvm.return %result : f16
    """
    return _function(f"to_f16_{dtype}", "%x: i8", "f16", body)


def _from_f32(dtype: DType) -> str:
    """Saturating, as the intrinsic does."""
    body = f"""
        %zero = arith.constant 0.0 : f32
        %two = llvm.call_intrinsic "llvm.nvvm.ff.to.{_FLOAT8[dtype.name]}.rn"(%zero, %x) : (f32, f32) -> i16
        %result = arith.trunci %two : i16 to i8
        llvm.return %result : i8
    """
    return _function(f"from_f32_{dtype}", "%x: f32", "i8", body)


PRELUDE: dict[str, Callable[[DType], str]] = {
    "int_div": _int_div,
    "int_rem": _int_rem,
    "int_abs": _int_abs,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "umulhi": _umulhi,
    "trip_count": _trip_count,
    "to_bf16": _to_bf16,
    "to_f16": _to_f16,
    "from_f32": _from_f32,
    "quarter_turns": lambda dtype: QUARTER_TURNS,
    "sin_of_turns": lambda dtype: _function("sin_of_turns_f32", "%turns: i32, %rest: f32", "f32", SIN_OF_TURNS),
    "sin": lambda dtype: _function("sin_f32", "%x: f32", "f32", SIN),
    "round_tf32": lambda dtype: _function("round_tf32_f32", "%x: f32", "f32", ROUND_TF32),
    "moved": lambda dtype: _function("moved_f32", "%x: f32", "f32", MOVED),
    "cos": lambda dtype: _function("cos_f32", "%x: f32", "f32", COS),
}

_CALLED = re.compile(rf"@({'|'.join(PRELUDE)})_({'|'.join(DTYPES)})\(")


def prelude_for(text: str) -> str:
    """The functions that ``text`` calls, and those that they call, in the order of the table and of the dtypes."""
    needed: dict[tuple[str, str], str] = {}
    open_ = [text]
    while open_:
        for name, dtype in _CALLED.findall(open_.pop()):
            if (name, dtype) not in needed:
                needed[name, dtype] = PRELUDE[name](DTYPES[dtype])
                open_.append(needed[name, dtype])
    return "".join(needed[key] for key in ((n, d) for n in PRELUDE for d in DTYPES) if key in needed)
