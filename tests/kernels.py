"""Kernels from snippets, for tests of the frontend: fixed parameters, a body, a few captured names."""

import ast
import textwrap

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.frontend import KernelSource, compile_to_tile
from refcompiler.source import register_text

SIGNATURE = "X:*f32, I:*i32, n:i32, h:f16, f:f32, b:bool, u:u32, w:i64, s:i8"


@triton.jit
def jit_add1(a):
    return a + 1


@triton.jit
def jit_add(a, b):
    return a + b


@triton.jit
def jit_default(a, b=3):
    return a + b


@triton.jit
def jit_kwonly(a, *, b):
    return a * b


@triton.jit
def jit_two(a):
    return a, a + 1


@triton.jit
def jit_none(a):
    tl.static_assert(True)


@triton.jit
def jit_varargs(a, *rest):
    for i in tl.static_range(len(rest)):
        a = a + rest[i]
    return a


@triton.jit
def jit_factorial(k: tl.constexpr):
    if k <= 1:
        return 1
    return k * jit_factorial(k - 1)


@triton.jit
def jit_recursive(a):
    return jit_recursive(a + 1)


@triton.jit
def jit_early(a, flag: tl.constexpr):
    if flag:
        return a + 1
    return a - 1


@triton.jit
def jit_bad(a):
    t = a + 1
    return tl.exp(t)


@triton.constexpr_function
def ce_double(v):
    return 2 * v


def plain(v):
    return v + 1


GLOBAL_INT = 4
GLOBAL_CONSTEXPR = tl.constexpr(4)
GLOBAL_DTYPE = tl.float16
GLOBAL_NONE = None

_COUNT = 0


def source_of(body: str, header: str = "X, I, n, h, f, b, u, w, s, C: tl.constexpr") -> KernelSource:
    """A kernel with `body`; its first line is line 2 of a file of its own."""
    import math

    import numpy as np

    global _COUNT
    _COUNT += 1
    file = f"<snippet {_COUNT}>"
    text = f"def kernel({header}):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    register_text(file, text)
    tree = ast.parse(text).body[-1]
    return KernelSource("kernel", text, file, 1, {**globals(), "math": math, "np": np}, tree=tree)


def compile_body(body: str, **constexprs):
    """The tile function of a kernel with `body`, over SIGNATURE and C = 8."""
    return compile_to_tile(source_of(body), SIGNATURE, {"C": 8, **constexprs})


def ssa(body: str) -> str:
    """The ops of the tile function, without header and closing brace."""
    lines = str(compile_body(body)).splitlines()[1:-1]
    return "\n".join(line[2:] for line in lines)


@triton.jit
def jit_two_results(a, b):
    return a, b


@triton.jit
def jit_to_float(a, b):
    return (a + b) * 1.0


@triton.jit
def jit_with_store(a, b):
    assert a > b
    return a


@triton.jit
def jit_pair(a, i, b, j):
    return a + b, i + j
