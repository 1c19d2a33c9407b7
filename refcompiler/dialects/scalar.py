"""The table of scalar functions: one row per elementwise op, its dtypes, meaning in NumPy and CUDA C++ spelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.ir.types import BOOL, F32, F64, FLOATS, INTS, SIGNED, DType

NUMBERS = INTS + FLOATS
BITS = (BOOL, *INTS)
MATH = (F32, F64)


@dataclass(frozen=True)
class Scalar:
    """One scalar function.

    ``numpy`` maps arrays of the operand dtype to the result and is the meaning of the op at every level. ``result`` is
    "same" (as the operands) or "bool". ``cuda`` is the C++ expression over {x}, {y}, {z}: one string, or one per dtype
    name; the keys "int", "uint" and "float" stand for all dtypes of that kind. 16-bit floats are computed in f32, with
    casts around the op; they need a spelling only where they keep their own function. ``spec`` is the defining feature.
    """

    name: str
    arity: int
    dtypes: tuple[DType, ...]
    numpy: Callable
    cuda: str | dict[str, str]
    spec: str
    doc: str
    result: str = "same"
    commutative: bool = False

    def cuda_for(self, dtype: DType) -> str:
        """The C++ spelling for operands of ``dtype``."""
        if isinstance(self.cuda, str):
            return self.cuda
        found = self.cuda.get(dtype.name) or self.cuda.get(dtype.kind)
        if found is None:
            raise KeyError(f"{self.name} has no CUDA spelling for {dtype}")
        return found


def _wrap(operator: str) -> dict[str, str]:
    """Two's complement wrap: signed C++ overflow is undefined, so the emitter forms ``wrap(...)`` in unsigned types."""
    expression = f"{{x}} {operator} {{y}}"
    return {"int": f"wrap({expression})", "uint": f"wrap({expression})", "float": expression}


def _bits(operator: str, logical: str) -> dict[str, str]:
    """Bitwise on integers, logical on bool."""
    expression = f"{{x}} {operator} {{y}}"
    return {"bool": f"{{x}} {logical} {{y}}", "int": expression, "uint": expression}


def _extremum(name: str) -> dict[str, str]:
    """fmax and fmin give the other operand where one is NaN."""
    return {
        "f32": f"f{name}f({{x}}, {{y}})",
        "f64": f"f{name}({{x}}, {{y}})",
        "int": f"{name}({{x}}, {{y}})",
        "uint": f"{name}({{x}}, {{y}})",
    }


def _compare(name: str, operator: str, numpy: Callable, doc: str) -> Scalar:
    return Scalar(
        name, 2, (BOOL, *NUMBERS), numpy, f"{{x}} {operator} {{y}}", "compare.comparisons", doc, result="bool"
    )


def _math(name: str, numpy: Callable, f32: str, f64: str, doc: str) -> Scalar:
    return Scalar(name, 1, MATH, numpy, {"f32": f32, "f64": f64}, f"math.{name}", doc)


