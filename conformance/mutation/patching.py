"""Serves the wrong source of one module at import, and notices when the changed statement is executed."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType

from conformance.mutation.catalogue import patch

_REACHED = "__mutant_reached__"


def install(module: str, find: str, replace: str, reached: Callable[[], object]) -> None:
    """From now on `module` imports with `find` replaced; `reached()` is called when the changed statement runs.

    The module must not be imported yet. Raises DeadAnchor at its import if the text does not occur exactly once.
    """
    if module in sys.modules:
        raise RuntimeError(f"{module} is already imported: a mutant is applied in a fresh process")
    sys.meta_path.insert(0, _Finder(module, find, replace, reached))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, find: str, replace: str, reached: Callable[[], object]) -> None:
        self.module, self.texts, self.reached = module, (find, replace), reached

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self.texts, self.reached)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the wrong text; never reads or writes the byte code that other processes share."""

    def __init__(self, name: str, path: str, texts: tuple[str, str], reached: Callable[[], object]) -> None:
        super().__init__(name, path)
        self.texts, self.reached = texts, reached

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        found = patch(*self.texts, Path(path).read_text(encoding="utf-8"))
        return compile(marked(found.source, found.line), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[_REACHED] = self.reached
        super().exec_module(module)


def marked(source: str, line: int) -> ast.Module:
    """`source` with a call to the hook before the innermost statement that covers `line`."""
    tree = ast.parse(source)
    blocks = [
        block for node in ast.walk(tree) for name in ("body", "orelse", "finalbody") if (block := _block(node, name))
    ]
    covering = [
        (last - first, block, index)
        for block in blocks
        for index, statement in enumerate(block)
        for first, last in [_lines(statement)]
        if first <= line <= last
    ]
    if covering:
        _, block, index = min(covering, key=lambda c: c[0])
        call = ast.Expr(ast.Call(ast.Name(_REACHED, ast.Load()), [], []))
        block.insert(index, ast.copy_location(call, block[index]))
    return ast.fix_missing_locations(tree)


def _block(node: ast.AST, name: str) -> list[ast.stmt]:
    found = getattr(node, name, None)
    return found if isinstance(found, list) else []  # the body of a lambda or of a conditional is no block


def _lines(statement: ast.stmt) -> tuple[int, int]:
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
    return first, statement.end_lineno or first
