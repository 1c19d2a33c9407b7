"""Functions defined inside a kernel: they see its names and are compiled in place where they are called."""

from __future__ import annotations

import ast
from typing import Any

from refcompiler.frontend.kernel_source import KernelSource
from refcompiler.frontend.kernel_text import as_definition
from refcompiler.frontend.scope import Frame


class NestedFunction:
    """A `def` or a `lambda` inside a kernel, with the frame whose names it sees and its defaults."""

    def __init__(self, frame: Frame, node: ast.FunctionDef | ast.Lambda, defaults: dict[str, Any]):
        outer = frame.source
        tree = node if isinstance(node, ast.FunctionDef) else as_definition(node)
        self.frame = frame
        self.source = KernelSource(
            tree.name,
            outer.text,
            outer.file,
            outer.first_line,
            outer.scope,
            outer.cells,
            library=outer.library,
            first_column=outer.first_column,
            tree=tree,
            defaults=defaults,
            rules=outer.rules,
        )

    def __repr__(self) -> str:
        return f"<function {self.source.name}>"
