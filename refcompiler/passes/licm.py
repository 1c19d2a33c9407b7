"""Loop-invariant code motion: pure ops with operands from outside a loop move before it, inner loops first."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value


def licm(func: Func, context: Any = None) -> None:
    """Hoist out of every loop; safe where the loop never runs, since pure ops neither trap nor touch memory."""
    _block(func.body)


def _block(block: Block) -> None:
    out: list[Op] = []
    for op in block.ops:
        if op.name == "for":
            _block(op.body)
            out += _hoist(op)
        elif op.body is not None:
            _block(op.body)
        out.append(op)
    block.ops = out


def _hoist(loop: Op) -> list[Op]:
    """Take the invariant ops out of the loop's body and return them in order."""
    inside: set[Value] = set(loop.body.args)
    hoisted, kept = [], []
    for op in loop.body.ops:
        invariant = (
            op.pure
            and op.body is None
            and not any(o in inside for o in op.operands if o is not None and not isinstance(o, Constant))
        )
        if invariant and op.results:
            hoisted.append(op)
        else:
            kept.append(op)
            inside.update(op.results)
    loop.body.ops = kept
    return hoisted
