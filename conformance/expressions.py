"""Small expressions of the YAML files, evaluated by walking a checked syntax tree (never by Python's eval).

An expression sees the instance's parameters, the kernel's scalar arguments, the input arrays (contents before the
run) and the functions of `FUNCTIONS`. Shapes, grids and depths use the same language, without arrays.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from conformance.dtypes import DTYPES

DEEPEST = 200  # of the levels of an expression
MOST_BITS = 4096  # of an integer that ** or << gives


class ExpressionError(Exception):
    """An expression that cannot be read or evaluated; `col` is the 0-based offset in its text."""

    def __init__(self, message: str, col: int = 0, width: int = 1) -> None:
        super().__init__(message)
        self.message, self.col, self.width = message, col, width


def f64(x: Any) -> Any:
    """`x` widened to float64 (exact for every input dtype of the language up to f32 and i32)."""
    return np.asarray(x).astype(np.float64)


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _log2(x: Any) -> Any:
    return np.log2(x) if isinstance(x, np.ndarray) else math.log2(x)


def _whole(array: Callable[..., Any], scalar: Callable[[Any], int]) -> Callable[[Any], Any]:
    return lambda x: array(x) if isinstance(x, np.ndarray) else scalar(x)


def _bits(dtype: str, *patterns: int) -> np.ndarray:
    """Elements of a dtype by their bit patterns."""
    kind = DTYPES[dtype].numpy
    return np.array(patterns, dtype=np.uint64).astype(f"u{kind.itemsize}").view(kind)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "min": min,
    "max": max,
    "len": len,
    "ceil": _whole(np.ceil, math.ceil),
    "floor": _whole(np.floor, math.floor),
    "log2": _log2,
    "cdiv": _cdiv,
    "itemsize": lambda dtype: DTYPES[dtype].numpy.itemsize,
    "next_power_of_2": lambda n: 1 << max(0, int(n) - 1).bit_length(),
    "arange": lambda *a: np.arange(*a, dtype=np.int64),
    "where": np.where,
    "full": np.full,
    "zeros": np.zeros,
    "ones": np.ones,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "any": np.any,
    "all": np.all,
    "sum": lambda x, axis=None: np.sum(f64(x), axis=axis),
    "f64": f64,
    "i64": lambda x: np.asarray(x).astype(np.int64),
    "reshape": lambda x, *shape: np.reshape(x, shape),
    "transpose": lambda x, *axes: np.transpose(x, axes or None),
    "broadcast": lambda x, *shape: np.broadcast_to(x, shape),
    "bits": _bits,
    "concat": lambda *xs: np.concatenate(xs),
    "take": lambda x, index, axis=0: np.take(x, index, axis=axis),
}
CONSTANTS = {"inf": math.inf, "nan": math.nan}


def _floor_div(a: Any, b: Any) -> Any:
    return a // b


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and abs(a) > 1 and b * abs(a).bit_length() > MOST_BITS:
        raise OverflowError(f"the power has more than {MOST_BITS} bits")
    return operator.pow(a, b)


def _shift(a: Any, b: Any) -> Any:
    if isinstance(b, int) and b > MOST_BITS:
        raise OverflowError(f"the shift is by more than {MOST_BITS} bits")
    return operator.lshift(a, b)


BINARY: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: _floor_div,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.LShift: _shift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
UNARY: dict[type, Callable[..., Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
COMPARE: dict[type, Callable[..., Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def _error(message: str, node: ast.AST) -> ExpressionError:
    col = getattr(node, "col_offset", 0)
    end = getattr(node, "end_col_offset", None) or col + 1
    return ExpressionError(message, col, max(1, end - col))


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The checked tree of an expression; raises ExpressionError with the offending column."""
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as e:
        raise ExpressionError(f"not an expression: {e.msg}", max(0, (e.offset or 1) - 1)) from None
    except (ValueError, RecursionError, MemoryError) as e:
        raise ExpressionError(f"not an expression: {e}") from None
    _check(body)
    return body


