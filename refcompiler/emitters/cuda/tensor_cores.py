"""Matrix products on tensor cores in CUDA C++: functions around inline PTX on arrays of registers."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable

from refcompiler.dialects.simt.matrices import Ldmatrix, Stmatrix
from refcompiler.dialects.simt.registers import count_of
from refcompiler.dialects.simt.tensor_cores import MmaSync, packed
from refcompiler.dialects.simt.warpgroup import Wgmma, WgmmaFence, WgmmaWait
from refcompiler.emitters.cuda.c_types import C_TYPES
from refcompiler.emitters.cuda.control import Assign
from refcompiler.emitters.cuda.expressions import Expr, binary
from refcompiler.emitters.cuda.names import Namer
from refcompiler.emitters.cuda.text import Renderer
from refcompiler.ir.core import Op, Value
from refcompiler.ir.types import F32, DType, element_of

_LOOP = "#pragma unroll\n"
_INLINE = "static __device__ __forceinline__"


class TensorCores:
    """The part of the writer of a kernel that writes ops of tensor cores."""

    renderer: Renderer
    namer: Namer
    index: str
    functions: dict[str, str]
    held: dict[Value, str]  # left operands of wgmma that a fence holds, and their arrays
    line: Callable[[str], None]
    step: Callable[[Op | Assign], None]
    flush: Callable[[], None]
    array_of: Callable[[Value, int], str]
    declare: Callable[..., None]

    def write_mma_sync(self, op: MmaSync, index: Expr | None) -> None:
        a, b = (self.array_of(v, count_of(v.type)) for v in (op.a, op.b))
        d = self.accumulators(op.result, op.c)
        name = self.function("mma_" + "_".join(op.instruction.split(".")[3:]).replace("row_col_", ""), _mma(op))
        m, n, k = op.tiles
        self.line(f"{name}<{m}, {n}, {k}>({d}, {a}, {b});")

    def write_wgmma(self, op: Wgmma, index: Expr | None) -> None:
        a = self.place(op.a, op.a_index) if op.a_shared else self.left_of(op.a)
        b = self.place(op.b, op.b_index)
        d = self.accumulators(op.result, op.c)
        name = self.function("wgmma_" + "_".join(op.instruction.split(".")[4:]), _wgmma(op))
        self.line(f"{name}({d}, {a}, {b});")

    def write_wgmma_fence(self, op: WgmmaFence, index: Expr | None) -> None:
        """Nothing moves what is held below the fence; else ptxas would put one between wgmmas, and serialise them."""
        for value in op.held:
            self.held[value] = self.array_of(value, count_of(value.type))
            self.line(f"hold<{count_of(value.type)}>({self.held[value]});")
        self.line(f'asm volatile("{op.instruction.text}" ::: "memory");')

    def left_of(self, value: Value) -> str:
        """The array of a left operand in registers."""
        return self.held.get(value) or self.array_of(value, count_of(value.type))

    def write_wgmma_wait(self, op: WgmmaWait, index: Expr | None) -> None:
        """What comes after reads other variables than the wgmma before, so no read moves above the wait."""
        self.line(f'asm volatile("wgmma.wait_group.sync.aligned {op.pending};" ::: "memory");')
        for result, value in zip(op.results, op.values, strict=True):
            self.line(f"settle<{count_of(value.type)}>({self.accumulators(result, value)});")

    def write_ldmatrix(self, op: Ldmatrix, index: Expr | None) -> None:
        self.declare(op.result, local=False)
        name = self.function(f"ldmatrix_x{op.count}", _ldmatrix(op))
        self.each_access(op, f"{name}({self.renderer.names[op.result]}")

    def write_stmatrix(self, op: Stmatrix, index: Expr | None) -> None:
        value = self.array_of(op.value, count_of(op.value.type))
        name = self.function(f"stmatrix_x{op.count}", _stmatrix(op))
        self.each_access(op, f"{name}({value}")

    def each_access(self, op: Ldmatrix | Stmatrix, start: str) -> None:
        """Calls that begin so, with the registers of each access and its address."""
        accesses = count_of(op.index.type)
        if accesses == 1:
            self.line(f"{start}, {self.place(op.buffer, op.index)});")
            return
        r = Expr(self.index)
        self.line("#pragma unroll")
        self.line(f"for (int {r} = 0; {r} < {accesses}; ++{r}) {{")
        self.line(f"    {start} + {op.each} * {r}, {self.place(op.buffer, op.index, r)});")
        self.line("}")

    def round_pairs(self, op: Op, index: Expr | None) -> None:
        """A rounding to 16 bits of which one instruction does two."""
        count = count_of(op.x.type)
        x = self.array_of(op.x, count)
        self.declare(op.result, local=False)
        target = element_of(op.result.type).name
        self.line(f"f32_to_{target}_pairs<{count}>({self.renderer.names[op.result]}, {x});")

    def accumulators(self, result: Value, start: Value | None) -> str:
        """A new array for ``result`` that begins as ``start``."""
        self.declare(result, local=False)
        if start is not None:
            self.step(Assign(result, start))
            self.flush()
        return self.renderer.names[result]

    def place(self, buffer: Value, index: Value, register: Expr | None = None) -> str:
        """The address of an element in shared memory."""
        element = binary(Expr(self.renderer.names[buffer]), "+", self.renderer.value(index, register))
        return f"shared_address({element})"

    def function(self, wanted: str, text: str) -> str:
        """The name of the function with that text, in which NAME stands for it."""
        if text not in self.functions:
            self.functions[text] = self.namer.own(wanted)
        return self.functions[text]


def _mma(op: MmaSync) -> str:
    """All tiles of an mma_sync; accumulators are updated in place."""
    a, b, c = op.elements
    of_a, of_b, of_c = op.fragments
    words = of_c // packed(c)
    held = [f"z[{i}]" if packed(c) == 1 else f"word[{i}]" for i in range(words)]
    before = f"unsigned word[] = {{{', '.join(f'as_word(z + {2 * i})' for i in range(words))}}};\n"
    after = [
        f"z[{i}] = (unsigned short){f'(word[{i // 2}] >> 16)' if i % 2 else f'word[{i // 2}]'};" for i in range(of_c)
    ]
    constraint = "f" if c is F32 else "r"
    inputs = [f'"r"(as_word(x + {i}))' for i in range(0, of_a, packed(a))]
    inputs += [f'"r"(as_word(y + {i}))' for i in range(0, of_b, packed(b))]
    statement = _asm(
        "asm", [op.text("%")], [f'"={constraint}"({z})' for z in held], inputs + [f'"{constraint}"({z})' for z in held]
    )
    inner = (before + statement + "\n".join(after) + "\n") if packed(c) > 1 else statement
    return f"""template <int M, int N, int K>
{_INLINE} void NAME({_type(c)}* d, const {_type(a)}* a, const {_type(b)}* b) {{
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
            for (int n = 0; n < N; ++n) {{
                const {_type(a)}* x = a + {of_a} * (m * K + k);
                const {_type(b)}* y = b + {of_b} * (n * K + k);
                {_type(c)}* z = d + {of_c} * (m * N + n);
{textwrap.indent(inner, " " * 16)}            }}
}}
"""


def _wgmma(op: Wgmma) -> str:
    """All steps of a wgmma; accumulators are updated in place."""
    element, size = op.result.type.element, count_of(op.result.type)
    constraint = ("=&" if op.c is None else "+") + ("f" if element is F32 else "r")
    lines, inputs = [], []
    for name, tile in (("a", op.a_tile if op.a_shared else None), ("b", op.b_tile)):
        if tile is not None:
            lines.append(f"const unsigned {name}_low = ({name} & 0x3ffff) >> 4 | {tile.low:#x};")
    for step in range(op.k_steps):
        if op.a_shared:
            inputs.append(_descriptor("a", op.a_tile.high, op.a_tile.start(step)))
        else:
            each = op.a_words * packed(op.element)
            inputs += [f'"r"(as_word(a + {step * each + i}))' for i in range(0, each, packed(op.element))]
        inputs.append(_descriptor("b", op.b_tile.high, op.b_tile.start(step)))
    lines.append(_asm("asm volatile", op.text("%"), [f'"{constraint}"(d[{i}])' for i in range(size)], inputs))
    a = "unsigned" if op.a_shared else f"const {_type(op.element)}*"
    body = textwrap.indent("\n".join(lines), "    ")
    return f"{_INLINE} void NAME({_type(element)}* d, {a} a, unsigned b) {{\n{body}}}\n"


def _ldmatrix(op: Ldmatrix) -> str:
    """One access."""
    element = element_of(op.buffer.type)
    statement = _asm(
        "asm volatile", [op.text("%")], [f'"=r"(word[{i}])' for i in range(op.words)], ['"r"(from)'], memory=True
    )
    body = f"unsigned word[{op.words}];\n{statement}{_LOOP}for (int i = 0; i < {op.words}; ++i) "
    body += f"from_word(to + {packed(element)} * i, word[i]);\n"
    return f"{_INLINE} void NAME({_type(element)}* to, unsigned from) {{\n{textwrap.indent(body, '    ')}}}\n"


def _stmatrix(op: Stmatrix) -> str:
    """One access."""
    element = element_of(op.buffer.type)
    words = [f'"r"(as_word(from + {packed(element) * i}))' for i in range(op.words)]
    statement = _asm("asm volatile", [op.text("%")], [], ['"r"(to)', *words], memory=True)
    head = f"{_INLINE} void NAME(const {_type(element)}* from, unsigned to) {{"
    return f"{head}\n{textwrap.indent(statement, '    ')}}}\n"


def _descriptor(name: str, high: int, offset: int) -> str:
    low = f"{name}_low + {offset >> 4}" if offset else f"{name}_low"
    return f'"l"(matrix_descriptor({high:#x}, {low}))'


def _asm(
    head: str, instructions: list[str], outputs: Iterable[str], inputs: Iterable[str], memory: bool = False
) -> str:
    """A statement of inline PTX; ``memory`` says that it reads or writes some."""

    def wrapped(operands: Iterable[str]) -> str:
        return textwrap.fill(", ".join(operands), 100, subsequent_indent="      ", break_long_words=False)

    end = "\\n" if len(instructions) > 1 else ""
    text = "\n    ".join(f'"{line}{end}"' for line in instructions)
    clobbered = ' : "memory"' if memory else ""
    return f"{head}(\n    {text}\n    : {wrapped(outputs)}\n    : {wrapped(inputs)}{clobbered});\n"


def _type(dtype: DType) -> str:
    return C_TYPES[dtype.name]
