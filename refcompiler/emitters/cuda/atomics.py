"""Device functions for atomics: one PTX instruction with its memory order and scope, or the few that it takes."""

from __future__ import annotations

from typing import Any

from refcompiler.dialects.atomic import DTYPES, SCOPES, SEMANTICS, Atomic, AtomicCas, AtomicRmw, ptx
from refcompiler.emitters.cuda.c_types import C_TYPES
from refcompiler.ir.core import Value
from refcompiler.ir.types import PointerType, element_of

_CONSTRAINTS = {16: ("unsigned short", "h"), 32: ("unsigned", "r"), 64: ("unsigned long long", "l")}
_FLOATS = {"float": "f", "double": "d"}


def atomic_function(op: Atomic) -> str:
    """The device function for an atomic."""
    return f"atomic_{op.kind}_{op.sem}_{op.scope}_{element_of(op.result.type)}"


def _definition(op: Atomic, name: str) -> str:
    dtype = element_of(op.pointer.type).pointee
    type_ = C_TYPES[dtype.name]
    bits, constraint = _CONSTRAINTS[dtype.bits]
    if op.kind == "add" and type_ in _FLOATS:
        bits, constraint = type_, _FLOATS[type_]
    names = ["compare", "value"] if op.kind == "cas" else ["value"]
    parameters = ", ".join([f"{type_}* to", *(f"{type_} {n}" for n in names)])
    text = ptx(op, dtype).format(d="%0", p="%1", c="%2", v="%3" if op.kind == "cas" else "%2")
    lines = [f"static __device__ __forceinline__ {type_} {name}({parameters}) {{"]
    held = names
    if bits != type_:
        held = [f"{n}_bits" for n in names]
        lines += [
            f"    {bits} {h};\n    memcpy(&{h}, &{n}, {dtype.itemsize});" for h, n in zip(held, names, strict=True)
        ]
    inputs = ", ".join(['"l"(to)', *(f'"{constraint}"({h})' for h in held)])
    lines += [
        f"    {bits} old;",
        f'    asm volatile("{text}" : "=&{constraint}"(old) : {inputs} : "memory");',
    ]
    if bits != type_:
        lines += [f"    {type_} result;\n    memcpy(&result, &old, {dtype.itemsize});", "    return result;"]
    else:
        lines.append("    return old;")
    return "\n".join(lines) + "\n}\n"


def _all() -> dict[str, str]:
    found = {}
    for kind, dtypes in DTYPES.items():
        for dtype in dtypes:
            pointer, value = Value(PointerType(dtype)), Value(dtype)
            for sem in SEMANTICS:
                for scope in SCOPES:
                    order: dict[str, Any] = {"sem": sem, "scope": scope}
                    op = (
                        AtomicCas(pointer, value, value, **order)
                        if kind == "cas"
                        else AtomicRmw(pointer, value, op=kind, **order)
                    )
                    name = atomic_function(op)
                    found[name] = _definition(op, name)
    return found


ATOMICS: dict[str, str] = _all()
