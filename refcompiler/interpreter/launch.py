"""Runs a tile-level function over a grid: checks its arguments, then many programs at once, or each by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.errors import LaunchError
from refcompiler.interpreter.memory import Memory
from refcompiler.interpreter.programs import Execution, Grid, Plan, Programs, complete
from refcompiler.interpreter.values import Dense, Pointer, Val
from refcompiler.interpreter.waiting import MustWait, take_turns
from refcompiler.ir import Func, Value
from refcompiler.ir.types import F64, DType, PointerType

CHUNK_ELEMENTS = 1 << 17  # of the largest block, over all programs of a chunk: its arrays stay in the cache


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

    def launch(way: Callable[[Func, Plan, Memory, Grid, list[Val]], None]) -> None:
        memory = Memory(func, args, prod(extents), check, origins)
        arguments = [bind(func, p, args[p.name], memory) for p in func.params]
        try:
            with np.errstate(all="ignore"):
                way(func, plan, memory, extents, arguments)
        except BaseException:
            memory.restore()
            raise
        finally:
            memory.release()

    try:
        launch(together)
    except MustWait:  # nothing of that remains
        launch(apart)


def together(func: Func, plan: Plan, memory: Memory, grid: Grid, arguments: list[Val]) -> None:
    """Many programs at once, chunk after chunk."""
    total, chunk = prod(grid), max(1, CHUNK_ELEMENTS // plan.largest)
    for first in range(0, total, chunk):
        programs = ready(func, plan, memory, grid, arguments, first, min(chunk, total - first))
        complete(programs.run(func.body, []))


def apart(func: Func, plan: Plan, memory: Memory, grid: Grid, arguments: list[Val]) -> None:
    """Each program a coroutine, which pauses in loops that look at memory."""

    def begin(programs: Programs) -> Execution:
        programs.apart = True
        return programs.run(func.body, [])

    take_turns((ready(func, plan, memory, grid, arguments, number, 1) for number in range(prod(grid))), begin)


def ready(func: Func, plan: Plan, memory: Memory, grid: Grid, arguments: list[Val], first: int, count: int) -> Programs:
    """Programs about to begin."""
    programs = Programs(plan, memory, grid, first, count)
    programs.values.update(plan.constants)
    programs.values.update(zip(func.params, arguments, strict=True))
    return programs


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
