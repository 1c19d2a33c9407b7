"""One forward walk that folds ops and applies rewrite rules, inside regions too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import Type

Rule = Any  # a function (op, rewriter) -> Value | list[Value] | None that carries ``op_names``


def rewrite(*op_names: str):
    """Mark a function ``rule(op, rw)`` as a rewrite of the named ops.

    A rule returns the value that replaces the op's result (possibly made with ``rw.op``), or None.
    Its docstring is the rule as one algebraic line with its side condition.
    """

    def mark(rule: Rule) -> Rule:
        if __debug__ and not rule.__doc__:  # python -OO drops docstrings
            raise TypeError(f"rewrite rule {rule.__name__} needs its algebraic line as docstring")
        rule.op_names = op_names
        return rule

    return mark


class Rewriter:
    """Rebuilds a function in place, replacing operands by what earlier ops became."""

    def __init__(self, rules: Iterable[Rule], fold: bool = True):
        self.by_op: dict[str, list[Rule]] = {}
        for rule in rules:
            for name in rule.op_names:
                self.by_op.setdefault(name, []).append(rule)
        self.fold = fold
        self.values: dict[Value, Value] = {}
        self.out: list[Op] = []
        self.current: Op | None = None
        self.changed = False

    def run(self, func: Func) -> bool:
        """Rewrite the whole function; True if anything changed."""
        self.block(func.body)
        return self.changed

    def block(self, block: Block) -> None:
        outer, self.out = self.out, []
        for op in block.ops:
            self.visit(op)
        block.ops, self.out = self.out, outer

    def visit(self, op: Op) -> None:
        op.operands = [self.values.get(o, o) if o is not None else None for o in op.operands]
        self.current = op
        replacement = self.replacement(op)
        if replacement is not None:
            self.changed = True
            values = replacement if isinstance(replacement, list) else [replacement]
            self.values.update(zip(op.results, values, strict=True))
            return
        for region in op.regions:
            self.block(region)
        self.out.append(op)

    def replacement(self, op: Op) -> Value | list[Value] | None:
        if self.fold and len(op.results) == 1:
            folded = op.fold()
            if folded is not None and folded.type == op.result.type:  # folding keeps type and shape
                return folded
        for rule in self.by_op.get(op.name, ()):
            value = rule(op, self)
            if value is not None:
                return value
        return None

    def op(self, name: str, *operands: Value | None, types: list[Type] | None = None, **attrs) -> Value:
        """Make a new op before the current one, with its span; returns the single result."""
        op = OPS[name](*operands, span=self.current.span, types=types, **attrs)
        op.spans = self.current.spans
        self.out.append(op)
        return op.result


def uses(func: Func) -> dict[Value, int]:
    """How often each value is an operand anywhere in the function."""
    counts: dict[Value, int] = {}
    for op in func.walk():
        for value in op.operands:
            if value is not None and not isinstance(value, Constant):
                counts[value] = counts.get(value, 0) + 1
    return counts


def users(func: Func) -> dict[Value, list[Op]]:
    """The ops that have each value as an operand, each once, in program order."""
    found: dict[Value, list[Op]] = {}
    for op in func.walk():
        for value in dict.fromkeys(op.operands):
            if value is not None and not isinstance(value, Constant):
                found.setdefault(value, []).append(op)
    return found
