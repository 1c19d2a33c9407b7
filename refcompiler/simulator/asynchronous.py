"""Steps of asynchronous copies, of the waits for them, and of barriers in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from refcompiler.dialects.simt.asynchronous import (
    CpAsync,
    MbarrierArrive,
    MbarrierExpectTx,
    MbarrierInit,
    MbarrierWait,
    PtxOp,
    SetMaxRegisters,
    TmaLoad,
    TmaStore,
)
from refcompiler.dialects.simt.clusters import StAsync
from refcompiler.dialects.simt.tensor_maps import CHUNK
from refcompiler.dialects.tile.memory import pointee
from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import element_of
from refcompiler.simulator.access import Access, addresses_of, element_bytes, parts_of, race, who_of
from refcompiler.simulator.agents import COPIED, READ, WROTE, AgentOrder, start
from refcompiler.simulator.copies import Barrier, Copies, Flight
from refcompiler.simulator.machine import WARP, Blocked, Machine, Step, Waiting, registers_of, steps
from refcompiler.simulator.memory import GARBAGE, Memory, items

TMA_ALIGNMENT, BARRIER_BYTES, WARPGROUP = 128, 8, 4
REGISTERS = 1 << 16  # of a multiprocessor
_SPEC = "exec.async_copies"


@dataclass(frozen=True)
class _Access(Access):
    """What a copy does in one of the two memories that it connects."""

    in_shared: bool = False

    @property
    def shared(self) -> bool:
        return self.in_shared


def copies_of(m: Machine) -> Copies:
    assert m.copies is not None
    return m.copies


def order_of(m: Machine) -> AgentOrder:
    assert isinstance(m.order, AgentOrder)
    return m.order


def granules(op: PtxOp, suffix: str) -> list[int]:
    """The sizes in bytes of what ``op`` accesses in one memory."""
    if isinstance(op, CpAsync) or (isinstance(op, StAsync) and suffix == "_shared"):
        return [element_bytes(op.buffer.type)]
    if isinstance(op, TmaLoad | TmaStore):
        return [element_bytes(op.buffer.type)] + [BARRIER_BYTES] * (suffix == "_shared")
    return [BARRIER_BYTES] if op.name.startswith("mbarrier") and suffix == "_shared" else []


def check_ended(m: Machine) -> None:
    """Raise RunError for a copy of a box that nobody has waited for when the CTA ends."""
    if m.copies is not None and (left := m.copies.left()):
        what = "the CTA ends while the copy is on its way"
        raise m.error(left[0].op, f"{_SPEC}#E3", what, notes=["wait for it: shared memory is given to another CTA"])


# --- threads
def _lanes(m: Machine, predicate: Value | None) -> np.ndarray:
    """The lanes that do it."""
    chosen = np.ones(1, bool) if predicate is None else m.values[predicate][:, 0]
    return np.flatnonzero(m.narrowed(chosen))


def _warps(m: Machine) -> list[int]:
    """The warps of which a thread is active."""
    return [int(w) for w in np.flatnonzero(m.narrowed(np.ones(1, bool)).reshape(-1, WARP).any(axis=1))]


def _number(m: Machine, value: Value, lane: int) -> int:
    numbers = m.values[value][:, 0]
    return int(numbers[lane if len(numbers) > 1 else 0])


# --- barriers in memory
def _barrier(m: Machine, op: Op, buffer: Value, index: Value, lane: int) -> Barrier:
    """The barrier that a thread means; it knows that somebody has initialised it."""
    number = _number(m, index, lane)
    if not 0 <= number < buffer.type.count:
        what = f"{m.thread(lane)} means barrier {number} of {buffer.type.count}"
        raise m.error(op, "exec.mbarriers#E3", what)
    return barrier_in(m, op, buffer, number, lane, lane // m.threads)


def barrier_in(m: Machine, op: Op, buffer: Value, number: int, lane: int, cta: int) -> Barrier:
    """Barrier ``number`` in a CTA, which a thread uses."""
    barrier = copies_of(m).barriers.get(slot_of(m, buffer, number, cta))
    if barrier is None:
        raise m.error(op, "exec.mbarriers#E3", f"{m.thread(lane)} uses barrier {number}, which nobody has initialised")
    address = np.array([buffer.owner.offset + BARRIER_BYTES * number + cta * m.stride])
    assert m.shared.records is not None
    places = address // m.shared.granule + np.arange(BARRIER_BYTES // m.shared.granule)
    found = m.shared.records.unordered_write(places, np.full(places.size, m.who[lane]), m.order)
    if found is not None:
        what = f"{m.thread(lane)} uses barrier {number}, which {m.name(found.other)} initialised"
        raise m.error(op, "exec.mbarriers#E3", f"{what}, without a barrier between")
    return barrier


def slot_of(m: Machine, buffer: Value, number: int, cta: int) -> int:
    """The number of a barrier among all of the machine's."""
    return copies_of(m).slots[buffer] + number + cta * copies_of(m).slots_in_cta


