"""The table of scalar functions: one row per elementwise op, its dtypes, meaning in NumPy and spellings."""

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
    casts around the op; they need a spelling only where they keep their own function. ``mlir`` is likewise an op over
    vectors (``arith.addi``; operands are written out where they are not x, y, z, integers among them), an intrinsic of
    LLVM (``llvm.fma``) or a function of the emitter's prelude. ``spec`` is the defining feature. ``exact``: every
    target gives the same bits, NaN being one value.
    """

    name: str
    arity: int
    dtypes: tuple[DType, ...]
    numpy: Callable
    cuda: str | dict[str, str]
    mlir: str | dict[str, str]
    spec: str
    doc: str
    result: str = "same"
    commutative: bool = False
    exact: bool = True

    def cuda_for(self, dtype: DType) -> str:
        """The C++ spelling for operands of ``dtype``."""
        return self._spelling(self.cuda, dtype)

    def mlir_for(self, dtype: DType) -> str:
        """The MLIR spelling for operands of ``dtype``."""
        return self._spelling(self.mlir, dtype)

    def _spelling(self, spellings: str | dict[str, str], dtype: DType) -> str:
        if isinstance(spellings, str):
            return spellings
        found = spellings.get(dtype.name) or spellings.get(dtype.kind)
        if found is None:
            raise KeyError(f"{self.name} has no spelling for {dtype}")
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


def _by_kind(signed: str, unsigned: str, floating: str) -> dict[str, str]:
    return {"int": signed, "uint": unsigned, "bool": unsigned, "float": floating}


def _compare(name: str, operator: str, numpy: Callable, doc: str) -> Scalar:
    word = name.removeprefix("cmp_")
    sign, order = ("", "u") if word == "ne" else ("" if word == "eq" else "s", "o")
    predicates = _by_kind(
        f"arith.cmpi {sign}{word}, {{x}}, {{y}}",
        f"arith.cmpi {sign and 'u'}{word}, {{x}}, {{y}}",
        f"arith.cmpf {order}{word}, {{x}}, {{y}}",
    )
    spelling = f"{{x}} {operator} {{y}}"
    return Scalar(name, 2, (BOOL, *NUMBERS), numpy, spelling, predicates, "compare.comparisons", doc, result="bool")


def _math(
    name: str, numpy: Callable, f32: str, f64: str, doc: str, mlir: str | dict[str, str] = "", *, exact: bool = False
) -> Scalar:
    return Scalar(
        name, 1, MATH, numpy, {"f32": f32, "f64": f64}, mlir or f"math.{name}", f"math.{name}", doc, exact=exact
    )


_SQRT = {"f32": "llvm.nvvm.sqrt.rn.f", "f64": "llvm.nvvm.sqrt.rn.d"}  # math.sqrt would be approximate

ROWS: tuple[Scalar, ...] = (
    Scalar(
        "add",
        2,
        NUMBERS,
        numeric.add,
        _wrap("+"),
        _by_kind("arith.addi", "arith.addi", "arith.addf"),
        "arith.binary",
        "x + y; integers wrap.",
        commutative=True,
    ),
    Scalar(
        "sub",
        2,
        NUMBERS,
        numeric.sub,
        _wrap("-"),
        _by_kind("arith.subi", "arith.subi", "arith.subf"),
        "arith.binary",
        "x - y; integers wrap.",
    ),
    Scalar(
        "mul",
        2,
        NUMBERS,
        numeric.mul,
        _wrap("*"),
        _by_kind("arith.muli", "arith.muli", "arith.mulf"),
        "arith.binary",
        "x * y; integers wrap.",
        commutative=True,
    ),
    Scalar(
        "div",
        2,
        NUMBERS,
        numeric.div,
        {"float": "{x} / {y}", "int": "int_div({x}, {y})", "uint": "int_div({x}, {y})"},
        _by_kind("int_div", "int_div", "arith.divf"),
        "arith.division",
        "x / y: floats correctly rounded, integers toward zero.",
    ),
    Scalar("div_rn", 2, (F32,), numeric.div, "{x} / {y}", "arith.divf", "arith.division", "x / y, correctly rounded."),
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
        _by_kind("int_rem", "int_rem", "arith.remf"),
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
        {d: f"llvm.fma.{d}" for d in ("f16", "bf16", "f32", "f64")},
        "arith.fma",
        "x * y + z with one rounding.",
    ),
    Scalar(
        "and",
        2,
        BITS,
        np.bitwise_and,
        _bits("&", "&&"),
        "arith.andi",
        "arith.bitwise",
        "Bitwise and.",
        commutative=True,
    ),
    Scalar(
        "or", 2, BITS, np.bitwise_or, _bits("|", "||"), "arith.ori", "arith.bitwise", "Bitwise or.", commutative=True
    ),
    Scalar(
        "xor",
        2,
        BITS,
        np.bitwise_xor,
        _bits("^", "!="),
        "arith.xori",
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
        "shift_left",
        "arith.shift",
        "x << y; 0 where y is not below the width.",
    ),
    Scalar(
        "shr",
        2,
        INTS,
        numeric.shr,
        "shift_right({x}, {y})",
        "shift_right",
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
        "umulhi",
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
        {"bool": "arith.xori {x}, {1}", "int": "arith.xori {x}, {-1}", "uint": "arith.xori {x}, {-1}"},
        "arith.bitwise",
        "Bitwise complement.",
    ),
    Scalar(
        "neg",
        1,
        SIGNED + FLOATS,
        np.negative,
        {"int": "wrap(0 - {x})", "float": "-{x}"},
        {"int": "arith.subi {0}, {x}", "float": "arith.negf"},
        "arith.unary",
        "-x; neg(+0.0) is -0.0, the least integer is its own negation.",
    ),
    Scalar(
        "abs",
        1,
        NUMBERS,
        numeric.absolute,
        {"f32": "fabsf({x})", "f64": "fabs({x})", "int": "int_abs({x})", "uint": "{x}"},
        _by_kind("int_abs", "{x}", "math.absf"),
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
        _by_kind("arith.maxsi", "arith.maxui", "arith.maxnumf"),
        "select.extrema",
        "The larger operand; the other operand where one is NaN.",
    ),
    Scalar(
        "minimum",
        2,
        NUMBERS,
        numeric.minimum,
        _extremum("min"),
        _by_kind("arith.minsi", "arith.minui", "arith.minnumf"),
        "select.extrema",
        "The smaller operand; the other operand where one is NaN.",
    ),
    Scalar(
        "maximum_nan",
        2,
        FLOATS,
        numeric.maximum_nan,
        "maximum_nan({x}, {y})",
        "arith.maximumf",
        "select.extrema",
        "The larger operand; NaN where either is.",
    ),
    Scalar(
        "minimum_nan",
        2,
        FLOATS,
        numeric.minimum_nan,
        "minimum_nan({x}, {y})",
        "arith.minimumf",
        "select.extrema",
        "The smaller operand; NaN where either is.",
    ),
    _math("exp", numeric.through_f64(np.exp), "expf({x})", "exp({x})", "e to the power x."),
    _math("exp2", numeric.through_f64(np.exp2), "exp2f({x})", "exp2({x})", "2 to the power x."),
    Scalar(
        "exp2_ftz",
        1,
        (F32,),
        numeric.exp2_ftz,
        "exp2_ftz({x})",
        "llvm.nvvm.ex2.approx.ftz.f",
        "math.exp2",
        "2 to the power x; what is below the smallest normal number is 0 (PTX ex2.approx.ftz.f32).",
        exact=False,
    ),
    _math("log", numeric.through_f64(np.log), "logf({x})", "log({x})", "Natural logarithm."),
    _math("log2", numeric.through_f64(np.log2), "log2f({x})", "log2({x})", "Base-2 logarithm."),
    _math(
        "sin",
        numeric.through_f64(np.sin),
        "sin_f32({x})",
        "sin({x})",
        "Sine of x radians.",
        {"f32": "sin", "f64": "math.sin"},
    ),
    _math(
        "cos",
        numeric.through_f64(np.cos),
        "cos_f32({x})",
        "cos({x})",
        "Cosine of x radians.",
        {"f32": "cos", "f64": "math.cos"},
    ),
    _math("erf", numeric.erf, "erff({x})", "erf({x})", "Error function."),
    _math("sqrt", np.sqrt, "sqrtf({x})", "sqrt({x})", "Square root, correctly rounded.", _SQRT, exact=True),
    Scalar("sqrt_rn", 1, (F32,), np.sqrt, "sqrtf({x})", _SQRT, "math.sqrt", "Square root, correctly rounded."),
    _math("rsqrt", numeric.rsqrt, "rsqrtf({x})", "rsqrt({x})", "Reciprocal square root."),
    Scalar(
        "round_tf32",
        1,
        (F32,),
        numeric.round_tf32,
        "round_tf32({x})",
        "round_tf32",
        "linalg.dot",
        "x with 11 significant bits, ties away from zero (PTX cvt.rna.tf32.f32).",
    ),
    Scalar(
        "moved",
        1,
        (F32,),
        np.positive,
        "moved({x})",
        "moved",
        "linalg.dot",
        "x in a register of its own, which no compiler takes for that of x.",
    ),
    _math("floor", np.floor, "floorf({x})", "floor({x})", "The largest integer not above x.", exact=True),
    _math("ceil", np.ceil, "ceilf({x})", "ceil({x})", "The smallest integer not below x.", exact=True),
)

BY_NAME: dict[str, Scalar] = {row.name: row for row in ROWS}
