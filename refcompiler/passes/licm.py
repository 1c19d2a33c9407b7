"""Loop-invariant code motion: pure ops with operands from outside a loop move before it, inner loops first."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BlockType, DType, RegType, element_of

_LOOPS = frozenset({"for", "while"})
REGISTER_BYTES = 4


def licm(func: Func, context: Any = None) -> None:
    """Hoist out of every loop; safe where the loop never runs, since pure ops neither trap nor touch memory."""
    _block(func.body)


def _block(block: Block) -> None:
    out: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _block(region)
        if op.name in _LOOPS:
            out += _hoist(op)
        out.append(op)
    block.ops = out


def _hoist(loop: Op) -> list[Op]:
    """Take the invariant ops out of the loop's regions and return them in order. A block of small elements that is made
    wider stays as it is for the ops that stay, and what made it wider stays with them."""
    inside: set[Value] = {arg for region in loop.regions for arg in region.args}
    invariant: set[Op] = set()
    staying: set[Value | None] = set()
    for op in (op for region in loop.regions for op in region.ops):
        if _invariant(op, inside):
            invariant.add(op)
        else:
            inside.update(op.results)
            staying.update(op.operands)
            staying.update(o for region in op.regions for inner in region.walk() for o in inner.operands)
    hoisted: list[Op] = []
    copies: dict[Value, Value] = {}
    for region in loop.regions:
        kept = []
        for op in region.ops:
            if op not in invariant:
                kept.append(op)
            elif _widens(op) and op.result in staying:
                kept.append(op)
                hoisted.append(op.clone(copies))  # for what is hoisted
            else:
                op.operands = [o if o is None else copies.get(o, o) for o in op.operands]
                hoisted.append(op)
        region.ops = kept
    needed = {o for op in hoisted for o in op.operands}
    return [op for op in hoisted if op.results[0] not in copies.values() or op.results[0] in needed]


def _invariant(op: Op, inside: set[Value]) -> bool:
    if not op.pure or op.regions or not op.results:
        return False
    return not any(o in inside for o in op.operands if o is not None and not isinstance(o, Constant))


def _widens(op: Op) -> bool:
    """Whether it makes more registers of a block: held during a loop they cost more than the instruction."""
    if op.name != "cast" or not isinstance(op.result.type, BlockType | RegType):
        return False
    source, target = element_of(op.x.type), element_of(op.result.type)
    return isinstance(source, DType) and source.itemsize < min(REGISTER_BYTES, target.itemsize)
