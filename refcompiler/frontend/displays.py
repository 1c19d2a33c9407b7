"""Tuples, dicts, sets, comprehensions and functions in expressions: structures that exist while compiling only."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from refcompiler.errors import CompileError
from refcompiler.frontend.context import describe, elements, is_runtime
from refcompiler.frontend.expressions import Expressions
from refcompiler.frontend.nested import NestedFunction


class Displays(Expressions):
    """The part of the compiler of one function that makes structures of values."""

    bind_static: Callable[[ast.expr, Any], None]

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> tuple:
        out: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                out += self.sequence(element.value)
            else:
                out.append(self.expr(element))
        return tuple(out)

    def visit_List(self, node: ast.List) -> tuple:
        return self.visit_Tuple(node)

    def visit_Dict(self, node: ast.Dict) -> dict:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                out.update(self.mapping(value))
            else:
                out[self.key(key)] = self.expr(value)
        return out

    def visit_Set(self, node: ast.Set) -> frozenset:
        return frozenset(self.key(element) for element in node.elts)

    def key(self, node: ast.expr) -> Any:
        """A compile-time value that can be a key of a dict or an element of a set."""
        value = self.expr(node)
        if is_runtime(value):
            message = f"a key must be constexpr, found {describe(value)}"
            raise self.error("control.constexpr#E2", message, node)
        self.compute(node, hash, value)
        return value

    def sequence(self, node: ast.expr) -> tuple:
        """The elements of a compile-time sequence."""
        value = self.expr(node)
        found = elements(value)
        if found is None:
            raise self.no_sequence(node, value, "only a tuple or another compile-time sequence can be unpacked")
        return found

    def no_sequence(self, node: ast.AST, value: Any, message: str, id: str = "language.syntax#E1") -> CompileError:
        """The error for a value without elements in an order."""
        if isinstance(value, frozenset | set):
            return self.error(
                "language.structures#E1", f"a set has no order: use a tuple, or sorted(...); {message}", node
            )
        first, mark, rest = message.partition(";")
        return self.error(id, f"{first}, found {describe(value)}{mark}{rest}", node)

    def mapping(self, node: ast.expr) -> dict:
        """A compile-time dict to unpack."""
        value = self.expr(node)
        if not isinstance(value, dict):
            message = f"`**` unpacks a compile-time dict, found {describe(value)}"
            raise self.error("language.syntax#E1", message, node)
        return value

    # --- functions
    def visit_Lambda(self, node: ast.Lambda) -> NestedFunction:
        return NestedFunction(self.frame, node, self.defaults(node.args))

    def defaults(self, arguments: ast.arguments) -> dict[str, Any]:
        """The defaults of a nested function, evaluated where it is defined."""
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = list(zip(reversed(positional), reversed(arguments.defaults), strict=False))[::-1]
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        return {argument.arg: self.expr(default) for argument, default in pairs}

    # --- comprehensions: unrolled, in a scope of their own
    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> tuple:
        return tuple(self.rounds(node, lambda: self.expr(node.elt)))

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> tuple:
        return self.visit_ListComp(node)

    def visit_SetComp(self, node: ast.SetComp) -> frozenset:
        return frozenset(self.rounds(node, lambda: self.key(node.elt)))

    def visit_DictComp(self, node: ast.DictComp) -> dict:
        return dict(self.rounds(node, lambda: (self.key(node.key), self.expr(node.value))))

    def rounds(self, node: Any, element: Callable[[], Any]) -> list[Any]:
        """What ``element`` gives in each round. The names of the generators end with the comprehension; what `:=`
        binds in it stays, as in Python."""
        frame = self.frame
        own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        hidden = {n: v for n, v in frame.names.items() if n in own}
        lost = {n: v for n, v in frame.lost.items() if n in own}
        try:
            return [element() for _ in self.generate(node.generators)]
        finally:
            for name in own:
                frame.names.pop(name, None)
            frame.names.update(hidden)
            frame.lost.update(lost)

    def generate(self, generators: list[ast.comprehension]) -> Iterator[None]:
        """Bind the targets for one round after the other."""
        if not generators:
            yield
            return
        first, *inner = generators
        if first.is_async:
            raise self.unsupported(first.target, "`async` is not supported")
        for item in self.sequence(first.iter):
            self.bind_static(first.target, item)
            if all(self.decide(test, "a filter") for test in first.ifs):
                yield from self.generate(inner)