@steps("mbarrier_init")
def mbarrier_init(op: MbarrierInit) -> Step:
    def step(m: Machine) -> None:
        for lane in _lanes(m, op.predicate):
            number = _number(m, op.index, lane)
            cta = lane // m.threads
            slot = slot_of(m, op.barrier, number, cta)
            if not 0 <= number < op.barrier.type.count or slot in copies_of(m).barriers:
                what = f"initialises barrier {number} of {op.barrier.type.count}" + (
                    " again" if slot in copies_of(m).barriers else ""
                )
                raise m.error(op, "exec.mbarriers#E3", f"{m.thread(lane)} {what}")
            address = np.array([op.barrier.owner.offset + BARRIER_BYTES * number + cta * m.stride])
            m.shared.write(address, np.zeros(1, np.uint64), m.who[lane : lane + 1], m.order)
            copies_of(m).barriers[slot] = Barrier(slot, op.arrivals, copies_of(m).nothing(), int(m.who[lane]))

    return step


@steps("fence_mbarrier_init")
def fence_mbarrier_init(op: Op) -> Step:
    def step(m: Machine) -> None:
        here = {int(m.who[lane]) for lane in _lanes(m, None)}
        for barrier in copies_of(m).barriers.values():
            barrier.known |= barrier.initialised_by in here

    return step


