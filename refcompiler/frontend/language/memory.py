"""Loads and stores through pointers."""

from __future__ import annotations

from typing import Any

from refcompiler.dialects.tile.memory import CACHE_LOAD, CACHE_STORE, EVICTION, pointee
from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import static_bool, static_text
from refcompiler.frontend.language.block_pointer import load_block, reject_checks, store_block
from refcompiler.frontend.types import block_pointer
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import BOOL, DType, element_of, join_shapes, shape_of


def _mask(c: Context, mask: Any, id: str) -> Value | None:
    if mask is None:
        return None
    if isinstance(mask, bool):
        return Constant(mask, BOOL)
    if not isinstance(mask, Value) or element_of(mask.type) is not BOOL:
        raise c.error(id, f"the mask must be bool, found {describe(mask)}; write a comparison such as i < n", "mask")
    return mask


def _pointer(c: Context, pointer: Any, name: str) -> DType:
    found = pointee(pointer.type) if isinstance(pointer, Value) else None
    if found is None:
        raise c.error(
            f"memory.{name}#E1", f"{name} needs a pointer or a block of pointers, found {describe(pointer)}", "pointer"
        )
    return found


def _element(c: Context, value: Any, target: DType, at: str) -> Value:
    """``value`` as an element of memory: any conversion between numbers is implicit here."""
    if isinstance(value, Value):
        if not isinstance(element_of(value.type), DType):
            raise c.error("cast.numeric#E1", f"cannot cast {value.type} to {target}", at)
        return semantics.cast(c, value, target)
    return semantics.cast(c, semantics.to_value(c, value, at), target)


def _policies(c: Context, cache: Any, eviction: Any, known: tuple[str, ...], name: str, first: int) -> dict[str, Any]:
    cache = static_text(c, cache, "cache_modifier", f"memory.{name}#E{first}")
    eviction = static_text(c, eviction, "eviction_policy", f"memory.{name}#E{first + 1}")
    if cache not in known:
        message = f"cache modifier {cache!r} not supported; one of {', '.join(map(repr, known))}"
        raise c.error(f"memory.{name}#E{first}", message, "cache_modifier")
    if eviction not in EVICTION:
        message = f"eviction policy {eviction!r} not supported; one of {', '.join(map(repr, EVICTION))}"
        raise c.error(f"memory.{name}#E{first + 1}", message, "eviction_policy")
    return {"cache": cache, "eviction": eviction}


@builtin
def load(
    pointer,
    mask=None,
    other=None,
    *,
    boundary_check=(),
    padding_option="",
    cache_modifier="",
    eviction_policy="",
    volatile=False,
):
    """The elements that `pointer` points to: a scalar for a scalar pointer, a block for a block of pointers.

    Where `mask` is false nothing is read and the element is `other`, or unspecified without it. `other` becomes the
    element type and broadcasts. Errors: no pointer, a mask that is not bool, `other` without `mask`, a block of masks
    for a scalar pointer. Spec: memory.load

    Of a block pointer the block; `boundary_check` names the dimensions along which elements outside of the array are
    left out, and `padding_option` ("zero", "nan") what these are. Spec: memory.block_pointers
    """
    c = here()
    if isinstance(pointer, block_pointer):
        fields = _policies(c, cache_modifier, eviction_policy, CACHE_LOAD, "load", 5)
        fields["volatile"] = static_bool(c, volatile, "volatile")
        return load_block(c, pointer, mask, other, boundary_check, padding_option, **fields)
    element = _pointer(c, pointer, "load")
    reject_checks(c, boundary_check, padding_option)
    policies = _policies(c, cache_modifier, eviction_policy, CACHE_LOAD, "load", 5)
    mask_value = _mask(c, mask, "memory.load#E2")
    if other is not None and mask is None:
        raise c.error("memory.load#E3", "`other` cannot be provided without `mask`", "other")
    shape = shape_of(pointer.type)
    for value, at in ((mask_value, "mask"), (other, "other")):
        if isinstance(value, Value) and shape_of(value.type) and not shape:
            raise c.error(
                "memory.load#E4", f"{at} cannot be a block where the pointer is a scalar, found {value.type}", at
            )
        if isinstance(value, Value):
            joined = join_shapes(shape, shape_of(value.type))
            if joined is None:
                raise c.error(
                    "shape.broadcast#E1",
                    f"the pointer's shape {list(shape)} and {list(shape_of(value.type))} of {at} do not broadcast",
                    at,
                )
            shape = joined
    other_value = None if other is None else _element(c, other, element, "other")
    flag = static_bool(c, volatile, "volatile")
    return c.emit("load", pointer, mask_value, other_value, volatile=flag, **policies)


@builtin
def store(pointer, value, mask=None, *, boundary_check=(), cache_modifier="", eviction_policy=""):
    """Write `value`, converted to the element type and broadcast, where `mask` is true; gives nothing.

    Errors: no pointer, a constant pointer, a mask that is not bool, a value or mask that does not broadcast to the
    pointer's shape. Spec: memory.store

    To a block pointer a block of its shape; `boundary_check` as for `load`. Spec: memory.block_pointers
    """
    c = here()
    if isinstance(pointer, block_pointer):
        fields = _policies(c, cache_modifier, eviction_policy, CACHE_STORE, "store", 5)
        store_block(c, pointer, value, mask, boundary_check, **fields)
        return
    reject_checks(c, boundary_check)
    element = _pointer(c, pointer, "store")
    if element_of(pointer.type).const:
        raise c.error("memory.store#E2", "cannot store to a constant pointer", "pointer")
    policies = _policies(c, cache_modifier, eviction_policy, CACHE_STORE, "store", 5)
    mask_value = _mask(c, mask, "memory.store#E3")
    shape = shape_of(pointer.type)
    for operand, at in ((value, "value"), (mask_value, "mask")):
        if isinstance(operand, Value) and join_shapes(shape, shape_of(operand.type)) != shape:
            found = list(shape_of(operand.type))
            advice = " (a scalar pointer takes a scalar)" if not shape else ""
            raise c.error(
                "memory.store#E4",
                f"{at} of shape {found} does not broadcast to the pointer's {list(shape)}{advice}",
                at,
            )
    if not isinstance(value, Value | bool | int | float):
        raise c.error("arith.promotion#E5", f"store takes a number or a block, found {describe(value)}", "value")
    c.op("store", pointer, _element(c, value, element, "value"), mask_value, **policies)
