"""The text of the ops that a launch returns."""

from __future__ import annotations

from collections.abc import Iterable

from refcompiler.ir import Op, print_ops


class SSAPrinter:
    """Prints lists of ops, under the name that mytriton's scripts use; docs/ir-text.md describes the text."""

    def print_ops(self, ops: Iterable[Op]) -> str:
        """One op a line, parameters by name, values numbered in program order."""
        return print_ops(ops)
