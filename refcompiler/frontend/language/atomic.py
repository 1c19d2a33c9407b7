"""Atomic read-modify-write and compare-and-swap; all give what was there before."""

from __future__ import annotations

from typing import Any

from refcompiler.dialects.atomic import DTYPES, SCOPES, SEMANTICS
from refcompiler.dialects.tile.memory import pointee
from refcompiler.frontend import semantics
from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here
from refcompiler.frontend.language.arguments import static_text
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import BOOL, DType, element_of, join_shapes, shape_of


def _memory(c: Context, pointer: Any, kind: str) -> DType:
    """The dtype that an atomic works on."""
    element = pointee(pointer.type) if isinstance(pointer, Value) else None
    if element is None:
        message = f"atomic_{kind} needs a pointer or a block of pointers, found {describe(pointer)}"
        raise c.error("atomic.rmw#E1", message, "pointer")
    if element_of(pointer.type).const:
        raise c.error("atomic.rmw#E2", "an atomic cannot write through a constant pointer", "pointer")
    if element not in DTYPES[kind]:
        known = ", ".join(map(semantics.triton_name, DTYPES[kind]))
        message = f"atomic_{kind} does not support {semantics.triton_name(element)}; it takes {known}"
        raise c.error("atomic.cas#E1" if kind == "cas" else "atomic.rmw#E5", message, "pointer")
    return element


def _order(c: Context, sem: Any, scope: Any) -> dict[str, Any]:
    sem = "acq_rel" if sem is None else static_text(c, sem, "sem", "atomic.rmw#E6")
    scope = "gpu" if scope is None else static_text(c, scope, "scope", "atomic.rmw#E7")
    if sem not in SEMANTICS:
        message = f"memory semantic {sem!r} not supported; one of {', '.join(SEMANTICS)}"
        raise c.error("atomic.rmw#E6", message, "sem")
    if scope not in SCOPES:
        raise c.error("atomic.rmw#E7", f"memory scope {scope!r} not supported; one of {', '.join(SCOPES)}", "scope")
    return {"sem": sem, "scope": scope}


def _fits(c: Context, pointer: Value, value: Any, at: str) -> None:
    shape = shape_of(pointer.type)
    if isinstance(value, Value) and join_shapes(shape, shape_of(value.type)) != shape:
        found = list(shape_of(value.type))
        advice = " (a scalar pointer takes a scalar)" if not shape else ""
        message = f"{at} of shape {found} does not broadcast to the pointer's {list(shape)}{advice}"
        raise c.error("atomic.rmw#E4", message, at)


def _rmw(kind: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Value:
    c = here()
    element = _memory(c, pointer, kind)
    order = _order(c, sem, scope)
    if isinstance(mask, bool):
        mask = Constant(mask, BOOL)
    if mask is not None and not (isinstance(mask, Value) and element_of(mask.type) is BOOL):
        message = f"the mask must be bool, found {describe(mask)}; write a comparison such as i < n"
        raise c.error("atomic.rmw#E3", message, "mask")
    _fits(c, pointer, val, "val")
    _fits(c, pointer, mask, "mask")
    value = semantics.to_value(c, val, "val")
    if not isinstance(element_of(value.type), DType):
        raise c.error("cast.numeric#E1", f"cannot cast {value.type} to {element}", "val")
    value = semantics.cast(c, value, element)
    return c.op("atomic_rmw", pointer, value, mask, op=kind, at={"value": "val"}, **order).result


@builtin(member=True)
def atomic_add(pointer, val, mask=None, sem=None, scope=None):
    """Add `val` to each element where `mask` is true, at once; gives the old elements. Spec: atomic.rmw"""
    return _rmw("add", pointer, val, mask, sem, scope)


@builtin(member=True)
def atomic_max(pointer, val, mask=None, sem=None, scope=None):
    """Replace each element by the greater of it and `val`, at once; gives the old elements. Spec: atomic.rmw"""
    return _rmw("max", pointer, val, mask, sem, scope)


@builtin(member=True)
def atomic_min(pointer, val, mask=None, sem=None, scope=None):
    """Replace each element by the less of it and `val`, at once; gives the old elements. Spec: atomic.rmw"""
    return _rmw("min", pointer, val, mask, sem, scope)


@builtin(member=True)
def atomic_and(pointer, val, mask=None, sem=None, scope=None):
    """Replace each element by its bitwise and with `val`, at once; gives the old elements. Spec: atomic.rmw"""
    return _rmw("and", pointer, val, mask, sem, scope)


@builtin(member=True)
def atomic_or(pointer, val, mask=None, sem=None, scope=None):
    """Replace each element by its bitwise or with `val`, at once; gives the old elements. Spec: atomic.rmw"""
    return _rmw("or", pointer, val, mask, sem, scope)


@builtin(member=True)
def atomic_xor(pointer, val, mask=None, sem=None, scope=None):
    """Replace each element by its exclusive or with `val`, at once; gives the old elements. Spec: atomic.rmw"""
    return _rmw("xor", pointer, val, mask, sem, scope)


@builtin(member=True)
def atomic_xchg(pointer, val, mask=None, sem=None, scope=None):
    """Replace each element by `val`, at once; gives the old elements. Spec: atomic.rmw"""
    return _rmw("xchg", pointer, val, mask, sem, scope)


@builtin(member=True)
def atomic_cas(pointer, cmp, val, sem=None, scope=None):
    """Replace each element that has the bits of `cmp` by `val`, at once; gives the old elements. Spec: atomic.cas"""
    c = here()
    element = _memory(c, pointer, "cas")
    order = _order(c, sem, scope)
    values = []
    for value, at in ((cmp, "cmp"), (val, "val")):
        _fits(c, pointer, value, at)
        if isinstance(value, bool | int | float) and semantics.fits(value, element):
            value = semantics.literal(c, value, element, at)
        elif isinstance(value, Constant):
            value = semantics.cast(c, value, element)
        if not isinstance(value, Value) or element_of(value.type) != element:
            found = describe(value)
            raise c.error(
                "atomic.cas#E2", f"{at} must be {semantics.triton_name(element)} as the memory, found {found}", at
            )
        values.append(value)
    return c.op("atomic_cas", pointer, *values, at={"compare": "cmp", "value": "val"}, **order).result
