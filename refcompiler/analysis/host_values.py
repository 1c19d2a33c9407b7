"""Which scalars a launch knows before the kernel runs: expressions over its scalar parameters."""

from __future__ import annotations

from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import DType

# ("param", name), ("const", n), or "add", "sub", "mul", "wrap" (to so many bits) before two of these
Expression = tuple
_WIDE = 64  # sums and products of this many bits are taken not to wrap: they count elements of memory
_KEPT = frozenset({"cast", "hint"})


def host_expression(value: Value | None, func: Func) -> Expression | None:
    """``value``, an integer, as an expression over the parameters of ``func``; None where it is none."""
    if isinstance(value, Constant):
        return ("const", int(value.value)) if not value.type.is_float else None
    if value is None or not isinstance(value.type, DType) or not value.type.is_int:
        return None
    if any(value is p for p in func.params):
        return ("param", str(value.name))
    op = value.owner
    if not isinstance(op, Op):
        return None
    if op.name in _KEPT:
        return host_expression(op.operands[0], func) if _widens(op) else None
    if op.name in ("add", "sub", "mul") and value.type.kind == "int":
        left, right = (host_expression(o, func) for o in op.operands)
        if left is None or right is None:
            return None
        found = (op.name, left, right)
        return found if value.type.bits == _WIDE else ("wrap", found, ("const", value.type.bits))
    return None


def _widens(op: Op) -> bool:
    """Whether every value of the operand is one of the result."""
    source, target = op.operands[0].type, op.result.type
    return source.is_int and source.min_int >= target.min_int and source.max_int <= target.max_int
