"""Tensor descriptors: boxes of an array that is known by its base, extents and strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refcompiler.dialects.tile.descriptor import ALIGNMENT, MAX_RANK, PADDING
from refcompiler.dialects.tile.memory import pointee
from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import static_shape, static_text
from refcompiler.frontend.types import constexpr, tensor_descriptor
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import I32, I64, BlockType, DType, element_of, shape_of

_SPEC = "memory.descriptors"


def sequence_argument(c: Context, value: Any, at: str, id: str) -> tuple:
    """A compile-time sequence with an element for each dimension."""
    value = value.value if isinstance(value, constexpr) else value
    if not isinstance(value, tuple | list):
        raise c.error(id, f"{at} must be a sequence with an element for each dimension, found {describe(value)}", at)
    return tuple(v.value if isinstance(v, constexpr) else v for v in value)


def integer_argument(c: Context, value: Any, target: DType, at: str, id: str) -> Value:
    """A scalar integer as ``target``."""
    dtype = element_of(value.type) if isinstance(value, Value) and not shape_of(value.type) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return semantics.literal(c, value, target, at)
    if not isinstance(dtype, DType) or not dtype.is_int:
        raise c.error(id, f"{at} are scalar integers, found {describe(value)}", at)
    return semantics.cast(c, value, target)


def _unit_stride(c: Context, value: Any) -> Constant:
    """The last stride: 1, as a literal or as a parameter that is known to be 1."""
    known = isinstance(value, Value) and value in c.func.params and c.func.hints.get(value.name) == 1
    if not known and (isinstance(value, bool | Value) or value != 1):
        found = describe(value)
        advice = "" if not isinstance(value, Value) else "; pass it as tl.constexpr"
        raise c.error(
            f"{_SPEC}#E4", f"the last stride of a descriptor is the constant 1, found {found}{advice}", "strides"
        )
    return Constant(1, I64)


def _check_strides(c: Context, strides: Sequence[Any], element: DType) -> None:
    for stride in strides:
        if isinstance(stride, int) and (stride < 0 or stride * element.itemsize % ALIGNMENT):
            raise c.error(
                f"{_SPEC}#E6",
                f"strides but the last are multiples of {ALIGNMENT} bytes and not negative, found {stride} elements of "
                f"{element.itemsize} bytes",
                "strides",
            )


def _check_padding(c: Context, padding: Any, element: DType) -> str:
    padding = static_text(c, padding, "padding_option", f"{_SPEC}#E8")
    if padding not in PADDING:
        message = f"padding option {padding!r} not supported; one of {', '.join(map(repr, PADDING))}"
        raise c.error(f"{_SPEC}#E8", message, "padding_option")
    if padding == "nan" and not element.is_float:
        raise c.error(f"{_SPEC}#E8", f"padding option 'nan' is not supported for {element}", "padding_option")
    return padding


@builtin
def make_tensor_descriptor(base, shape, strides, block_shape, padding_option="zero"):
    """A descriptor of the array at `base`: `shape` in elements (i32), `strides` in elements (i64), accessed in boxes of
    the compile-time shape `block_shape` by `load` and `store`.

    `base` is a multiple of 16 bytes; the last stride is 1, the others are multiples of 16 bytes; the last extent of a
    box covers at least 16 bytes. Outside of the array a box holds zeros, or NaN with `padding_option="nan"`.
    Attributes: `shape`, `strides`, `block_shape`, `dtype`. Spec: memory.descriptors
    """
    c = here()
    element = pointee(base.type) if isinstance(base, Value) and not shape_of(base.type) else None
    if element is None:
        raise c.error(f"{_SPEC}#E1", f"a descriptor begins at a scalar pointer, found {describe(base)}", "base")
    extents = sequence_argument(c, shape, "shape", f"{_SPEC}#E3")
    steps = sequence_argument(c, strides, "strides", f"{_SPEC}#E3")
    rank = len(extents)
    if not 1 <= rank <= MAX_RANK:
        raise c.error(f"{_SPEC}#E2", f"expected 1 <= rank <= {MAX_RANK}, found {rank} dimensions", "shape")
    for given, at in (
        (steps, "strides"),
        (sequence_argument(c, block_shape, "block_shape", f"{_SPEC}#E3"), "block_shape"),
    ):
        if len(given) != rank:
            raise c.error(f"{_SPEC}#E3", f"expected {rank} elements of {at}, found {len(given)}", at)
    box = static_shape(c, block_shape, "block_shape")
    if box[-1] * element.itemsize < ALIGNMENT:
        size = f"{box[-1]} elements of {element.itemsize} bytes"
        message = f"the last extent of block_shape covers at least {ALIGNMENT} bytes, found {size}"
        raise c.error(f"{_SPEC}#E5", message, "block_shape")
    last = _unit_stride(c, steps[-1])
    _check_strides(c, steps[:-1], element)
    padding = _check_padding(c, padding_option, element)
    sizes = tuple(integer_argument(c, v, I32, "shape", f"{_SPEC}#E7") for v in extents)
    steps = (*(integer_argument(c, v, I64, "strides", f"{_SPEC}#E7") for v in steps[:-1]), last)
    fields = {"padding": "padding_option"}
    handle = c.emit("make_descriptor", base, *sizes, *steps, block_shape=box, padding=padding, at=fields)
    return tensor_descriptor(handle, sizes, steps)


def _descriptor(c: Context, desc: Any) -> tensor_descriptor:
    if not isinstance(desc, tensor_descriptor):
        raise c.error(f"{_SPEC}#E13", f"expected a tensor descriptor, found {describe(desc)}", "desc")
    return desc


def _offsets(c: Context, offsets: Any, rank: int) -> list[Value]:
    given = sequence_argument(c, offsets, "offsets", f"{_SPEC}#E9")
    if len(given) != rank:
        raise c.error(f"{_SPEC}#E9", f"expected {rank} offsets, found {len(given)}", "offsets")
    for value in given:
        if isinstance(value, Value) and isinstance(value.type, DType) and value.type.is_int and value.type.bits > 32:
            message = f"offsets have at most 32 bits, found {describe(value)}; write offset.to(tl.int32)"
            raise c.error(f"{_SPEC}#E10", message, "offsets")
    return [integer_argument(c, v, I32, "offsets", f"{_SPEC}#E10") for v in given]


_FIELDS = {"pointer": "desc", "descriptor": "desc"}


@builtin
def load_tensor_descriptor(desc, offsets):
    """The box of `desc` that begins at `offsets`, integers of at most 32 bits, one a dimension; `desc.load(offsets)`.

    Elements outside of the array are the descriptor's padding. Spec: memory.descriptors
    """
    c = here()
    type_ = _descriptor(c, desc).type
    values = _offsets(c, offsets, len(type_.block_shape))
    block = BlockType(type_.element, type_.block_shape)
    return c.emit("descriptor_load", desc.handle, *values, types=[block], at=_FIELDS)


@builtin
def store_tensor_descriptor(desc, offsets, value):
    """Write `value`, of the shape of a box and converted to the element type, to the box of `desc` that begins at
    `offsets`; `desc.store(offsets, value)`. Elements outside of the array are left out. Spec: memory.descriptors
    """
    c = here()
    type_ = _descriptor(c, desc).type
    if type_.const:
        raise c.error(f"{_SPEC}#E12", "cannot store to an array that is constant", "desc")
    if not isinstance(value, Value) or shape_of(value.type) != type_.block_shape:
        found = describe(value)
        message = f"expected a value of shape {list(type_.block_shape)}, found {found}"
        raise c.error(f"{_SPEC}#E11", message, "value")
    if not isinstance(element_of(value.type), DType):
        raise c.error("cast.numeric#E1", f"cannot cast {value.type} to {type_.element}", "value")
    offset_values = _offsets(c, offsets, len(type_.block_shape))
    c.op("descriptor_store", desc.handle, *offset_values, semantics.cast(c, value, type_.element), at=_FIELDS)


METHODS = {"load": load_tensor_descriptor, "store": store_tensor_descriptor}