def _check(node: ast.AST, depth: int = 0) -> None:
    if depth > DEEPEST:
        raise _error(f"an expression has at most {DEEPEST} levels", node)
    allowed = (
        ast.Constant,
        ast.Name,
        ast.BinOp,
        ast.UnaryOp,
        ast.Compare,
        ast.BoolOp,
        ast.IfExp,
        ast.Call,
        ast.Subscript,
        ast.Slice,
        ast.Tuple,
        ast.List,
        ast.keyword,
        ast.operator,
        ast.unaryop,
        ast.cmpop,
        ast.boolop,
        ast.expr_context,
    )
    if isinstance(node, ast.Call):
        _check_call(node)
        for child in (*node.args, *node.keywords):
            _check(child, depth + 1)
        return
    if not isinstance(node, allowed):
        raise _error(f"{type(node).__name__} is not allowed in an expression", node)
    if isinstance(node, (ast.BinOp,)) and type(node.op) not in BINARY:
        raise _error("operator is not allowed", node)
    if isinstance(node, ast.Compare) and any(type(op) not in COMPARE for op in node.ops):
        raise _error("comparison is not allowed", node)
    for child in ast.iter_child_nodes(node):
        _check(child, depth + 1)


def _check_call(node: ast.Call) -> None:
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        raise _error("* and ** are not allowed in a call", node)
    if not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
        raise _error(f"unknown function {ast.unparse(node.func)!r}; known: {', '.join(sorted(FUNCTIONS))}", node.func)


def names(text: str) -> dict[str, int]:
    """Free variable names of an expression with the column of their first use."""
    found: dict[str, int] = {}

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            found.setdefault(node.id, node.col_offset)
        elif isinstance(node, ast.Call):
            for child in (*node.args, *node.keywords):
                walk(child)
        else:
            for child in ast.iter_child_nodes(node):
                walk(child)

    walk(parse(text))
    return {n: c for n, c in found.items() if n not in CONSTANTS}


def evaluate(text: str | float, env: Mapping[str, Any]) -> Any:
    """Value of an expression in `env`; numbers are their own value. Raises ExpressionError where it has none."""
    if not isinstance(text, str):
        return text
    try:
        return _eval(parse(text), env)
    except (TypeError, ValueError, ArithmeticError, LookupError, MemoryError) as e:
        raise ExpressionError(f"{text} has no value: {e}") from e


def _eval(node: ast.AST, env: Mapping[str, Any]) -> Any:
    def go(n: ast.AST) -> Any:
        return _eval(n, env)

    match node:
        case ast.Constant(value=v):
            return v
        case ast.Name(id=name):
            if name in env:
                return env[name]
            if name in CONSTANTS:
                return CONSTANTS[name]
            raise _error(f"unknown name {name!r}; known here: {', '.join(sorted(env))}", node)
        case ast.BinOp(left=a, op=op, right=b):
            return BINARY[type(op)](go(a), go(b))
        case ast.UnaryOp(op=op, operand=a):
            return UNARY[type(op)](go(a))
        case ast.Compare():
            return _compare(node, go)
        case ast.BoolOp(op=op, values=values):
            result = go(values[0])
            for v in values[1:]:
                if bool(result) == isinstance(op, ast.Or):
                    return result
                result = go(v)
            return result
        case ast.IfExp(test=t, body=a, orelse=b):
            return go(a) if go(t) else go(b)
        case ast.Tuple(elts=es):
            return tuple(go(e) for e in es)
        case ast.List(elts=es):
            return [go(e) for e in es]
        case ast.Slice(lower=a, upper=b, step=c):
            return slice(*(None if x is None else go(x) for x in (a, b, c)))
        case ast.Subscript(value=v, slice=s):
            return go(v)[go(s)]
        case ast.Call(func=f, args=args, keywords=kws):
            values, keyed = [_argument(go(a)) for a in args], {k.arg or "": go(k.value) for k in kws}
            assert isinstance(f, ast.Name)
            return FUNCTIONS[f.id](*values, **keyed)
    raise _error(f"{type(node).__name__} is not allowed in an expression", node)


def _argument(value: Any) -> Any:
    """An integer past i64 as u64: NumPy's functions take Python integers as i64, or not at all."""
    return np.uint64(value) if isinstance(value, int) and 1 << 63 <= value < 1 << 64 else value


def _compare(node: ast.Compare, go: Callable[[ast.AST], Any]) -> Any:
    left, result = go(node.left), None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = go(right_node)
        one = COMPARE[type(op)](left, right)
        result = one if result is None else result & one
        left = right
    return result
