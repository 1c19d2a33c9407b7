"""Which loads a block of indices leads to, if what is beyond a bound along its axis is never seen."""

from __future__ import annotations

from refcompiler.analysis.boxes import Boxes, NoBox
from refcompiler.analysis.forms import NoForm
from refcompiler.analysis.polynomials import Polynomial
from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.scf import Slot, Structured
from refcompiler.dialects.tile.descriptor import DescriptorStore
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import shape_of


class Seen(Exception):
    """Something beyond the bound has an effect, or may have one."""


class Unseen:
    """Follows blocks forward whose elements beyond a bound along one axis may be any, until stores leave them out."""

    def __init__(self, func: Func, boxes: Boxes):
        self.boxes = boxes
        self.users: dict[Value, list[Op]] = {}
        self.slots: dict[Value, list[Slot]] = {}  # what is put into a slot, and what it is read as
        for op in func.walk():
            for value in op.operands:
                if value is not None and not isinstance(value, Constant):
                    self.users.setdefault(value, []).append(op)
            if isinstance(op, Structured):
                for slot in op.slots():
                    for source in slot.sources:
                        self.slots.setdefault(source, []).append(slot)

    def loads(self, index: Value, bound: Polynomial) -> dict[Op, int]:
        """The loads whose addresses depend on ``index``, with the axis along which they do. Raises Seen unless
        nothing depends on elements of ``index`` at positions from ``bound`` on."""
        loads: dict[Op, int] = {}
        axes: dict[Value, int] = {index: 0}
        open_ = [index]
        while open_:
            value = open_.pop()
            for user in self.users.get(value, ()):
                for result, axis in self._reached(user, value, axes[value], bound):
                    if user.name == "load":
                        loads[user] = axis
                    if result not in axes:
                        axes[result] = axis
                        open_.append(result)
                    elif axes[result] != axis:
                        raise Seen
        return loads

    def _reached(self, op: Op, value: Value, axis: int, bound: Polynomial) -> list[tuple[Value, int]]:
        """The values that ``op`` makes of ``value``, with the axis along which they depend on the axis of it."""
        if op.terminator or isinstance(op, Structured):
            if isinstance(op, Structured) and value in op.operands[: op.leading]:
                raise Seen
            return [(v, axis) for slot in self.slots.get(value, ()) for v in slot.values]
        if op.name in ("store", "descriptor_store"):
            self._check_store(op, value, axis, bound)
            return []
        if op.name == "load" and (value is not op.pointer or shape_of(value.type) != shape_of(op.result.type)):
            raise Seen
        if op.name == "dot":
            return [(op.result, self._through_dot(op, value, axis))]
        if op.name == "reduce" and op.axis != axis:
            return [(r, axis - (op.axis < axis)) for r in op.results]
        if op.name == "expand_dims":
            return [(op.result, axis + (op.axis <= axis))]
        if op.name == "trans":
            return [(op.result, op.order.index(axis))]
        if op.name == "load" or op.name in _ALIGNED or isinstance(op, Elementwise):
            before, after = shape_of(value.type), shape_of(op.result.type)
            moved = axis + len(after) - len(before)
            if before[axis] != after[moved]:
                raise Seen
            return [(op.result, moved)]
        raise Seen

    @staticmethod
    def _through_dot(op: Op, value: Value, axis: int) -> int:
        """Rows of a product depend on rows of its left operand, columns on columns of the right one."""
        expected = {axis_ for operand, axis_ in ((op.x, 0), (op.y, 1), (op.acc, axis)) if operand is value}
        if expected != {axis} or len(shape_of(value.type)) != 2:
            raise Seen
        return axis

    def _check_store(self, op: Op, value: Value, axis: int, bound: Polynomial) -> None:
        """What is beyond the bound is left out of a store."""
        if op.name == "store" and value is op.mask:
            raise Seen
        try:
            if isinstance(op, DescriptorStore):
                upper = self._upper_of_box(op, axis)
            else:
                moved = axis + len(shape_of(op.pointer.type)) - len(shape_of(value.type))
                limits = self.boxes.limits(op.mask, shape_of(op.pointer.type)).get(moved)
                upper = limits.upper if limits is not None else None
        except (NoBox, NoForm):
            raise Seen from None
        if upper != bound:
            raise Seen

    def _upper_of_box(self, op: DescriptorStore, axis: int) -> Polynomial | None:
        """Where the array ends along an axis of the block that is stored to it, counted from the first element."""
        made = op.descriptor.owner
        if not isinstance(made, Op) or made.name != "make_descriptor" or axis not in op.axes:
            return None
        along = op.axes.index(axis)
        return self.boxes.forms.of(made.shape[along]).scalar - self.boxes.forms.of(op.offsets[along]).scalar


_ALIGNED = frozenset({"select", "cast", "bitcast", "addptr", "broadcast", "hint"})  # element by element
