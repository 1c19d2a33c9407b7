"""Round every extent up to a power of two, and keep what lies beyond an extent out of memory and of combinations."""

from __future__ import annotations

from math import prod
from typing import Any

from refcompiler.dialects.tile.reduction import identity
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.rebuilder import Rebuilder
from refcompiler.ir.types import (
    BOOL,
    I32,
    BlockType,
    DType,
    Type,
    element_of,
    padded,
    power_of_two_above,
    shape_of,
)

Shape = tuple[int, ...]


def pad_extents(func: Func, context: Any = None) -> Func | None:
    """The function with blocks of power-of-two extents only; None, and nothing changed, where all are that already.

    An element beyond an extent holds anything: elementwise ops compute it along, and none of them traps. What gives
    elements an effect leaves those out: loads, stores and assertions by their masks, reductions and scans by the
    combination's identity, or, where it has none, by a flag for each element that says whether it counts.
    """
    values = [
        *(r for op in func.walk() for r in op.results),
        *(a for op in func.walk() for region in op.regions for a in region.args),
    ]
    if all(padded(v.type) == v.type for v in values):
        return None
    return _Padder(func).run()


class _Padder(Rebuilder):
    """Every extent rounded up; masks of what counts are made once, at the top of the function."""

    def __init__(self, func: Func):
        super().__init__(func, func.attrs)
        self.builder = Builder(Block())
        self.top = Builder(Block(), func.span)
        self.masks: dict[tuple, Value] = {}
        self.from_indices: set[Value] = set()  # old blocks that hold a value beyond their extents too

    def run(self) -> Func:
        self.block(self.old.body)
        for op in (*self.top.block.ops, *self.builder.block.ops):
            self.new.body.append(op)
        return self.new

    def typed(self, old: Value) -> Type:
        return padded(old.type)

    def done(self, op: Op) -> None:
        made = op.operands and op.pure and not op.regions and all(self.has_values(o) for o in op.operands)
        if made or op.name == "arange":
            self.from_indices.update(op.results)

    def has_values(self, old: Value | None) -> bool:
        """Whether a value is one everywhere, not poison that a masked access made."""
        return old is None or not isinstance(old.type, BlockType) or old in self.from_indices

    # --- what counts
    def within(self, shape: Shape, axis: int) -> Value:
        """Along ``axis`` of ``shape``, all other axes of extent 1, whether an index is below the extent."""
        key = (len(shape), axis, shape[axis])
        if key not in self.masks:
            extent = power_of_two_above(shape[axis])
            index = self._once(("arange", extent), "arange", start=0, end=extent, types=[BlockType(I32, (extent,))])
            mask = self._once(("below", shape[axis]), "cmp_lt", index, Constant(shape[axis], I32))
            for other in range(len(shape)):
                if other != axis:
                    mask = self.top.value("expand_dims", mask, axis=other)
            self.masks[key] = mask
        return self.masks[key]

    def _once(self, key: tuple, name: str, *operands: Value, **fields: Any) -> Value:
        if key not in self.masks:
            self.masks[key] = self.top.value(name, *operands, **fields)
        return self.masks[key]

    def counts(self, shape: Shape) -> Value | None:
        """Which elements of a padded block are elements of ``shape``, up to broadcasting; None if all of them are."""
        mask = None
        for axis, extent in enumerate(shape):
            if extent & (extent - 1):
                along = self.within(shape, axis)
                mask = along if mask is None else self._once((shape[: axis + 1], len(shape)), "and", mask, along)
        return mask


def _arange(pad: _Padder, op: Op) -> list[Value]:
    """Beyond the end counting goes on, and wraps where i32 ends."""
    extent = power_of_two_above(op.end - op.start)
    if op.start + extent <= 1 << 31:
        return pad.rebuild(op, end=op.start + extent)
    index = pad.builder.value("arange", start=0, end=extent, types=[BlockType(I32, (extent,))])
    return [pad.builder.value("add", index, Constant(op.start, I32))]


def _access(pad: _Padder, op: Op) -> list[Value]:
    """A load or store touches no memory beyond the extents."""
    shape = shape_of(op.results[0].type) if op.results else shape_of(op.pointer.type)
    valid = pad.counts(shape)
    operands = [pad.get(o) for o in op.operands]
    position = [field.name for field in op.operand_fields].index("mask")
    if valid is not None:
        operands[position] = _both(pad, op.operands[position], valid)
    return pad.rebuild(op, *operands)


