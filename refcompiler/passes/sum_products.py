"""Add the products of a sum by fma: where a thread sums products of its own, half of them need no instruction."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Block, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.rewriter import uses
from refcompiler.ir.types import F32, RegType, element_of

Parts = tuple[Op, tuple[int, ...], tuple[int, ...]]  # a product, and its registers on either side of a sum


def sum_products(func: Func, context: Any = None) -> None:
    """Rewrite a sum of two parts of the registers of one product, ``p[i] + p[j]`` with ``p = x * y`` that nothing else
    uses, to ``fma(x[i], y[i], x[j] * y[j])``, unless the kernel option ``enable_fp_fusion`` is off."""
    if context is None or context.options.enable_fp_fusion:
        _block(func.body, uses(func))


def _block(block: Block, counts: dict[Value, int]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _block(region, counts)
        parts = _parts(op, counts) if op.name == "add" and element_of(op.result.type) is F32 else None
        if parts is not None:
            op = _contracted(op, parts, ops)
        ops.append(op)
    block.ops = ops


def _parts(op: Op, counts: dict[Value, int]) -> Parts | None:
    made = [value.owner for value in (op.x, op.y)]
    if any(not isinstance(o, Op) or o.name != "extract" or counts.get(o.result) != 1 for o in made):
        return None
    left, right = made
    product = left.x.owner
    if left.x is not right.x or counts.get(left.x) != 2 or not isinstance(product, Op) or product.name != "mul":
        return None
    return (product, left.indices, right.indices) if not set(left.indices) & set(right.indices) else None


def _contracted(op: Op, parts: Parts, ops: list[Op]) -> Op:
    """The fma that stands for ``op``; what it takes is appended to ``ops``."""
    product, left, right = parts
    made: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def picked(value: Value, indices: tuple[int, ...]) -> Value:
        if not isinstance(value.type, RegType):
            return value
        if (value, indices) not in made:
            made[value, indices] = _append(ops, "extract", value, indices=indices, span=op.span)
        return made[value, indices]

    rest = _append(ops, "mul", picked(product.x, right), picked(product.y, right), span=op.span)
    new = OPS["fma"](picked(product.x, left), picked(product.y, left), rest, span=op.span)
    new.spans = op.spans
    op.result.owner = new
    new.results[0] = op.result
    return new


def _append(ops: list[Op], name: str, *operands: Value, **fields: Any) -> Value:
    ops.append(OPS[name](*operands, **fields))
    return ops[-1].result
