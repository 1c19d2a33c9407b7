"""Counted loops, branches, loops on a condition, the ends of regions, and assertions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refcompiler.dialects.scf import Condition, For, If, While, Yield
from refcompiler.dialects.tile.program import Assert
from refcompiler.interpreter.dispatch import interprets
from refcompiler.interpreter.programs import Execution, Programs
from refcompiler.interpreter.values import Dense, Numbers, Val, choose
from refcompiler.interpreter.waiting import PATIENCE, Loop, MustWait, Turn, same_values


@interprets("yield")
def yield_(programs: Programs, op: Yield, *values: Val) -> list[Val]:
    return list(values)


@interprets("condition")
def condition(programs: Programs, op: Condition, truth: Numbers, *values: Val) -> list[Val]:
    programs.reject_poison(op, "control.while#E2", "the condition", programs.live(truth.poison), "condition")
    return [truth, *values]


@interprets("if")
def if_(programs: Programs, op: If, truth: Numbers) -> Execution:
    """One region where all programs agree; else both, each for its own programs."""
    programs.reject_poison(op, "control.if#E2", "the condition", programs.live(truth.poison), "condition")
    outer = programs.active
    taken = truth.data if outer is None else truth.data & outer
    left = ~truth.data if outer is None else ~truth.data & outer
    if not left.any():
        return tuple((yield from programs.run(op.then, [])))
    if not taken.any():
        return tuple((yield from programs.run(op.orelse, [])))
    programs.active = taken
    results = yield from programs.run(op.then, [])
    programs.active = left
    others = yield from programs.run(op.orelse, [])
    programs.active = outer
    return tuple(choose(truth.data, x, y) for x, y in zip(results, others, strict=True))


@interprets("while")
def while_loop(programs: Programs, op: While, *inits: Val) -> Execution:
    """Programs leave one by one; those that have left keep the values with which they did."""
    outer = running = programs.active
    carried: Sequence[Val] = inits
    results: list[Val] = []
    loop = programs.loop = Loop(op, programs.loop)
    while True:
        truth, *values = yield from programs.run(op.before, carried)
        if not results or running is None:
            results = values
        else:
            results = [choose(running, new, old) for new, old in zip(values, results, strict=True)]
        going = truth.data if running is None else truth.data & running
        if not going.any():
            break
        running = None if outer is None and going.all() else going
        programs.active = running
        left = yield from programs.run(op.after, values)
        idle = loop.end_round(programs, carried, left)
        if idle is not None and programs.apart:
            yield Turn(loop, idle, idle and same_values(carried, left))
        elif loop.polls >= PATIENCE:
            raise MustWait
        carried = left
    programs.active, programs.loop = outer, loop.outer
    return tuple(results)


@interprets("for")
def for_loop(programs: Programs, op: For, start: Numbers, stop: Numbers, step: Numbers, *inits: Val) -> Execution:
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
        return (yield from uniform_loop(programs, op, indices, inits))
    return (yield from divergent_loop(programs, op, [bound.data for bound in bounds.values()], inits))


def same_everywhere(data: np.ndarray) -> bool:
    return data.size == 1 or bool((data == data[0]).all())


def uniform_loop(programs: Programs, op: For, indices: range, carried: tuple[Val, ...]) -> Execution:
    """All programs make the same iterations."""
    dtype = op.start.type.numpy
    for index in indices:
        carried = tuple((yield from programs.run(op.body, [Dense(np.array([index], dtype)), *carried])))
    return carried


def divergent_loop(programs: Programs, op: For, bounds: list[np.ndarray], carried: tuple[Val, ...]) -> Execution:
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
        results = yield from programs.run(op.body, [Dense(index), *carried])
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
