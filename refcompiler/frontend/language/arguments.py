"""Reading the compile-time arguments of language functions: integers, dtypes, shapes, axes."""

from __future__ import annotations

from typing import Any

from refcompiler.frontend.context import Context, describe, is_runtime
from refcompiler.frontend.profile import ADVICE, ANY_EXTENT, extent_fits
from refcompiler.frontend.types import ALL, constexpr, dtype, pointer_type
from refcompiler.ir import Value
from refcompiler.ir.types import I32, BlockType, Element, shape_of
from refcompiler.ir.verifier import MAX_NUMEL, too_many


def static(c: Context, value: Any, at: str, id: str = "control.constexpr#E2") -> Any:
    """A compile-time value; an error for run-time ones."""
    if isinstance(value, constexpr):
        return value.value
    if is_runtime(value):
        raise c.error(
            id,
            f"{at} must be known at compile time, found {describe(value)}; annotate the name or the parameter "
            "with tl.constexpr",
            at,
        )
    return value


def static_int(c: Context, value: Any, at: str, id: str = "control.constexpr#E2") -> int:
    """A compile-time integer."""
    value = static(c, value, at, id)
    if isinstance(value, bool) or not isinstance(value, int):
        raise c.error(id, f"{at} must be an integer, found {value!r}", at)
    return value


def static_bool(c: Context, value: Any, at: str) -> bool:
    """A compile-time flag."""
    value = static(c, value, at)
    if not isinstance(value, bool | int):
        raise c.error("control.constexpr#E2", f"{at} must be True or False, found {value!r}", at)
    return bool(value)


def static_text(c: Context, value: Any, at: str, id: str) -> str:
    """A compile-time string."""
    value = static(c, value, at)
    if not isinstance(value, str):
        raise c.error(id, f"{at} must be a string, found {value!r}", at)
    return value


def element_type(c: Context, value: Any, at: str, id: str = "cast.numeric#E2") -> Element:
    """The IR type that a dtype argument names."""
    value = static(c, value, at)
    if isinstance(value, dtype | pointer_type):
        return value.ir
    known = ", ".join(map(repr, ALL))
    name = value if isinstance(value, str) else getattr(value, "__name__", getattr(value, "name", None))
    advice = next((f"write {d!r}; " for d in ALL if name in (d.ir.numpy.name, d.ir.name, d.name)), "")
    raise c.error(id, f"{at} must be a dtype, found {value!r}; {advice}known are {known}", at)


def static_shape(c: Context, value: Any, at: str) -> tuple[int, ...]:
    """A shape: an integer or a sequence of extents known at compile time, in profile core powers of two."""
    if isinstance(value, Value | int) or not isinstance(value, tuple | list):
        value = (value,)
    shape = []
    for index, extent in enumerate(value):
        extent = extent.value if isinstance(extent, constexpr) else extent
        if isinstance(extent, Value) or isinstance(extent, bool) or not isinstance(extent, int):
            raise c.error(
                "creation.full#E2",
                f"shape element {index} must be a compile-time integer, found {describe(extent)}; take it from a "
                "tl.constexpr parameter",
                at,
            )
        if extent < 1:
            kind = "positive" if c.profile == ANY_EXTENT else "a power of 2"
            raise c.error("creation.full#E1", f"shape element {index} must be {kind}, found {extent}", at)
        if not extent_fits(extent, c.profile):
            message = f"shape element {index} must be a power of 2, found {extent}"
            raise c.error("creation.full#E1", message, at, [ADVICE])
        shape.append(extent)
    block = BlockType(I32, tuple(shape))
    if block.padded_numel > MAX_NUMEL:
        message = f"{too_many(block)} exceeds the maximum of {MAX_NUMEL}; use a smaller block"
        raise c.error("shape.broadcast#E4", message, at)
    return tuple(shape)


def normal_axis(c: Context, axis: Any, rank: int, at: str, id: str) -> int:
    """A non-negative axis below ``rank``."""
    axis = static_int(c, axis, at)
    if not -rank <= axis < rank:
        raise c.error(id, f"invalid axis {axis}. Expected {-rank} <= axis < {rank}", at)
    return axis % rank


def block_argument(c: Context, value: Any, at: str, id: str, what: str) -> Value:
    """A run-time block."""
    if not isinstance(value, Value) or not shape_of(value.type):
        raise c.error(id, f"{what} needs a block, found {describe(value)}", at)
    return value


def varargs(values: tuple[Any, ...]) -> Any:
    """`f(x, 2, 3)` and `f(x, (2, 3))` mean the same."""
    if len(values) == 1 and isinstance(values[0], tuple | list):
        return values[0]
    return values