def _both(pad: _Padder, mask: Value | None, valid: Value) -> Value:
    """``mask`` of the old function, and no element beyond the extents, where the mask may be made of poison."""
    if mask is None:
        return valid
    if pad.has_values(mask):
        return pad.builder.value("and", pad.get(mask), valid)
    return pad.builder.value("select", valid, pad.get(mask), Constant(False, BOOL))


def _assert(pad: _Padder, op: Op) -> list[Value]:
    valid = pad.counts(shape_of(op.condition.type))
    condition = pad.get(op.condition)
    if valid is not None:
        condition = pad.builder.value("select", valid, condition, Constant(True, BOOL))
    return pad.rebuild(op, condition)


def _combine(pad: _Padder, op: Op) -> list[Value]:
    """A reduction or scan in which elements beyond the extents do not take part."""
    shape = shape_of(op.blocks[0].type)
    valid = pad.counts(shape)
    if valid is None:
        return pad.rebuild(op)
    neutral = identity(op.combine, element_of(op.blocks[0].type)) if op.body is None else None
    blocks = [_settled(pad, valid, pad.get(b), neutral) for b in op.blocks]
    after = op.name == "scan" and not op.reverse  # what is beyond the extent comes after all that counts
    if after or neutral is not None or not shape[op.axis] & (shape[op.axis] - 1):
        return pad.rebuild(op, *blocks) if op.body is None else _cloned(pad, op, blocks)
    return _flagged(pad, op, blocks, shape)


def _settled(pad: _Padder, valid: Value, block: Value, neutral: Constant | None) -> Value:
    """``block`` with a value of no consequence beyond the extents, where it might hold none at all."""
    element = element_of(block.type)
    if not isinstance(element, DType):
        return block
    return pad.builder.value("select", valid, block, neutral or Constant(0, element))


def _cloned(pad: _Padder, op: Op, blocks: list[Value], body: Block | None = None) -> list[Value]:
    """The op with a region on other blocks."""
    values: dict[Value, Value] = dict(pad.values)
    if body is None:
        body = Block([Value(a.type, a.name) for a in op.body.args])
        values.update(zip(op.body.args, body.args, strict=True))
        for inner in op.body.ops:
            body.append(inner.clone(values))
    new = pad.builder.op(op.name, *blocks, body=body, **{**op.attrs, "combine": ""})
    new.spans = op.spans
    return new.results


def _flagged(pad: _Padder, op: Op, blocks: list[Value], shape: Shape) -> list[Value]:
    """Combine pairs of elements and flags: where one of two does not count the other stays as it is."""
    flag = pad.within(shape, op.axis)
    whole = tuple(map(power_of_two_above, shape))
    if shape_of(flag.type) != whole:
        flag = pad.builder.value("broadcast", flag, types=[BlockType(BOOL, whole)])
    elements = [element_of(b.type) for b in blocks]
    body = Block([Value(t) for t in (*elements, BOOL) * 2])
    count = len(elements) + 1
    left, right = body.args[:count], body.args[count:]
    with pad.builder.inside(body):
        combined = _combined(pad, op, [*left[:-1], *right[:-1]])
        chosen = []
        for both, x, y in zip(combined, left, right, strict=False):
            chosen.append(pad.builder.value("select", left[-1], pad.builder.value("select", right[-1], both, x), y))
        pad.builder.op("yield", *chosen, pad.builder.value("or", left[-1], right[-1]))
    return _cloned(pad, op, [*blocks, flag], body)[:-1]


def _combined(pad: _Padder, op: Op, arguments: list[Value]) -> list[Value]:
    """What the combination of ``op`` gives for the scalars ``arguments``, computed here."""
    if op.body is None:
        return [pad.builder.value(op.combine, *arguments)]
    values = {**pad.values, **dict(zip(op.body.args, arguments, strict=True))}
    for inner in op.body.ops:
        if inner.terminator:
            return [values.get(v, v) for v in inner.operands]
        pad.builder.add(inner.clone(values))
    raise AssertionError("a region ends with yield")


