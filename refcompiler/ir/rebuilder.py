"""A walk that builds a function again with other types: what passes that change extents have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import Type


class Rebuilder:
    """Appends to ``builder`` what every op of ``old`` becomes: by the rule that ``rules`` has for its name, else the op
    itself on what its operands became, with results and region arguments of the types that ``typed`` gives.

    ``values`` maps each value of the old function to that of the new one.
    """

    rules: ClassVar[Mapping[str, Callable[[Any, Op], list[Value]]]] = {}

    def __init__(self, func: Func, attrs: Mapping[str, Any]):
        self.old = func
        params = [Value(p.type, p.name) for p in func.params]
        self.new = Func(func.name, params, func.constexprs, func.hints, dict(attrs), func.level, func.span)
        self.values: dict[Value, Value] = dict(zip(func.params, params, strict=True))
        self.builder = Builder(self.new.body, func.span)

    def typed(self, old: Value) -> Type:
        """The type of what ``old`` becomes."""
        raise NotImplementedError

    def block(self, block: Block) -> None:
        for op in block.ops:
            with self.builder.at(op.span):
                results = self.rules.get(op.name, type(self).rebuild)(self, op)
            for old, new in zip(op.results, results, strict=True):
                if not isinstance(new, Constant):
                    new.name = old.name
                self.values[old] = new
            self.done(op)

    def done(self, op: Op) -> None:
        """Called after each op of the old function."""

    def get(self, old: Value | None) -> Value | None:
        return old if old is None or isinstance(old, Constant) else self.values[old]

    def rebuild(self, op: Op, *operands: Value | None, types: list[Type] | None = None, **attrs: Any) -> list[Value]:
        """The op on what its operands became, or on those given; gives the results."""
        regions = []
        for old in op.regions:
            region = Block([Value(self.typed(a), a.name) for a in old.args])
            self.values.update(zip(old.args, region.args, strict=True))
            with self.builder.inside(region):
                self.block(old)
            regions.append(region)
        given = list(operands) or [self.get(o) for o in op.operands]
        types = types or [self.typed(r) for r in op.results]
        new = self.builder.op(op.name, *given, types=types, regions=regions, **{**op.attrs, **attrs})
        new.spans = op.spans
        return new.results
