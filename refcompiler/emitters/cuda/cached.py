"""Device functions for accesses that plain C++ cannot express: vectors, cache operators, priorities, volatile."""

from __future__ import annotations

from refcompiler.dialects.simt.memory import PTX_ACCESSES, ptx_flag
from refcompiler.ir.core import Op

_LOADS = {**PTX_ACCESSES["ld_global"], "volatile": "volatile.global"}
_STORES = PTX_ACCESSES["st_global"]

# size in bytes -> (C++ type of a register, its asm constraint, PTX type, number of registers)
_SIZES = {
    1: ("unsigned short", "h", "u8", 1),
    2: ("unsigned short", "h", "b16", 1),
    4: ("unsigned", "r", "b32", 1),
    8: ("unsigned", "r", "b32", 2),
    16: ("unsigned", "r", "b32", 4),
}


def access_function(op: Op) -> str | None:
    """The device function for a global access; None where a plain one will do."""
    word = "load" if op.name == "ld_global" else "store"
    if op.attrs.get("volatile"):
        return "load_volatile"
    flag = ptx_flag(op)
    if flag:
        return f"{word}_{flag.lstrip('.')}"
    wide = op.name == "st_global" and op.width > 1
    return "store_whole" if wide else None  # the C++ compiler takes some vectors apart when it stores them


def _load(name: str, ptx: str) -> str:
    cases = []
    for size, (type_, constraint, suffix, count) in _SIZES.items():
        vector = f".v{count}" if count > 1 else ""
        registers = ", ".join(f"%{i}" for i in range(count))
        outputs = ", ".join(f'"={constraint}"(bits[{i}])' for i in range(count))
        target = f"{{{registers}}}" if count > 1 else registers
        operands = f'{outputs} : "l"(from) : "memory"'
        cases.append(
            f"    if constexpr (sizeof(T) == {size}) {{\n"
            f"        {type_} bits[{count}];\n"
            f'        asm volatile("ld.{ptx}{vector}.{suffix} {target}, [%{count}];" : {operands});\n'
            f"        memcpy(&value, bits, {size});\n"
            f"    }}"
        )
    body = "\n".join(cases)
    return (
        f"template <typename T>\nstatic __device__ __forceinline__ T {name}(const T* from) {{\n"
        f"    T value;\n{body}\n    return value;\n}}\n"
    )


def _store(name: str, ptx: str) -> str:
    cases = []
    for size, (type_, constraint, suffix, count) in _SIZES.items():
        vector = f".v{count}" if count > 1 else ""
        registers = ", ".join(f"%{i + 1}" for i in range(count))
        inputs = ", ".join(f'"{constraint}"(bits[{i}])' for i in range(count))
        source = f"{{{registers}}}" if count > 1 else registers
        cases.append(
            f"    if constexpr (sizeof(T) == {size}) {{\n"
            f"        {type_} bits[{count}] = {{}};\n"
            f"        memcpy(bits, &value, {size});\n"
            f'        asm volatile("st.{ptx}{vector}.{suffix} [%0], {source};" : : "l"(to), {inputs} : "memory");\n'
            f"    }}"
        )
    body = "\n".join(cases)
    return f"template <typename T>\nstatic __device__ __forceinline__ void {name}(T* to, T value) {{\n{body}\n}}\n"


CACHED: dict[str, str] = {
    **{f"load_{flag.lstrip('.')}": _load(f"load_{flag.lstrip('.')}", ptx) for flag, ptx in _LOADS.items()},
    "store_whole": _store("store_whole", "global"),
    **{f"store_{flag.lstrip('.')}": _store(f"store_{flag.lstrip('.')}", ptx) for flag, ptx in _STORES.items()},
}
