"""The operations that generated kernels are made of: spelling, typing, meaning by an oracle, exact or not.

`emits` names the tile ops that an operation becomes; a test compares them with the ops of the language, so that a new
op is generated or has a reason not to be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oracles.promotion import promote
from oracles.registry import OracleError

INTEGERS = ("i32", "i8", "i16", "i64", "u8", "u16", "u32", "u64")
SIGNED = ("i8", "i16", "i32", "i64")
FLOATS = ("f32", "f16", "bf16", "f64")
NUMBERS = (*INTEGERS, *FLOATS)
DTYPES = ("i32", "f32", "bool", *(d for d in NUMBERS if d not in ("i32", "f32")))
WIDE_FLOATS = ("f32", "f64")
ATOMIC = ("i32", "u32", "i64", "u64")  # atomic.rmw#C4; floats in any order give other sums

Typing = Callable[..., "str | None"]


@dataclass(frozen=True)
class Row:
    """One operation: `{0}`, `{1}`, `{2}` in a spelling are its operands.

    `typing` maps the operands' dtypes to that of the result, None where the language refuses them. `oracle` is the
    address of its meaning in `oracles`. `ulps` bounds the error of an inexact function. `literals`: an operand may be a
    literal. `guard` says how unpredictable values are kept out, `clause` which clause makes them so.
    """

    name: str
    spellings: tuple[str, ...]
    typing: Typing
    oracle: str
    emits: tuple[str, ...]
    arity: int = 2
    ulps: int = 0
    literals: bool = True
    guard: str = ""
    clause: str = ""


def _meet(operator: str) -> Typing:
    def typing(x: str, y: str) -> str | None:
        try:
            return promote(x, y, operator).name
        except OracleError:
            return None

    return typing


def _arithmetic(x: str, y: str) -> str | None:
    found = _meet("+")(x, y)
    return None if found == "bool" else found


def _comparison(x: str, y: str) -> str | None:
    return "bool" if _meet("+")(x, y) else None


def _same(*dtypes: str) -> Typing:
    """Operands of one dtype of a group, which is that of the result."""

    def typing(*given: str) -> str | None:
        return given[0] if given[0] in dtypes and len(set(given)) == 1 else None

    return typing


def _integers(operator: str) -> Typing:
    """The dtype in which two integers meet; two bools are refused."""

    def typing(x: str, y: str) -> str | None:
        found = _meet(operator)(x, y)
        return found if found in INTEGERS else None

    return typing


def _quotient(x: str, y: str) -> str | None:
    return None if "bool" in (x, y) else _meet("/")(x, y)


def _remainder(x: str, y: str) -> str | None:
    return None if "bool" in (x, y) else _meet("%")(x, y)


def _floats_met(x: str, y: str, z: str) -> str | None:
    return x if x in FLOATS and x == y == z else None


def _binary(name: str, symbol: str, typing: Typing, oracle: str, *emits: str, **more: object) -> Row:
    return Row(name, (f"({{0}} {symbol} {{1}})",), typing, oracle, emits or (name,), **more)  # type: ignore[arg-type]


def _function(name: str, *dtypes: str, ulps: int = 0) -> Row:
    spellings = (f"tl.{name}({{0}})",)
    return Row(name, spellings, _same(*dtypes), f"oracles.elementwise:{name}", (name,), 1, ulps, literals=False)


_ELEMENTWISE = "oracles.elementwise"
_INTEGER = "oracles.integers"

BINARY: tuple[Row, ...] = (
    _binary("add", "+", _arithmetic, f"{_ELEMENTWISE}:add"),
    _binary("mul", "*", _arithmetic, f"{_ELEMENTWISE}:mul"),
    _binary("sub", "-", _arithmetic, f"{_ELEMENTWISE}:sub"),
    _binary("and", "&", _meet("&"), f"{_INTEGER}:and"),
    _binary("or", "|", _meet("|"), f"{_INTEGER}:or"),
    _binary("xor", "^", _meet("^"), f"{_INTEGER}:xor"),
    _binary("shl", "<<", _integers("<<"), f"{_INTEGER}:shl"),
    _binary("shr", ">>", _integers(">>"), f"{_INTEGER}:shr"),
    _binary("div", "/", _quotient, f"{_ELEMENTWISE}:truediv"),
    _binary("floordiv", "//", _integers("//"), f"{_INTEGER}:floordiv", "div", guard="odd", clause="arith.division#N1"),
    _binary("rem", "%", _remainder, f"{_INTEGER}:mod", guard="odd", clause="arith.division#N1"),
    Row("div_rn", ("tl.div_rn({0}, {1})",), _same("f32"), f"{_ELEMENTWISE}:truediv", ("div_rn",)),
    Row("fdiv", ("tl.fdiv({0}, {1})",), _same(*WIDE_FLOATS), f"{_ELEMENTWISE}:truediv", ("div",)),
    Row("umulhi", ("tl.umulhi({0}, {1})",), _same("i32", "i64", "u32", "u64"), f"{_INTEGER}:umulhi", ("umulhi",)),
    Row("maximum", ("tl.maximum({0}, {1})",), _arithmetic, "maximum", ("maximum",)),
    Row("minimum", ("tl.minimum({0}, {1})",), _arithmetic, "minimum", ("minimum",)),
    Row(
        "maximum_nan",
        ("tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",),
        _arithmetic,
        "maximum_nan",
        ("maximum_nan",),
    ),
    Row(
        "minimum_nan",
        ("tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",),
        _arithmetic,
        "minimum_nan",
        ("minimum_nan",),
    ),
)
COMPARISONS: tuple[Row, ...] = tuple(
    Row(name, (f"({{0}} {symbol} {{1}})",), _comparison, f"{_ELEMENTWISE}:{name}", (f"cmp_{name}",))
    for name, symbol in (("lt", "<"), ("ge", ">="), ("eq", "=="), ("ne", "!="), ("le", "<="), ("gt", ">"))
)
UNARY: tuple[Row, ...] = (
    Row("neg", ("(-{0})",), _same(*NUMBERS), "neg", ("neg", "sub"), 1, literals=False),
    Row("invert", ("(~{0})",), _same("bool", *INTEGERS), f"{_INTEGER}:invert", ("not",), 1, literals=False),
    Row("abs", ("tl.abs({0})",), _same(*NUMBERS), f"{_ELEMENTWISE}:abs", ("abs",), 1, literals=False),
    _function("floor", *WIDE_FLOATS),
    _function("ceil", *WIDE_FLOATS),
    _function("sqrt", *WIDE_FLOATS),
    Row("sqrt_rn", ("tl.sqrt_rn({0})",), _same("f32"), f"{_ELEMENTWISE}:sqrt", ("sqrt_rn",), 1, literals=False),
)
LOGICAL: tuple[Row, ...] = (
    Row("not", ("(not {0})",), _same("bool"), f"{_INTEGER}:logical_not", ("not",), 1, literals=False),
    Row("and_", ("({0} and {1})",), _same("bool"), f"{_INTEGER}:and", ("and",), literals=False),
    Row("or_", ("({0} or {1})",), _same("bool"), f"{_INTEGER}:or", ("or",), literals=False),
)
TERNARY: tuple[Row, ...] = (
    Row("fma", ("tl.fma({0}, {1}, {2})",), _floats_met, f"{_ELEMENTWISE}:fma", ("fma",), 3, literals=False),
)
INEXACT: tuple[Row, ...] = (
    _function("exp2", *WIDE_FLOATS, ulps=2),
    _function("rsqrt", *WIDE_FLOATS, ulps=2),
    _function("erf", *WIDE_FLOATS, ulps=2),
    _function("exp", *WIDE_FLOATS, ulps=2),
    _function("log", *WIDE_FLOATS, ulps=3),
    _function("log2", *WIDE_FLOATS, ulps=2),
    _function("sin", *WIDE_FLOATS, ulps=2),
    _function("cos", *WIDE_FLOATS, ulps=2),
)
ROWS: dict[str, Row] = {r.name: r for r in (*BINARY, *COMPARISONS, *UNARY, *LOGICAL, *TERNARY, *INEXACT)}

# Tile ops that come from something else than a row: what in a generated kernel becomes them.
STRUCTURE: dict[str, str] = {
    "select": "tl.where",
    "cast": "x.to(dtype), and every meeting of dtypes",
    "bitcast": "x.to(dtype, bitcast=True)",
    "addptr": "pointer + offset",
    "load": "tl.load",
    "store": "tl.store",
    "atomic_rmw": "tl.atomic_add and its kin, on integers, whose order leaves no trace",
    "butterfly": "tl.flip, tl.sort",
    "hint": "tl.multiple_of of what is one",
    "program_id": "the number of the program, in every kernel",
    "num_programs": "the number of the program, with a grid of several axes",
    "arange": "tl.arange",
    "full": "tl.full",
    "reduce": "tl.sum and its kin, tl.reduce",
    "scan": "tl.cumsum and its kin, tl.associative_scan",
    "gather": "tl.gather",
    "expand_dims": "x[:, None]",
    "broadcast": "tl.broadcast_to",
    "reshape": "tl.reshape",
    "trans": "tl.permute",
    "for": "loops over range",
    "if": "branches on a scalar of run time",
    "while": "while loops",
    "condition": "the condition of a while loop",
    "yield": "the end of a loop, a branch, a combination",
    "assert": "tl.device_assert of what holds",
}
_LATER = "warp specialization makes it, after the tile level; linalg.dot and kernels.matmul specify what it comes to"
_CLUSTERS = "divide_over_ctas makes it, after the tile level; program.clusters specifies what it comes to"
_SUMS = "its sums may be taken in any order, so no two targets need agree on their bits; linalg.dot specifies them"
_BOXES = "memory.descriptors specifies it, with arrays of its own"
LEFT_OUT: dict[str, str] = {
    "dot": _SUMS,
    **dict.fromkeys(("round_tf32", "moved"), "a step of products of float32; linalg.dot specifies these"),
    "exp2_ftz": "an option of the launch makes it; math.exp2 specifies it",
    **dict.fromkeys(("make_descriptor", "descriptor_load", "descriptor_store"), _BOXES),
    **dict.fromkeys(("ring", "ring_put", "ring_take", "ring_release", "roles"), _LATER),
    **dict.fromkeys(("cta_rank", "all_gather"), _CLUSTERS),
    **dict.fromkeys(("warpgroup_dot", "warpgroup_wait", "bulk_store"), _LATER),
    "atomic_cas": "what it gives depends on the order of the programs; atomic.cas specifies it",
    "empty": "its elements are unspecified, and nothing may depend on them",
}
