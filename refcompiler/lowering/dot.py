"""Matrix products by fused multiply-add: operands come together in shared memory, threads add up outer products."""

from __future__ import annotations

from refcompiler.dialects.tile.dot import Dot
from refcompiler.ir.core import Block, Constant, Value
from refcompiler.ir.types import F32, I32, DType, element_of
from refcompiler.layouts import LinearLayout, row_major, shared_access
from refcompiler.lowering.exchange import element_bytes, stored
from refcompiler.lowering.state import Lowering, inverse, layout_of, lowers


@lowers("dot")
def lower_dot(state: Lowering, op: Dot) -> None:
    layout, result = layout_of(op.result), element_of(op.result.type)
    wide = F32 if result.is_float and result.bits < 32 else result
    acc = Constant(0, wide) if op.acc is None else state.cast_to(state.vector(op.acc), wide)
    acc = state.splat(acc, layout.num_registers)
    rows = _Operand(state, op.x, layout, dropped=layout.rank - 1, depth_axis=layout.rank - 1)
    columns = _Operand(state, op.y, layout, dropped=layout.rank - 2, depth_axis=layout.rank - 2)
    body = Block([Value(I32), Value(acc.type)])
    with state.builder.inside(body):
        k, total = body.args
        x, y = (operand.at(state, k, wide) for operand in (rows, columns))
        if wide.is_float:
            total = state.op("fma", x, y, total)
        else:
            total = state.op("add", state.op("mul", x, y), total)
        state.builder.op("yield", total)
    bounds = (state.constant(0), state.constant(op.depth), state.constant(1))
    total = state.builder.op("for", *bounds, acc, regions=[body], types=[acc.type]).result
    state.set(op.result, state.cast_to(total, result))


class _Operand:
    """An operand in shared memory, the elements of each step along K next to each other."""

    def __init__(self, state: Lowering, value: Value, result: LinearLayout, dropped: int, depth_axis: int):
        source, size = layout_of(value), element_bytes(value)
        others = [dim for dim in range(source.rank) if dim != depth_axis]
        order = [depth_axis, *others]
        steps = row_major([source.shape[dim] for dim in order]).transpose(inverse(order))
        store = shared_access(source, steps, size, store=True)
        self.buffer = stored(state, state.vector(value), store, steps.size("offset"))
        side = result.slice(dropped)
        self.load = shared_access(side, row_major(side.shape), size, store=False)
        self.step = 1
        for extent in side.shape:
            self.step *= extent
        place = {side.packed_at(register=r): r for r in range(side.num_registers)}
        projected = result.project(dropped)
        self.registers = [place[projected.packed_at(register=r)] for r in range(result.num_registers)]

    def at(self, state: Lowering, k: Value, wide: DType) -> Value:
        """What each register of the result multiplies in step ``k``."""
        load = self.load
        index = state.index(load.pieces, [constant for constant, _ in load.vectors], load.additive)
        first = k if self.step == 1 else state.op("mul", k, state.constant(self.step))
        index = state.splat(state.op("add", index, first), len(load.vectors))
        loaded = state.op("ld_shared", self.buffer, index, width=load.vector)
        order = [register for _, vector in load.vectors for register in vector]
        value = state.cast_to(state.pick(loaded, inverse(order)), wide)
        return state.splat(state.pick(value, self.registers), len(self.registers))
