"""Loads from shared memory that wait for other exchanges, and those that must not."""

import pytest

from refcompiler.ir import print_func
from refcompiler.ir.parser import parse_func
from refcompiler.passes.delay_shared_loads import delay_shared_loads

A, B = "  %a = shared_alloc : shared<{n} x f32>\n", "  %b = shared_alloc : shared<{n} x f32>\n"


def names(body: str, size: int = 256) -> list[str]:
    text = "simt func @f(x: ptr<f32>) {num_warps=1, threads=32} {\n  %t = thread_id : i32\n" + body + "}\n"
    func = parse_func(text.replace("{n}", str(size)))
    delay_shared_loads(func)
    assert print_func(parse_func(print_func(func))) == print_func(func)
    return [op.name for op in func.body.ops if op.name not in ("thread_id", "shared_alloc")]


def test_two_exchanges_store_first():
    body = A + "  st_shared %a, %t, 1.0, none\n  %1 = ld_shared %a, %t : f32\n  %2 = add %1, 1.0 : f32\n"
    body += B + "  st_shared %b, %t, 2.0, none\n  %3 = ld_shared %b, %t : f32\n  %4 = mul %2, %3 : f32\n"
    body += "  st_global x, %4, none\n"
    assert names(body) == ["st_shared", "st_shared", "ld_shared", "add", "ld_shared", "mul", "st_global"]
    # together they would hold more than is spent on that
    assert names(body, 16384) == ["st_shared", "ld_shared", "add", "st_shared", "ld_shared", "mul", "st_global"]


@pytest.mark.parametrize(
    "between",
    [
        "  st_shared %b, %t, %1, none\n",  # stores what was loaded
        "  st_shared %a, %t, 3.0, none\n",  # writes the same buffer
        "  barrier\n  st_shared %b, %t, 3.0, none\n",
        "  st_global x, %1, none\n  st_shared %b, %t, 3.0, none\n",
    ],
)
def test_what_needs_a_load_comes_after_it(between):
    body = A + B + "  st_shared %a, %t, 1.0, none\n  %1 = ld_shared %a, %t : f32\n"
    order = names(body + between + "  %2 = ld_shared %b, %t : f32\n  st_global x, %2, none\n")
    assert order[:2] == ["st_shared", "ld_shared"]


def test_without_a_store_to_pass_nothing_moves():
    body = A + "  st_shared %a, %t, 1.0, none\n  %1 = ld_shared %a, %t : f32\n"
    body += "  %2 = ld_global x, none, none : f32\n  %3 = add %1, %2 : f32\n  st_global x, %3, none\n"
    assert names(body) == ["st_shared", "ld_shared", "ld_global", "add", "st_global"]


def test_loads_stay_before_regions_and_terminators():
    body = A + B + "  st_shared %a, %t, 1.0, none\n  %1 = ld_shared %a, %t : f32\n"
    body += "  %2 = for %i in range(0, 4, 1) iter_args(%v = %1) : f32 {\n    st_shared %b, %t, %v, none\n"
    body += "    %3 = ld_shared %b, %t : f32\n    yield %3\n  }\n  st_global x, %2, none\n"
    assert names(body) == ["st_shared", "ld_shared", "for", "st_global"]
