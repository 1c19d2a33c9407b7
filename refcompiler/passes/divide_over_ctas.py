"""Divide the blocks of a program over the CTAs of a cluster, which exchange what reductions leave of them."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.common_axes import Axis, CommonAxes
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.rebuilder import Rebuilder
from refcompiler.ir.types import BOOL, I32, BlockType, Type, element_of, shape_of
from refcompiler.remarks import Refusal, remark

STEP = "divide_over_ctas"
_EFFECTS = frozenset({"load", "store", "assert"})


def divide_over_ctas(func: Func, context: Any) -> Func | None:
    """The function for ``num_ctas`` CTAs in a row of the grid for each program: CTA r of a cluster has part r of one
    axis of every block that has it. None, and nothing changed, where the option asks for one CTA, the target has no
    clusters, or no axis can be divided.

    Blocks without the axis, and scalars, are the same in all CTAs; the first one stores them.
    """
    ctas = context.options.num_ctas
    if ctas == 1:
        return None
    axes = CommonAxes(func)
    chosen = axes.choice(ctas)
    once = next((op for op in func.walk() if _happens_once(op)), None)
    if context.target is not None and not context.target.has_clusters:
        _refuse(context, func, Refusal(f"{context.target} has no clusters"))
    elif once is not None:
        advice = "use num_ctas=1, or let another kernel do it"
        _refuse(context, once, Refusal(f"`{once.name}` happens once for each program, not for each CTA", advice))
    elif chosen is None:
        why = f"no axis of what it loads and stores has {ctas} parts that can be computed apart"
        _refuse(context, func, Refusal(why, "scans, sorts, reshapes and products need all elements in one place"))
    else:
        remark(context, STEP, func, f"the program is divided over {ctas} CTAs", applied=True)
        return _Divider(func, axes, chosen, ctas).run()
    return None


def _happens_once(op: Op) -> bool:
    """Whether ``op`` has an effect that no CTA may repeat."""
    return bool(op.effects) and (op.name not in _EFFECTS or bool(op.attrs.get("volatile")))


def _refuse(context: Any, at: Op | Func, why: Refusal) -> None:
    remark(context, STEP, at, why.after("the program has one CTA"))


class _Divider(Rebuilder):
    """One part of every block that has an axis of the chosen class."""

    def __init__(self, func: Func, axes: CommonAxes, chosen: Axis, ctas: int):
        super().__init__(func, {**func.attrs, "num_ctas": ctas})
        self.axes, self.chosen, self.ctas = axes, chosen, ctas
        self.rank = self.builder.value("cta_rank", ctas=ctas)

    def run(self) -> Func:
        self.block(self.old.body)
        return self.new

    def axis_of(self, old: Value) -> int | None:
        """The axis along which CTAs have a part each of a value; None where all have the same."""
        for axis in range(len(shape_of(old.type))):
            if self.axes.of(old, axis) == self.chosen:
                return axis
        return None

    def typed(self, old: Value) -> Type:
        axis = self.axis_of(old)
        if axis is None:
            return old.type
        shape = list(old.type.shape)
        shape[axis] //= self.ctas
        return BlockType(old.type.element, tuple(shape))

    def is_first(self) -> Value:
        """Whether this is the first CTA of its cluster."""
        return self.builder.value("cmp_eq", self.rank, Constant(0, I32))


def _arange(divide: _Divider, op: Op) -> list[Value]:
    if divide.axis_of(op.result) is None:
        return divide.rebuild(op)
    extent = (op.end - op.start) // divide.ctas
    (index,) = divide.rebuild(op, end=op.start + extent)
    start = divide.builder.value("mul", divide.rank, Constant(extent, I32))
    return [divide.builder.value("add", index, start)]


def _store(divide: _Divider, op: Op) -> list[Value]:
    """What all CTAs have, the first one stores."""
    if divide.axis_of(op.pointer) is not None:
        return divide.rebuild(op)
    operands = [divide.get(o) for o in op.operands]
    position = [field.name for field in op.operand_fields].index("mask")
    mask, first = operands[position], divide.is_first()
    if shape_of(op.pointer.type):
        first = divide.builder.value("full", first, types=[BlockType(BOOL, op.pointer.type.shape)])
    operands[position] = first if mask is None else divide.builder.value("and", mask, first)
    return divide.rebuild(op, *operands)


def _reduce(divide: _Divider, op: Op) -> list[Value]:
    """The parts first; then what is left of all of them, in the order of the parts."""
    partial = divide.rebuild(op)
    if divide.axis_of(op.blocks[0]) != op.axis:
        return partial
    gathered = []
    for value in partial:
        type_ = BlockType(element_of(value.type), (divide.ctas, *shape_of(value.type)))
        gathered.append(divide.builder.value("all_gather", value, ctas=divide.ctas, types=[type_]))
    return divide.rebuild(op, *gathered, types=[value.type for value in partial], axis=0)


_Divider.rules = {
    "arange": _arange,
    "store": _store,
    "reduce": _reduce,
}
