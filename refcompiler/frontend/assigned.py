"""Which names statements may bind, and when: what loops carry and branches join."""

from __future__ import annotations

import ast
from collections.abc import Sequence

_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def assigned_names(body: Sequence[ast.AST]) -> list[str]:
    """Names that statements may bind, in the order of their first binding in the text; not inside nested functions."""
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef):
            names.setdefault(node.name)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, _COMPREHENSIONS):  # has names of its own; only `:=` binds outside
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    names.setdefault(inner.target.id)
            return
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
            visit(node.value)  # a walrus in the value binds first
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in body:
        visit(statement)
    return list(names)
