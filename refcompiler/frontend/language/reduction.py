"""Reductions along an axis."""

from __future__ import annotations

from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin, composite
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import element_type, normal_axis, static, static_bool
from refcompiler.frontend.language.math import where
from refcompiler.frontend.language.shape import reshaped
from refcompiler.frontend.types import float32, int32
from refcompiler.ir import OPS, Block, Op, Value
from refcompiler.ir.types import I32, U32, BlockType, DType, element_of, shape_of

_NAMES = {"reduce.reduce": "a reduction", "scan.associative_scan": "a scan"}


def operands(c: Context, input: Any, spec: str = "reduce.reduce") -> tuple[tuple[Value, ...], bool]:
    """The blocks to combine, and whether a tuple was given; ``spec`` is the feature that rejects others."""
    several = isinstance(input, tuple | list)
    values = tuple(input) if several else (input,)
    for value in values:
        if not isinstance(value, Value) or not shape_of(value.type):
            raise c.error(f"{spec}#E1", f"{_NAMES[spec]} needs a block, found {describe(value)}", "input")
    shapes = {shape_of(v.type) for v in values}
    if len(shapes) != 1:
        shown = ", ".join(str(v.type) for v in values)
        raise c.error(f"{spec}#E2", f"all blocks of {_NAMES[spec]} have one shape, found {shown}", "input")
    return values, several


def _axis(c: Context, values: tuple[Value, ...], axis: Any) -> tuple[tuple[Value, ...], int, int]:
    """The blocks and the axis to reduce, and how many axes `keep_dims` puts back; without an axis all are flattened."""
    rank = len(shape_of(values[0].type))
    if static(c, axis, "axis") is not None:
        return values, normal_axis(c, axis, rank, "axis", "reduce.reduce#E3"), 1
    return tuple(reshaped(c, v, (v.type.numel,)) for v in values), 0, rank


def _keep(c: Context, value: Value, axis: int, count: int) -> Value:
    for _ in range(count):
        value = c.emit("expand_dims", value, axis=axis)
    return value


def _named(c: Context, name: str, value: Value, axis: Any, keep_dims: Any) -> Value:
    """One `reduce` with a row of the scalar table."""
    keep = static_bool(c, keep_dims, "keep_dims")
    (value,), position, count = _axis(c, (value,), axis)
    semantics.require_row(c, name, value, "input")
    result = c.emit("reduce", value, axis=position, combine=name, at={"blocks": "input"})
    return _keep(c, result, position, count) if keep else result


@builtin(member=True)
def reduce(input, axis, combine_fn, keep_dims=False):
    """Combine the elements of a block, or of a tuple of blocks of one shape, along `axis` (None: all elements).

    `combine_fn` is a @jit function of the left and then the right scalars, giving as many; it must be associative and
    commutative, the order is unspecified. Spec: reduce.reduce
    """
    c = here()
    values, several = operands(c, input)
    keep = static_bool(c, keep_dims, "keep_dims")
    values, position, count = _axis(c, values, axis)
    body = region(c, combine_fn, values)
    op = c.op("reduce", *values, axis=position, body=body, at={"blocks": "input"})
    results = tuple(_keep(c, r, position, count) if keep else r for r in op.results)
    return results if several else results[0]


def region(c: Context, combine_fn: Any, blocks: tuple[Value, ...], spec: str = "reduce.reduce") -> Block:
    """The region of a reduction or a scan of ``blocks``: the body of the combine function."""
    elements = [element_of(b.type) for b in blocks]
    body = Block([Value(e) for e in elements * 2])
    outer, c.block = c.block, body
    try:
        result = c.inline(combine_fn, list(body.args), "combine_fn")
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(elements):
            raise c.error(
                f"{spec}#E5", f"combine_fn must give {len(elements)} values, found {len(results)}", "combine_fn"
            )
        values = []
        for value, element in zip(results, elements, strict=True):
            if isinstance(value, bool | int | float) and semantics.fits(value, element):
                value = semantics.literal(c, value, element, "combine_fn")
            if not isinstance(value, Value) or value.type != element:
                raise c.error(f"{spec}#E5", f"combine_fn must give {element}, found {describe(value)}", "combine_fn")
            values.append(value)
        if not all(op.pure or op.terminator for op in body.walk()):
            raise c.error(f"{spec}#E5", "combine_fn must not load, store or assert", "combine_fn")
        if any(op.name == "while" for op in body.walk()):
            raise c.error(f"{spec}#E5", "combine_fn must not loop on a run-time condition", "combine_fn")
        replaced: dict[Value, Value] = {}
        body.ops = _without_branches(body, replaced)
        c.op("yield", *(replaced.get(v, v) for v in values))
    finally:
        c.block = outer
    return body


def _without_branches(block: Block, replaced: dict[Value, Value]) -> list[Op]:
    """The ops of a pure region with a select for each result of an `if`: it runs on many elements at once."""
    out: list[Op] = []
    for op in block.ops:
        op.operands = [None if o is None else replaced.get(o, o) for o in op.operands]
        if op.name != "if":
            out.append(op)
            continue
        sides = [_without_branches(side, replaced) for side in op.regions]
        out += [*sides[0][:-1], *sides[1][:-1]]
        for result, x, y in zip(op.results, sides[0][-1].operands, sides[1][-1].operands, strict=True):
            select = OPS["select"](op.operands[0], x, y, span=op.span)
            out.append(select)
            replaced[result] = select.result
    return out


