"""Left operands of products in registers, computed step by step along k: tensor cores begin while threads compute."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.simt.registers import count_of
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.types import RegType
from refcompiler.lowering.state import Lowering, is_elementwise


class Stepwise:
    """Registers whose elementwise ops are taken out of the current block, to be done for a part of them at a time.

    Only ops that nothing but each other and ``value`` has read so far are taken out. After `finish`, what comes later
    reads their results as it would have.
    """

    def __init__(self, state: Lowering, value: Value):
        self.state, self.value, self.count = state, value, count_of(value.type)
        block = state.builder.block
        read: dict[Value, set[Op]] = {}
        for op in block.ops:
            for operand in [*op.operands, *(v for r in op.regions for inner in r.walk() for v in inner.operands)]:
                if operand is not None:
                    read.setdefault(operand, set()).add(op)
        self.ops: set[Op] = set()
        here, wanted = set(block.ops), [value]
        while wanted:
            owner = wanted.pop().owner
            if not isinstance(owner, Op) or owner not in here or not is_elementwise(owner) or owner in self.ops:
                continue
            if count_of(owner.result.type) == self.count and read.get(owner.result, set()) <= self.ops:
                self.ops.add(owner)
                wanted += owner.operands
        self.order = [op for op in block.ops if op in self.ops]
        block.ops = [op for op in block.ops if op not in self.ops]
        self.parts: dict[Value, list[Value]] = {op.result: [] for op in self.order}

    def part(self, indices: Sequence[int]) -> Value:
        """The registers ``indices`` of the value, computed here."""
        made: dict[Value, Value] = {}

        def get(value: Value) -> Value:
            if value in made:
                return made[value]
            return value if isinstance(value, Constant) else self.state.pick(value, indices)

        for op in self.order:
            made[op.result] = self.state.rebuild(op, [get(o) for o in op.operands])
            self.parts[op.result].append(made[op.result])
        return get(self.value)

    def finish(self) -> None:
        """Put the parts together for what comes later."""
        whole: dict[Value, Value] = {}
        for old, value in list(self.state.values.items()):
            if isinstance(value, Value) and value in self.parts and isinstance(value.type, RegType):
                if value not in whole:
                    whole[value] = self.state.op("pack", *self.parts[value])
                self.state.values[old] = whole[value]
