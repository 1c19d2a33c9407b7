"""The IR framework: text round trip, verification, folding, region handling."""

import math

import pytest

import refcompiler.dialects  # noqa: F401  fills the registry
from refcompiler.errors import CompileError
from refcompiler.ir import Builder, Constant, Func, Rewriter, Value, print_func, verify
from refcompiler.ir.parser import parse_func
from refcompiler.ir.printer import format_literal
from refcompiler.ir.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U32, PointerType

ADD = """\
func @add(x: ptr<f32>, y: ptr<f32>, out: ptr<f32>, n: i32, BLOCK=256) {
  %0 = program_id {axis=0} : i32
  %1 = mul %0, 256 : i32
  %2 = arange {start=0, end=256} : vector<256 x i32>
  %3 = add %1, %2 : vector<256 x i32>
  %4 = cmp_lt %3, n : vector<256 x bool>
  %5 = addptr x, %3 : vector<256 x ptr<f32>>
  %6 = load %5, %4, 0.0 : vector<256 x f32>
  %7 = addptr y, %3 : vector<256 x ptr<f32>>
  %8 = load %7, %4, none : vector<256 x f32>
  %9 = add %6, %8 : vector<256 x f32>
  %10 = addptr out, %3 : vector<256 x ptr<f32>>
  store %10, %9, %4
}
"""

LOOP = """\
func @sum(x: ptr<f16> {divisible=16}, K: i32, "none": i64) {num_warps=4} {
  %6, %7 = for %0 in range(0, K, 1) iter_args(%1 = 0.0, %2 = x) : f16, ptr<f16> {
    %3 = load %2, none, none : f16
    %4 = add %1, %3 : f16
    %5 = addptr %2, 1:i64 : ptr<f16>
    yield %4, %5
  }
  %8 = expand_dims %6 {axis=0} : vector<1 x f16>
  %13, %14 = reduce %8, %8 {axis=0} : f16, f16 (%9: f16, %10: f16, %11: f16, %12: f16) {
    yield %9, 1.0
  }
  %15 = cast "none" : f64
  %16 = full -inf : block<4x8 x f64>
  %17 = select True, %15, nan : f64
  %18 = add 1:u32, 2:u32 : u32
  assert False {message='a, b = "c"}'}
  for %19 in range("none", 5, -1) {
    yield
  }
}
"""

LAID_OUT = """\
#0 = layout(register=[(128,)], lane=[(1,), (2,), (4,), (8,), (16,)], warp=[(32,), (64,)])
#1 = layout(register=[(1,)], lane=[(2,), (4,), (8,), (16,), (32,)], warp=[(64,), (128,)])
laid_out func @f(x: ptr<f32>) {
  %0 = arange {start=0, end=256} : vector<256 x i32, #0>
  %1 = arange {start=0, end=256} : vector<256 x i32, #1>
  %2 = add %0, %0 : vector<256 x i32, #0>
}
"""


@pytest.mark.parametrize("text", [ADD, LOOP, LAID_OUT])
def test_text_parses_back_to_the_same_text(text):
    func = parse_func(text)
    verify(func)
    assert print_func(func) == text
    assert parse_func(print_func(func)) == func
    assert print_func(func.clone()) == text


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (F32, 0.1, "0.1"),
        (F32, 1e-5, "1e-05"),
        (F16, 0.1, "0.1"),
        (BF16, 0.1, "0.1"),
        (F64, 0.1, "0.1"),
        (F32, -0.0, "-0.0"),
        (F32, 16777216.0, "16777216.0"),
        (F32, 1e20, "1e+20"),
        (I32, 2**31, "-2147483648"),
        (U32, -1, "4294967295"),
        (I8, 300, "44"),
        (BOOL, 1, "True"),
        (I64, -5, "-5"),
        (F32, float("inf"), "inf"),
        (F16, 1e9, "inf"),
    ],
)
def test_literals_print_shortest_and_read_back(dtype, value, text):
    constant = Constant(value, dtype)
    assert format_literal(constant.value, dtype) == text
    reread = text == "True" if dtype.is_bool else float(text) if dtype.is_float else int(text)
    assert Constant(reread, dtype).key() == constant.key()


