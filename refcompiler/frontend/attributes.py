"""Attributes of values in kernels: properties and methods of blocks, members of modules and compile-time objects."""

from __future__ import annotations

import difflib
import types
from dataclasses import dataclass
from typing import Any

from refcompiler.frontend.builtin import MEMBERS
from refcompiler.frontend.captures import compile_time
from refcompiler.frontend.context import Context, describe, is_runtime
from refcompiler.frontend.language.descriptor import METHODS
from refcompiler.frontend.language.shape import transposed
from refcompiler.frontend.types import aggregate, block_pointer, tensor_descriptor, to_language
from refcompiler.ir import Value
from refcompiler.ir.types import BlockType, element_of, shape_of

# What the language of the law has and this edition has not.
NOT_YET = frozenset(
    "atomic_load atomic_poll atomic_store bitonic_merge core device_print "
    "dot_scaled expect_zero extra float8e4b15 float8e4b8 float8e5b16 "
    "inline_asm_elementwise item "
    "map_elementwise philox rand rand4x randint randint4x randn randn4x random solve_tril standard "
    "swizzle2d target_info to_tensor".split()
)
# Methods of compile-time containers: those that change nothing in place.
_CONTAINERS: dict[type, tuple[str, ...]] = {
    tuple: ("index", "count"),
    dict: ("get", "items", "keys", "values"),
    frozenset: ("union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint"),
}
_IN_PLACE = dict.fromkeys(("append", "extend", "insert"), "; lists are tuples here: write t = (*t, x)")
_IN_PLACE |= dict.fromkeys(("update", "setdefault", "pop", "popitem", "clear"), "; write d = {**d, key: value}")
_PROPERTIES = ("T", "dtype", "numel", "shape", "type")


@dataclass(frozen=True)
class Method:
    """A function of the language bound to its first argument."""

    function: Any
    owner: Value | aggregate


def attribute(c: Context, owner: Any, name: str) -> Any:
    """``owner.name``."""
    if isinstance(owner, Value):
        return _of_value(c, owner, name)
    if isinstance(owner, tensor_descriptor | block_pointer):
        return _of_aggregate(c, owner, name)
    if isinstance(owner, types.ModuleType):
        return _of_module(c, owner, name)
    kept = _CONTAINERS.get(type(owner))
    if name.startswith("_") or not hasattr(owner, name) or (kept is not None and name not in kept):
        advice = _IN_PLACE.get(name, "") if kept is not None else ""
        raise c.error("language.syntax#E4", f"{describe(owner)} has no attribute `{name}` that kernels can use{advice}")
    if is_runtime(owner) and name in ("index", "count"):
        raise c.error("control.constexpr#E2", f"`.{name}` compares compile-time elements only, found {describe(owner)}")
    found = getattr(owner, name)
    if kept is None and not callable(found):
        c.dependencies.add(owner, name, found)
    return compile_time(found)


def _of_value(c: Context, owner: Value, name: str) -> Any:
    if name == "shape":
        return shape_of(owner.type)
    if name == "dtype":
        return to_language(element_of(owner.type))
    if name == "type":
        return to_language(owner.type)
    if name == "numel":
        return owner.type.numel if shape_of(owner.type) else 1
    if name == "T":
        return transposed(c, owner)
    if name in MEMBERS:
        return Method(MEMBERS[name], owner)
    if name in NOT_YET:
        raise c.error("language.syntax#E3", f"`.{name}` is not in this edition yet")
    close = difflib.get_close_matches(name, [*_PROPERTIES, *sorted(MEMBERS)], 1)
    advice = f"; did you mean `.{close[0]}`?" if close else ""
    raise c.error("language.syntax#E4", f"a value of type {owner.type} has no attribute `{name}`{advice}")


def _of_aggregate(c: Context, owner: tensor_descriptor | block_pointer, name: str) -> Any:
    found: dict[str, Any] = {"shape": owner.shape, "strides": owner.strides}
    if isinstance(owner, tensor_descriptor):
        box = BlockType(owner.type.element, owner.type.block_shape)
        found |= {"block_shape": box.shape, "dtype": to_language(box.element), "block_type": to_language(box)}
        found |= {method: Method(function, owner) for method, function in METHODS.items()}
    else:
        found |= {"offsets": owner.offsets, "block_shape": owner.block_shape, "dtype": to_language(owner.base.type)}
    if name not in found:
        known = ", ".join(f"`.{n}`" for n in found)
        raise c.error("language.syntax#E4", f"{describe(owner)} has no attribute `{name}`; it has {known}")
    return found[name]


def _of_module(c: Context, owner: types.ModuleType, name: str) -> Any:
    found = getattr(owner, name, None)
    if found is None and not hasattr(owner, name):
        short = "tl" if hasattr(owner, "program_id") else owner.__name__
        if short == "tl" and name in NOT_YET:
            raise c.error("language.syntax#E3", f"tl.{name} is not in this edition yet")
        close = difflib.get_close_matches(name, getattr(owner, "__all__", dir(owner)), 1)
        advice = f"; did you mean {short}.{close[0]}?" if close else ""
        raise c.error("language.syntax#E3", f"{short} has no `{name}`{advice}")
    c.dependencies.add(owner, name, found)
    return compile_time(found)
