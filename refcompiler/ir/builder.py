"""Appends ops to a block with a current span; what frontends and lowerings build IR with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from refcompiler.ir.core import Block, Constant, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.types import DType, Type
from refcompiler.source import Span


class Builder:
    """Holds the insertion block and the span that new ops receive."""

    def __init__(self, block: Block, span: Span | None = None):
        self.block, self.span = block, span

    def add(self, op: Op) -> Op:
        """Append an op made elsewhere."""
        if op.span is None:
            op.span = self.span
        return self.block.append(op)

    def op(
        self,
        name: str,
        *operands: Value | None,
        types: list[Type] | None = None,
        body: Block | None = None,
        regions: Sequence[Block] = (),
        **attrs: Any,
    ) -> Op:
        """Create the op called ``name``, append it and return it."""
        return self.add(OPS[name](*operands, span=self.span, types=types, body=body, regions=regions, **attrs))

    def value(self, name: str, *operands: Value | None, types: list[Type] | None = None, **attrs: Any) -> Value:
        """Like ``op``, returning the single result."""
        return self.op(name, *operands, types=types, **attrs).result

    @staticmethod
    def constant(value: bool | int | float, dtype: DType) -> Constant:
        return Constant(value, dtype)

    @contextmanager
    def inside(self, block: Block):
        """Append to ``block`` within the ``with`` statement."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    @contextmanager
    def at(self, span: Span | None):
        """Use ``span`` for new ops within the ``with`` statement."""
        outer, self.span = self.span, span
        try:
            yield
        finally:
            self.span = outer