@pytest.mark.parametrize(
    ("old", "new", "id", "shown"),
    [
        (
            "add %1, %2 : vector<256 x i32>",
            "add %1, %2 : vector<256 x f32>",
            "ir.type",
            "gives vector<256 x i32>",
        ),
        ("cmp_lt %3, n", "cmp_lt %9, n", "ir.undefined", "%9 is not defined"),
        ("load %5, %4, 0.0", "load %5, %3, 0.0", "memory.load#E2", "must be bool"),
        ("program_id {axis=0}", "program_id {axis=3}", "program.program_id#E1", "but got 3"),
        ("store %10, %9, %4", "store %10, %9, %4, %4", "ir.arity", "at most 3"),
        ("mul %0, 256", "mull %0, 256", "ir.unknown_op", "mull"),
        ("arange {start=0, end=256}", "arange {start=0, stop=256}", "ir.attribute", "stop"),
        ("%4 = cmp_lt", "%3 = cmp_lt", "ir.redefined", "defined twice"),
        ("mul %0, 256", "mul %0, $", "ir.syntax", "unexpected character"),
        ("  store %10, %9, %4\n}", "  store %10, %9, %4\n", "ir.syntax", "expected '}'"),
    ],
)
def test_broken_text_is_one_located_error(old, new, id, shown):
    text = ADD.replace(old, new)
    assert text != ADD
    with pytest.raises(CompileError) as caught:
        verify(parse_func(text, "k.txt"))
    assert caught.value.id == id
    assert shown in str(caught.value)
    assert str(caught.value).startswith("k.txt:")
    assert "^" in str(caught.value) or "end of the text" in str(caught.value)


def test_a_broken_layout_is_a_located_error():
    with pytest.raises(CompileError, match=r"<ir>:1:6: error\[ir.syntax\]: bad layout: .*keywords"):
        parse_func(LAID_OUT.replace("layout(", "layout(7, ", 1))


def test_a_region_value_is_not_visible_outside():
    text = """\
func @f(n: i32) {
  for %0 in range(0, n, 1) {
    %1 = add %0, 1 : i32
    yield
  }
  %2 = add n, n : i32
}
"""
    func = parse_func(text)
    func.body.ops[1].operands[0] = func.body.ops[0].body.ops[0].result
    with pytest.raises(CompileError, match="before it is defined"):
        verify(func)


def test_folding_wraps_at_the_type():
    func = Func("f", [Value(PointerType(I32), "p")])
    builder = Builder(func.body)
    total = builder.value("add", Constant(2**31 - 1, I32), Constant(1, I32))
    builder.op("store", func.params[0], total)
    assert Rewriter([]).run(func)
    assert print_func(func).splitlines()[1:-1] == ["  store p, -2147483648, none"]


def test_division_by_zero_does_not_fold():
    func = parse_func("func @f(p: ptr<i32>) {\n  %0 = div 1, 0 : i32\n  store p, %0, none\n}\n")
    assert not Rewriter([]).run(func)


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (2**62 + 2**38 + 1, F32, 2.0**62 + 2.0**39),  # above the middle by less than f64 sees
        (-(2**62) - 2**38, F32, -(2.0**62)),  # the middle itself: to even
        (2**62 + 2**54 + 1, BF16, 2.0**62 + 2.0**55),
        (1 + 2.0**-8 + 2.0**-40, BF16, 1 + 2.0**-7),  # in f32 the middle
        (3.0 * 2.0**-135, BF16, 2.0**-133),
        (2.0**-134, BF16, 0.0),
        (2.0**128 - 2.0**119, BF16, math.inf),
    ],
)
def test_a_literal_is_rounded_once(number, dtype, expected):
    assert Constant(number, dtype).value == expected
