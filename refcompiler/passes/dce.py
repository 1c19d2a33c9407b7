"""Dead code elimination: ops without effect whose results nobody uses, and carried values that feed only themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refcompiler.dialects.scf import Structured
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
    if op.name == "while":
        return True  # it may wait for other programs, or never end
    return any(_has_effect(o) for region in op.regions for o in region.ops)


def _needed(op: Op, live: set[Value]) -> bool:
    return _has_effect(op) or any(r in live for r in op.results)


def _mark(block: Block, live: set[Value]) -> bool:
    """Add what the needed ops of ``block`` use; True if the set grew."""
    size = len(live)
    for op in reversed(block.ops):
        if op.terminator or not _needed(op, live):
            continue
        if isinstance(op, Structured):
            _add(live, op.controls())
            for slot in op.slots():
                if any(value in live for value in slot.values):
                    _add(live, [*slot.values, *slot.sources])
        else:
            _add(live, op.operands)
            for region in op.regions:
                _add(live, region.terminator.operands)
        for region in op.regions:
            _mark(region, live)
    return len(live) > size


def _add(live: set[Value], values: Iterable[Value | None]) -> None:
    live.update(v for v in values if v is not None and not isinstance(v, Constant))


def _sweep(block: Block, live: set[Value]) -> None:
    block.ops = [op for op in block.ops if op.terminator or _needed(op, live)]
    for op in block.ops:
        if isinstance(op, Structured):
            slots = op.slots()
            kept = [i for i, slot in enumerate(slots) if any(value in live for value in slot.values)]
            if len(kept) < len(slots):
                op.keep(kept)
        for region in op.regions:
            _sweep(region, live)
