"""Steps of ops with regions: lanes that leave or skip a region are inactive in it, and take up their values after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.scf import If, While
from refcompiler.dialects.simt.asynchronous import PtxOp
from refcompiler.dialects.simt.tensor_cores import MmaSync
from refcompiler.dialects.simt.thread import SHUFFLES
from refcompiler.dialects.simt.warpgroup import Wgmma, WgmmaWait
from refcompiler.ir.core import Block, Op
from refcompiler.ir.types import DType, element_of
from refcompiler.simulator.machine import STEPS, Machine, Pause, Step, Waiting, numpy_type, registers_of, steps
from refcompiler.simulator.values import elementwise

_NO_INSTRUCTION = frozenset(
    {"splat", "extract", "pack", "constants", "shared_alloc", "mbarrier_alloc", "tensor_map", "assert"}
)
_CLASSES = {
    "ldmatrix": "shared", "stmatrix": "shared",
    "ld_global": "global", "st_global": "global", "ld_shared": "shared", "st_shared": "shared",
    **dict.fromkeys(SHUFFLES, "shuffle"), "vote_any": "shuffle",
    "atomic_rmw": "global", "atomic_cas": "global", "barrier": "barrier", "named_barrier": "barrier",
    "cluster_barrier": "barrier", "st_async": "shared",
    "for": "control", "if": "control", "while": "control", "roles": "control", "cast": "conversion",
}  # fmt: skip


def instruction_class(op: Op) -> tuple[str, int]:
    """The class of an op's instructions, and how many a warp executes; none for an op that only names registers."""
    if op.name in _NO_INSTRUCTION or op.terminator:
        return "", 0
    if isinstance(op, MmaSync | Wgmma):
        return "tensor", op.instructions
    if isinstance(op, PtxOp | WgmmaWait) and op.name not in _CLASSES:
        return ("asynchronous", registers_of(op.index) if op.name == "cp_async" else 1)
    if op.name in _CLASSES:
        data = op.results[0] if op.results else None
        address = next((getattr(op, f) for f in ("pointer", "index") if hasattr(op, f)), data)
        return _CLASSES[op.name], registers_of(address) if address is not None else 1
    element = element_of(op.operands[0].type) if op.operands else element_of(op.results[0].type)
    is_float = isinstance(element, DType) and element.is_float
    return "float" if is_float else "integer", registers_of(op.results[0])


class Region:
    """A block as steps. Running it gives nothing; what its terminator hands over is read afterwards."""

    def __init__(self, block: Block):
        self.args = block.args
        self.steps: list[Step] = [make_step(op) for op in block.ops if not op.terminator]
        self.handed = list(block.terminator.operands) if block.terminator is not None else []
        self.cost: dict[str, int] = {}
        for op in block.ops:
            kind, count = instruction_class(op)
            if count:
                self.cost[kind] = self.cost.get(kind, 0) + count

    def run(self, m: Machine, arguments: Sequence[np.ndarray] = ()) -> Waiting:
        """A coroutine, which yields wherever a role has to wait."""
        m.values.update(zip(self.args, arguments, strict=True))
        if m.counts is not None:
            warps = m.active_warps()
            for kind, count in self.cost.items():
                m.counts.instructions[kind] += count * warps
        for step in self.steps:
            waiting = step(m)
            if waiting is not None:
                yield from waiting

    def results(self, m: Machine) -> list[np.ndarray]:
        return [m.values[v] for v in self.handed]


def make_step(op: Op) -> Step:
    return elementwise(op) if isinstance(op, Elementwise) else STEPS[op.name](op)


@steps("shared_alloc", "mbarrier_alloc", "tensor_map")
def shared_alloc(op: Op) -> Step:
    return lambda m: None


