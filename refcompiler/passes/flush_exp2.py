"""exp2 of f32 without subnormal results, where the kernel option ``enable_reflect_ftz`` asks for it."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Func, Op, Value
from refcompiler.ir.rewriter import Rewriter, rewrite
from refcompiler.ir.types import F32, element_of


def flush_exp2(func: Func, context: Any = None) -> None:
    """Results that are subnormal become 0 if the option says so: the instruction gives no others by itself."""
    if context is not None and context.options.enable_reflect_ftz:
        Rewriter((flushed,), fold=False).run(func)


@rewrite("exp2")
def flushed(op: Op, rw: Rewriter) -> Value | None:
    """exp2(x) -> exp2_ftz(x) in f32."""
    return rw.op("exp2_ftz", op.x) if element_of(op.result.type) is F32 else None
