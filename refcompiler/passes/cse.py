"""Common subexpression elimination: a pure op that stands again in scope is replaced by the first."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value


def cse(func: Func, context: Any = None) -> None:
    """Replace repeated pure ops, in nested regions by what their enclosing blocks already computed."""
    _block(func.body, ChainMap(), {})


def _block(block: Block, seen: ChainMap, values: dict[Value, Value]) -> None:
    kept = []
    for op in block.ops:
        op.operands = [values.get(o, o) if o is not None else None for o in op.operands]
        for region in op.regions:
            _block(region, seen.new_child(), values)
        key = _key(op)
        if key is not None and key in seen:
            values.update(zip(op.results, seen[key], strict=True))
            continue
        if key is not None:
            seen[key] = op.results
        kept.append(op)
    block.ops = kept


def _key(op: Op) -> tuple | None:
    """What makes two ops equal; None for ops that must stay: effects, regions, and ``empty``, whose elements differ."""
    if not op.results or op.regions or not op.pure or op.name == "empty":
        return None
    operands = [o.key() if isinstance(o, Constant) else id(o) for o in op.operands]
    if op.commutative:
        operands.sort(key=repr)
    attrs = tuple((k, type(v), repr(v)) for k, v in op.attrs.items())
    return (op.name, tuple(operands), attrs, tuple(r.type for r in op.results))
