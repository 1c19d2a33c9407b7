"""Runs a SIMT function for a grid: chunks of CTAs, as many at once as fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from refcompiler.analysis.pointers import Pointers
from refcompiler.dialects.atomic import Atomic
from refcompiler.dialects.simt.asynchronous import PtxOp
from refcompiler.dialects.simt.tensor_maps import Placed, tensor_maps, written_through
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import DType, PointerType, SharedType
from refcompiler.simulator import access, atomic, clusters, exchange, matrices, tensor_cores, values, warpgroup  # noqa: F401
from refcompiler.simulator.agents import AgentOrder
from refcompiler.simulator.asynchronous import check_ended, granules
from refcompiler.simulator.control import Region
from refcompiler.simulator.copies import Copies
from refcompiler.simulator.counts import Counts
from refcompiler.simulator.machine import Machine, numpy_type, registers_of
from refcompiler.simulator.memory import GlobalMemory, Order
from refcompiler.simulator.resident import run_resident, waits_for_others
from refcompiler.simulator.roles import Role, acts_alone, take_turns, uses_roles

NUMBERS_AT_ONCE = 1 << 19  # lanes times the registers of the widest value of a chunk


class Program:
    """A function ready to run: its steps, and what its launches need to know about it."""

    def __init__(self, func: Func):
        self.func, self.region = func, Region(func.body)
        self.threads = int(func.attrs["threads"])
        self.cluster = int(func.attrs.get("num_ctas", 1))
        self.shared_bytes = int(func.attrs.get("shared_bytes", 0))
        ops = list(func.walk())
        self.warps_apart = uses_roles(ops)
        self.waits = waits_for_others(func)
        self.widest = max([registers_of(v) for op in ops for v in op.results] or [1])
        self.constants: dict[Value, np.ndarray] = {
            v: np.full((1, 1), v.value, numpy_type(v.type))
            for op in ops
            for v in op.operands
            if isinstance(v, Constant)
        }
        self.shared_granule = _granule(ops, "_shared")
        self.global_granule = _granule(ops, "_global")
        pointers = Pointers(func)
        stores = [op.pointer for op in ops if op.name == "st_global" or isinstance(op, Atomic)]
        self.written = frozenset().union(*(pointers.parameters(p) for p in stores)) if stores else frozenset()
        mapped = written_through(func)
        self.written |= {p for p in func.params if p.name in mapped}
        self.maps = tensor_maps(func)
        self.asynchronous = acts_alone(ops)
        self.slots: dict[Value, int] = {}  # the number of the first barrier of each buffer of them
        barriers = 0
        for op in ops:
            if op.name == "mbarrier_alloc":
                self.slots[op.result] = barriers
                barriers += op.count
        self.numbers = self.threads
        self.numbers, self.rows = self.order(0, 1, 0).numbers, self.order(0, 1, 0).rows
        self.apart = not any(isinstance(op, Atomic) and op.sem != "relaxed" for op in ops)

    def order(self, cta: int, ctas: int, now: int) -> Order:
        """What orders accesses of ``ctas`` CTAs, of which ``cta`` is the number of the first."""
        if self.asynchronous:
            slots = sum(v.type.count for v in self.slots) * self.cluster
            return AgentOrder(cta // self.cluster * self.numbers, self.threads, now, slots, self.cluster)
        return Order(cta * self.threads, self.threads, ctas, now, self.warps_apart, self.cluster)

    @property
    def ctas_at_once(self) -> int:
        if self.warps_apart or self.waits or self.cluster > 1:
            return self.cluster
        return max(1, NUMBERS_AT_ONCE // (self.threads * self.widest))


def run(
    func: Func,
    grid: tuple[int, ...],
    args: dict[str, Any],
    *,
    count: bool = True,
    origins: Mapping[str, int] | None = None,
    early_copies: bool = False,
) -> Counts:
    """Run a SIMT function for every CTA of ``grid``, writing into the arrays of ``args`` in place; gives the counts.

    ``args`` maps each parameter to a scalar or a contiguous NumPy array; ``origins`` gives the index of the element
    that a pointer is the address of, where that is not the first. Raises RunError for what the threads do wrong,
    located, with the clause that it breaks; the arrays then hold what they held before. Without ``count`` all counts
    stay 0, which saves time. Asynchronous copies end as late as they may, or with ``early_copies`` when they start.
    """
    program = Program(func)
    x, y, z = (*grid, 1, 1)[:3]
    extents = (x * program.cluster, y, z)
    arrays = {str(p.name): args[p.name] for p in func.params if isinstance(p.type, PointerType)}
    stored = {i for i, name in enumerate(arrays) if any(str(p.name) == name for p in program.written)}
    memory = GlobalMemory(
        list(arrays.values()), stored, program.global_granule, program.rows, program.numbers, program.apart
    )
    origins = origins or {}
    maps = _placed(program, args, origins)
    start = program.constants | {p: _argument(p, args[p.name], origins.get(p.name, 0)) for p in func.params}
    counts = Counts()
    now = first = 0
    places = _places(extents)

    def machines() -> Iterator[Machine]:
        """The next CTAs, ready to begin, when the ones before have ended or wait."""
        nonlocal first
        while chunk := list(islice(places, program.ctas_at_once)):
            order = program.order(first, len(chunk), now)
            machine = Machine(
                program.threads, program.shared_bytes, chunk, extents, memory, order, program.shared_granule,
                counts if count else None, arrays,
            )  # fmt: skip
            machine.values, machine.pauses = dict(start), program.waits
            if isinstance(order, AgentOrder):
                machine.copies = Copies(order, maps, program.slots, early_copies)
            first += len(chunk)
            yield machine

    with np.errstate(all="ignore"):
        if program.waits:
            run_resident(machines(), program.region, memory)
        else:
            for machine in machines():
                for _ in take_turns(machine, [Role(program.region.run(machine), None)]):
                    pass  # only CTAs that wait for others pause
                check_ended(machine)
                now = machine.order.now
    memory.write_back()
    return counts


def _places(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    x, y, z = grid
    return ((i, j, k) for k in range(z) for j in range(y) for i in range(x))


def _placed(program: Program, args: dict[str, Any], origins: Mapping[str, int]) -> list[Placed]:
    """The tensor maps of the launch."""
    if not program.maps:
        return []
    scalars = {n: v for n, v in args.items() if not isinstance(v, np.ndarray)}
    starts = {m.pointer: args[m.pointer].ctypes.data for m in program.maps}
    starts = {n: start + origins.get(n, 0) * args[n].itemsize for n, start in starts.items()}
    return [m.placed(starts[m.pointer], scalars, program.func.name) for m in program.maps]


def _argument(param: Value, value: Any, origin: int) -> np.ndarray:
    """A parameter as every thread has it; an array is the address of its element ``origin``."""
    if isinstance(param.type, PointerType):
        value = value.ctypes.data + origin * value.itemsize
    elif isinstance(param.type, DType) and param.type.is_int:
        value = param.type.wrap(int(value))
    return np.full((1, 1), value, numpy_type(param.type))


def _granule(ops: list[Op], suffix: str) -> int:
    """The smallest element that the function accesses in one memory, in bytes."""
    sizes = []
    for op in ops:
        if isinstance(op, Atomic) and suffix == "_global":
            sizes.append(access.element_bytes(op.result.type))
        if isinstance(op, PtxOp):
            sizes += granules(op, suffix)
        elif suffix == "_shared" and op.effects & {"read_shared", "write_shared"}:
            sizes += [access.element_bytes(v.type) for v in op.operands if v and isinstance(v.type, SharedType)]
        if op.name.startswith(("ld_", "st_")) and op.name.endswith(suffix):
            sizes.append(access.element_bytes((op.results[0] if op.results else op.value).type))
    return min(sizes, default=1)
