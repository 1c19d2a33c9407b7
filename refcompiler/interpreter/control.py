"""Counted loops, the end of a region, and assertions."""

from __future__ import annotations

import numpy as np

from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Programs
from refcompiler.interpreter.values import Dense, Numbers, Val, choose
from refcompiler.ir import Op


@interprets("yield")
def yield_(programs: Programs, op: Op, *values: Val) -> list[Val]:
    return list(values)


@interprets("for")
def for_loop(programs: Programs, op: Op, start: Numbers, stop: Numbers, step: Numbers, *inits: Val) -> tuple[Val, ...]:
    for name, bound in (("start", start), ("stop", stop), ("step", step)):
        check_bound(programs, op, name, bound)
    if step.data.size == 1 or (step.data == step.data[0]).all():
        bounds = [b.data[:1] if b.data.size == 1 or (b.data == b.data[0]).all() else None for b in (start, stop)]
        if bounds[0] is not None and bounds[1] is not None and programs.active is None:
            return uniform_loop(programs, op, range(int(bounds[0][0]), int(bounds[1][0]), int(step.data[0])), inits)
    return divergent_loop(programs, op, start, stop, step, inits)


def check_bound(programs: Programs, op: Op, name: str, bound: Numbers) -> None:
    """A bound of an active program is a number, and a step is not zero."""
    if bound.poison is not None:
        programs.reject_poison(op, "control.for_range#E8", f"the {name} of the loop", programs.live(bound.poison), name)
    if name == "step":
        zero = bound.data == 0
        if programs.active is not None:
            zero = zero & programs.active
        if zero.any():
            program = programs.program_id(int(np.flatnonzero(zero)[0]))
            message = f"the step of the loop is zero (program {program})"
            raise programs.error(op, "control.for_range#E3", message, at="step")


def uniform_loop(programs: Programs, op: Op, indices: range, carried: tuple[Val, ...]) -> tuple[Val, ...]:
    """All programs make the same iterations."""
    dtype = op.body.args[0].type.numpy
    for index in indices:
        carried = programs.run(op.body, [Dense(np.array([index], dtype)), *carried])
    return tuple(carried)


def divergent_loop(programs: Programs, op: Op, start, stop, step, carried: tuple[Val, ...]) -> tuple[Val, ...]:
    """Each program makes its own iterations; those that have ended keep their values and touch nothing."""
    dtype = op.body.args[0].type.numpy
    first, last, by = (np.broadcast_to(b.data, programs.count).tolist() for b in (start, stop, step))
    outer = programs.active
    enters = [True] * programs.count if outer is None else outer.tolist()
    trips = np.array([trip_count(*b) if e else 0 for *b, e in zip(first, last, by, enters, strict=True)], object)
    index, by_array = np.array(first, object), np.array(by, object)
    for trip in range(max(trips)):
        active = (trips > trip).astype(np.bool_)
        programs.active = None if active.all() else active
        here = np.where(active, index, 0).astype(dtype)
        results = programs.run(op.body, [Dense(here), *carried])
        if programs.active is not None:
            results = [choose(active, new, old) for new, old in zip(results, carried, strict=True)]
        carried, index = tuple(results), index + by_array
    programs.active = outer
    return carried


def trip_count(start: int, stop: int, step: int) -> int:
    """How many numbers range(start, stop, step) has; unlike len(), any size."""
    distance = stop - start if step > 0 else start - stop
    return max(0, -(-distance // abs(step)))


@interprets("assert")
def assert_(programs: Programs, op: Op, condition: Numbers) -> None:
    id = "control.assert#E3"
    failed = ~condition.data
    if programs.active is not None:
        failed = failed & programs.lanes_of(failed.ndim)
    programs.reject_poison(op, id, "the asserted condition", programs.live(condition.poison), at="condition")
    if failed.any():
        place = programs.place(failed)
        raise programs.error(
            op, id, f"assertion failed{': ' + op.message if op.message else ''} ({place})", "condition"
        )