ROWS: tuple[Scalar, ...] = (
    Scalar("add", 2, NUMBERS, numeric.add, _wrap("+"), "arith.binary", "x + y; integers wrap.", commutative=True),
    Scalar("sub", 2, NUMBERS, numeric.sub, _wrap("-"), "arith.binary", "x - y; integers wrap."),
    Scalar("mul", 2, NUMBERS, numeric.mul, _wrap("*"), "arith.binary", "x * y; integers wrap.", commutative=True),
    Scalar(
        "div",
        2,
        NUMBERS,
        numeric.div,
        {"float": "{x} / {y}", "int": "int_div({x}, {y})", "uint": "int_div({x}, {y})"},
        "arith.division",
        "x / y: floats correctly rounded, integers toward zero.",
    ),
    Scalar("div_rn", 2, (F32,), numeric.div, "{x} / {y}", "arith.division", "x / y, correctly rounded."),
    Scalar(
        "rem",
        2,
        NUMBERS,
        numeric.rem,
        {
            "f32": "fmodf({x}, {y})",
            "f64": "fmod({x}, {y})",
            "int": "int_rem({x}, {y})",
            "uint": "int_rem({x}, {y})",
        },
        "arith.division",
        "C remainder: the sign of x.",
    ),
    Scalar(
        "fma",
        3,
        FLOATS,
        numeric.fma,
        {
            "f32": "fmaf({x}, {y}, {z})",
            "f64": "fma({x}, {y}, {z})",
            "f16": "fma_f16({x}, {y}, {z})",
            "bf16": "fma_bf16({x}, {y}, {z})",
        },
        "arith.fma",
        "x * y + z with one rounding.",
    ),
    Scalar("and", 2, BITS, np.bitwise_and, _bits("&", "&&"), "arith.bitwise", "Bitwise and.", commutative=True),
    Scalar("or", 2, BITS, np.bitwise_or, _bits("|", "||"), "arith.bitwise", "Bitwise or.", commutative=True),
    Scalar(
        "xor",
        2,
        BITS,
        np.bitwise_xor,
        _bits("^", "!="),
        "arith.bitwise",
        "Bitwise exclusive or.",
        commutative=True,
    ),
    Scalar(
        "shl",
        2,
        INTS,
        numeric.shl,
        "shift_left({x}, {y})",
        "arith.shift",
        "x << y; 0 where y is not below the width.",
    ),
    Scalar(
        "shr",
        2,
        INTS,
        numeric.shr,
        "shift_right({x}, {y})",
        "arith.shift",
        "x >> y, arithmetic for signed x; 0 or all sign bits where y is not below the width.",
    ),
    Scalar(
        "umulhi",
        2,
        tuple(d for d in INTS if d.bits >= 32),
        numeric.umulhi,
        {
            "i32": "(int)__umulhi({x}, {y})",
            "u32": "__umulhi({x}, {y})",
            "i64": "(long long)__umul64hi({x}, {y})",
            "u64": "__umul64hi({x}, {y})",
        },
        "arith.umulhi",
        "High half of the unsigned product.",
        commutative=True,
    ),
    Scalar(
        "not",
        1,
        BITS,
        np.invert,
        {"bool": "!{x}", "int": "~{x}", "uint": "wrap(~{x})"},
        "arith.bitwise",
        "Bitwise complement.",
    ),
    Scalar(
        "neg",
        1,
        SIGNED + FLOATS,
        np.negative,
        {"int": "wrap(0 - {x})", "float": "-{x}"},
        "arith.unary",
        "-x; neg(+0.0) is -0.0, the least integer is its own negation.",
    ),
    Scalar(
        "abs",
        1,
        NUMBERS,
        numeric.absolute,
        {"f32": "fabsf({x})", "f64": "fabs({x})", "int": "int_abs({x})", "uint": "{x}"},
        "math.abs",
        "|x|; the least integer is its own absolute value.",
    ),
    _compare("cmp_lt", "<", np.less, "x < y; false with NaN."),
    _compare("cmp_le", "<=", np.less_equal, "x <= y; false with NaN."),
    _compare("cmp_gt", ">", np.greater, "x > y; false with NaN."),
    _compare("cmp_ge", ">=", np.greater_equal, "x >= y; false with NaN."),
    _compare("cmp_eq", "==", np.equal, "x == y; false with NaN, +0.0 equals -0.0."),
    _compare("cmp_ne", "!=", np.not_equal, "x != y; true with NaN."),
    Scalar(
        "maximum",
        2,
        NUMBERS,
        numeric.maximum,
        _extremum("max"),
        "select.extrema",
        "The larger operand; the other operand where one is NaN.",
    ),
    Scalar(
        "minimum",
        2,
        NUMBERS,
        numeric.minimum,
        _extremum("min"),
        "select.extrema",
        "The smaller operand; the other operand where one is NaN.",
    ),
    Scalar(
        "maximum_nan",
        2,
        FLOATS,
        numeric.maximum_nan,
        "maximum_nan({x}, {y})",
        "select.extrema",
        "The larger operand; NaN where either is.",
    ),
    Scalar(
        "minimum_nan",
        2,
        FLOATS,
        numeric.minimum_nan,
        "minimum_nan({x}, {y})",
        "select.extrema",
        "The smaller operand; NaN where either is.",
    ),
    _math("exp", numeric.through_f64(np.exp), "expf({x})", "exp({x})", "e to the power x."),
    _math("exp2", numeric.through_f64(np.exp2), "exp2f({x})", "exp2({x})", "2 to the power x."),
    _math("log", numeric.through_f64(np.log), "logf({x})", "log({x})", "Natural logarithm."),
    _math("log2", numeric.through_f64(np.log2), "log2f({x})", "log2({x})", "Base-2 logarithm."),
    _math("sin", numeric.through_f64(np.sin), "sin_f32({x})", "sin({x})", "Sine of x radians."),
    _math("cos", numeric.through_f64(np.cos), "cos_f32({x})", "cos({x})", "Cosine of x radians."),
    _math("erf", numeric.erf, "erff({x})", "erf({x})", "Error function."),
    _math("sqrt", np.sqrt, "sqrtf({x})", "sqrt({x})", "Square root, correctly rounded."),
    Scalar("sqrt_rn", 1, (F32,), np.sqrt, "sqrtf({x})", "math.sqrt", "Square root, correctly rounded."),
    _math("rsqrt", numeric.rsqrt, "rsqrtf({x})", "rsqrt({x})", "Reciprocal square root."),
    _math("floor", np.floor, "floorf({x})", "floor({x})", "The largest integer not above x."),
    _math("ceil", np.ceil, "ceilf({x})", "ceil({x})", "The smallest integer not below x."),
)

BY_NAME: dict[str, Scalar] = {row.name: row for row in ROWS}
