"""Steps of ops that compute in registers: elementwise functions, and registers picked, joined and repeated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from refcompiler.dialects import numeric
from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir.core import Op
from refcompiler.ir.types import element_of
from refcompiler.simulator.machine import Machine, Step, numpy_type, registers_of, steps


def _computes(op: Op, function: Callable[..., np.ndarray]) -> Step:
    """The step that sets the result to ``function`` of the operands."""
    operands, result, dtype = list(op.operands), op.results[0], numpy_type(op.results[0].type)

    def step(m: Machine) -> None:
        values = m.values
        values[result] = np.asarray(function(*[values[o] for o in operands])).astype(dtype, copy=False)

    return step


def elementwise(op: Elementwise) -> Step:
    return _computes(op, op.row.numpy)


@steps("select")
def select(op: Op) -> Step:
    return _computes(op, np.where)


@steps("cast")
def cast(op: Op) -> Step:
    source, target = element_of(op.x.type), element_of(op.result.type)
    return _computes(op, lambda x: numeric.cast(x, source, target))


@steps("bitcast")
def bitcast(op: Op) -> Step:
    dtype = numpy_type(op.result.type)
    return _computes(op, lambda x: np.ascontiguousarray(x).view(dtype))


@steps("addptr")
def addptr(op: Op) -> Step:
    size = pointee(op.pointer.type).itemsize
    return _computes(op, lambda pointer, offset: pointer + offset.astype(np.int64) * size)


@steps("thread_id")
def thread_id(op: Op) -> Step:
    def step(m: Machine) -> None:
        m.values[op.result] = np.tile(np.arange(m.threads, dtype=np.int32), m.ctas)[:, None]

    return step


@steps("program_id")
def program_id(op: Op) -> Step:
    def step(m: Machine) -> None:
        at = m.at[:, op.axis].astype(np.int32)
        m.values[op.result] = (at if m.ctas == 1 else np.repeat(at, m.threads))[:, None]

    return step


@steps("num_programs")
def num_programs(op: Op) -> Step:
    def step(m: Machine) -> None:
        m.values[op.result] = np.array([[m.grid[op.axis]]], np.int32)

    return step


@steps("constants")
def constants(op: Op) -> Step:
    row = np.array([op.values], numpy_type(op.result.type))

    def step(m: Machine) -> None:
        m.values[op.result] = row

    return step


@steps("splat")
def splat(op: Op) -> Step:
    """One register stands for all of them."""

    def step(m: Machine) -> None:
        m.values[op.result] = m.values[op.x]

    return step


@steps("pack")
def pack(op: Op) -> Step:
    counts = [registers_of(v) for v in op.operands]

    def step(m: Machine) -> None:
        parts = [m.values[v] for v in op.operands]
        lanes = max(len(p) for p in parts)
        wide = [np.broadcast_to(p, (lanes, n)) for p, n in zip(parts, counts, strict=True)]
        m.values[op.result] = np.concatenate(wide, axis=1)

    return step


@steps("extract")
def extract(op: Op) -> Step:
    indices = list(op.indices)

    def step(m: Machine) -> None:
        x = m.values[op.x]
        m.values[op.result] = x if x.shape[1] == 1 else x[:, indices]

    return step


@steps("assert")
def assert_(op: Op) -> Step:
    def step(m: Machine) -> None:
        wrong = np.asarray(~m.values[op.condition].all(axis=1))
        bad = m.narrowed(wrong)
        if bad.any():
            text = op.message or "the assertion does not hold"
            raise m.error(op, "control.assert#E3", f"{text} ({m.thread(int(bad.argmax()))})", "condition")

    return step
