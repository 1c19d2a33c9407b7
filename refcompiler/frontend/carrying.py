"""What a run-time loop carries: the names that its regions change, checked and turned into operands and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from refcompiler.frontend.context import is_runtime
from refcompiler.frontend.scope import Lost
from refcompiler.frontend.statements import Statements
from refcompiler.frontend.structures import leaves, rebuild, shape_of_tree, type_name
from refcompiler.ir import Block, Op, Value


@dataclass
class Stage:
    """A region of a loop while it is compiled: what the names that may be carried are bound to at its start
    (``entry``) and at its end (``left``), and what it hands on."""

    block: Block
    own: list[Value]
    entry: dict[str, Any]
    left: dict[str, Any] = field(default_factory=dict)
    handed: list[Value] = field(default_factory=list)


class CarryingLoops(Statements):
    """The part of the compiler of one function that loops at run time."""

    def stage(self, names: Iterable[str], before: dict[str, Any], own: list[Value] | None = None) -> Stage:
        """A region with fresh arguments for ``names``; those of it ``own`` come first."""
        entry = {n: rebuild(before[n], iter([Value(leaf.type) for leaf in leaves(before[n])])) for n in names}
        args = [*(own or []), *(leaf for value in entry.values() for leaf in leaves(value))]
        return Stage(Block(args), own or [], entry)

    def loop_region(self, stage: Stage, body: Callable[[], Any]) -> None:
        """Compile into a region."""
        c, frame = self.context, self.frame
        frame.names.update(stage.entry)
        outer, c.block = c.block, stage.block
        frame.loops.append("runtime")
        try:
            body()
        finally:
            c.block = outer
            frame.loops.pop()
        stage.left = dict(frame.names)

    def close(
        self, stages: list[Stage], names: list[str], before: dict[str, Any], feature: str, own: list[str]
    ) -> tuple[list[str], list[Value]]:
        """The names that the loop carries, and what they start from. Sets the arguments of the regions and what they
        hand on; names that nothing changed stay what they were."""
        carried: list[str] = []
        inits: list[Value] = []
        replaced: dict[Value, Value] = {}
        args = [list(stage.own) for stage in stages]
        for name in names:
            initial = leaves(before[name])
            if any(name not in stage.left for stage in stages):  # an inner loop counted in it
                self.check_unused(name, stages)
                continue
            if all(stage.left[name] is stage.entry[name] for stage in stages):
                for stage in stages:
                    replaced.update(zip(leaves(stage.entry[name]), initial, strict=True))
                continue
            for stage in stages:
                self.check_carried(name, before[name], stage.left[name], feature)
            carried.append(name)
            inits += initial
            for stage, kept in zip(stages, args, strict=True):
                kept += leaves(stage.entry[name])
                stage.handed += leaves(stage.left[name])
        for name, value in before.items():
            if name not in names and name not in own and stages[-1].left.get(name) is not value:
                self.check_carried(name, value, stages[-1].left.get(name), feature)
        for stage, kept in zip(stages, args, strict=True):
            stage.block.args = kept
            for arg in kept:
                arg.owner = stage.block
            stage.handed = [replaced.get(v, v) for v in stage.handed]
            substitute(stage.block, replaced)
        self.replaced = replaced
        return carried, inits

    def end_region(self, stage: Stage, name: str, *operands: Value) -> None:
        """Emit the terminator of a region."""
        outer, self.context.block = self.context.block, stage.block
        self.context.op(name, *(self.replaced.get(v, v) for v in operands), *stage.handed)
        self.context.block = outer

    def check_carried(self, name: str, before: Any, now: Any, feature: str) -> None:
        """A name that the loop assigns must keep its type."""
        same = is_runtime(before) and shape_of_tree(before) == shape_of_tree(now)
        if not same:
            message = (
                f"`{name}` is {type_name(before)} before the loop and {type_name(now)} after an iteration; what a "
                "run-time loop carries keeps its type: cast it, or start with the other type"
            )
            id = "control.for_range#E2" if feature == "control.for_range" else "control.while#E3"
            raise self.error(id, message, self.frame.bound_at.get(name))

    def check_unused(self, name: str, stages: list[Stage]) -> None:
        """A name that an inner loop takes as its index has no value for the next round."""
        for stage in stages:
            arguments = leaves(stage.entry[name])
            if any(operand in arguments for op in stage.block.walk() for operand in op.operands):
                message = f"`{name}` counts an inner loop and has no value for the next round; use another name there"
                raise self.error("control.for_range#E6", message, self.frame.bound_at.get(name))

    def after_loop(self, before: dict[str, Any], carried: list[str], op: Op, feature: str) -> None:
        """Bind the carried names to the results; what only the loop bound has no value."""
        frame = self.frame
        for name in [n for n in frame.names if n not in before]:
            del frame.names[name]
            why = f"`{name}` is bound only inside the loop; give it a value before the loop to use it after"
            frame.lost[name] = Lost(
                "control.for_range#E6" if feature == "control.for_range" else "control.while#E6", why
            )
        taken = [n for n in before if n not in frame.names]  # by inner loops, as their index
        frame.names.update(before)
        for name in taken:
            del frame.names[name]
        results = iter(op.results)
        for name in carried:
            frame.names[name] = rebuild(before[name], results)


def substitute(block: Block, replaced: dict[Value, Value]) -> None:
    """Replace operands throughout a region."""
    for op in block.walk():
        op.operands = [replaced.get(o, o) if o is not None else None for o in op.operands]
