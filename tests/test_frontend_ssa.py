"""The tile SSA of each construct, written by hand from docs/tile-ssa.md."""
# ruff: noqa: E501  a row of a table stays on its line

import textwrap

import numpy as np
import pytest
from kernels import compile_body, ssa

from refcompiler import interpreter
from refcompiler.ir import print_func
from refcompiler.ir.parser import parse_func

_X = "x = tl.load(X + tl.arange(0, 8))\n"
_X_SSA = """\
%0 = arange {start=0, end=8} : vector<8 x i32>
%1 = addptr X, %0 : vector<8 x ptr<f32>>
%2 = load %1, none, none : vector<8 x f32>
"""
_M = "x = tl.zeros((4, 8), tl.float32)\n"
_M_SSA = "%0 = full 0.0 : block<4x8 x f32>\n"

CASES = {
    "literals take the other operand's type": (
        "a = n * 2 + 1\nc = 2 - f\nd = 1 < s",
        "%0 = mul n, 2 : i32\n%1 = add %0, 1 : i32\n%2 = sub 2.0, f : f32\n%3 = cmp_lt 1, s : bool",
    ),
    "a name bound to a number is a run-time scalar": (
        "a = 8\nc = a + 1\nd = a + h",
        "%0 = add 8, 1 : i32\n%1 = add 8.0, h : f16",
    ),
    "a captured number too": ("a = GLOBAL_CONSTEXPR\nc = a + 1", "%0 = add 4, 1 : i32"),
    "constexprs are computed": ("a = n + (7 // -2 + 2**3)", "%0 = add n, 4 : i32"),
    "casts come before the op": (
        "a = n + f\nc = h * n",
        "%0 = cast n : f32\n%1 = add %0, f : f32\n%2 = cast n : f16\n%3 = mul h, %2 : f16",
    ),
    "division": (
        "a = n / 2\nc = n // 2\nd = n % 3\ng = h / 2\ne = f % h",
        "%0 = cast n : f32\n%1 = div %0, 2.0 : f32\n%2 = div n, 2 : i32\n%3 = rem n, 3 : i32\n"
        "%4 = cast h : f32\n%5 = div %4, 2.0 : f32\n%6 = cast h : f32\n%7 = rem f, %6 : f32",
    ),
    "bool arithmetic is modulo two": (
        "a = b + b\nc = b * b\nd = tl.maximum(b, b)\ne = -b",
        "%0 = xor b, b : bool\n%1 = and b, b : bool\n%2 = or b, b : bool\n%3 = xor False, b : bool",
    ),
    "bool with an integer literal is i32": ("a = b + 1", "%0 = cast b : i32\n%1 = add %0, 1 : i32"),
    "unary": (
        "a = -n\nc = -u\nd = ~n\ne = ~b\ng = not b\nk = +n",
        "%0 = neg n : i32\n%1 = sub 0, u : u32\n%2 = not n : i32\n%3 = not b : bool\n%4 = not b : bool",
    ),
    "shifts": (
        "a = n << 3\nc = n >> 1\nd = n >> u\ne = u >> 1",
        "%0 = shl n, 3 : i32\n%1 = shr n, 1 : i32\n%2 = cast u : i32\n%3 = shr n, %2 : i32\n%4 = cast %3 : u32\n"
        "%5 = shr u, 1 : u32",
    ),
    "pointers": (
        "a = X + n\nc = 1 + X\nd = X - 1\ne = X - n\ng = X - u",
        "%0 = addptr X, n : ptr<f32>\n%1 = addptr X, 1 : ptr<f32>\n%2 = addptr X, -1 : ptr<f32>\n%3 = neg n : i32\n"
        "%4 = addptr X, %3 : ptr<f32>\n%5 = cast u : i64\n%6 = neg %5 : i64\n%7 = addptr X, %6 : ptr<f32>",
    ),
    "comparison chain": (
        "a = 0 < n < 5",
        "%0 = cmp_lt 0, n : bool\n%1 = cmp_lt n, 5 : bool\n%2 = and %0, %1 : bool",
    ),
    "comparisons": (
        "a = n < 1\na = n <= 1\na = n > 1\na = n >= 1\na = n == 1\na = n != f",
        "%0 = cmp_lt n, 1 : bool\n%1 = cmp_le n, 1 : bool\n%2 = cmp_gt n, 1 : bool\n%3 = cmp_ge n, 1 : bool\n"
        "%4 = cmp_eq n, 1 : bool\n%5 = cast n : f32\n%6 = cmp_ne %5, f : bool",
    ),
    "boolean operators": (
        "a = n > 1 and C > 3 and b\nc = C > 100 or b",
        "%0 = cmp_gt n, 1 : bool\n%1 = and %0, b : bool",
    ),
    "evaluation order": (
        "tl.store(X + 1, tl.load(X + 2) + tl.load(X + 3), n < 4)",
        "%0 = addptr X, 1 : ptr<f32>\n%1 = addptr X, 2 : ptr<f32>\n%2 = load %1, none, none : f32\n"
        "%3 = addptr X, 3 : ptr<f32>\n%4 = load %3, none, none : f32\n%5 = add %2, %4 : f32\n"
        "%6 = cmp_lt n, 4 : bool\nstore %0, %5, %6",
    ),
    "loads stay before stores": (
        "v = tl.load(X)\ntl.store(X, 1)\ntl.store(X + 1, v)",
        "%0 = load X, none, none : f32\nstore X, 1.0, none\n%1 = addptr X, 1 : ptr<f32>\nstore %1, %0, none",
    ),
    "memory": (
        _X + "y = tl.load(X + 0, b, other=1, cache_modifier='.cg', eviction_policy='evict_last', volatile=True)\n"
        "tl.store(I, f, mask=True)\ntl.store(I, 1.75)\ntl.store(X + tl.arange(0, 8), n)",
        _X_SSA + "%3 = addptr X, 0 : ptr<f32>\n"
        "%4 = load %3, b, 1.0 {cache='.cg', eviction='evict_last', volatile=True} : f32\n"
        "%5 = cast f : i32\nstore I, %5, True\nstore I, 1, none\n"
        "%6 = arange {start=0, end=8} : vector<8 x i32>\n%7 = addptr X, %6 : vector<8 x ptr<f32>>\n"
        "%8 = cast n : f32\nstore %7, %8, none",
    ),
    "creation": (
        "a = tl.full((4, 8), n, tl.float32)\nc = tl.full((8,), -1, tl.int8)\nd = tl.zeros([8], tl.int1)\n"
        "e = tl.empty((8,), tl.bfloat16)\ng = tl.zeros_like(d)\nk = tl.full((), 2, tl.float64) + f",
        "%0 = cast n : f32\n%1 = full %0 : block<4x8 x f32>\n%2 = full -1 : vector<8 x i8>\n"
        "%3 = full False : vector<8 x bool>\n%4 = empty : vector<8 x bf16>\n%5 = full False : vector<8 x bool>\n"
        "%6 = cast f : f64\n%7 = add 2.0, %6 : f64",
    ),
    "programs": (
        "a = tl.program_id(0) + tl.num_programs(axis=2)",
        "%0 = program_id {axis=0} : i32\n%1 = num_programs {axis=2} : i32\n%2 = add %0, %1 : i32",
    ),
    "expand and broadcast": (
        _X + "y = x[:, None] + x[None, :]\nz = tl.broadcast_to(x[None, :], 4, 8)\nv = tl.expand_dims(x, (0, -1))\n"
        "p, q = tl.broadcast(x, y)\nr = tl.broadcast_to(n, [8])",
        _X_SSA + "%3 = expand_dims %2 {axis=1} : block<8x1 x f32>\n%4 = expand_dims %2 {axis=0} : block<1x8 x f32>\n"
        "%5 = add %3, %4 : block<8x8 x f32>\n%6 = expand_dims %2 {axis=0} : block<1x8 x f32>\n"
        "%7 = broadcast %6 : block<4x8 x f32>\n%8 = expand_dims %2 {axis=0} : block<1x8 x f32>\n"
        "%9 = expand_dims %8 {axis=2} : block<1x8x1 x f32>\n%10 = expand_dims %2 {axis=0} : block<1x8 x f32>\n"
        "%11 = broadcast %10 : block<8x8 x f32>\n%12 = broadcast n : vector<8 x i32>",
    ),
    "shapes": (
        _M
        + "a = x.T\nc = tl.trans(x)\nd = tl.permute(x, (0, 1))\ne = x.reshape(32)\ng = tl.ravel(x)\nk = e.reshape([32])",
        _M_SSA + "%1 = trans %0 {order=(1, 0)} : block<8x4 x f32>\n%2 = trans %0 {order=(1, 0)} : block<8x4 x f32>\n"
        "%3 = trans %0 {order=(0, 1)} : block<4x8 x f32>\n%4 = reshape %0 : vector<32 x f32>\n"
        "%5 = reshape %0 : vector<32 x f32>",
    ),
    "math": (
        "a = tl.exp(f)\nc = tl.math.sqrt_rn(f)\nd = tl.fma(f, 2, h)\ne = tl.umulhi(n, 3)\ng = tl.fdiv(h, h)\n"
        "k = tl.div_rn(f, 3)\nl = tl.abs(n)\nm = tl.abs(b)\np = tl.clamp(n, 0, 9)\nq = f.rsqrt()",
        "%0 = exp f : f32\n%1 = sqrt_rn f : f32\n%2 = cast h : f32\n%3 = fma f, 2.0, %2 : f32\n"
        "%4 = umulhi n, 3 : i32\n%5 = cast h : f32\n%6 = cast h : f32\n%7 = div %5, %6 : f32\n"
        "%8 = div_rn f, 3.0 : f32\n%9 = abs n : i32\n%10 = maximum n, 0 : i32\n%11 = minimum %10, 9 : i32\n"
        "%12 = rsqrt f : f32",
    ),
    "selection": (
        "a = tl.where(b, n, 0.5)\nc = tl.where(b, X, X)\nd = tl.maximum(f, 1, propagate_nan=tl.PropagateNan.ALL)\n"
        "e = tl.minimum(n, u, tl.PropagateNan.ALL)\ng = tl.where(b, 1, 2.0)",
        "%0 = cast n : f32\n%1 = select b, %0, 0.5 : f32\n%2 = select b, X, X : ptr<f32>\n"
        "%3 = maximum_nan f, 1.0 : f32\n%4 = cast n : u32\n%5 = minimum %4, u : u32\n%6 = select b, 1.0, 2.0 : f32",
    ),
    "casts": (
        "a = n.to(tl.int32)\nc = n.to(tl.int64)\nd = tl.cast(n, tl.uint32)\ne = f.to(tl.int32, bitcast=True)\n"
        "g = X.to(tl.pointer_type(tl.int32))\nk = tl.cast(3, tl.float32) + f",
        "%0 = cast n : i64\n%1 = cast n : u32\n%2 = bitcast f : i32\n%3 = bitcast X : ptr<i32>\n%4 = add 3.0, f : f32",
    ),
    "reductions": (
        _M + "a = tl.sum(x, axis=1)\nc = tl.max(x, 0, keep_dims=True)\nd = x.min(-1)\ne = tl.sum(x)\n"
        "g = tl.sum(x, keep_dims=True)",
        _M_SSA + "%1 = reduce %0 {axis=1, combine='add'} : vector<4 x f32>\n"
        "%2 = reduce %0 {axis=0, combine='maximum'} : vector<8 x f32>\n%3 = expand_dims %2 {axis=0} : block<1x8 x f32>\n"
        "%4 = reduce %0 {axis=1, combine='minimum'} : vector<4 x f32>\n%5 = reshape %0 : vector<32 x f32>\n"
        "%6 = reduce %5 {axis=0, combine='add'} : f32\n%7 = reshape %0 : vector<32 x f32>\n"
        "%8 = reduce %7 {axis=0, combine='add'} : f32\n%9 = expand_dims %8 {axis=0} : vector<1 x f32>\n"
        "%10 = expand_dims %9 {axis=0} : block<1x1 x f32>",
    ),
    "reductions widen": (
        "a = tl.zeros((8,), tl.int8)\nc = a.sum(0)\nd = a.max(0)\ne = tl.zeros((8,), tl.uint8)\ng = e.sum(0)\n"
        "k = e.min(0)\nl = tl.zeros((8,), tl.float16)\nm = l.sum(0)\np = l.max(0)\nq = tl.sum(l, 0, dtype=tl.float32)\n"
        "r = (a > 0).sum(0)\nv = tl.xor_sum(a, 0)",
        "%0 = full 0 : vector<8 x i8>\n%1 = cast %0 : vector<8 x i32>\n%2 = reduce %1 {axis=0, combine='add'} : i32\n"
        "%3 = cast %0 : vector<8 x i32>\n%4 = reduce %3 {axis=0, combine='maximum'} : i32\n%5 = full 0 : vector<8 x u8>\n"
        "%6 = cast %5 : vector<8 x u32>\n%7 = reduce %6 {axis=0, combine='add'} : u32\n"
        "%8 = cast %5 : vector<8 x i32>\n%9 = reduce %8 {axis=0, combine='minimum'} : i32\n"
        "%10 = full 0.0 : vector<8 x f16>\n%11 = reduce %10 {axis=0, combine='add'} : f16\n"
        "%12 = cast %10 : vector<8 x f32>\n%13 = reduce %12 {axis=0, combine='maximum'} : f32\n"
        "%14 = cast %10 : vector<8 x f32>\n%15 = reduce %14 {axis=0, combine='add'} : f32\n"
        "%16 = cmp_gt %0, 0 : vector<8 x bool>\n%17 = cast %16 : vector<8 x u32>\n"
        "%18 = reduce %17 {axis=0, combine='add'} : u32\n%19 = reduce %0 {axis=0, combine='xor'} : i8",
    ),
    "custom reduction": (
        _M + "a = tl.reduce(x, 1, jit_add)",
        _M_SSA
        + "%4 = reduce %0 {axis=1} : vector<4 x f32> (%1: f32, %2: f32) {\n  %3 = add %1, %2 : f32\n  yield %3\n}",
    ),
    "argmax of a matrix": (
        "x = tl.zeros((2, 4), tl.int32)\na = tl.argmax(x, 1)",
        "%0 = full 0 : block<2x4 x i32>\n%1 = arange {start=0, end=4} : vector<4 x i32>\n"
        "%2 = expand_dims %1 {axis=0} : block<1x4 x i32>\n%3 = broadcast %2 : block<2x4 x i32>\n"
        "%15, %16 = reduce %0, %3 {axis=1} : vector<2 x i32>, vector<2 x i32> (%4: i32, %5: i32, %6: i32, %7: i32) {\n"
        "  %8 = cmp_gt %4, %6 : bool\n  %9 = cmp_eq %4, %6 : bool\n  %10 = cmp_lt %5, %7 : bool\n"
        "  %11 = and %9, %10 : bool\n  %12 = or %8, %11 : bool\n  %13 = select %12, %4, %6 : i32\n"
        "  %14 = select %12, %5, %7 : i32\n  yield %13, %14\n}",
    ),
    "argmin of floats, any tie": (
        _X + "v, k = tl.min(x, 0, return_indices=True, return_indices_tie_break_left=False)",
        _X_SSA + "%3 = arange {start=0, end=8} : vector<8 x i32>\n"
        "%13, %14 = reduce %2, %3 {axis=0} : f32, i32 (%4: f32, %5: i32, %6: f32, %7: i32) {\n"
        "  %8 = cmp_lt %4, %6 : bool\n  %9 = cmp_ne %6, %6 : bool\n  %10 = or %8, %9 : bool\n"
        "  %11 = select %10, %4, %6 : f32\n  %12 = select %10, %5, %7 : i32\n  yield %11, %12\n}",
    ),
    "composites": (
        "a = tl.cdiv(n, 4)\nc = tl.sigmoid(f)",
        "%0 = add n, 3 : i32\n%1 = div %0, 4 : i32\n%2 = neg f : f32\n%3 = exp %2 : f32\n%4 = add 1.0, %3 : f32\n"
        "%5 = div 1.0, %4 : f32",
    ),
    "softmax": (
        _X + "y = tl.softmax(x)",
        _X_SSA + "%3 = reduce %2 {axis=0, combine='maximum'} : f32\n%4 = expand_dims %3 {axis=0} : vector<1 x f32>\n"
        "%5 = sub %2, %4 : vector<8 x f32>\n%6 = exp %5 : vector<8 x f32>\n"
        "%7 = reduce %6 {axis=0, combine='add'} : f32\n%8 = expand_dims %7 {axis=0} : vector<1 x f32>\n"
        "%9 = div %6, %8 : vector<8 x f32>",
    ),
    "hints and static checks leave nothing": (
        "a = tl.multiple_of(n, 16)\ntl.assume(b)\ntl.static_assert(C == 8)\ntl.store(I, a)",
        "%0 = hint n {divisible=(16,)} : i32\nstore I, %0, none",
    ),
    "assertions": (
        "assert b, f'C is {C}'\ntl.device_assert(n > 0, 'positive', mask=b)",
        "assert b {message='C is 8'}\n%0 = cmp_gt n, 0 : bool\n%1 = select b, %0, True : bool\n"
        "assert %1 {message='positive'}",
    ),
    "a loop carries what it assigns": (
        "a = 0\nc = 0.0\nfor i in range(n):\n    c += 1.0\n    a += i\ntl.store(X, c)",
        "%5, %6 = for %0 in range(0, n, 1) iter_args(%1 = 0.0, %2 = 0) : f32, i32 {\n"
        "  %3 = add %1, 1.0 : f32\n  %4 = add %2, %0 : i32\n  yield %3, %4\n}\nstore X, %5, none",
    ),
    "a swap in a loop": (
        "a, c = n, 2\nfor i in range(n):\n    a, c = c, a",
        "%3, %4 = for %0 in range(0, n, 1) iter_args(%1 = n, %2 = 2) : i32, i32 {\n  yield %2, %1\n}",
    ),
    "the bounds meet in one type": (
        "for i in range(w):\n    tl.store(I, i)\nfor i in range(n, w, 2):\n    pass",
        "for %0 in range(0, w, 1) {\n  %1 = cast %0 : i32\n  store I, %1, none\n  yield\n}\n%2 = cast n : i64\n"
        "for %3 in range(%2, w, 2) {\n  yield\n}",
    ),
    "a branch not taken carries nothing": (
        "a = 0\nfor i in range(n):\n    if C > 100:\n        a += 1\n    tl.store(I, a)",
        "for %0 in range(0, n, 1) {\n  store I, 0, none\n  yield\n}",
    ),
    "tuples and pointers are carried": (
        "t = (n, f)\np = X\nfor i in range(n):\n    t = (t[0] + 1, t[1])\n    p += 2\ntl.store(p, t[0])",
        "%6, %7, %8 = for %0 in range(0, n, 1) iter_args(%1 = n, %2 = f, %3 = X) : i32, f32, ptr<f32> {\n"
        "  %4 = add %1, 1 : i32\n  %5 = addptr %3, 2 : ptr<f32>\n  yield %4, %2, %5\n}\n%9 = cast %6 : f32\nstore %8, %9, none",
    ),
    "static loops unroll": (
        "a = n\nfor i in tl.static_range(1, 4, 2):\n    a += i",
        "%0 = add n, 1 : i32\n%1 = add %0, 3 : i32",
    ),
    "calls are compiled in place": (
        "a, c = jit_two(n)\nd = jit_default(a) + jit_factorial(4)",
        "%0 = add n, 1 : i32\n%1 = add n, 3 : i32\n%2 = add %1, 24 : i32",
    ),
    "walrus and ternary": ("a = (c := n + 1) * (2 if C == 8 else 3)", "%0 = add n, 1 : i32\n%1 = mul %0, 2 : i32"),
}


