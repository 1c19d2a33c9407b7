"""Scans along an axis: running combinations."""

from __future__ import annotations

from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, here
from refcompiler.frontend.language.arguments import element_type, normal_axis, static_bool
from refcompiler.frontend.language.reduction import operands, region, widened
from refcompiler.ir import Value
from refcompiler.ir.types import DType, element_of, shape_of

SPEC = "scan.associative_scan"


def _axis(c: Context, value: Value, axis: Any) -> int:
    return normal_axis(c, axis, len(shape_of(value.type)), "axis", f"{SPEC}#E3")


@builtin(member=True)
def associative_scan(input, axis, combine_fn, reverse=False):
    """The running combination along `axis` of a block, or of a tuple of blocks of one shape, each element included.

    `combine_fn` is a @jit function of the left and then the right scalars, giving as many; it must be associative.
    With `reverse` it runs from the last element to the first. Spec: scan.associative_scan
    """
    c = here()
    values, several = operands(c, input, SPEC)
    position = _axis(c, values[0], axis)
    backwards = static_bool(c, reverse, "reverse")
    body = region(c, combine_fn, values, SPEC)
    op = c.op("scan", *values, axis=position, reverse=backwards, body=body, at={"blocks": "input"})
    return tuple(op.results) if several else op.results[0]


@builtin(member=True)
def cumsum(input, axis=0, reverse=False, dtype=None):
    """The running sum along `axis`; integers below 32 bits add in int32 or uint32, bool in uint32, `dtype` says
    otherwise. Spec: scan.cumsum"""
    return _running(input, axis, reverse, dtype, "add", "scan.cumsum#E1")


@builtin(member=True)
def cumprod(input, axis=0, reverse=False, dtype=None):
    """The running product along `axis`; dtypes as for cumsum. Spec: scan.cumprod"""
    return _running(input, axis, reverse, dtype, "mul", "scan.cumprod#E1")


def _running(input: Any, axis: Any, reverse: Any, dtype: Any, combine: str, id: str) -> Value:
    c = here()
    ((value,), _) = operands(c, (input,), SPEC)
    element = element_of(value.type)
    if not isinstance(element, DType):
        raise c.error(id, f"a running combination of numbers, found {value.type}", "input")
    target = widened(element) if dtype is None else element_type(c, dtype, "dtype")
    value = semantics.cast(c, value, target)
    if not isinstance(target, DType) or target.is_bool:
        raise c.error(
            id, f"a running combination of numbers, found {target}", "dtype" if dtype is not None else "input"
        )
    position, backwards = _axis(c, value, axis), static_bool(c, reverse, "reverse")
    return c.emit("scan", value, axis=position, combine=combine, reverse=backwards, at={"blocks": "input"})
