"""Signature strings: `"x:*f32:16, n:i32"`, as the command line, `compile` and annotations write parameter types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refcompiler.errors import LaunchError
from refcompiler.frontend.types import dtype, pointer_type
from refcompiler.ir.types import DTYPES, DType, PointerType

_ALIASES = {"i1": "bool", "u1": "bool", "int1": "bool", "B": "bool"}
_ALIASES |= {d.triton_name: d.name for d in DTYPES.values()}
_ALIASES |= {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_ALIASES |= {"float8e4nv": "f8e4m3", "float8_e4m3fn": "f8e4m3", "float8e5": "f8e5m2", "float8_e5m2": "f8e5m2"}


def parse_type(text: str) -> DType | PointerType:
    """`f32`, `fp32`, `*f32`, `*kf32` (constant) as IR types. Raises LaunchError for an unknown name."""
    name = text.strip()
    if name.startswith("*"):
        const = name.startswith("*k")
        return PointerType(_scalar(name[2 if const else 1 :], text), const)
    return _scalar(name, text)


def _scalar(name: str, text: str) -> DType:
    found = DTYPES.get(_ALIASES.get(name, name))
    if found is None:
        raise LaunchError(
            "program.arguments#E2", f"unknown type {text!r}; known are {', '.join(DTYPES)} and pointers *f32"
        )
    return found


def parse_signature(signature: str | Mapping[str, Any]) -> tuple[dict[str, DType | PointerType], dict[str, int]]:
    """Types by parameter name, and hints: `x:*f32:16` says that x is divisible by 16 bytes, `n:i32:1` that n is 1."""
    if isinstance(signature, str):
        entries = [_entry(part.strip()) for part in signature.split(",") if part.strip()]
    elif isinstance(signature, Mapping):
        entries = list(signature.items())
    else:
        raise LaunchError(
            "program.arguments#E2", f'a signature is text such as "x:*f32,n:i32" or a mapping, found {signature!r}'
        )
    types: dict[str, DType | PointerType] = {}
    hints: dict[str, int] = {}
    for name, entry in entries:
        if name in types:
            raise LaunchError("program.arguments#E1", f"the signature gives the type of `{name}` twice")
        if isinstance(entry, dtype | pointer_type):
            types[name] = entry.ir
            continue
        if isinstance(entry, DType | PointerType):
            types[name] = entry
            continue
        text, _, hint = str(entry).partition(":")
        types[name] = parse_type(text)
        if hint:
            if not hint.strip().isdigit() or int(hint) < 1:
                raise LaunchError("program.arguments#E2", f"the hint of {name} is a positive divisor, got {hint!r}")
            hints[name] = int(hint)
    return types, hints


def _entry(part: str) -> tuple[str, str]:
    name, colon, type_ = part.partition(":")
    if not colon:
        raise LaunchError("program.arguments#E2", f"{part!r} in a signature is not NAME:TYPE, such as n:i32")
    return name.strip(), type_
