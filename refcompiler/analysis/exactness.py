"""Whether a function gives the same bits on every target: no inexact function, no float combined in a free order."""

from __future__ import annotations

from refcompiler.dialects.scalar import BY_NAME
from refcompiler.ir.core import Func, Op, Value
from refcompiler.ir.types import DType, element_of

ORDERED = frozenset({"add", "sub", "mul", "div", "div_rn", "fma"})  # of floats: the order of combinations shows


def is_exact(func: Func) -> bool:
    """Whether every op lies in the exact vocabulary: docs/decisions/0023-differential-fuzzing.md."""
    return all(map(_is_exact, func.walk()))


def _is_exact(op: Op) -> bool:
    row = BY_NAME.get(op.name)
    if row is not None:
        return row.exact
    if op.name in ("reduce", "scan"):
        combined = [op.combine] if op.body is None else [o.name for o in op.body.walk()]
        return not (any(_is_float(r) for r in op.results) and ORDERED.intersection(combined))
    if op.name == "dot":
        return not _is_float(op.result)
    return not op.name.startswith("atomic")  # which program comes first is nobody's choice


def _is_float(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, DType) and element.is_float
