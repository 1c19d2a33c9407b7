"""Steps of wgmma: operands are read from swizzled shared memory when it begins, results are there at a wait."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from refcompiler.dialects.simt.warpgroup import ROWS, THREADS, Tile, Wgmma, WgmmaWait
from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import DType, element_of
from refcompiler.layouts import LinearLayout, mma_operand_a, wgmma_accumulator
from refcompiler.simulator.access import Access, race
from refcompiler.simulator.agents import MULTIPLIED, WARPGROUP, start
from refcompiler.simulator.asynchronous import order_of
from refcompiler.simulator.descriptors import matrix_bytes
from refcompiler.simulator.machine import WARP, Machine, Step, registers_of, steps
from refcompiler.simulator.tensor_cores import as_numbers, rounded

_UNREADY = 0x7FA00000  # with a number added, the bits of every register of a result that is not there: NaN as an f32
_SPEC = "exec.wgmma"


@dataclass
class Product:
    """What one wgmma of one warpgroup computes, and whether it has ended."""

    numbers: np.ndarray  # 64 x n
    done: bool = False


@dataclass
class Running:
    """The wgmma ops of one warpgroup: of no group yet, of groups that may still run with their times, all by number."""

    uncommitted: list[Product] = field(default_factory=list)
    groups: list[tuple[int, list[Product]]] = field(default_factory=list)
    products: dict[int, Product] = field(default_factory=dict)


@steps("wgmma")
def wgmma(op: Wgmma) -> Step:
    """PTX wgmma.mma_async: each step along k is added to the accumulator, which is rounded then."""
    size, a_count = registers_of(op.result), registers_of(op.a)
    result, a_type = element_of(op.result.type), element_of(op.a.type)

    def step(m: Machine) -> None:
        out = np.zeros((m.lanes, size), result.numpy)
        in_registers = None if op.a_shared else as_numbers(m.full(op.a, a_count), a_type)
        for number in _warpgroups(m, op):
            lanes = slice(number * THREADS, (number + 1) * THREADS)
            running = m.running.setdefault(number, Running())
            if in_registers is None:
                a = _read(m, op, op.a, op.a_index, op.a_tile, lanes)
            else:
                a = _operand(in_registers[lanes], op)
            b = _read(m, op, op.b, op.b_index, op.b_tile, lanes)
            numbers = np.zeros((ROWS, op.n))
            if op.c is not None:
                numbers = _accumulators(m.full(op.c, size)[lanes], running, result)
            for x, y in zip(a, b, strict=True):
                numbers = rounded(numbers + x @ y.T, result)
            product = Product(numbers)
            running.uncommitted.append(product)
            running.products[len(running.products)] = product
            out[lanes] = _unready(len(running.products) - 1, result)
        m.values[op.result] = out

    return step


@steps("wgmma_fence")
def wgmma_fence(op: Op) -> Step:
    return lambda m: None


@steps("wgmma_commit")
def wgmma_commit(op: Op) -> Step:
    def step(m: Machine) -> None:
        for number in _warpgroups(m, op):
            running = m.running.setdefault(number, Running())
            running.groups.append((order_of(m).tick(), running.uncommitted))
            running.uncommitted = []

    return step


@steps("wgmma_wait")
def wgmma_wait(op: WgmmaWait) -> Step:
    def step(m: Machine) -> None:
        for number in _warpgroups(m, op):
            running = m.running.setdefault(number, Running())
            ended = max(0, len(running.groups) - op.pending)
            for time, products in running.groups[:ended]:
                for product in products:
                    product.done = True
                for warp in range(number * WARPGROUP, (number + 1) * WARPGROUP):
                    order_of(m).land(warp, _agent(m, number), time)
            running.groups = running.groups[ended:]
        for value, result in zip(op.values, op.results, strict=True):
            _give_back(m, op, value, result)

    return step


def _agent(m: Machine, number: int) -> int:
    """Who reads shared memory for a warpgroup."""
    return order_of(m).agent_of(int(m.who[number * THREADS]), MULTIPLIED)


def _give_back(m: Machine, op: Op, value: Value, result: Value) -> None:
    """The registers of a result that is there; what no wgmma gave stays as it is."""
    dtype, size = element_of(value.type), registers_of(value)
    out = np.array(m.full(value, size))
    for number in _warpgroups(m, op):
        lanes = slice(number * THREADS, (number + 1) * THREADS)
        product = _product(out[lanes], m.running.setdefault(number, Running()))
        if product is None:
            continue
        if not product.done:
            what = f"the wgmma that gives these registers may still run, with {op.pending} groups left pending"
            at = f"{m.thread(lanes.start)} and its warpgroup"
            raise m.error(op, f"{_SPEC}#E5", f"{at}: {what}", "values")
        out[lanes] = product.numbers.reshape(-1)[_places(size)].astype(dtype.numpy)
    m.values[result] = out


def _warpgroups(m: Machine, op: Op) -> list[int]:
    """The warpgroups that come to an op; all threads of each."""
    if m.active is None and m.threads % THREADS == 0:
        return list(range(m.lanes // THREADS))
    found = []
    active = m.narrowed(np.ones(1, bool)).reshape(m.ctas, m.threads)
    for cta in range(m.ctas):
        for first in range(0, m.threads, THREADS):
            mine = active[cta, first : first + THREADS]
            if not mine.any():
                continue
            if mine.size < THREADS or not mine.all():
                lacking = "are no whole warpgroup" if mine.size < THREADS else "do not all take part"
                what = f"the {THREADS} threads from {m.thread(cta * m.threads + first)} on {lacking}"
                raise m.error(op, f"{_SPEC}#E3", what, notes=["all threads of a warpgroup execute it together"])
            found.append((cta * m.threads + first) // THREADS)
    return found


def _unready(number: int, dtype: DType) -> np.ndarray:
    return np.array(_UNREADY + number, np.int32).view(dtype.numpy)


def _product(registers: np.ndarray, running: Running) -> Product | None:
    """The product that these registers stand for; None where they hold numbers."""
    bits = np.ascontiguousarray(registers).view(np.int32)
    return running.products.get(int(bits[0, 0]) - _UNREADY) if (bits == bits[0, 0]).all() else None


def _accumulators(registers: np.ndarray, running: Running, dtype: DType) -> np.ndarray:
    """What a wgmma adds to: the result of another, there or not, or numbers in registers."""
    product = _product(registers, running)
    if product is not None:
        return product.numbers
    numbers = np.zeros(registers.size)
    numbers[_places(registers.shape[1])] = registers.astype(np.float64)
    return numbers.reshape(ROWS, -1)


def _places(registers: int) -> np.ndarray:
    """The position in 64 x n, row by row, of each (thread, register) of the accumulators."""
    tile, columns = _table(wgmma_accumulator((ROWS, 8), 1)), registers * THREADS // ROWS
    tiles = [tile // 8 * columns + tile % 8 + 8 * number for number in range(columns // 8)]
    return np.concatenate(tiles, axis=1)


def _operand(registers: np.ndarray, op: Wgmma) -> np.ndarray:
    """The matrices (64, k) of each step of an operand in registers."""
    table = _table(mma_operand_a((ROWS, op.depth), (4, 1), op.element.itemsize))
    out = np.empty((op.k_steps, ROWS * op.depth))
    out[:, table] = registers.reshape(THREADS, op.k_steps, -1).transpose(1, 0, 2)
    return out.reshape(op.k_steps, ROWS, op.depth)


def _table(layout: LinearLayout) -> np.ndarray:
    """The position, row by row, of each (thread, register)."""
    threads = [(thread % WARP, thread // WARP) for thread in range(THREADS)]
    return np.array(
        [[layout.packed_at(register=r, lane=i, warp=w) for r in range(layout.num_registers)] for i, w in threads]
    )


def _read(m: Machine, op: Wgmma, buffer: Value, index: Value, tile: Tile, lanes: slice) -> np.ndarray:
    """The matrices (m or n, k) of each step."""
    name = "a" if buffer is op.a else "b"
    places = _places_of(m, op, name, buffer, _index(m, op, name, index, lanes), tile)
    flat, dtype, size = places.reshape(-1), element_of(buffer.type), tile.element_bytes
    if m.shared.unwritten(flat, size).any():
        what = f"{name} lies in shared memory that no thread has written"
        raise m.error(op, "exec.shared_memory#E4", what, f"{name}_index")
    assert m.shared.records is not None
    granules = m.shared.granules(flat, size)
    agent = np.full(granules.size, _agent(m, lanes.start // THREADS))
    first = lanes.start // WARP
    for warp in order_of(m).alike(range(first, first + WARPGROUP)):
        who = np.full(granules.size, m.who[warp * WARP])
        found = start(m.shared.records, granules, who, agent, order_of(m), writes=False, fenced=True)
        if found is not None:
            raise race(m, Access(op, 1, 1, dtype.numpy), m.shared, flat, who[: flat.size], found, "multiplies")
    numbers = m.shared.view(size)[flat // size].view(dtype.numpy)
    return as_numbers(numbers, dtype).reshape(places.shape)


def _index(m: Machine, op: Wgmma, name: str, index: Value, lanes: slice) -> int:
    """The element at which a tile begins, which is one for the warpgroup."""
    indices = np.broadcast_to(m.values[index][:, 0], m.lanes)[lanes]
    if (indices != indices[0]).any():
        other = m.thread(lanes.start + int((indices != indices[0]).argmax()))
        what = f"{m.thread(lanes.start)} and {other} have two indices of {name}"
        raise m.error(op, f"{_SPEC}#E6", what, f"{name}_index", ["a warpgroup reads one tile"])
    return int(indices[0])


def _places_of(m: Machine, op: Wgmma, name: str, buffer: Value, index: int, tile: Tile) -> np.ndarray:
    """The byte of each element (step, m or n, k), as the descriptors of the steps say."""
    first = buffer.owner.offset
    begin = first + index * tile.element_bytes
    within = begin % tile.alignment
    if within % 32 or within >= (1 if tile.transposed else tile.swizzle):
        what = f"the tile of {name} begins {within} bytes after a multiple of {tile.alignment}"
        raise m.error(op, f"{_SPEC}#E6", what, f"{name}_index")
    shape = (tile.extent, tile.depth, tile.element_bytes, tile.transposed)
    steps = [matrix_bytes(begin + tile.start(step), tile.high, tile.low, *shape) for step in range(tile.steps)]
    places = np.stack(steps)
    elements = (places - first) // tile.element_bytes
    if elements.min() < 0 or elements.max() >= buffer.type.count:
        wrong = int(elements.max() if elements.min() >= 0 else elements.min())
        what = f"{name} reaches element {wrong} of a buffer of {buffer.type.count} elements"
        raise m.error(op, "exec.shared_memory#E2", what, f"{name}_index")
    return places
