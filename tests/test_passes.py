"""The optimiser's passes on IR text: what each rule does, and where it must not fire."""

import pytest

import refcompiler.dialects  # noqa: F401  fills the registry
from refcompiler.ir import print_func, verify
from refcompiler.ir.parser import parse_func
from refcompiler.passes.canonicalize import RULES, canonicalize
from refcompiler.passes.cse import cse
from refcompiler.passes.dce import dce
from refcompiler.passes.form_fma import form_fma
from refcompiler.passes.licm import licm

HEADER = "func @f(p: ptr<f32>, q: ptr<i32>, n: i32, s: f32, b: bool) {\n"


def after(body: str, *passes) -> list[str]:
    func = parse_func(HEADER + "\n".join("  " + line for line in body.strip().splitlines()) + "\n}\n")
    verify(func)
    for step in passes:
        step(func)
        verify(func)
        assert parse_func(print_func(func)) == func
    return [line[2:] for line in print_func(func).splitlines()[1:-1]]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("%0 = add n, 0 : i32\nstore q, %0, none", ["store q, n, none"]),
        ("%0 = add 0, n : i32\nstore q, %0, none", ["store q, n, none"]),
        ("%0 = add s, -0.0 : f32\nstore p, %0, none", ["store p, s, none"]),
        ("%0 = sub s, 0.0 : f32\nstore p, %0, none", ["store p, s, none"]),
        ("%0 = mul s, 1.0 : f32\nstore p, %0, none", ["store p, s, none"]),
        ("%0 = neg s : f32\n%1 = neg %0 : f32\nstore p, %1, none", ["store p, s, none"]),
        (
            "%0 = and b, True : bool\n%1 = select %0, 1.0, 2.0 : f32\nstore p, %1, none",
            ["%0 = select b, 1.0, 2.0 : f32", "store p, %0, none"],
        ),
        ("%0 = select True, n, 5 : i32\nstore q, %0, none", ["store q, n, none"]),
        ("%0 = select b, n, n : i32\nstore q, %0, none", ["store q, n, none"]),
        ("%0 = addptr p, 0 : ptr<f32>\nstore %0, s, none", ["store p, s, none"]),
        ("%0 = add 2147483647, 1 : i32\nstore q, %0, none", ["store q, -2147483648, none"]),
        ("%0 = shl 1, 40 : i32\nstore q, %0, none", ["store q, 0, none"]),
        ("store q, n, True", ["store q, n, none"]),
        ("store q, n, False", []),
        ("%0 = load p, False, 3.0 : f32\nstore p, %0, none", ["store p, 3.0, none"]),
        (
            "%0 = for %1 in range(0, n, 1) iter_args(%2 = s) : f32 {\n"
            "  store p, %2, none\n  yield %2\n}\nstore p, %0, none",
            ["for %0 in range(0, n, 1) {", "  store p, s, none", "  yield", "}", "store p, s, none"],
        ),
        (
            "%0 = for %1 in range(5, 5, 1) iter_args(%2 = s) : f32 {\n"
            "  %3 = neg %2 : f32\n  yield %3\n}\nstore p, %0, none",
            ["store p, s, none"],
        ),
        ("%0 = cast 300 : i8\n%1 = cast %0 : i32\nstore q, %1, none", ["store q, 44, none"]),
    ],
)
def test_rules_that_fire(before, expected):
    assert after(before, canonicalize, dce) == expected


@pytest.mark.parametrize(
    "body",
    [
        ["%0 = add s, 0.0 : f32", "store p, %0, none"],  # -0.0 + 0.0 is +0.0
        ["%0 = sub s, -0.0 : f32", "store p, %0, none"],
        ["%0 = mul s, 0.0 : f32", "store p, %0, none"],  # NaN, infinity and the sign
        ["%0 = sub s, s : f32", "store p, %0, none"],
        ["%0 = div n, 0 : i32", "store q, %0, none"],
        ["%0 = mul n, -1 : i32", "store q, %0, none"],
        ["%0 = not n : i32", "%1 = neg %0 : i32", "store q, %1, none"],
        ["%0 = load p, b, none : f32", "store p, %0, none"],
    ],
)
def test_rules_that_must_not_fire(body):
    assert after("\n".join(body), canonicalize, dce) == body