def _alike(m: Machine, lanes: np.ndarray, *values: Value) -> list[tuple[int, int]]:
    """The first of the lanes of each warp that have the same numbers, and how many they are."""
    rows = [lanes // WARP, *(np.broadcast_to(m.values[v][:, 0], m.lanes)[lanes] for v in values)]
    _, first, counts = np.unique(np.stack(rows, axis=1), axis=0, return_index=True, return_counts=True)
    return [(int(lanes[at]), int(count)) for at, count in zip(first, counts, strict=True)]


@steps("mbarrier_arrive", "mbarrier_expect_tx")
def mbarrier_arrive(op: MbarrierArrive | MbarrierExpectTx) -> Step:
    more = op.bytes if isinstance(op, MbarrierExpectTx) else 0

    def step(m: Machine) -> None:
        for lane, count in _alike(m, _lanes(m, op.predicate), op.index):
            barrier = _barrier(m, op, op.barrier, op.index, lane)
            clock = order_of(m).release(lane // WARP)
            while count:  # those that this phase lacks, then those of the next one
                if not barrier.lacks:
                    what = f"{m.thread(lane)} arrives at a barrier whose phase {barrier.phase} has all its arrivals"
                    raise m.error(op, "exec.mbarriers#E4", what, notes=[f"it waits for {barrier.bytes} bytes more"])
                come = min(count, barrier.lacks)
                barrier.learn(clock)
                barrier.lacks -= come
                barrier.bytes += come * more
                barrier.advance()
                count -= come

    return step


@steps("mbarrier_wait")
def mbarrier_wait(op: MbarrierWait) -> Step:
    def step(m: Machine) -> Waiting:
        wanted: list[tuple[Barrier, int, int]] = []  # of each warp the barriers, with their parities
        for lane, _ in _alike(m, _lanes(m, None), op.index, op.parity):
            barrier = _barrier(m, op, op.barrier, op.index, lane)
            wanted.append((barrier, _number(m, op.parity, lane) & 1, lane // WARP))

        def missing() -> Iterator[str]:
            first, each = copies_of(m).slots[op.barrier], copies_of(m).slots_in_cta
            for barrier, parity, _ in wanted:
                if not barrier.passed(parity):
                    yield f"they wait for parity {parity} of barrier {barrier.slot % each - first}: {barrier}"

        if any(missing()):
            yield Blocked(op, lambda: not any(missing()), lambda: next(missing()))
        for barrier, _, warp in wanted:
            order_of(m).acquire(warp, barrier.last)

    return step


@steps("fence_proxy_async")
def fence_proxy_async(op: Op) -> Step:
    def step(m: Machine) -> None:
        for warp in _warps(m):
            order_of(m).fence(warp)

    return step


# --- copies of boxes
@steps("prefetch_tensor_map", "griddep_wait", "griddep_launch")
def only_time(op: Op) -> Step:
    """What changes nothing but how long a launch takes: here one begins when the one before it has ended."""
    return lambda m: None


def _box(m: Machine, op: TmaLoad | TmaStore, lane: int):
    """The tensor of the copy, its coordinates, and the bytes of the box in shared memory."""
    tensor = copies_of(m).maps[op.map.owner.descriptor]
    coordinates = [_number(m, c, lane) for c in op.coordinates]
    size, index = tensor.map.element.itemsize, _number(m, op.index, lane)
    if coordinates[-1] * size % CHUNK:
        what = f"{m.thread(lane)} copies a box at element {coordinates[-1]} of rows, {coordinates[-1] * size} bytes in"
        raise m.error(op, "exec.tensor_maps#E3", what, notes=[f"boxes begin at multiples of {CHUNK} bytes in a row"])
    count, elements = op.buffer.type.count, tensor.map.box_bytes // element_bytes(op.buffer.type)
    if not 0 <= index <= count - elements:
        what = f"{m.thread(lane)} copies elements {index} to {index + elements - 1} of a buffer of {count} elements"
        raise m.error(op, "exec.shared_memory#E2", what)
    start_byte = op.buffer.owner.offset + index * element_bytes(op.buffer.type)
    if start_byte % TMA_ALIGNMENT:
        what = f"{m.thread(lane)} copies a box at byte {start_byte}, which is no multiple of {TMA_ALIGNMENT}"
        raise m.error(op, "exec.shared_memory#E3", what)
    return tensor, coordinates, tensor.places(start_byte), size


def _begin(m: Machine, op: PtxOp, memory: Memory, addresses, size: int, who, agent, *, writes: bool, fenced=False):
    """A copy accesses memory from now on."""
    if memory.records is None:
        return
    places, people = memory.granules(addresses, size), np.repeat(who, max(1, size // memory.granule))
    agents = np.repeat(agent, max(1, size // memory.granule))
    found = start(memory.records, places, people, agents, order_of(m), writes=writes, fenced=fenced)
    if found is not None:
        access = _Access(op, 1, 1, items(size), memory is m.shared)
        verb = "copies to" if writes else "copies"
        raise race(m, access, memory, addresses, np.asarray(who), found, verb)


def _global_parts(m: Machine, op: PtxOp, addresses: np.ndarray, size: int):
    """The regions of global memory that a box lies in."""
    found = m.memory.split(addresses, size)
    if found is None:
        raise m.error(op, "exec.global_memory#E2", "the tensor reaches past the end of its array")
    return found


@steps("tma_load")
def tma_load(op: TmaLoad) -> Step:
    def step(m: Machine) -> None:
        order, copies = order_of(m), copies_of(m)
        for lane in _lanes(m, op.predicate):
            barrier = _barrier(m, op, op.bar, op.bar_index, lane)
            if not barrier.known:
                what = "copies count at a barrier that was initialised without fence_mbarrier_init after it"
                raise m.error(op, "exec.mbarriers#E3", f"{m.thread(lane)}: {what}")
            tensor, coordinates, places, size = _box(m, op, lane)
            who, agent = np.full(places.size, m.who[lane]), np.full(places.size, order.agent_of_slot(barrier.slot))
            _begin(m, op, m.shared, places, size, who, agent, writes=True, fenced=True)
            sources, inside = tensor.elements(coordinates)
            parts = _global_parts(m, op, sources[inside], size)
            for memory, part in parts:
                count = sources[inside][part].size
                _begin(m, op, memory, sources[inside][part], size, who[:count], agent[:count], writes=False)
            m.shared.put(places // size, np.full(places.size, _poison(size)))
            began = order.tick()

            def move(barrier=barrier, places=places, inside=inside, sources=sources, size=size, parts=parts, t=began):
                data = np.zeros(places.size, items(size))
                data[inside] = _fetch(parts, sources[inside], size)
                m.shared.put(places // size, data)
                clock = copies.nothing()
                clock.seen[order.group(order.agent_of_slot(barrier.slot))] = t
                barrier.learn(clock)
                barrier.bytes -= places.size * size
                barrier.advance()

            copies.count(Flight(op, move))

    return step


@steps("tma_store")
def tma_store(op: TmaStore) -> Step:
    def step(m: Machine) -> None:
        order, copies = order_of(m), copies_of(m)
        for lane in _lanes(m, op.predicate):
            tensor, coordinates, places, size = _box(m, op, lane)
            who = np.full(places.size, m.who[lane])
            if m.shared.unwritten(places, size).any():
                what = f"{m.thread(lane)} copies shared memory that no thread has written"
                raise m.error(op, "exec.shared_memory#E4", what)
            _begin(m, op, m.shared, places, size, who, order.agent_of(who, READ), writes=False, fenced=True)
            targets, inside = tensor.elements(coordinates)
            parts = _global_parts(m, op, targets[inside], size)
            for memory, part in parts:
                mine = who[: targets[inside][part].size]
                agent = order.agent_of(mine, WROTE)
                _begin(m, op, memory, targets[inside][part], size, mine, agent, writes=True)
            order.tick()

            def move(places=places[inside], targets=targets[inside], size=size, parts=parts):
                data = m.shared.view(size)[places // size]
                for memory, part in parts:
                    memory.put(memory.position(targets[part]) // size, data[part])

            copies.add("bulk", int(lane) // WARP, Flight(op, move))

    return step


def _fetch(parts, addresses: np.ndarray, size: int) -> np.ndarray:
    """Items of global memory as they are now."""
    data = np.zeros(addresses.size, items(size))
    for memory, part in parts:
        data[part] = memory.view(size)[memory.position(addresses[part]) // size]
    return data


def _poison(size: int) -> np.ndarray:
    return np.frombuffer(bytes([GARBAGE]) * size, items(size))[0]


# --- copies by each thread
@steps("cp_async")
def cp_async(op: CpAsync) -> Step:
    element = element_of(op.buffer.type)
    source = Access(op, registers_of(op.pointer), op.width, element.numpy)
    accesses, size = source.accesses, op.bytes
    assert pointee(op.pointer.type) is element

    def step(m: Machine) -> None:
        order, copies = order_of(m), copies_of(m)
        addresses, chosen = addresses_of(m, source)
        parts = parts_of(m, source, addresses, chosen)
        readers = who_of(m, source, chosen)
        active = np.repeat(m.narrowed(np.ones(1, bool)), accesses)
        places = _places(m, op, active, accesses)
        who = np.repeat(m.who, accesses)[active]
        _begin(m, op, m.shared, places[active], size, who, order.agent_of(who, COPIED), writes=True)
        for memory, part in parts:
            mine = readers[part]
            _begin(m, op, memory, addresses[part], size, mine, order.agent_of(mine, COPIED), writes=False)
        m.shared.put(places[active] // size, np.full(int(active.sum()), _poison(size), items(size)))
        order.tick()
        at = np.arange(active.size) if chosen is None else chosen
        for warp in _warps(m):
            mine = active & (np.arange(active.size) // accesses // WARP == warp)

            def move(mine=mine):
                data = np.zeros(active.size, items(size))
                data[at] = _fetch(parts, addresses, size)
                m.shared.put(places[mine] // size, data[mine])

            copies.add("cp_async", warp, Flight(op, move))

    return step


def _places(m: Machine, op: CpAsync, active: np.ndarray, accesses: int) -> np.ndarray:
    """The bytes in shared memory at which copies begin, for all lanes and accesses."""
    index, count = m.full(op.index, accesses).astype(np.int64).reshape(-1), op.buffer.type.count
    outside = active & ((index < 0) | (index + op.width > count))
    if outside.any():
        at = int(outside.argmax())
        what = f"{m.thread(at // accesses)} has index {int(index[at])} of a buffer of {count} elements"
        raise m.error(op, "exec.shared_memory#E2", what, "index")
    places = index * element_bytes(op.buffer.type) + op.buffer.owner.offset
    if m.ctas > 1:
        places += np.arange(m.lanes).repeat(accesses) // m.threads * m.stride
    crooked = active & (places % op.bytes != 0)
    if crooked.any():
        what = f"{m.thread(int(crooked.argmax()) // accesses)} has an offset that is not a multiple of {op.bytes} bytes"
        raise m.error(op, "exec.shared_memory#E3", what, "index")
    return places


@steps("cp_async_commit", "bulk_commit")
def commit(op: Op) -> Step:
    family = op.name.removesuffix("_commit")

    def step(m: Machine) -> None:
        for warp in _warps(m):
            copies_of(m).commit(family, warp)

    return step


@steps("cp_async_wait", "bulk_wait")
def wait(op: Op) -> Step:
    family = op.name.removesuffix("_wait")
    kinds = (COPIED,) if family == "cp_async" else (READ,) if op.read else (READ, WROTE)

    def step(m: Machine) -> None:
        for warp in _warps(m):
            copies_of(m).wait(family, warp, op.pending, kinds)

    return step


# --- registers
@steps("set_max_registers")
def set_max_registers(op: SetMaxRegisters) -> Step:
    def step(m: Machine) -> None:
        warps = set(_warps(m))
        active = m.narrowed(np.ones(1, bool)).reshape(-1, WARP)
        for warp in sorted(warps):
            first = warp // WARPGROUP * WARPGROUP
            if not active[first : first + WARPGROUP].all() or first + WARPGROUP > len(active):
                what = f"warp {warp} changes its registers, and not all of its warpgroup do"
                raise m.error(op, "exec.roles#E4", what)
            copies_of(m).registers[warp] = op.count
        asked = WARP * sum(copies_of(m).registers.values())
        if len(copies_of(m).registers) == m.threads // WARP and asked > REGISTERS:
            what = f"the threads ask for {asked} registers of {REGISTERS}, and some wait for them for ever"
            raise m.error(op, "exec.roles#E4", what)

    return step