def _reshape(pad: _Padder, op: Op) -> list[Value]:
    """As it is where the order of padded elements is that of the elements; else each is fetched from its place."""
    source, target = shape_of(op.x.type), shape_of(op.result.type)
    if keeps_order(source, target):
        return pad.rebuild(op)
    build, whole = pad.builder, padded(op.result.type)
    flat = BlockType(whole.element, (padded(op.x.type).numel,))
    index = _places(build, source, target)
    index = build.value("select", pad.counts(target), index, Constant(0, I32))
    index = _as(build, index, BlockType(I32, (whole.numel,)))
    picked = build.value("gather", _as(build, pad.get(op.x), flat), index, axis=0)
    return [_as(build, picked, whole)]


def _places(build: Builder, source: Shape, target: Shape) -> Value:
    """For each element of a padded block of shape ``target`` its place in the padded block of shape ``source``."""
    number = None  # in row-major order, counting what is no padding
    for axis, extent in enumerate(target):
        room = power_of_two_above(extent)
        along = build.value("arange", start=0, end=room, types=[BlockType(I32, (room,))])
        for other in range(len(target)):
            if other != axis:
                along = build.value("expand_dims", along, axis=other)
        along = _scaled(build, "mul", along, prod(target[axis + 1 :]))
        number = along if number is None else build.value("add", number, along)
    place = None
    for axis, extent in enumerate(source):
        along = _scaled(build, "div", number, prod(source[axis + 1 :]))
        if axis:
            along = build.value("rem", along, Constant(extent, I32))
        along = _scaled(build, "mul", along, prod(map(power_of_two_above, source[axis + 1 :])))
        place = along if place is None else build.value("add", place, along)
    return place


def _scaled(build: Builder, name: str, value: Value, factor: int) -> Value:
    return value if factor == 1 else build.value(name, value, Constant(factor, I32))


def _as(build: Builder, value: Value, type_: Type) -> Value:
    """A reshape where it is one."""
    return value if value.type == type_ else build.value("reshape", value, types=[type_])


def _gather(pad: _Padder, op: Op) -> list[Value]:
    """Beyond the extents of the index the first element is as good as any."""
    valid, index = pad.counts(shape_of(op.index.type)), pad.get(op.index)
    if valid is not None:
        index = pad.builder.value("select", valid, index, Constant(0, element_of(op.index.type)))
    return pad.rebuild(op, pad.get(op.x), index)


def _dot(pad: _Padder, op: Op) -> list[Value]:
    """Beyond K both operands are 0, and so are their products; rows and columns beyond M and N are nobody's."""
    operands = [pad.get(o) for o in op.operands]
    for position, old in enumerate((op.x, op.y)):
        valid = pad.counts(shape_of(old.type))
        if valid is not None:
            operands[position] = _settled(pad, valid, operands[position], None)
    return pad.rebuild(op, *operands)


def _warpgroup_dot(pad: _Padder, op: Op) -> list[Value]:
    """No instruction computes columns beyond an extent."""
    columns = shape_of(op.result.type)[1]
    return pad.rebuild(op, columns=columns if columns & (columns - 1) else 0)


def keeps_order(source: Shape, target: Shape) -> bool:
    """Whether the reshape of the padded block is the padded reshape.

    The two shapes fall into groups of axes with equal numbers of elements, as short as possible. In a group the place
    of an element does not change if all its axes but the first are powers of two.
    """
    for group in _groups(source, target):
        if any(extent & (extent - 1) for side in group for extent in side[1:]):
            return False
    return True


def _groups(source: Shape, target: Shape) -> list[tuple[Shape, Shape]]:
    groups = []
    source, target = (tuple(e for e in shape if e > 1) for shape in (source, target))
    while source or target:
        i = j = 1
        left, right = source[0], target[0]
        while left != right:
            if left < right:
                left, i = left * source[i], i + 1
            else:
                right, j = right * target[j], j + 1
        groups.append((source[:i], target[:j]))
        source, target = source[i:], target[j:]
    return groups


_Padder.rules = {
    "arange": _arange,
    "gather": _gather,
    "assert": _assert,
    "dot": _dot,
    "load": _access,
    "store": _access,
    "atomic_rmw": _access,
    "atomic_cas": _access,
    "reduce": _combine,
    "scan": _combine,
    "reshape": _reshape,
    "warpgroup_dot": _warpgroup_dot,
}
