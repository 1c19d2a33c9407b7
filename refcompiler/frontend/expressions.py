"""Python expressions to values: compile-time ones are computed, run-time ones become tile ops in evaluation order."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from refcompiler.errors import CompileError, TileSpecError
from refcompiler.frontend import semantics
from refcompiler.frontend.attributes import attribute
from refcompiler.frontend.context import Context, describe, is_runtime
from refcompiler.frontend.language.shape import indexed
from refcompiler.frontend.scope import Frame, resolve
from refcompiler.frontend.types import constexpr
from refcompiler.ir import Value

_PYTHON: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "MatMult": operator.matmul,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "In": lambda x, y: x in y,
    "NotIn": lambda x, y: x not in y,
    "USub": operator.neg,
    "UAdd": operator.pos,
    "Invert": operator.invert,
    "Not": operator.not_,
}
_ADVICE = {
    "Await": "`await` is not supported; kernels do not wait",
    "Yield": "`yield` is not supported; return a tuple of the values",
    "YieldFrom": "`yield` is not supported; return a tuple of the values",
    "Starred": "`*` stands in a call, a tuple or a target only",
}


class Expressions:
    """The expression half of the compiler of one function."""

    context: Context
    frame: Frame
    call: Callable[[ast.Call], Any]

    def expr(self, node: ast.expr) -> Any:
        """The value of an expression: an IR value, a compile-time object, or a tuple of both."""
        value = self.raw(node)
        value = value.value if type(value) is constexpr else value
        return value.item() if isinstance(value, np.generic) else value  # NumPy's numbers count as Python's

    def raw(self, node: ast.expr) -> Any:
        """Like ``expr``; the result of `tl.constexpr(...)` stays marked."""
        name = type(node).__name__
        visit = getattr(self, "visit_" + name, None)
        if visit is None:
            raise self.unsupported(node, _ADVICE.get(name, f"the expression {name} is not supported"))
        return visit(node)

    def unsupported(self, node: ast.AST, message: str) -> CompileError:
        return CompileError("language.syntax#E1", message, self.frame.span(node), phase="parse")

    def error(self, id: str, message: str, node: ast.AST, phase: str = "type") -> CompileError:
        return CompileError(id, message, self.frame.span(node), phase=phase)

    def at(self, node: ast.AST, **arguments: ast.AST) -> Context:
        """The context, set to emit for ``node``."""
        self.context.span = self.frame.span(node)
        self.context.arguments = {name: self.frame.span(argument) for name, argument in arguments.items()}
        return self.context

    def compute(self, node: ast.AST, function: Callable, *values: Any) -> Any:
        """Apply Python's meaning to compile-time values."""
        try:
            return function(*values)
        except TileSpecError:
            raise
        except Exception as error:
            message = f"cannot be computed at compile time: {type(error).__name__}: {error}"
            raise self.error("control.constexpr#E4", message, node) from None

    # --- leaves
    def visit_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, complex | bytes):
            raise self.unsupported(node, f"{type(node.value).__name__} literals are not supported")
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        return resolve(self.context, self.frame, node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.expr(node.value)
        self.at(node, value=node.value)
        return attribute(self.context, owner, node.attr)

    def visit_Call(self, node: ast.Call) -> Any:
        return self.call(node)

    # --- operators
    def visit_BinOp(self, node: ast.BinOp) -> Any:
        spine = [node]  # a long chain nests to the left: no recursion along it
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        value = self.expr(spine[-1].left)
        for link in reversed(spine):
            value = self.binary(link, type(link.op).__name__, value, self.expr(link.right), link.left, link.right)
            value = value.value if type(value) is constexpr else value
        return value

    def binary(self, node: ast.AST, name: str, x: Any, y: Any, left: ast.AST, right: ast.AST) -> Any:
        """An arithmetic operator; ``left`` and ``right`` are where errors about one operand point."""
        if not (isinstance(x, Value) or isinstance(y, Value)):
            return self.compute(node, _PYTHON[name], x, y)
        lower = semantics.BINARY.get(name)
        if lower is None:
            advice = {
                "Pow": "`**` is for compile-time values only; write x * x, or tl.exp2(y * tl.log2(x))",
                "MatMult": "`@` is for compile-time values only; write tl.dot(x, y)",
            }[name]
            raise self.unsupported(node, advice)
        return lower(self.at(node, x=left, y=right), x, y)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        x, name = self.expr(node.operand), type(node.op).__name__
        if not isinstance(x, Value):
            return self.compute(node, _PYTHON[name], x)
        c = self.at(node, x=node.operand)
        if name == "UAdd":
            return x
        return {"USub": semantics.negate, "Invert": semantics.invert, "Not": semantics.logical_not}[name](c, x)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """Compile-time operands decide or drop out as in Python; run-time ones are all evaluated, and must be bool
        where two meet."""
        is_and = isinstance(node.op, ast.And)
        word = "and" if is_and else "or"
        result: Any = None  # of the run-time operands
        first: ast.expr | None = None
        last: Any = None
        for operand in node.values:
            value = self.expr(operand)
            if not isinstance(value, Value):
                last = value
                if bool(value) != is_and:
                    return value
            elif result is None:
                result, first = value, operand
            else:
                semantics.require_bool(self.at(node, y=first), result, word, "y")
                c = self.at(node, x=node.values[0], y=operand)
                semantics.require_bool(c, value, word, "y")
                result = semantics.bitwise(c, word, result, value)
        return last if result is None else result

    def visit_Compare(self, node: ast.Compare) -> Any:
        """A chain is the `and` of its links; each operand is evaluated once."""
        left, left_node = self.expr(node.left), node.left
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.expr(right_node)
            link = self.comparison(node, type(op).__name__, left, right, left_node, right_node)
            if isinstance(link, Value):
                c = self.at(node, x=left_node, y=right_node)
                result = semantics.bitwise(c, "and", result, link) if isinstance(result, Value) else link
            elif not link:
                return link
            left, left_node = right, right_node
        return result

    def comparison(self, node: ast.AST, name: str, x: Any, y: Any, left: ast.AST, right: ast.AST) -> Any:
        if name in ("Is", "IsNot"):
            return (x is y or (x == y and not is_runtime((x, y)) and type(x) is type(y))) == (name == "Is")
        if (x is None or y is None) and name in ("Eq", "NotEq"):
            return (x is y) == (name == "Eq")
        if name in ("In", "NotIn"):
            if is_runtime(x) or (is_runtime(y) and not isinstance(y, dict)):
                message = "`in` is for compile-time values only; compare the elements and combine the results with |"
                raise self.unsupported(node, message)
        elif isinstance(x, Value) or isinstance(y, Value):
            return semantics.compare(self.at(node, x=left, y=right), semantics.COMPARE[name], x, y)
        elif is_runtime((x, y)):
            message = (
                "tuples with run-time values are not compared; compare the elements and combine the results with &"
            )
            raise self.unsupported(node, message)
        return self.compute(node, _PYTHON[name], x, y)

    def decide(self, node: ast.expr, what: str) -> bool:
        """The truth of a condition that must be known while compiling."""
        condition = self.expr(node)
        if isinstance(condition, Value):
            message = f"{what} needs a constexpr condition, found {describe(condition)}"
            raise self.error("control.constexpr#E2", message, node)
        return self.known_truth(node, condition)

    def known_truth(self, node: ast.expr, condition: Any) -> bool:
        """The truth of a compile-time condition."""
        if condition is not None and not isinstance(condition, bool | int):
            message = f"a condition is bool, int or None, found {describe(condition)}"
            raise self.error("control.constexpr#E1", message, node)
        return bool(condition)

    # --- subscripts, strings, comprehensions
    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.expr(node.value)
        if isinstance(owner, Value):
            items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            indices = tuple(self.index(item) for item in items)
            return indexed(self.at(node), owner, indices)
        index = self.index(node.slice)
        if is_runtime(index):
            kind = "a dict" if isinstance(owner, dict) else "a tuple"
            message = f"an index into {kind} must be constexpr, found {describe(index)}"
            raise self.error("control.constexpr#E2", message, node.slice)
        return self.compute(node, operator.getitem, owner, index)

    def index(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            return slice(*(None if part is None else self.expr(part) for part in (node.lower, node.upper, node.step)))
        return self.expr(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(self.expr(part) for part in node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.expr(node.value)
        if is_runtime(value):
            message = f"an f-string formats compile-time values only, found {describe(value)}"
            raise self.error("control.constexpr#E2", message, node.value)
        if isinstance(value, set | frozenset):
            raise self.error("language.structures#E1", "a set has no order: use sorted(...)", node.value)
        converters: dict[int, Callable[[Any], Any]] = {115: str, 114: repr, 97: ascii}
        converted = converters[node.conversion](value) if node.conversion in converters else value
        spec = self.expr(node.format_spec) if node.format_spec else ""
        return self.compute(node, format, converted, spec)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self.assign(node.target, self.raw(node.value), node)
        return self.visit_Name(node.target)

    assign: Callable[[ast.expr, Any, ast.AST], None]
