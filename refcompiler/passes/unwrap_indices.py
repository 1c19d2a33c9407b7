"""Replace indices that `%` wraps around the end of an array by masked ones, where what lies beyond is never stored."""

from __future__ import annotations

from typing import Any

from refcompiler.analysis.boxes import Boxes
from refcompiler.analysis.forms import Form, NoForm
from refcompiler.analysis.unseen import Seen, Unseen
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op
from refcompiler.ir.types import shape_of


def unwrap_indices(func: Func, context: Any) -> None:
    """For targets with TMA: ``(offset + arange) % n`` keeps the rows of a tile beyond n inside of the array, though
    nobody looks at what is computed from them. A mask does the same, and leaves a box of what is loaded."""
    target = getattr(context, "target", None)
    if target is None or not (target.has_tma and target.has_wgmma) or not any(op.name == "dot" for op in func.walk()):
        return
    boxes = Boxes(func)
    for op in [op for op in func.walk() if op.name == "rem"]:
        form = _wrapped(op, boxes)
        if form is None:
            continue
        try:
            loads = Unseen(func, boxes).loads(op.result, boxes.forms.of(op.y).scalar - form.scalar)
        except Seen:
            continue
        _unwrap(func, op, loads)


def _wrapped(op: Op, boxes: Boxes) -> Form | None:
    """The form of ``offset + arange`` in ``(offset + arange) % n``, not negative; None for any other remainder."""
    if len(shape_of(op.x.type)) != 1 or shape_of(op.y.type):
        return None
    try:
        form, bound = boxes.forms.of(op.x), boxes.forms.of(op.y)
    except NoForm:
        return None
    counts = form.strides[0].number == 1 and boxes.forms.interval(form.scalar)[0] >= 0
    return form if counts and boxes.forms.parameters_only(bound.scalar) else None


def _unwrap(func: Func, op: Op, loads: dict[Op, int]) -> None:
    """Let everything use the indices as they were before ``op``, and mask ``loads``, along an axis each."""

    def block(old: Block) -> None:
        ops, old.ops = old.ops, []
        build = Builder(old)
        for each in ops:
            each.operands = [op.x if o is op.result else o for o in each.operands]
            if each in loads:
                with build.at(each.span):
                    _mask(each, build, op, loads[each])
            if each is not op:
                old.ops.append(each)
            for region in each.regions:
                block(region)

    block(func.body)


def _mask(load: Op, build: Builder, op: Op, axis: int) -> None:
    """What is beyond the end along ``axis`` is not loaded; where it was, zero is as good as any element."""
    inside = build.value("cmp_lt", op.x, op.y)
    for other in range(len(shape_of(load.pointer.type))):
        if other != axis:
            inside = build.value("expand_dims", inside, axis=other)
    mask = inside if load.mask is None else build.value("and", load.mask, inside)
    zero = Constant(0, load.pointer.type.element.pointee) if load.mask is None else load.other
    load.operands = [load.pointer, mask, zero]