def test_a_uniform_block_costs_no_registers():
    body = """
    %0 = full 2.0 : vector<4 x f32>
    %1 = full 3.0 : vector<4 x f32>
    %2 = mul %0, %1 : vector<4 x f32>
    %3 = arange {start=0, end=4} : vector<4 x i32>
    %4 = addptr p, %3 : vector<4 x ptr<f32>>
    %5 = load %4, none, none : vector<4 x f32>
    %6 = add %5, %2 : vector<4 x f32>
    store %4, %6, none
    """
    assert "%3 = add %2, 6.0 : vector<4 x f32>" in after(body.replace("    ", ""), canonicalize, dce)


def test_cse_sees_commuted_operands_and_keeps_signed_zeros_apart():
    body = """%0 = add n, 1 : i32
%1 = add 1, n : i32
%2 = mul %0, %1 : i32
store q, %2, none
%3 = mul s, 0.0 : f32
%4 = mul s, -0.0 : f32
store p, %3, none
store p, %4, none"""
    lines = after(body, cse)
    assert "%1 = mul %0, %0 : i32" in lines
    assert sum("mul s" in line for line in lines) == 2


def test_cse_keeps_loads_apart_and_regions_in_their_scope():
    body = """%0 = load p, none, none : f32
store p, 1.0, none
%1 = load p, none, none : f32
store p, %1, none
store p, %0, none
for %2 in range(0, n, 1) {
  %3 = add n, 1 : i32
  store q, %3, none
  yield
}
%4 = add n, 1 : i32
store q, %4, none"""
    lines = after(body, cse)
    assert sum("load" in line for line in lines) == 2
    assert sum("add n, 1" in line for line in lines) == 2


def test_dce_drops_dead_carries_but_keeps_what_a_live_one_needs():
    body = """%0, %1, %2 = for %3 in range(0, n, 1) iter_args(%4 = 1, %5 = 2, %6 = 3) : i32, i32, i32 {
  %7 = add %4, %5 : i32
  %8 = add %6, 1 : i32
  yield %7, %4, %8
}
store q, %0, none"""
    assert after(body, dce) == [
        "%4, %5 = for %0 in range(0, n, 1) iter_args(%1 = 1, %2 = 2) : i32, i32 {",
        "  %3 = add %1, %2 : i32",
        "  yield %3, %1",
        "}",
        "store q, %4, none",
    ]


def test_licm_hoists_through_two_loops_and_leaves_memory():
    body = """for %0 in range(0, n, 1) {
  for %1 in range(0, n, 1) {
    %2 = mul n, 3 : i32
    %3 = add %2, %1 : i32
    %4 = load q, none, none : i32
    %5 = add %3, %4 : i32
    store q, %5, none
    yield
  }
  yield
}"""
    lines = after(body, licm)
    assert lines[0] == "%0 = mul n, 3 : i32"
    assert sum(line.startswith("    ") for line in lines) == 5


def test_fma_forms_once_and_only_for_floats():
    body = """%0 = load p, none, none : f32
%1 = mul %0, s : f32
%2 = add %1, 1.0 : f32
store p, %2, none
%3 = mul %0, %0 : f32
%4 = sub s, %3 : f32
store p, %4, none
%5 = mul %0, 2.0 : f32
%6 = add %5, %5 : f32
store p, %6, none
%7 = mul n, n : i32
%8 = add %7, n : i32
store q, %8, none"""
    lines = after(body, form_fma, dce)
    assert "%1 = fma %0, s, 1.0 : f32" in lines
    assert "%2 = neg %0 : f32" in lines and "%3 = fma %2, %0, s : f32" in lines
    assert sum("fma" in line for line in lines) == 2  # a product with two uses stays, integers have no rounding


def test_every_rule_says_what_it_does():
    assert all("->" in rule.__doc__ for rule in RULES)
