"""Functions defined inside a kernel: they see its names and are compiled in place where they are called."""

from __future__ import annotations

import ast

from refcompiler.frontend.kernel_source import KernelSource
from refcompiler.frontend.scope import Frame


class NestedFunction:
    """A `def` inside a kernel, with the frame whose names it sees."""

    def __init__(self, frame: Frame, node: ast.FunctionDef):
        outer = frame.source
        self.frame = frame
        self.source = KernelSource(
            node.name,
            outer.text,
            outer.file,
            outer.first_line,
            outer.scope,
            outer.cells,
            first_column=outer.first_column,
            tree=node,
        )

    def __repr__(self) -> str:
        return f"<function {self.source.name}>"
