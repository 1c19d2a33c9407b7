"""Skip what only selects read, in warps none of whose rows have an extremum beyond a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from refcompiler.dialects.laid_out import BEYOND
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import DType, element_of
from refcompiler.layouts import reduction
from refcompiler.remarks import remark

_VIEWS = frozenset({"expand_dims", "broadcast", "convert_layout"})


def skip_unselected(func: Func, context: Any) -> None:
    """Where a condition is that the extremum of a row lies beyond a bound, a warp first asks whether any of its own
    elements does. If none does, the condition is false throughout: the warp goes without the exchange between lanes
    that the extremum takes, and without what is read only by selects on that condition, where it is true.

    Nothing else changes: selects give the same elements, and what is skipped has no effects.
    """
    for block in list(_blocks(func.body)):
        for condition in [op for op in block.ops if op.name in BEYOND.values()]:
            if condition in block.ops and (found := _find(func, block, condition)) is not None:
                _rebuild(func, block, found)
                message = "warps without an element beyond the bound skip what depends on one"
                remark(context, "skip_unselected", found.extremum, message, applied=True)


class _Found(NamedTuple):
    """A condition, the reduction that it compares with a bound, the selects by it, and all that only these read."""

    condition: Op
    extremum: Op
    bound: Value
    selects: list[Op]
    skipped: set[Op]


@dataclass(eq=False)
class _Group:
    """Selects that are made together, where one of them stood."""

    place: int
    selects: list[Op]
    ops: list[Op]  # with all that they need and no earlier group has, in program order


def _find(func: Func, block: Block, condition: Op) -> _Found | None:
    """What a warp can skip; None where that has no exchange between lanes."""
    x, bound = condition.operands
    if not (isinstance(x, Value) and isinstance(x.owner, Op) and x.owner.name == "reduce"):
        return None
    extremum = x.owner
    if extremum not in block.ops or BEYOND.get(extremum.combine) != condition.name or bound.type != x.type:
        return None
    plan = reduction(extremum.blocks[0].type.layout, extremum.axis)
    if isinstance(bound, Constant) or plan.crosses_warps or not plan.lane_masks:
        return None
    conditions, selects = {condition.result}, []
    for op in block.ops:
        if op.name in _VIEWS and op.operands[0] in conditions:
            conditions.add(op.result)
        elif op.name == "select" and op.condition in conditions:
            selects.append(op)
    skipped = _read_by_selects(func, block, selects, {bound, extremum.blocks[0]})
    return _Found(condition, extremum, bound, selects, skipped) if {condition, extremum} <= skipped else None


def _read_by_selects(func: Func, block: Block, selects: list[Op], kept: set[Value]) -> set[Op]:
    """The ops of a block whose results nothing reads but each other and ``selects``, these not where their condition is
    false; without those that give one of ``kept``."""
    users: dict[Value, list[tuple[Op, int]]] = {}
    for op in func.walk():
        for index, value in enumerate(op.operands):
            if value is not None:
                users.setdefault(value, []).append((op, index))
    found: set[Op] = set()
    for op in reversed(block.ops):
        if not op.pure or op.regions or op in selects or kept & set(op.results):
            continue
        uses = [use for result in op.results for use in users.get(result, ())]
        if uses and all(user in found or (user in selects and index < 2) for user, index in uses):
            found.add(op)
    return found


def _rebuild(func: Func, block: Block, found: _Found) -> None:
    """Put each group of selects, with what it needs, into a branch."""
    groups = _groups(block, found)
    later = {group.place: group for group in groups}
    old, block.ops = block.ops, []
    values: dict[Value, Value] = {}  # what is read of earlier branches
    beyond: Value | None = None
    for place, op in enumerate(old):
        if (group := later.get(place)) is not None:
            build = Builder(block, op.span)
            if beyond is None:
                beyond = build.value(
                    "any_beyond", found.extremum.blocks[0], found.bound,
                    axis=found.extremum.axis, combine=found.extremum.combine,
                )  # fmt: skip
            _branch(build, beyond, group, groups[groups.index(group) + 1 :], values)
        if op not in found.skipped and op not in found.selects:
            block.ops.append(op)
    for op in func.walk():
        op.operands = [o if o is None else values.get(o, o) for o in op.operands]


def _groups(block: Block, found: _Found) -> list[_Group]:
    """As few groups as there can be: a select is made where an earlier one is, or that one where this one is."""
    places = {op: place for place, op in enumerate(block.ops)}
    inside = {*found.skipped, *found.selects}
    groups: list[_Group] = []
    done: set[Op] = set()
    for select in found.selects:
        needed = _needed(select, found) - done
        group = groups[-1] if groups else _Group(places[select], [], [])
        outside = {v.owner for op in {select, *needed} for v in op.operands if v is not None} - inside
        given = {op.result for op in group.selects}
        between = [op for op in block.ops[group.place : places[select]] if op not in inside]
        if any(places.get(op, -1) > group.place for op in outside):
            if any(given & set(_read(op)) for op in between):
                group = _Group(places[select], [], [])
            group.place = places[select]
        if group not in groups:
            groups.append(group)
        group.selects.append(select)
        group.ops = sorted([*group.ops, *needed, select], key=places.__getitem__)
        done |= needed
    return groups


def _read(op: Op) -> list[Value | None]:
    """What an op and those in its regions read."""
    return [*op.operands, *(v for region in op.regions for inner in region.walk() for v in inner.operands)]


def _needed(select: Op, found: _Found) -> set[Op]:
    """What is skipped and read by a select, directly or through others of these."""
    needed: set[Op] = set()
    wanted = [select]
    while wanted:
        owners = {v.owner for v in wanted.pop().operands if v is not None and isinstance(v.owner, Op)}
        new = [op for op in owners if op in found.skipped and op not in needed]
        needed.update(new)
        wanted += new
    return needed


def _branch(build: Builder, beyond: Value, group: _Group, later: list[_Group], values: dict[Value, Value]) -> None:
    """``group`` where an element is beyond its bound; else what its selects give where their condition is false. What
    later groups read is 0 there, and not selected."""
    read = {v for other in later for op in other.ops for v in op.operands}
    given = [v for op in group.ops for v in op.results if op in group.selects or v in read]
    inner = dict(values)
    then, orelse = Block(), Block()
    for op in group.ops:
        then.append(op.clone(inner))
    ends = [inner[v] for v in given]
    with build.inside(then):
        build.op("yield", *ends)
    with build.inside(orelse):
        others = [values.get(v.owner.y, v.owner.y) if v.owner in group.selects else _zeros(build, v) for v in given]
        build.op("yield", *others)
    results = build.op("if", beyond, regions=[then, orelse], types=[v.type for v in given]).results
    for old, new in zip(given, results, strict=True):
        new.name = old.name
        values[old] = new


def _zeros(build: Builder, value: Value) -> Value:
    dtype = element_of(value.type)
    assert isinstance(dtype, DType)
    zero = False if dtype.is_bool else 0.0 if dtype.is_float else 0
    return build.value("full", Constant(zero, dtype), types=[value.type])


def _blocks(block: Block) -> list[Block]:
    """A block and all inside it."""
    return [block, *(inner for op in block.ops for region in op.regions for inner in _blocks(region))]
