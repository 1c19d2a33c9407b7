"""Runs a tile-level function over a grid: many programs at once, in chunks, each op a few NumPy calls."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from inspect import isgeneratorfunction
from math import prod
from typing import Any

import numpy as np

from refcompiler.errors import InternalError, RunError
from refcompiler.interpreter.dispatch import HANDLERS, Handler
from refcompiler.interpreter.memory import Memory
from refcompiler.interpreter.values import Dense, Poison, Val, rank_up
from refcompiler.ir import Block, Constant, Func, Op, Value
from refcompiler.ir.types import shape_of

Grid = tuple[int, int, int]
Execution = Generator[Any, None, Sequence[Val]]  # pauses where the programs wait for others


@dataclass(slots=True)
class Step:
    """One op of a block with what runs it, and the values that nothing needs after it."""

    op: Op
    handler: Handler
    runs_regions: bool
    last_uses: list[Value]


class Plan:
    """A function made ready to run: the steps of every block, its constants, its largest block."""

    def __init__(self, func: Func):
        self.steps: dict[Block, list[Step]] = {}
        self.constants: dict[Value | None, Val | None] = {None: None}
        self.largest = 1
        self._block(func.body)

    def _block(self, block: Block) -> set[Value]:
        """Plan ``block``; the values from outside that it uses."""
        steps: list[Step] = []
        defined = set(block.args)
        needs: list[set[Value]] = []
        for op in block.ops:
            handler = HANDLERS.get(op.name)
            if handler is None:
                raise InternalError("interpreter.op", f"the interpreter has no meaning for the op {op.name}", op.span)
            used = {v for v in op.operands if v is not None and not isinstance(v, Constant)}
            for value in op.operands:
                if isinstance(value, Constant) and value not in self.constants:
                    self.constants[value] = Dense(np.array([value.value], value.type.numpy))
            for region in op.regions:
                used |= self._block(region)
            for result in op.results:
                self.largest = max(self.largest, prod(shape_of(result.type)))
            defined.update(op.results)
            needs.append(used | set(op.results))
            steps.append(Step(op, handler, isgeneratorfunction(handler), []))
        seen: set[Value] = set()
        for step, used in zip(reversed(steps), reversed(needs), strict=True):
            step.last_uses = [v for v in used if v in defined and v not in seen]
            seen |= used
        self.steps[block] = steps
        return seen - defined


class Programs:
    """The state of the programs that run together.

    ``numbers`` are their positions in the grid (x fastest), int32 of shape [P]. ``active`` is None while all of them
    run, else a bool array of shape [P]: in a loop that some programs have left.
    """

    def __init__(self, plan: Plan, memory: Memory, grid: Grid, first: int, count: int):
        self.plan, self.memory, self.grid = plan, memory, grid
        self.first, self.count = first, count
        self.numbers = np.arange(first, first + count, dtype=np.int32)
        self.active: np.ndarray | None = None
        self.apart = False  # each program is a coroutine of its own
        self.loop: Any = None  # the innermost `while` that runs, a waiting.Loop
        self.values: dict[Value | None, Val | None] = {}

    def run(self, block: Block, arguments: Sequence[Val]) -> Execution:
        """Execute ``block`` with its arguments bound; returns what its terminator gives."""
        values = self.values
        values.update(zip(block.args, arguments, strict=True))
        for step in self.plan.steps[block]:
            op = step.op
            result = step.handler(self, op, *[values[v] for v in op.operands])
            if step.runs_regions:
                result = yield from result
            if op.terminator:
                return result
            if isinstance(result, tuple):
                values.update(zip(op.results, result, strict=True))
            elif result is not None:
                values[op.results[0]] = result
            for value in step.last_uses:
                del values[value]
        return []

    def lanes_of(self, ndim: int) -> np.ndarray:
        """``active`` with ``ndim`` axes; only while some programs do not run."""
        return rank_up(self.active, ndim)

    def live(self, poison: Poison | None) -> Poison | None:
        """The poison in programs that run."""
        if poison is None or self.active is None:
            return poison
        return poison.restricted(self.lanes_of(poison.parts[0][1].ndim))

    def reject_poison(self, op: Op, id: str, what: str, poison: Poison | None, at: str = "") -> None:
        """Raise where any element is poison; an element of ``empty`` has an id of its own."""
        for origin, mask in poison.parts if poison is not None else ():
            if mask.any():
                unset = origin.name == "empty"
                reason = {
                    "empty": "an element of empty that was never set",
                    "load": "an element that a load masked off, without a value for other",
                }.get(origin.name, f"poison that {origin.name} made")
                where = [f"made at {origin.span}"] if origin.span else []
                if origin.name == "load":
                    where.append("give that load other=, or mask this use the same way")
                message = f"{what} is {reason} ({self.place(mask)})"
                raise self.error(op, "creation.empty#E1" if unset else id, message, at, where)

    def place(self, mask: np.ndarray) -> str:
        """The first true element of a mask of shape [P or 1, *shape] in words."""
        program, *element = (int(i) for i in np.argwhere(mask)[0])
        if mask.shape[0] == 1 and self.active is not None:
            program = int(np.flatnonzero(self.active)[0])
        words = f"program {self.program_id(program)}"
        return f"{words}, element {element} of the block" if element else words

    def program_id(self, lane: int) -> tuple[int, int, int]:
        """The grid position of the program at ``lane`` of this chunk."""
        return grid_position(self.first + lane, self.grid)

    def error(self, op: Op, id: str, message: str, at: str = "", notes: list[str] | None = None) -> RunError:
        """An error at ``op``, or at its operand ``at`` where the source span of that is known."""
        return RunError(id, message, op.spans.get(at, op.span), notes=notes or [])


def complete(execution: Execution) -> Sequence[Val]:
    """Run to the end what does not wait for other programs."""
    try:
        next(execution)
    except StopIteration as end:
        return end.value
    raise InternalError("interpreter.wait", "a region that cannot wait has paused")


def grid_position(number: int, grid: Grid) -> tuple[int, int, int]:
    x, y, _ = grid
    return (number % x, number // x % y, number // (x * y))
