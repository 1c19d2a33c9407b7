"""Which axes of blocks go together, so that all of them are divided among CTAs or none is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refcompiler.dialects.elementwise import ELEMENTWISE
from refcompiler.dialects.scf import Structured
from refcompiler.dialects.tile.reduction import Combination
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import BlockType, shape_of

Axis = tuple[Value, int]

_TOGETHER = frozenset({*ELEMENTWISE, "select", "cast", "bitcast", "addptr", "full", "empty", "hint", "broadcast"})
_ACCESSES = frozenset({"load", "store"})
_ALONE = frozenset({"arange", "assert", "program_id", "num_programs"})


class CommonAxes:
    """The axes of all blocks of a function in classes: ops give elements of one index along any of them from elements
    of the same index along the others. ``fixed`` are axes along which an op needs all elements in one place."""

    def __init__(self, func: Func):
        self._parent: dict[Axis, Axis] = {}
        self._fixed: set[Axis] = set()
        self.accessed: dict[Axis, int] = {}  # elements that loads and stores access, by axis
        self.reduced: set[Axis] = set()
        self.blocks: list[Value] = []
        values = [*(r for op in func.walk() for r in op.results)]
        values += [a for op in func.walk() for region in op.regions for a in region.args]
        self.blocks = [v for v in values if isinstance(v.type, BlockType)]
        for op in func.walk():
            self._visit(op)

    # --- what others ask
    def of(self, value: Value, axis: int) -> Axis:
        """One axis that stands for the class of this one."""
        at = (value, axis)
        while (above := self._parent.get(at, at)) != at:
            at = above
        return at

    def choice(self, ctas: int) -> Axis | None:
        """The class to divide among ``ctas`` CTAs: one that is not reduced where there is one, since then nothing is
        exchanged, and the one that divides most of what is accessed; None where none can be divided."""
        fixed = {self.of(*axis) for axis in self._fixed}
        accessed: dict[Axis, int] = {}
        for place, elements in self.accessed.items():
            accessed[self.of(*place)] = accessed.get(self.of(*place), 0) + elements
        for value in self.blocks:
            classes = [self.of(value, axis) for axis in range(value.type.rank)]
            for axis, extent in enumerate(value.type.shape):
                if classes.count(classes[axis]) > 1 or extent % ctas or extent == 1:
                    fixed.add(classes[axis])
        reduced = {self.of(*axis) for axis in self.reduced}
        possible = [axis for axis in accessed if axis not in fixed]
        return min(possible, key=lambda axis: (axis in reduced, -accessed[axis]), default=None)

    # --- ops
    def _visit(self, op: Op) -> None:
        if op.name in _TOGETHER:
            self._aligned([*op.operands, *op.results])
        elif op.name in _ACCESSES:
            self._aligned([*op.operands, *op.results])
            shape = shape_of(op.result.type) if op.results else shape_of(op.pointer.type)
            anchor = op.result if op.results else op.pointer
            for axis, extent in enumerate(shape):
                if extent > 1:
                    self.accessed[anchor, axis] = self.accessed.get((anchor, axis), 0) + _numel(shape)
        elif isinstance(op, Combination):
            self._combination(op)
        elif op.name == "expand_dims":
            self._pairs(op.x, op.result, [d + (d >= op.axis) for d in range(_rank(op.x))])
        elif op.name == "trans":
            self._pairs(op.result, op.x, op.order)
        elif isinstance(op, Structured):
            for slot in op.slots():
                self._aligned([*slot.values, *slot.sources])
        elif op.name not in _ALONE and not op.terminator:
            self._fix([*op.operands, *op.results])

    def _combination(self, op: Combination) -> None:
        self._aligned([*op.blocks, *(op.results if op.name == "scan" else ())])
        if op.name == "scan":
            self._fixed.add((op.blocks[0], op.axis))
            return
        self.reduced.add((op.blocks[0], op.axis))
        for block, result in zip(op.blocks, op.results, strict=True):
            self._pairs(result, block, [d + (d >= op.axis) for d in range(_rank(result))])

    def _aligned(self, values: Iterable[Value | None]) -> None:
        """Blocks that meet element by element, the last axes first; an axis of extent 1 stands for all indices."""
        blocks = [v for v in values if v is not None and not isinstance(v, Constant) and _rank(v)]
        for back in range(1, max(map(_rank, blocks), default=0) + 1):
            here = [(v, _rank(v) - back) for v in blocks if back <= _rank(v) and v.type.shape[-back] > 1]
            for axis in here[1:]:
                self._join(here[0], axis)

    def _pairs(self, first: Value, second: Value, axes: Sequence[int]) -> None:
        """Axis i of ``first`` is axis ``axes[i]`` of ``second``."""
        if isinstance(first, Constant) or isinstance(second, Constant):
            return
        for axis, other in enumerate(axes):
            self._join((first, axis), (second, other))

    def _fix(self, values: Iterable[Value | None]) -> None:
        for value in values:
            if value is not None and not isinstance(value, Constant):
                self._fixed.update((value, axis) for axis in range(_rank(value)))

    def _join(self, first: Axis, second: Axis) -> None:
        self._parent[self.of(*second)] = self.of(*first)


def _rank(value: Value) -> int:
    return len(shape_of(value.type))


def _numel(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
