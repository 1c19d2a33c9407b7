"""Left operands of products in registers, computed step by step along k: tensor cores begin while threads compute."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.simt.registers import count_of
from refcompiler.ir.core import Block, Constant, Op, Value
from refcompiler.lowering.state import Lowering, is_elementwise


class Stepwise:
    """Registers whose elementwise ops are taken out of the current block, to be done for a part of them at a time.

    Ops that also read what these give, and have no effects, are taken out as well, and come after `finish`. What
    anything else reads stays where it is, and so does what these or ``others`` are computed from: they are read before.
    """

    def __init__(self, state: Lowering, value: Value, *others: Value | None):
        self.state, self.value, self.count = state, value, count_of(value.type)
        block = state.builder.block
        readers = _readers(block)
        chosen: set[Op] = set()
        later: set[Op] = set()
        here, wanted = set(block.ops), [value]
        needed, at_once = _making([value, *others], here), _making(others, here)
        while wanted:
            owner = wanted.pop().owner
            if not isinstance(owner, Op) or owner not in here or owner in chosen | at_once or not is_elementwise(owner):
                continue
            reading = _depending(owner, readers) - chosen
            free = all(op.pure and not op.regions and op not in needed for op in reading)
            if count_of(owner.result.type) == self.count and free:
                chosen.add(owner)
                later |= reading
                wanted += owner.operands
        self.ops = [op for op in block.ops if op in chosen]
        self.later = [op for op in block.ops if op in later]
        block.ops = [op for op in block.ops if op not in chosen and op not in later]
        self.parts: dict[Value, list[Value]] = {op.result: [] for op in self.ops}

    def part(self, indices: Sequence[int]) -> Value:
        """The registers ``indices`` of the value, computed here."""
        made: dict[Value, Value] = {}

        def get(value: Value) -> Value:
            if value in made:
                return made[value]
            return value if isinstance(value, Constant) else self.state.pick(value, indices)

        for op in self.ops:
            made[op.result] = self.state.rebuild(op, [get(o) for o in op.operands])
            self.parts[op.result].append(made[op.result])
        return get(self.value)

    def finish(self) -> None:
        """Put the parts together for all that reads them later."""
        whole = {value: self.state.op("pack", *parts) for value, parts in self.parts.items()}
        for op in self.later:
            op.operands = [o if o is None else whole.get(o, o) for o in op.operands]
            self.state.builder.add(op)
        for old, value in self.state.values.items():
            if isinstance(value, Value) and value in whole:
                self.state.values[old] = whole[value]


def _readers(block: Block) -> dict[Value, set[Op]]:
    """The ops of a block that read each value, themselves or in their regions."""
    found: dict[Value, set[Op]] = {}
    for op in block.ops:
        for each in (op, *(inner for region in op.regions for inner in region.walk())):
            for value in each.operands:
                if value is not None:
                    found.setdefault(value, set()).add(op)
    return found


def _making(values: Sequence[Value | None], here: set[Op]) -> set[Op]:
    """The ops among ``here`` that values are computed from."""
    found: set[Op] = set()
    wanted = [*values]
    while wanted:
        value = wanted.pop()
        if value is not None and isinstance(value.owner, Op) and value.owner in here and value.owner not in found:
            found.add(value.owner)
            regions = [inner for region in value.owner.regions for inner in region.walk()]
            wanted += [v for op in (value.owner, *regions) for v in op.operands]
    return found


def _depending(op: Op, readers: dict[Value, set[Op]]) -> set[Op]:
    """The ops that read what an op gives, or what these make of it."""
    found: set[Op] = set()
    wanted = [op]
    while wanted:
        new = {r for result in wanted.pop().results for r in readers.get(result, ())} - found
        found |= new
        wanted += new
    return found
