"""Contraction: a float product that only feeds a sum becomes one fma, so that every target rounds alike."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Func, Op, Value
from refcompiler.ir.rewriter import Rewriter, rewrite, uses
from refcompiler.ir.types import DType, element_of


def form_fma(func: Func, context: Any = None) -> None:
    """Form fma ops unless the kernel option ``enable_fp_fusion`` is off."""
    if context is None or context.options.enable_fp_fusion:
        _Contraction(func).run(func)


class _Contraction(Rewriter):
    """A rewriter that knows how often each value was used before it started."""

    def __init__(self, func: Func):
        super().__init__((add_of_product, sub_of_product), fold=False)
        self.uses = uses(func)

    def product(self, value: Value, op: Op) -> Op | None:
        """The float multiplication behind ``value``, where ``op`` is its only use and has its shape."""
        mul = value.owner
        if not (isinstance(mul, Op) and mul.name == "mul" and self.uses.get(value) == 1):
            return None
        element = element_of(value.type)
        return mul if isinstance(element, DType) and element.is_float and value.type == op.result.type else None


@rewrite("add")
def add_of_product(op: Op, rw: _Contraction) -> Value | None:
    """a * b + c -> fma(a, b, c); the left product where both operands are one."""
    for value, other in ((op.x, op.y), (op.y, op.x)):
        if (mul := rw.product(value, op)) is not None:
            return rw.op("fma", mul.x, mul.y, other)
    return None


@rewrite("sub")
def sub_of_product(op: Op, rw: _Contraction) -> Value | None:
    """a * b - c -> fma(a, b, -c) and c - a * b -> fma(-a, b, c); negation is exact."""
    if (mul := rw.product(op.x, op)) is not None:
        return rw.op("fma", mul.x, mul.y, rw.op("neg", op.y))
    if (mul := rw.product(op.y, op)) is not None:
        return rw.op("fma", rw.op("neg", mul.x), mul.y, op.x)
    return None
