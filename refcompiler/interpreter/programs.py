"""Runs a tile-level function over a grid: many programs at once, in chunks, each op a few NumPy calls."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from inspect import isgeneratorfunction
from math import prod
from typing import Any

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.errors import InternalError, LaunchError, RunError
from refcompiler.interpreter.dispatch import HANDLERS, Handler
from refcompiler.interpreter.memory import Memory
from refcompiler.interpreter.values import Dense, Pointer, Poison, Val, rank_up
from refcompiler.ir import Block, Constant, Func, Op, Value
from refcompiler.ir.types import F64, DType, PointerType, shape_of

Grid = tuple[int, int, int]
Execution = Generator[None, None, Sequence[Val]]  # pauses where the programs wait for others
CHUNK_ELEMENTS = 1 << 17  # of the largest block, over all programs of a chunk: its arrays stay in the cache


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


def run(
    func: Func,
    grid: tuple[int, ...],
    args: dict[str, Any],
    *,
    check: bool = True,
    origins: Mapping[str, int] | None = None,
) -> None:
    """Run ``func`` (tile level) for every program of ``grid``, writing into the arrays of ``args`` in place.

    ``grid`` has one to three extents; with a 0 among them nothing runs. ``args`` maps each parameter to a scalar, or to
    a contiguous NumPy array of the pointee's dtype. Raises RunError where the kernel does something undefined: an
    access out of bounds, a poison value that matters, a conflict between programs, a failed assertion; the arrays then
    hold what they held before.
    ``check=False`` leaves out the check for conflicts between programs. ``origins`` gives the index of the element that
    a pointer is the address of, by parameter, where that is not the first one of its array.
    """
    extents = checked_grid(func, grid)
    check_arguments(func, args)
    plan = Plan(func)
    total = prod(extents)
    memory = Memory(func, args, total, check, origins)
    arguments = [bind(func, p, args[p.name], memory) for p in func.params]
    chunk = max(1, CHUNK_ELEMENTS // plan.largest)
    try:
        with np.errstate(all="ignore"):
            for first in range(0, total, chunk):
                programs = Programs(plan, memory, extents, first, min(chunk, total - first))
                programs.values.update(plan.constants)
                programs.values.update(zip(func.params, arguments, strict=True))
                complete(programs.run(func.body, []))
    except BaseException:
        memory.restore()
        raise
    finally:
        memory.release()


def checked_grid(func: Func, grid: tuple[int, ...]) -> Grid:
    extents = tuple(int(g) for g in grid)
    if not 1 <= len(extents) <= 3:
        raise LaunchError("program.grid#E1", f"a grid has one to three extents, got {extents}", func.span)
    if min(extents) < 0 or prod(extents) >= 1 << 31:
        raise LaunchError("program.grid#E2", f"the extents of a grid are not negative, got {extents}", func.span)
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def check_arguments(func: Func, args: dict[str, Any]) -> None:
    names = [p.name for p in func.params]
    missing = [n for n in names if n not in args]
    extra = [n for n in args if n not in names]
    if missing or extra:
        what = f"needs {', '.join(missing)}" if missing else f"takes no {', '.join(extra)}"
        raise LaunchError("program.arguments#E1", f"{func.name} {what}", func.span)


def bind(func: Func, param: Value, argument: Any, memory: Memory) -> Val:
    """The run-time value of a parameter: a pointer to its array, or the scalar rounded or wrapped to its type."""
    if isinstance(param.type, PointerType):
        origin = memory.origins.get(param.name, 0)
        return Pointer(memory.index[param], Dense(np.full(1, origin, np.int64)), param.type.pointee)
    dtype = param.type
    assert isinstance(dtype, DType)
    try:
        if dtype.is_float:
            return Dense(numeric.cast(np.array([float(argument)]), F64, dtype))
        return Dense(np.array([bool(argument) if dtype.is_bool else dtype.wrap(int(argument))], dtype.numpy))
    except (TypeError, ValueError):
        message = f"{param.name} needs a number, got {type(argument).__name__}"
        raise LaunchError("program.arguments#E2", message, func.span) from None
