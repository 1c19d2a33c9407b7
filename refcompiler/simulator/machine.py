"""Some CTAs of a launch, their threads in step: values are arrays over (lanes, registers), masks say who is active."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from refcompiler.errors import RunError
from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import PointerType, RegType, element_of
from refcompiler.simulator.copies import Copies
from refcompiler.simulator.counts import Counts
from refcompiler.simulator.memory import GARBAGE, GlobalMemory, Memory, Order, Records

WARP = 32

Waiting = Iterator["Arrival | Blocked | Pause"]
Step = Callable[["Machine"], "Waiting | None"]
STEPS: dict[str, Callable[[Op], Step]] = {}


class Blocked:
    """Threads wait until something is so, which other roles or copies bring about."""

    def __init__(self, op: Op, ready: Callable[[], bool], why: Callable[[], str]):
        self.op, self.ready, self.why = op, ready, why


class Arrival:
    """Threads of some warps have come to a named barrier and wait there."""

    def __init__(self, op: Any, warps: np.ndarray):
        self.op, self.warps = op, warps


class Pause:
    """A CTA that may wait for another one has finished a round of the loop ``op``, and lets the others go on."""

    def __init__(self, op: Op):
        self.op = op


def steps(*names: str) -> Callable:
    """Register a function that makes the step of an op: it runs once for each op, the step whenever the op does."""

    def mark(make: Callable[[Op], Step]) -> Callable[[Op], Step]:
        STEPS.update(dict.fromkeys(names, make))
        return make

    return mark


def numpy_type(type_: Any) -> np.dtype:
    element = element_of(type_)
    return np.dtype(np.int64) if isinstance(element, PointerType) else element.numpy


def registers_of(value: Value) -> int:
    return value.type.count if isinstance(value.type, RegType) else 1


class Machine:
    """A chunk of CTAs. A lane is a thread of one of them, counted CTA by CTA.

    A value is an array of shape (lanes or 1, registers or 1): what all lanes or all registers share is there once.
    ``active`` is None while all lanes are, else a mask over them; inactive lanes compute garbage and touch no memory.
    """

    def __init__(
        self,
        threads: int,
        shared_bytes: int,
        at: Sequence[tuple[int, int, int]],
        grid: tuple[int, int, int],
        memory: GlobalMemory,
        order: Order,
        shared_granule: int,
        counts: Counts | None,
        names: dict[str, np.ndarray],
    ):
        self.threads, self.ctas, self.lanes = threads, len(at), threads * len(at)
        self.at, self.grid, self.memory, self.order, self.counts = np.array(at), grid, memory, order, counts
        self.names = names  # the array arguments
        self.who = np.arange(self.lanes, dtype=np.int32) + order.first  # the number of each lane in the launch
        self.stride = -(-max(1, shared_bytes) // 128) * 128
        records = Records(self.ctas * self.stride // shared_granule + 1, order.rows, False, order.numbers)
        self.shared = Memory(0, self.ctas * self.stride, shared_granule, records)
        self.values: dict[Value, np.ndarray] = {}
        self.active: np.ndarray | None = None
        self.pauses = False  # it is one of several that take turns
        self.running: dict[int, Any] = {}  # what warpgroups have begun and not waited for
        self.copies: Copies | None = None  # where threads start some
        self.parted: list[Op] = []  # the control ops inside of which some lanes are inactive

    def full(self, value: Value, registers: int) -> np.ndarray:
        """A value as (lanes, registers)."""
        return np.broadcast_to(self.values[value], (self.lanes, registers))

    def active_warps(self) -> int:
        if self.active is None:
            return self.lanes // WARP
        return int(self.active.reshape(-1, WARP).any(axis=1).sum())

    def narrowed(self, lanes: np.ndarray) -> np.ndarray:
        """The active ones of ``lanes``, a mask of shape (lanes or 1,)."""
        lanes = np.broadcast_to(lanes, self.lanes)
        return lanes if self.active is None else lanes & self.active

    def merged(self, lanes: np.ndarray | None, new: np.ndarray, old: np.ndarray) -> np.ndarray:
        """``new`` where ``lanes`` is true, else ``old``."""
        if lanes is None or new is old:
            return new
        return np.where(lanes[:, None], new, old)

    # --- errors
    def thread(self, lane: int) -> str:
        """A lane in words."""
        cta = tuple(int(i) for i in self.at[lane // self.threads])
        return f"thread {lane % self.threads} of CTA {cta}"

    def name(self, who: int) -> str:
        """A thread by its number in the launch: here in full, elsewhere by its CTA's number."""
        lane = who - int(self.who[0])
        if 0 <= lane < self.lanes:
            return self.thread(lane)
        if self.copies is not None and self.copies.order.is_agent(who):
            return "a copy on its way"
        cta, number = divmod(who, self.order.numbers)
        return f"{'a copy' if number >= self.threads else f'thread {number}'} of CTA number {cta}"

    def error(self, op: Op, id: str, message: str, at: str = "", notes: Sequence[str] = ()) -> RunError:
        """The located error of an op; says where the threads parted if some are inactive."""
        if self.active is not None and self.parted:
            notes = [*notes, f"inside `{self.parted[-1].name}` at {self.parted[-1].span}, which not all threads run"]
        return RunError(id, f"{op.name}: {message}", op.spans.get(at, op.span), notes=notes, phase="simulate")


def garbage(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """What is there before anything was written."""
    out = np.empty(shape, dtype)
    out.reshape(-1).view(np.uint8)[:] = GARBAGE
    return out
