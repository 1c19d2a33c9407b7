"""Counted loops, the end of a region, and assertions."""

from __future__ import annotations

import numpy as np

from refcompiler.dialects.scf import For, Yield
from refcompiler.dialects.tile.program import Assert
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import Dense, Numbers, Val, choose


@interprets("yield")
def yield_(programs: Programs, op: Yield, *values: Val) -> list[Val]:
    return list(values)


@interprets("for")
def for_loop(programs: Programs, op: For, start: Numbers, stop: Numbers, step: Numbers, *inits: Val) -> tuple[Val, ...]:
    bounds = {"start": start, "stop": stop, "step": step}
    for name, bound in bounds.items():
        programs.reject_poison(op, "control.for_range#E8", f"the {name} of the loop", programs.live(bound.poison), name)
    zero = step.data == 0
    if programs.active is not None:
        zero = zero & programs.active
    if zero.any():
        raise programs.error(
            op, "control.for_range#E3", f"the step of the loop is zero ({programs.place(zero)})", "step"
        )
    if all(same_everywhere(bound.data) for bound in bounds.values()):
        indices = range(*(int(bound.data[0]) for bound in bounds.values()))
        return uniform_loop(programs, op, indices, inits)
    return divergent_loop(programs, op, [bound.data for bound in bounds.values()], inits)


def same_everywhere(data: np.ndarray) -> bool:
    return data.size == 1 or bool((data == data[0]).all())


def uniform_loop(programs: Programs, op: For, indices: range, carried: tuple[Val, ...]) -> tuple[Val, ...]:
    """All programs make the same iterations."""
    dtype = op.start.type.numpy
    for index in indices:
        carried = tuple(programs.run(op.body, [Dense(np.array([index], dtype)), *carried]))
    return carried


def divergent_loop(programs: Programs, op: For, bounds: list[np.ndarray], carried: tuple[Val, ...]) -> tuple[Val, ...]:
    """Each program makes its own iterations; those that have ended keep their values and touch nothing."""
    dtype = op.start.type.numpy
    wide = object if dtype.itemsize == 8 else np.int64  # distances of 64-bit bounds need Python integers
    start, stop, step = (np.broadcast_to(bound.astype(wide), programs.count) for bound in bounds)
    step = np.where(step == 0, 1, step)  # of programs that are not active
    distance = np.where(step > 0, stop - start, start - stop)
    trips = np.maximum(0, -(-distance // abs(step)))
    outer = programs.active
    if outer is not None:
        trips = np.where(outer, trips, 0)
    for trip in range(int(trips.max())):
        active = (trips > trip).astype(np.bool_)
        index = np.where(active, start + trip * step, 0).astype(dtype)
        programs.active = None if active.all() else active
        results = programs.run(op.body, [Dense(index), *carried])
        carried = tuple(choose(active, new, old) for new, old in zip(results, carried, strict=True))
    programs.active = outer
    return carried


@interprets("assert")
def assert_(programs: Programs, op: Assert, condition: Numbers) -> None:
    id = "control.assert#E3"
    programs.reject_poison(op, id, "the asserted condition", programs.live(condition.poison), at="condition")
    failed = ~condition.data
    if programs.active is not None:
        failed = failed & programs.lanes_of(failed.ndim)
    if failed.any():
        place = programs.place(failed)
        raise programs.error(
            op, id, f"assertion failed{': ' + op.message if op.message else ''} ({place})", "condition"
        )
