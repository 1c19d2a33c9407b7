"""Dead code elimination: ops without effect whose results nobody uses, and carried values that feed only themselves."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value

_REMOVABLE_EFFECTS = frozenset({"read"})  # a load that nobody uses may go


def dce(func: Func, context: Any = None) -> None:
    """Mark what stores, asserts and barriers need, then sweep the rest."""
    live: set[Value] = set()
    while _mark(func.body, live):
        pass  # a loop's carried value can make values before it live: repeat until nothing is added
    _sweep(func.body, live)


def _has_effect(op: Op) -> bool:
    if op.effects - _REMOVABLE_EFFECTS:
        return True
    return op.body is not None and any(_has_effect(o) for o in op.body.ops)


def _needed(op: Op, live: set[Value]) -> bool:
    return _has_effect(op) or any(r in live for r in op.results)


def _mark(block: Block, live: set[Value]) -> bool:
    """Add what the needed ops of ``block`` use; True if the set grew."""
    size = len(live)
    for op in reversed(block.ops):
        if op.terminator or not _needed(op, live):
            continue
        if op.name == "for":
            _mark_loop(op, live)
        else:
            if op.body is not None:
                _add(live, op.body.terminator.operands)
                _mark(op.body, live)
            _add(live, op.operands)
    return len(live) > size


def _mark_loop(op: Op, live: set[Value]) -> None:
    """A carried value lives if its result or its argument does; then so do what it starts from and what is yielded."""
    _add(live, op.operands[:3])
    carried = op.body.args[1:]
    for init, arg, yielded, result in zip(op.inits, carried, op.body.terminator.operands, op.results, strict=True):
        if arg in live or result in live:
            _add(live, [init, arg, yielded, result])
    _mark(op.body, live)


def _add(live: set[Value], values: list[Value | None]) -> None:
    live.update(v for v in values if v is not None and not isinstance(v, Constant))


def _sweep(block: Block, live: set[Value]) -> None:
    block.ops = [op for op in block.ops if op.terminator or _needed(op, live)]
    for op in block.ops:
        if op.name == "for":
            _drop_dead_carries(op, live)
        if op.body is not None:
            _sweep(op.body, live)


def _drop_dead_carries(op: Op, live: set[Value]) -> None:
    index, *args = op.body.args
    keep = [i for i, (arg, result) in enumerate(zip(args, op.results, strict=True)) if arg in live or result in live]
    if len(keep) == len(args):
        return
    op.operands = op.operands[:3] + [op.inits[i] for i in keep]
    op.results = [op.results[i] for i in keep]
    op.body.args = [index, *(args[i] for i in keep)]
    terminator = op.body.terminator
    terminator.operands = [terminator.operands[i] for i in keep]
