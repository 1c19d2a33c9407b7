"""Device functions around the PTX instructions that C++ has no words for."""

from __future__ import annotations

from refcompiler.dialects.simt.ptx import INSTRUCTIONS, Instruction


def _function(instruction: Instruction) -> str:
    """The device function of an instruction with operands."""
    types, constraints = [], []
    for name, kind in instruction.operands:
        type_, constraint = _KINDS[kind]
        types.append(f"{type_} {name}")
        constraints.append(constraint.format(name))
    places = [f"%{number}" for number in range(len(types))]
    predicate = ""
    if instruction.predicated:
        predicate = f"%{len(types)}"
        types.append("bool predicate = true")
        constraints.append('"r"((int)predicate)')
    return (
        f"static __device__ __forceinline__ void {instruction.name}({', '.join(types)}) {{\n"
        f'    asm volatile("{instruction.inline(places, predicate)}"\n'
        f'        :: {", ".join(constraints)} : "memory");\n}}\n'
    )


_KINDS = {
    "shared": ("const void*", '"r"(shared_address({}))'),
    "global": ("const void*", '"l"({})'),
    "map": ("const TensorMap*", '"l"({})'),
    "word": ("int", '"r"({})'),
    "long": ("long long", '"l"({})'),
}
ASYNCHRONOUS = {
    "shared_address": """static __device__ __forceinline__ unsigned shared_address(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
""",
    "TensorMap": """struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};
""",
    **{name: _function(instruction) for name, instruction in INSTRUCTIONS.items()},
}
