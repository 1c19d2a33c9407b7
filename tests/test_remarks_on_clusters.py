"""Remarks on programs of several CTAs: how they are divided, or why they are not, each beside a twin that is."""

import pytest

import refcompiler as triton
import refcompiler.language as tl

ROWS = "x:*f32:16,out:*f32:16,rows:i32"


@triton.jit
def rows(x, out, rows, BLOCK: tl.constexpr, BEND: tl.constexpr = ""):
    c = tl.arange(0, BLOCK)
    weight = tl.load(x + c)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        if BEND == "volatile":
            v = tl.load(x + row * BLOCK + c, volatile=True)
        else:
            v = tl.load(x + row * BLOCK + c)
        if BEND == "scan":
            v = tl.cumsum(v, axis=0)
        if BEND == "atomic":
            tl.atomic_add(out + row, tl.sum(v, axis=0))
        else:
            tl.store(out + row * BLOCK + c, v * tl.sum(v, axis=0) * weight)


def remarks(step, bend="", arch="sm_90a", block=4096, **options):
    kernel = triton.jit(rows.fn).compile(ROWS, {"BLOCK": block, "BEND": bend}, arch=arch, **{"num_ctas": 2, **options})
    kernel.asm["simt"]
    return [remark for remark in kernel.remarks if remark.step == step]


def test_a_program_is_divided():
    (said,) = remarks("divide_over_ctas")
    assert said.applied and said.message == "the program is divided over 2 CTAs"
    assert not remarks("divide_over_ctas", num_ctas=1)


@pytest.mark.parametrize(
    ("bend", "arch", "block", "reason", "line"),
    [
        ("volatile", "sm_90a", 4096, "`load` happens once for each program, not for each CTA", 17),
        ("atomic", "sm_90a", 4096, "`atomic_rmw` happens once for each program, not for each CTA", 23),
        ("scan", "sm_90a", 4096, "no axis of what it loads and stores has 2 parts that can be computed apart", 12),
        ("", "sm_80", 4096, "sm_80 has no clusters", 12),
        ("", "sm_90a", 1, "no axis of what it loads and stores has 2 parts that can be computed apart", 12),
    ],
)
def test_a_program_that_is_not_divided(bend, arch, block, reason, line):
    (said,) = remarks("divide_over_ctas", bend, arch, block)
    assert not said.applied and said.message == f"the program has one CTA: {reason}"
    assert said.span.line == line


def test_what_is_held_in_shared_memory():
    (said,) = remarks("hold_in_shared", num_warps=1)
    assert said.applied and said.span.line == 14
    assert not remarks("hold_in_shared", num_warps=1, block=512)