@builtin(member=True)
def sum(input, axis=None, keep_dims=False, dtype=None):
    """The sum along `axis`; integers below 32 bits add in int32 or uint32, bool in uint32, `dtype` says otherwise.

    Spec: reduce.sum
    """
    c = here()
    ((value,), _) = operands(c, (input,))
    element = semantics.dtype_of(value) if not semantics.is_pointer(value) else None
    if dtype is not None:
        value = semantics.cast(c, value, element_type(c, dtype, "dtype"))
    elif element is not None:
        value = semantics.cast(c, value, widened(element))
    return _named(c, "add", value, axis, keep_dims)


def widened(element: DType) -> DType:
    """The dtype that elements are added or multiplied in: at least 32 bits for integers, unsigned for bool."""
    if element.is_float or element.bits >= 32:
        return element
    return I32 if element.kind == "int" else U32


@builtin(member=True)
def xor_sum(input, axis=None, keep_dims=False):
    """The exclusive or along `axis` of integers or bool. Spec: reduce.xor_sum"""
    return _bits("xor_sum", "xor", input, axis, keep_dims)


@builtin(member=True)
def reduce_or(input, axis, keep_dims=False):
    """The bitwise or along `axis` of integers or bool. Spec: reduce.reduce_or"""
    return _bits("reduce_or", "or", input, axis, keep_dims)


def _bits(function: str, name: str, input: Any, axis: Any, keep_dims: Any) -> Value:
    c = here()
    ((value,), _) = operands(c, (input,))
    if semantics.dtype_is_float(value):
        raise c.error(
            f"reduce.{function}#E1", f"{function} takes integers or bool, found {element_of(value.type)}", "input"
        )
    return _named(c, name, value, axis, keep_dims)


def extremum(name: str, input: Any, axis: Any = None, keep_dims: Any = False) -> Value:
    """One `reduce` with a row such as "maximum" or "maximum_nan"; operands below 32 bits are widened first."""
    c = here()
    ((value,), _) = operands(c, (input,))
    element = element_of(value.type)
    if isinstance(element, DType) and element.bits < 32:
        value = semantics.cast(c, value, (float32 if element.is_float else int32).ir)
    return _named(c, name, value, axis, keep_dims)


@builtin
def _maximum_of(input, axis, keep_dims):
    """The largest elements, without their places."""
    return extremum("maximum", input, axis, keep_dims)


@builtin
def _minimum_of(input, axis, keep_dims):
    """The smallest elements, without their places."""
    return extremum("minimum", input, axis, keep_dims)


@builtin
def _places(input, axis):
    """The index along `axis` of each element of `input`, int32, of the shape of `input`."""
    c = here()
    ((value,), _) = operands(c, (input,))
    shape = shape_of(value.type)
    if static(c, axis, "axis") is None:
        raise c.error("reduce.reduce#E3", "indices need an axis", "axis")
    position = normal_axis(c, axis, len(shape), "axis", "reduce.reduce#E3")
    index = c.emit("arange", start=0, end=shape[position], types=[BlockType(I32, (shape[position],))])
    for other in range(len(shape)):
        if other != position:
            index = c.emit("expand_dims", index, axis=other)
    return semantics.broadcast_value(c, index, shape)


@builtin
def _is_nan(x):
    """x != x for floats; constexpr False for integers, which are never NaN."""
    c = here()
    return c.emit("cmp_ne", x, x) if semantics.dtype_is_float(x) else False


@composite
def _larger_left(value1, index1, value2, index2):
    better = value1 > value2 or (value1 == value2 and index1 < index2) or _is_nan(value2)
    return where(better, value1, value2), where(better, index1, index2)


@composite
def _larger_any(value1, index1, value2, index2):
    better = value1 > value2 or _is_nan(value2)
    return where(better, value1, value2), where(better, index1, index2)


@composite
def _smaller_left(value1, index1, value2, index2):
    better = value1 < value2 or (value1 == value2 and index1 < index2) or _is_nan(value2)
    return where(better, value1, value2), where(better, index1, index2)


@composite
def _smaller_any(value1, index1, value2, index2):
    better = value1 < value2 or _is_nan(value2)
    return where(better, value1, value2), where(better, index1, index2)


@composite(member=True)
def max(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    """The largest elements along `axis`, NaN skipped; 16-bit floats give float32, integers below 32 bits int32.

    `return_indices` also gives their int32 places (the dtype then stays), the first of equals with
    `return_indices_tie_break_left`. Spec: reduce.max
    """
    if return_indices:
        combine = _larger_left if return_indices_tie_break_left else _larger_any
        return reduce((input, _places(input, axis)), axis, combine, keep_dims)
    return _maximum_of(input, axis, keep_dims)


@composite(member=True)
def min(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False):
    """The smallest elements along `axis`, NaN skipped; dtypes and places as for max. Spec: reduce.min"""
    if return_indices:
        combine = _smaller_left if return_indices_tie_break_left else _smaller_any
        return reduce((input, _places(input, axis)), axis, combine, keep_dims)
    return _minimum_of(input, axis, keep_dims)


@composite(member=True)
def argmax(input, axis, tie_break_left=True, keep_dims=False):
    """The int32 places of the largest elements along `axis`; the first of equals with `tie_break_left`.

    Spec: reduce.argmax
    """
    return reduce((input, _places(input, axis)), axis, _larger_left if tie_break_left else _larger_any, keep_dims)[1]


@composite(member=True)
def argmin(input, axis, tie_break_left=True, keep_dims=False):
    """The int32 places of the smallest elements along `axis`; the first of equals with `tie_break_left`.

    Spec: reduce.argmin
    """
    return reduce((input, _places(input, axis)), axis, _smaller_left if tie_break_left else _smaller_any, keep_dims)[1]
