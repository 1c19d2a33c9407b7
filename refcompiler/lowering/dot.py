"""Matrix products: on tensor cores from fragments, or by fused multiply-add from shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from refcompiler.dialects.simt.registers import count_of
from refcompiler.dialects.simt.tensor_cores import COLUMNS, DEPTH_BITS, ROWS
from refcompiler.dialects.tile.dot import Dot
from refcompiler.ir.core import Block, Constant, Value
from refcompiler.ir.types import F32, I32, DType, SharedType, element_of
from refcompiler.layouts import LinearLayout, SharedAccess, row_major, shared_access
from refcompiler.layouts.linear import log2
from refcompiler.layouts.shared import VECTOR_BYTES
from refcompiler.lowering.exchange import element_bytes
from refcompiler.lowering.fragments import Fragments, step_registers
from refcompiler.lowering.memory import owned
from refcompiler.lowering.state import Lowering, inverse, layout_of, lowers, part
from refcompiler.target import WARP_SIZE

HELD_BYTES = 128  # of an operand of outer products, read along K
APART_BYTES = 16  # the widest access stays aligned


@lowers("dot")
def lower_dot(state: Lowering, op: Dot) -> None:
    """Sums of 16-bit floats are f32 until the end of one dot."""
    result = element_of(op.result.type)
    wide = F32 if result.is_float and result.bits < 32 else result
    acc = Constant(0, wide) if op.acc is None else state.cast_to(state.vector(op.acc), wide)
    acc = state.splat(acc, layout_of(op.result).num_registers)
    total = STRATEGIES[op.strategy](state, op, acc, wide)
    state.set(op.result, state.cast_to(total, result))


def multiply_fragments(state: Lowering, op: Dot, acc: Value, wide: DType) -> Value:
    """mma.sync step by step along K, so that few fragments are held at a time, of each product of a batch in turn."""
    layout = layout_of(op.result)
    batches = prod(layout.shape[:-2]) >> sum(any(basis[:-2]) for basis in layout.bases("warp"))
    sums = [part(state, acc, batch, batches) for batch in range(batches)]
    left, right = (_steps(state, operand) for operand in (op.x, op.y))
    for x, y in zip(left, right, strict=True):
        for batch in range(batches):
            left_part, right_part = (part(state, operand, batch, batches) for operand in (x, y))
            sums[batch] = _step(state, op, left_part, right_part, sums[batch])
    return sums[0] if batches == 1 else state.op("pack", *sums)


def _step(state: Lowering, op: Dot, x: Value, y: Value, acc: Value) -> Value:
    """One step along K; "tf32x3" adds up three products of a coarse and a fine part."""
    if element_of(op.x.type) is not F32:
        return _mma(state, x, y, acc)
    coarse = [state.op("round_tf32", v) for v in (x, y)]
    if op.input_precision != "tf32":
        fine = [_rest(state, v, c) for v, c in zip((x, y), coarse, strict=True)]
        acc = _mma(state, fine[0], coarse[1], acc)
        acc = _mma(state, coarse[0], fine[1], acc)
    return _mma(state, coarse[0], coarse[1], acc)


def _steps(state: Lowering, operand: Value) -> Iterator[Value]:
    """The fragments of an operand for one step along K after the other."""
    value = state.value(operand)
    if not isinstance(value, Fragments):
        value = state.vector(operand)
    for registers in step_registers(layout_of(operand), element_bytes(operand)):
        if isinstance(value, Fragments):
            yield value.step(state, registers)
        else:  # a block of one value has it in each register
            yield state.splat(state.pick(value, registers), len(registers))


def _mma(state: Lowering, a: Value, b: Value, c: Value) -> Value:
    """One step along K on registers, which have the order of its fragments."""
    element = element_of(a.type)
    shape = (ROWS, COLUMNS, DEPTH_BITS // element.bits)
    of_a, of_b = shape[0] * shape[2] // WARP_SIZE, shape[1] * shape[2] // WARP_SIZE
    tiles = (count_of(a.type) // of_a, count_of(b.type) // of_b, 1)
    return state.op("mma_sync", a, b, c, shape=shape, tiles=tiles, tf32=element is F32)


def _rest(state: Lowering, value: Value, coarse: Value) -> Value:
    """What the coarse part lacks; of infinity nothing."""
    rest = state.op("sub", value, coarse)
    rest = state.op("select", state.op("cmp_eq", rest, rest), rest, Constant(0, F32))
    return state.op("round_tf32", rest)


def add_outer_products(state: Lowering, op: Dot, acc: Value, wide: DType) -> Value:
    """Each thread adds up outer products, of as many steps along K at a time as one access gives."""
    layout = layout_of(op.result)
    sides = [
        _Side(state, operand, layout, drop) for operand, drop in ((op.x, layout.rank - 1), (op.y, layout.rank - 2))
    ]
    together = max(side.together for side in sides)
    order = _order(*(side.place for side in sides))
    acc = state.pick(acc, order)
    for side in sides:
        side.place = [side.place[r] for r in order]
    for first in range(0, op.depth, together):
        left, right = (side.steps(state, first, together, wide) for side in sides)
        for x, y in zip(left, right, strict=True):
            acc = _multiply_add(state, x, y, acc)
    return state.pick(acc, inverse(order))


def _order(left: list[int], right: list[int]) -> list[int]:
    """The registers of a result in an order in which each multiply-add shares an operand with the one before it: units
    that have just read a register read two more at full rate. Row by row down one column, and up the next."""
    return sorted(range(len(left)), key=lambda r: (right[r], -left[r] if right[r] % 2 else left[r]))


def _multiply_add(state: Lowering, x: Value, y: Value, acc: Value) -> Value:
    if element_of(acc.type).is_float:
        return state.op("fma", x, y, acc)
    return state.op("add", state.op("mul", x, y), acc)


class _Side:
    """An operand in the layout ``outer_operand``: in registers, or in shared memory."""

    def __init__(self, state: Lowering, operand: Value, result: LinearLayout, dropped: int):
        self.depth_bits = log2(layout_of(operand).shape[dropped])
        bases = [[i for dim, i in enumerate(basis) if dim != dropped] for basis in result.bases("register")]
        kept = [bit for bit, basis in enumerate(bases) if any(basis)]
        self.count = 1 << len(kept)
        self.place = [
            sum((register >> bit & 1) << at for at, bit in enumerate(kept)) for register in range(result.num_registers)
        ]
        self.value: Any = state.value(operand)
        self.together = 1
        if isinstance(self.value, Fragments):
            self.value = self.held(self.value, element_bytes(operand))
            self.together = self.reach(self.value)
        else:
            self.value = state.vector(operand)

    def reach(self, fragments: Fragments) -> int:
        """How many steps along K one access takes part in."""
        last = max(register & (1 << self.depth_bits) - 1 for register in fragments.load.vectors[0][1])
        return 1 << last.bit_length()

    def held(self, fragments: Fragments, size: int) -> Fragments:
        """Read by accesses narrow enough that not too many registers hold what later steps multiply."""
        while self.reach(fragments) * self.count * size > HELD_BYTES:
            load = fragments.load
            if not isinstance(load, SharedAccess) or load.vector == 1:
                break
            narrower = Fragments(fragments.buffer, fragments.first, load.narrowed(load.vector // 2))
            if self.reach(narrower) == self.reach(fragments):
                break
            fragments = narrower
        return fragments

    def steps(self, state: Lowering, first: int, count: int, wide: DType) -> Iterator[Value]:
        """What each register of the result multiplies, in one step after the other."""
        at = range(first, first + count)
        registers = [number << self.depth_bits | k for k in at for number in range(self.count)]
        if isinstance(self.value, Fragments):
            value = self.value.step(state, registers)
        else:
            value = state.pick(self.value, registers)
        value = state.cast_to(value, wide)
        for step in range(count):
            places = [step * self.count + place for place in self.place]
            yield state.splat(state.pick(value, places), len(places))


def loop_over_outer_products(state: Lowering, op: Dot, acc: Value, wide: DType) -> Value:
    """Each thread adds up outer products in a loop over K."""
    layout = layout_of(op.result)
    rows = _Operand(state, op.x, layout, dropped=layout.rank - 1, depth_axis=layout.rank - 1)
    columns = _Operand(state, op.y, layout, dropped=layout.rank - 2, depth_axis=layout.rank - 2)
    body = Block([Value(I32), Value(acc.type)])
    with state.builder.inside(body):
        k, total = body.args
        x, y = (operand.at(state, k, wide) for operand in (rows, columns))
        state.builder.op("yield", _multiply_add(state, x, y, total))
    bounds = (state.constant(0), state.constant(op.depth), state.constant(1))
    return state.builder.op("for", *bounds, acc, regions=[body], types=[acc.type]).result


STRATEGIES = {"fma": add_outer_products, "fma_loop": loop_over_outer_products, "mma": multiply_fragments}


class _Operand:
    """An operand in shared memory, the elements of each step along K next to each other. Steps are some bytes apart, so
    that threads which hold elements of several steps store them to several banks."""

    def __init__(self, state: Lowering, value: Value, result: LinearLayout, dropped: int, depth_axis: int):
        size = element_bytes(value)
        side = result.slice(dropped)
        self.load = shared_access(side, row_major(side.shape), size, store=False)
        self.step, self.gap = prod(side.shape), APART_BYTES // size
        self.buffer = self.stored(state, value, depth_axis, size)
        place = {side.packed_at(register=r): r for r in range(side.num_registers)}
        projected = result.project(dropped)
        self.registers = [place[projected.packed_at(register=r)] for r in range(result.num_registers)]

    def stored(self, state: Lowering, value: Value, depth_axis: int, size: int) -> Value:
        source = layout_of(value)
        order = [depth_axis, *(dim for dim in range(source.rank) if dim != depth_axis)]
        steps = row_major([source.shape[dim] for dim in order]).transpose(inverse(order))
        store = shared_access(source, steps, size, store=True, widest=min(self.step, VECTOR_BYTES // size))
        index = state.index(store.pieces, [constant for constant, _ in store.vectors], store.additive)
        number = state.op("shr", index, state.constant(log2(self.step)))
        index = state.op("add", index, state.op("mul", number, state.constant(self.gap)))
        type_ = SharedType(element_of(value.type), source.shape[depth_axis] * (self.step + self.gap))
        buffer = state.op("shared_alloc", types=[type_])
        registers = [register for _, vector in store.vectors for register in vector]
        data, mask = state.pick(state.vector(value), registers), owned(state, None, store.idle_threads)
        state.builder.op("st_shared", buffer, state.splat(index, len(store.vectors)), data, mask, width=store.vector)
        return buffer

    def at(self, state: Lowering, k: Value, wide: DType) -> Value:
        """What each register of the result multiplies in step ``k``."""
        load = self.load
        index = state.index(load.pieces, [constant for constant, _ in load.vectors], load.additive)
        first = state.op("mul", k, state.constant(self.step + self.gap))
        index = state.splat(state.op("add", index, first), len(load.vectors))
        loaded = state.op("ld_shared", self.buffer, index, width=load.vector)
        order = [register for _, vector in load.vectors for register in vector]
        value = state.cast_to(state.pick(loaded, inverse(order)), wide)
        return state.splat(state.pick(value, self.registers), len(self.registers))
