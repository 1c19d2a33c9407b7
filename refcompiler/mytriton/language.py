"""The namespace `tl` with mytriton's names and defaults: `import refcompiler.mytriton.language as tl`.

Nineteen names. Those whose meaning is the language's own are the language's own; the rest differ in a default, in the
name of a parameter, or in the rule for NaN and equal operands. Everything compiles to the same ops.
"""

from __future__ import annotations

from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, here
from refcompiler.frontend.language import math, memory, program, reduction
from refcompiler.frontend.language.arguments import element_type
from refcompiler.frontend.language.control import static_range
from refcompiler.frontend.language.program import arange, empty, program_id, zeros
from refcompiler.frontend.types import constexpr, float32, int1, int32
from refcompiler.ir import Value
from refcompiler.ir.types import DType, element_of, join_shapes, shape_of

__all__ = [
    "arange",
    "constexpr",
    "empty",
    "exp",
    "float32",
    "full",
    "int1",
    "int32",
    "load",
    "max",
    "maximum",
    "min",
    "minimum",
    "program_id",
    "static_range",
    "store",
    "sum",
    "where",
    "zeros",
]


def _name_arguments(c: Context, **names: str) -> Context:
    """Let errors of the language's own functions point at our arguments: ``names`` maps their parameters to ours."""
    given = c.arguments
    c.arguments = given | {theirs: given[ours] for theirs, ours in names.items() if ours in given}
    return c


def _lower(function: Any, *values: Any, **names: str) -> Any:
    """Emit a function of the language."""
    _name_arguments(here(), **names)
    return function.__tile_builtin__.lower(*values)


@builtin
def load(ptr, mask=None, other=None):
    """The elements that `ptr` points to; where `mask` is false `other`, or 0 without it. Without `mask`, `other` is
    not used. A block of masks spreads a scalar pointer."""
    if mask is None:
        return _lower(memory.load, ptr, None, None, pointer="ptr")
    other = 0 if other is None else other
    if isinstance(ptr, Value) and not shape_of(ptr.type):
        shapes = [shape_of(v.type) for v in (mask, other) if isinstance(v, Value)]
        ptr = semantics.broadcast_value(here(), ptr, join_shapes(*shapes) or (), "ptr") if shapes else ptr
    return _lower(memory.load, ptr, mask, other, pointer="ptr")


@builtin
def store(ptr, value, mask=None):
    """Write `value`, converted to the element type and broadcast, where `mask` is true."""
    return _lower(memory.store, ptr, value, mask, pointer="ptr")


@builtin
def full(shape, value, dtype):
    """A block of `shape` with every element `value`; a float becomes an integer toward zero, if one can hold it."""
    c = here()
    target = element_type(c, dtype, "dtype", "creation.full#E4")
    if isinstance(value, float) and isinstance(target, DType) and target.is_int and abs(value) < 2**63:
        value = int(value)  # the language's own `full` refuses it, and still what is out of range
    return _lower(program.full, shape, value, dtype)


@builtin
def exp(value):
    """e to the power `value`."""
    return _lower(math.exp, value, x="value")


@builtin
def where(condition, true_value, false_value):
    """`true_value` where `condition` is true, else `false_value`; both are evaluated and broadcast."""
    return _lower(math.where, condition, true_value, false_value, x="true_value", y="false_value")


@builtin
def maximum(lhs, rhs):
    """The larger operand; NaN where either is NaN; `rhs` where they are equal, which decides the sign of zero."""
    return _right_of_equals(here(), "maximum", "cmp_gt", lhs, rhs)


@builtin
def minimum(lhs, rhs):
    """The smaller operand; NaN where either is NaN; `rhs` where they are equal, which decides the sign of zero."""
    return _right_of_equals(here(), "minimum", "cmp_lt", lhs, rhs)


def _right_of_equals(c: Context, name: str, better: str, lhs: Any, rhs: Any) -> Value:
    """``rhs`` unless ``lhs`` is NaN or strictly better: nothing is better than a NaN on the right."""
    if not isinstance(lhs, Value) and not isinstance(rhs, Value):
        lhs, rhs = semantics.to_value(c, lhs, "lhs"), semantics.to_value(c, rhs, "rhs")
    left, right = semantics.meet(c, lhs, rhs, what=name, names=("lhs", "rhs"))
    if not semantics.dtype_is_float(left):
        return semantics.arithmetic(c, name, left, right, ("lhs", "rhs"))  # equal integers cannot be told apart
    takes_left = c.emit("or", c.emit(better, left, right), c.emit("cmp_ne", left, left))
    return c.emit("select", takes_left, left, right)


@builtin
def sum(value):
    """The sum of all elements, a scalar."""
    return _lower(reduction.sum, value, input="value")


@builtin
def max(value):
    """The largest element, a scalar; NaN where any element is NaN."""
    return _extremum_of("maximum", value)


@builtin
def min(value):
    """The smallest element, a scalar; NaN where any element is NaN."""
    return _extremum_of("minimum", value)


def _extremum_of(name: str, value: Any) -> Value:
    """The order of a reduction is free, so that of equal zeros it is the language's order of zeros that decides."""
    _name_arguments(here(), input="value")
    floats = isinstance(value, Value) and isinstance(element_of(value.type), DType) and element_of(value.type).is_float
    return reduction.extremum(f"{name}_nan" if floats else name, value)
