"""Loop-invariant code motion: pure ops with operands from outside a loop move before it, inner loops first."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value

_LOOPS = frozenset({"for", "while"})


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
    """Take the invariant ops out of the loop's regions and return them in order."""
    inside: set[Value] = {arg for region in loop.regions for arg in region.args}
    hoisted: list[Op] = []
    for region in loop.regions:
        kept = []
        for op in region.ops:
            if _invariant(op, inside):
                hoisted.append(op)
            else:
                kept.append(op)
                inside.update(op.results)
        region.ops = kept
    return hoisted


def _invariant(op: Op, inside: set[Value]) -> bool:
    if not op.pure or op.regions or not op.results:
        return False
    return not any(o in inside for o in op.operands if o is not None and not isinstance(o, Constant))