@pytest.mark.parametrize("case", CASES)
def test_tile_ssa(case):
    body, expected = CASES[case]
    assert ssa(body) == textwrap.dedent(expected).rstrip("\n")


@pytest.mark.parametrize("case", CASES)
def test_every_function_reads_back_and_every_op_has_a_span(case):
    func = compile_body(CASES[case][0])
    assert print_func(parse_func(print_func(func))) == print_func(func)
    for op in func.walk():
        span = op.span
        while span is not None and span.caller is not None:
            span = span.caller
        assert span is not None and span.file == func.span.file, op.name


def test_header():
    assert str(compile_body("pass")).splitlines()[0] == (
        "func @kernel(X: ptr<f32>, I: ptr<i32>, n: i32, h: f16, f: f32, b: bool, u: u32, w: i64, s: i8, C=8) {"
    )


def test_parallel_yield_and_order_of_loads_in_the_interpreter():
    func = compile_body(
        "a, c = 1, 2\nfor i in range(n):\n    a, c = c, a\nv = tl.load(I)\ntl.store(I, a * 10 + c)\ntl.store(I + 1, v)"
    )
    out = np.array([7, 0], np.int32)
    values = {"h": 0.0, "f": 0.0, "b": False, "u": 0, "w": 0, "s": 0}
    interpreter.run(func, (1, 1, 1), {"X": np.zeros(1, np.float32), "I": out, "n": 3, **values})
    assert out.tolist() == [21, 7]