@steps("for")
def for_(op: Op) -> Step:
    region = Region(op.body)
    dtype = numpy_type(op.start.type)

    def step(m: Machine) -> Waiting:
        bounds = [m.values[v][:, 0] for v in op.operands[:3]]
        still = m.narrowed(bounds[2] == 0)
        if still.any():
            raise m.error(op, "control.for_range#E3", f"the step is 0 ({m.thread(int(still.argmax()))})", "step")
        carried = [m.values[v] for v in op.inits]
        outside = m.active
        trips, most = _trips(m, bounds)
        try:
            for trip in range(most):
                if trips is not None:
                    lanes = m.narrowed(trips > trip)
                    m.active = None if lanes.all() else lanes
                    _note(m, op, outside)
                index = (bounds[0] + dtype.type(trip) * bounds[2])[:, None].astype(dtype, copy=False)
                yield from region.run(m, [index, *carried])
                carried = [m.merged(m.active, n, o) for n, o in zip(region.results(m), carried, strict=True)]
        finally:
            _restore(m, op, outside)
        m.values.update(zip(op.results, carried, strict=True))

    return step


@steps("if")
def if_(op: If) -> Step:
    regions = [Region(op.then), Region(op.orelse)]

    def step(m: Machine) -> Waiting:
        outside, condition = m.active, m.values[op.condition][:, 0]
        taken = m.narrowed(condition)
        results: list[np.ndarray] | None = None
        try:
            for region, lanes in zip(regions, (taken, m.narrowed(~condition)), strict=True):
                if not lanes.any():
                    continue
                m.active = None if lanes.all() else lanes
                _note(m, op, outside)
                yield from region.run(m)
                others, results = results, region.results(m)
                if others is not None:
                    results = [m.merged(lanes, n, o) for n, o in zip(results, others, strict=True)]
        finally:
            _restore(m, op, outside)
        m.values.update(zip(op.results, results or (), strict=True))

    return step


@steps("while")
def while_(op: While) -> Step:
    before, after = Region(op.before), Region(op.after)

    def step(m: Machine) -> Waiting:
        """Lanes that have left keep the values with which they did."""
        outside = m.active
        carried = [m.values[v] for v in op.inits]
        results: list[np.ndarray] = []
        try:
            while True:
                yield from before.run(m, carried)
                condition, *values = before.results(m)
                results = [m.merged(m.active, n, o) for n, o in zip(values, results or values, strict=True)]
                lanes = m.narrowed(condition[:, 0])
                if not lanes.any():
                    break
                m.active = None if lanes.all() else lanes
                _note(m, op, outside)
                yield from after.run(m, values)
                carried = after.results(m)
                if m.pauses:
                    yield Pause(op)
        finally:
            _restore(m, op, outside)
        m.values.update(zip(op.results, results, strict=True))

    return step


def _trips(m: Machine, bounds: list[np.ndarray]) -> tuple[np.ndarray | None, int]:
    """How often each lane runs the body, None where all active ones do the same; and the most."""
    if all(len(b) == 1 for b in bounds):
        return None, len(range(*(int(b[0]) for b in bounds)))
    rows = np.stack([np.broadcast_to(b, m.lanes) for b in bounds], axis=1)
    kinds, which = np.unique(rows, axis=0, return_inverse=True)
    trips = np.array([len(range(*row)) for row in kinds.tolist()], np.int64)[which.reshape(-1)]
    mine = trips if m.active is None else trips[m.active]
    if mine.size and (mine == mine[0]).all():
        return None, int(mine[0])
    return trips, int(mine.max(initial=0))


def _note(m: Machine, op: Op, outside: np.ndarray | None) -> None:
    """Remember that lanes which came to ``op`` do not all run its region."""
    parted = m.active is not None and (outside is None or (m.active != outside).any())
    if parted and (not m.parted or m.parted[-1] is not op):
        m.parted.append(op)


def _restore(m: Machine, op: Op, outside: np.ndarray | None) -> None:
    m.active = outside
    if m.parted and m.parted[-1] is op:
        m.parted.pop()
