"""Matrix products on tensor cores in CUDA C++: functions around inline PTX on arrays of registers."""

from __future__ import annotations

from collections.abc import Callable

from refcompiler.dialects.simt.registers import count_of
from refcompiler.dialects.simt.tensor_cores import MmaSync, packed
from refcompiler.emitters.cuda.c_types import C_TYPES
from refcompiler.emitters.cuda.control import Assign
from refcompiler.emitters.cuda.expressions import Expr
from refcompiler.emitters.cuda.text import Renderer
from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import F32, DType

_INLINE = "static __device__ __forceinline__"


class TensorCores:
    """The part of the writer of a kernel that writes ops of tensor cores."""

    renderer: Renderer
    functions: dict[str, str]
    line: Callable[[str], None]
    step: Callable[[Op | Assign], None]
    flush: Callable[[], None]
    array_of: Callable[[Value, int], str]
    declare: Callable[..., None]

    def write_mma_sync(self, op: MmaSync, index: Expr | None) -> None:
        a, b = (self.array_of(v, count_of(v.type)) for v in (op.a, op.b))
        self.declare(op.result, local=False)
        self.step(Assign(op.result, op.c))
        self.flush()
        name = "mma_" + "_".join(op.instruction.split(".")[3:]).replace("row_col_", "")
        self.functions.setdefault(name, _mma_function(name, op))
        m, n, k = op.tiles
        self.line(f"{name}<{m}, {n}, {k}>({self.renderer.names[op.result]}, {a}, {b});")


def _mma_function(name: str, op: MmaSync) -> str:
    """All tiles of an mma_sync; accumulators are updated in place."""
    a, b, c = op.elements
    of_a, of_b, of_c = op.fragments
    words = of_c // packed(c)
    inputs = [f'"r"(as_word(x + {i}))' for i in range(0, of_a, packed(a))]
    inputs += [f'"r"(as_word(y + {i}))' for i in range(0, of_b, packed(b))]
    constraint = "f" if c is F32 else "r"
    outputs = [f'"+{constraint}"({f"z[{i}]" if packed(c) == 1 else f"word[{i}]"})' for i in range(words)]
    d, x, y = _groups([words, of_a // packed(a), of_b // packed(b)])
    before = f"                unsigned word[] = {{{', '.join(f'as_word(z + {2 * i})' for i in range(words))}}};\n"
    after = "".join(
        f"                z[{i}] = (unsigned short){f'(word[{i // 2}] >> 16)' if i % 2 else f'word[{i // 2}]'};\n"
        for i in range(of_c)
    )
    return f"""template <int M, int N, int K>
{_INLINE} void {name}({_type(c)}* d, const {_type(a)}* a, const {_type(b)}* b) {{
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n) {{
                const {_type(a)}* x = a + {of_a} * (m * K + k);
                const {_type(b)}* y = b + {of_b} * (n * K + k);
                {_type(c)}* z = d + {of_c} * (m * N + n);
{before if packed(c) > 1 else ""}                asm("{op.instruction} {d}, {x}, {y}, {d};"
                    : {", ".join(outputs)}
                    : {", ".join(inputs)});
{after if packed(c) > 1 else ""}            }}
}}
"""


def _groups(counts: list[int]) -> list[str]:
    """The places of operands in an instruction, in braces, numbered one after the other."""
    found, start = [], 0
    for count in counts:
        found.append("{" + ", ".join(f"%{i}" for i in range(start, start + count)) + "}")
        start += count
    return found


def _type(dtype: DType) -> str:
    return C_TYPES[dtype.name]
