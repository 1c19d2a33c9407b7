"""Matrix products of blocks."""

from __future__ import annotations

from typing import Any

from refcompiler.dialects.tile.dot import PRECISIONS, RESULTS, least_depth, meet, product_shape
from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import block_argument, element_type, static, static_bool, static_int
from refcompiler.frontend.language.shape import reshaped
from refcompiler.ir import Value
from refcompiler.ir.types import BF16, F32, I8, BlockType, DType, element_of, shape_of

DEFAULT_PRECISION = "tf32"


@builtin
def dot(
    input,
    other,
    acc=None,
    input_precision=None,
    allow_tf32=None,
    max_num_imprecise_acc=None,
    out_dtype=None,
):
    """The matrix product of `input` [..., M, K] and `other` [..., K, N], added to `acc` [..., M, N] if there is one.

    Operands are int8 (the product is int32), float8 of either format or float16 (float32, or float16 by `out_dtype` or
    `acc`), bfloat16, float32 (float32) or float64 (float64). `input_precision` says how float32 is taken: "tf32" (the
    default), "tf32x3", "ieee", "bf16x3", "bf16x6"; `allow_tf32=False` means "ieee". Axes before the last two are
    batches. Spec: linalg.dot
    """
    c = here()
    x = block_argument(c, input, "input", "linalg.dot#E1", "dot")
    y = block_argument(c, other, "other", "linalg.dot#E1", "dot")
    _check_shapes(c, x, y)
    element = _operand_type(c, x, y)
    precision = _precision(c, input_precision, allow_tf32)
    result = BlockType(_result_type(c, element, out_dtype, acc), product_shape(shape_of(x.type), shape_of(y.type)))
    if acc is not None:
        _check_accumulator(c, acc, result)
    if static(c, max_num_imprecise_acc, "max_num_imprecise_acc") is not None:
        limit = static_int(c, max_num_imprecise_acc, "max_num_imprecise_acc")
        if limit < 0:
            message = f"max_num_imprecise_acc is a number of products, found {limit}"
            raise c.error("linalg.dot#E11", message, "max_num_imprecise_acc")
    return _product(c, x, y, acc, result, precision if element is F32 else "ieee")


def _product(c: Context, x: Value, y: Value, acc: Value | None, result: BlockType, precision: str) -> Value:
    """One dot op; of blocks with several batch axes these are one axis for its time."""
    *batch, rows, columns = result.shape
    flat = result
    if len(batch) > 1:
        flat = BlockType(result.element, (result.numel // (rows * columns), rows, columns))
        x, y = (reshaped(c, v, (flat.shape[0], *shape_of(v.type)[-2:])) for v in (x, y))
        acc = None if acc is None else reshaped(c, acc, flat.shape)
    at = {"x": "input", "y": "other"}
    product = c.emit("dot", x, y, acc, types=[flat], input_precision=precision, at=at)
    return reshaped(c, product, result.shape)


def _check_shapes(c: Context, x: Value, y: Value) -> None:
    left, right = shape_of(x.type), shape_of(y.type)
    shown = f"found {list(left)} and {list(right)}"
    if len(left) != len(right) or len(left) < 2:
        raise c.error("linalg.dot#E1", f"input and other must have equal ranks of at least 2, {shown}", "other")
    if left[:-2] != right[:-2]:
        raise c.error("linalg.dot#E2", f"input and other must have equal batch axes, {shown}; broadcast one", "other")
    if left[-1] != right[-2]:
        message = f"input and other must have equal reduction axes, input's last and other's last but one, {shown}"
        raise c.error("linalg.dot#E3", message, "other")


def _operand_type(c: Context, x: Value, y: Value) -> DType:
    element, other = element_of(x.type), element_of(y.type)
    if element not in RESULTS:
        known = ", ".join(d.triton_name for d in RESULTS)
        named = element.triton_name if isinstance(element, DType) else element
        wanted = "only int8 supported" if isinstance(element, DType) and element.is_int else f"it takes {known}"
        raise c.error("linalg.dot#E5", f"dot is not defined for {named}: {wanted}; cast the operands", "input")
    if not meet(element, other):
        names = " and ".join(e.triton_name if isinstance(e, DType) else str(e) for e in (element, other))
        raise c.error("linalg.dot#E4", f"both operands must have one dtype, found {names}; cast one", "other")
    least, depth = least_depth(element), shape_of(x.type)[-1]
    if depth < least:
        message = f"input shapes should have M >= 1, N >= 1 and K >= {least}, found K = {depth}; use a larger block"
        raise c.error("linalg.dot#E6", message, "input")
    return element


def _precision(c: Context, input_precision: Any, allow_tf32: Any) -> str:
    precision, allowed = static(c, input_precision, "input_precision"), static(c, allow_tf32, "allow_tf32")
    if precision is not None and allowed is not None:
        message = "only one of input_precision and allow_tf32 can be specified"
        raise c.error("linalg.dot#E8", message, "allow_tf32")
    if allowed is not None:
        return "tf32" if static_bool(c, allow_tf32, "allow_tf32") else "ieee"
    if precision is None:
        return DEFAULT_PRECISION
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        message = f"input_precision must be one of {known}, found {precision!r}"
        raise c.error("linalg.dot#E7", message, "input_precision")
    return precision


def _result_type(c: Context, element: DType, out_dtype: Any, acc: Any) -> DType:
    """What ``out_dtype`` asks for, else the accumulator's dtype; where the operands leave one choice, that."""
    usual, *others = RESULTS[element]
    wanted = static(c, out_dtype, "out_dtype")
    if wanted is not None:
        wanted = element_type(c, out_dtype, "out_dtype", "linalg.dot#E9")
        if wanted is BF16 and element is not I8:
            message = "out_dtype=bfloat16 is unsupported; use float32 and cast the product with .to(tl.bfloat16)"
            raise c.error("linalg.dot#E9", message, "out_dtype")
    elif isinstance(acc, Value):
        wanted = element_of(acc.type)
    if not others:
        return usual
    if wanted is None or wanted in (usual, *others):
        return wanted or usual
    known = " or ".join(d.triton_name for d in (usual, *others))
    at = "acc" if out_dtype is None else "out_dtype"
    id = "linalg.dot#E10" if out_dtype is None else "linalg.dot#E9"
    raise c.error(id, f"a product of {element.triton_name} is {known}, found {wanted}", at)


def _check_accumulator(c: Context, acc: Any, result: BlockType) -> None:
    if not isinstance(acc, Value) or semantics.is_pointer(acc):
        raise c.error("linalg.dot#E10", f"the accumulator must be a block, found {describe(acc)}", "acc")
    if shape_of(acc.type) != result.shape:
        shown = f"found {list(shape_of(acc.type))}, the product is {list(result.shape)}"
        raise c.error("linalg.dot#E10", f"accumulator shape is incompatible, {shown}", "acc")
    if element_of(acc.type) != result.element:
        shown = f"found {element_of(acc.type)}, the product is {result.element}"
        raise c.error("linalg.dot#E10", f"accumulator dtype is incompatible, {shown}; cast it", "acc")
