"""Which program this is, and blocks made from nothing."""

from __future__ import annotations

from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import element_type, static_int, static_shape
from refcompiler.frontend.profile import ADVICE, extent_fits
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import I32, BlockType, DType, block_or_scalar, element_of, shape_of


def _axis(c: Context, axis: Any, name: str) -> int:
    axis = static_int(c, axis, "axis")
    if axis not in (0, 1, 2):
        raise c.error(f"program.{name}#E1", f"{name} axis must be 0, 1, or 2 but got {axis}", "axis")
    return axis


@builtin
def program_id(axis):
    """The index of this program along `axis` (0, 1 or 2) of the grid: an int32 scalar. Spec: program.program_id"""
    c = here()
    return c.emit("program_id", axis=_axis(c, axis, "program_id"))


@builtin
def num_programs(axis):
    """The extent of the grid along `axis` (0, 1 or 2): an int32 scalar. Spec: program.num_programs"""
    c = here()
    return c.emit("num_programs", axis=_axis(c, axis, "num_programs"))


@builtin
def arange(start, end):
    """The integers of [start, end) as a rank-1 int32 block; both constexpr, end - start a power of 2 in profile core.

    Errors: a run-time bound, end <= start, an extent that the profile does not have. Spec: creation.arange
    """
    c = here()
    start = static_int(c, start, "start", "creation.arange#E4")
    end = static_int(c, end, "end", "creation.arange#E4")
    extent = end - start
    if extent <= 0:
        raise c.error("creation.arange#E1", f"arange's end ({end}) must be greater than its start ({start})", "end")
    if not extent_fits(extent, c.profile):
        message = f"arange's extent must be a power of 2, found {end} - {start} = {extent}"
        raise c.error("creation.arange#E2", message, "end", [ADVICE])
    if start < I32.min_int or end > I32.max_int + 1:
        raise c.error("creation.arange#E3", f"arange must fit in int32, found [{start}, {end})", "end")
    return c.emit("arange", start=start, end=end, types=[BlockType(I32, (extent,))])


@builtin
def full(shape, value, dtype=None):
    """A block of `shape` (powers of 2) with every element `value`, a number or a scalar; shape () gives the scalar.

    `dtype` may be left out where `value` is a run-time scalar. Spec: creation.full
    """
    c = here()
    extents = static_shape(c, shape, "shape")
    if isinstance(value, Value):
        if shape_of(value.type):
            raise c.error("creation.full#E3", f"full takes a scalar, found {value.type}", "value")
    elif not isinstance(value, bool | int | float):
        raise c.error("creation.full#E3", f"full takes a scalar, found {describe(value)}", "value")
    if dtype is None:
        if not isinstance(value, Value):
            raise c.error("creation.full#E4", "dtype must be given where the value is a literal", "value")
        target = element_of(value.type)
    else:
        target = element_type(c, dtype, "dtype", "creation.full#E4")
    scalar = semantics.cast(c, value, target) if isinstance(value, Value) else _filled(c, value, target)
    return c.emit("full", scalar, types=[BlockType(target, extents)]) if extents else scalar


def _filled(c: Context, value: Any, target: Any) -> Constant:
    if not isinstance(target, DType):
        raise c.error("creation.full#E3", f"a literal cannot fill a block of {target}", "value")
    fits = target.is_float or target.is_bool
    if target.is_int:
        fits = not isinstance(value, float) and target.min_int <= value <= target.max_int
    if not fits:
        name = semantics.triton_name(target)
        raise c.error("creation.full#E5", f"{value!r} is no value of {name}; write one that is", "value")
    return Constant(value, target)


@builtin
def zeros(shape, dtype):
    """A block of `shape` filled with zeros of `dtype`. Spec: creation.zeros"""
    c = here()
    extents = static_shape(c, shape, "shape")
    target = element_type(c, dtype, "dtype", "creation.full#E4")
    return _constant_block(c, extents, target)


def _constant_block(c: Context, extents: tuple[int, ...], target: Any) -> Value:
    if not isinstance(target, DType):
        raise c.error("creation.full#E4", f"zeros of {target} do not exist", "dtype")
    zero = Constant(0, target)
    return c.emit("full", zero, types=[BlockType(target, extents)]) if extents else zero


@builtin
def zeros_like(input):
    """Zeros with the shape and dtype of `input`. Spec: creation.zeros"""
    c = here()
    if not isinstance(input, Value):
        raise c.error("creation.full#E3", f"zeros_like needs a run-time value, found {describe(input)}", "input")
    return _constant_block(c, shape_of(input.type), element_of(input.type))


@builtin
def empty(shape, dtype):
    """A block of unspecified elements, each to be replaced before it is read. Spec: creation.empty"""
    c = here()
    extents = static_shape(c, shape, "shape")
    target = element_type(c, dtype, "dtype", "creation.full#E4")
    if not extents:
        raise c.error("creation.empty#E2", "empty gives a block; its shape has at least one extent", "shape")
    return c.emit("empty", types=[block_or_scalar(target, extents)])
