"""Device functions for accesses that plain C++ cannot express: vectors, cache operators, priorities, volatile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from refcompiler.dialects.simt.memory import PTX_ACCESSES, ptx_flag, ptx_policy
from refcompiler.ir.core import Op

_LOADS = {**PTX_ACCESSES["ld_global"], "volatile": "volatile.global", "whole": "global"}
_STORES = {**PTX_ACCESSES["st_global"], "whole": "global"}

# size in bytes -> (C++ type of a register, its asm constraint, PTX type, number of registers)
_SIZES = {
    1: ("unsigned short", "h", "u8", 1),
    2: ("unsigned short", "h", "b16", 1),
    4: ("unsigned", "r", "b32", 1),
    8: ("unsigned", "r", "b32", 2),
    16: ("unsigned", "r", "b32", 4),
}


def access_function(op: Op) -> str | None:
    """The device function for a global access; None where a plain one will do. Its twin with ``_if`` at the end takes
    the mask first, and a load also what to give where that is false."""
    word = "load" if op.name == "ld_global" else "store"
    if op.attrs.get("volatile"):
        return "load_volatile"
    flag = ptx_flag(op)
    if flag:
        return f"{word}_{flag.lstrip('.')}"
    wide = op.name == "st_global" and op.width > 1
    return "store_whole" if wide else None  # the C++ compiler takes some vectors apart when it stores them


@dataclass(frozen=True)
class _Access:
    """A PTX access to global memory, with a case for each size. Under a mask it is predicated: a branch around each
    access would keep accesses from being in flight together."""

    ptx: str
    masked: bool
    policy: str

    def case(self, size: int, before: str, after: str) -> str:
        type_, constraint, suffix, count = _SIZES[size]
        load = self.ptx.startswith("ld")
        registers = [f"%{i}" for i in range(count)]
        vector, packed = (f".v{count}", f"{{{', '.join(registers)}}}") if count > 1 else ("", registers[0])
        address = f"[%{count}]"
        text = f"{self.ptx}{vector}.{suffix} {f'{packed}, {address}' if load else f'{address}, {packed}'}{self.policy};"
        changed = ("+" if self.masked else "=") if load else ""
        bits = ", ".join(f'"{changed}{constraint}"(bits[{i}])' for i in range(count))
        rest = f'"l"({"from" if load else "to"})'
        if self.masked:
            text = f"{{ .reg .pred p; setp.ne.b32 p, %{count + 1}, 0; @p {text} }}"
            rest += ', "r"((int)mask)'
        operands = f"{bits} : {rest}" if load else f": {bits}, {rest}"
        lines = [f"{type_} bits[{count}]{' = {}' if before else ''};", before.format(size=size)]
        lines += [f'asm volatile("{text}" : {operands} : "memory");', after.format(size=size)]
        body = "".join(f"        {line}\n" for line in lines if line)
        return f"    if constexpr (sizeof(T) == {size}) {{\n{body}    }}"

    def cases(self, before: str, after: str) -> str:
        return "\n".join(self.case(size, before, after) for size in _SIZES)


def _load(name: str, ptx: str, policy: str, masked: bool = False) -> str:
    access = _Access(f"ld.{ptx}", masked, policy)
    body = access.cases("memcpy(bits, &value, {size});" if masked else "", "memcpy(&value, bits, {size});")
    parameters = "bool mask, const T* from, T value" if masked else "const T* from"
    start = "" if masked else "    T value;\n"
    return (
        f"template <typename T>\nstatic __device__ __forceinline__ T {name}({parameters}) {{\n"
        f"{start}{body}\n    return value;\n}}\n"
    )


def _store(name: str, ptx: str, policy: str, masked: bool = False) -> str:
    body = _Access(f"st.{ptx}", masked, policy).cases("memcpy(bits, &value, {size});", "")
    parameters = f"{'bool mask, ' if masked else ''}T* to, T value"
    return f"template <typename T>\nstatic __device__ __forceinline__ void {name}({parameters}) {{\n{body}\n}}\n"


def _named(word: str, flags: dict[str, str], function: Callable[..., str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for flag, ptx in flags.items():
        name, policy = f"{word}_{flag.lstrip('.')}", ptx_policy(flag)
        made |= {name: function(name, ptx, policy), f"{name}_if": function(f"{name}_if", ptx, policy, masked=True)}
    return made


CACHED: dict[str, str] = _named("load", _LOADS, _load) | _named("store", _STORES, _store)
