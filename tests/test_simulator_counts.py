"""What the simulator counts, against closed forms: sectors and lines of global memory, passes over shared banks."""

import json
from math import gcd
from pathlib import Path

import numpy as np
import pytest

from refcompiler import simulator
from refcompiler.ir.parser import parse_func

SIZES = {"i8": 1, "f16": 2, "f32": 4, "f64": 8}


def count(body: str, signature: str, arrays: dict[str, np.ndarray], *, warps: int = 1, grid=(1,), shared: int = 0):
    attrs = f"num_warps={warps}, threads={32 * warps}, shared_bytes={shared}"
    text = f"simt func @k({signature}) {{{attrs}}} {{\n{body}}}\n"
    return simulator.run(parse_func(text, "k.simt"), grid, arrays)


def lined_up(elements: int, dtype: str, offset: int = 0) -> np.ndarray:
    """Zeros that begin ``offset`` bytes after a multiple of 128."""
    raw = np.zeros(elements * np.dtype(dtype).itemsize + 256, np.uint8)
    start = -raw.ctypes.data % 128 + offset
    return raw[start : start + elements * np.dtype(dtype).itemsize].view(dtype)


def strided_load(dtype: str, width: int, stride: int, offset: int = 0, mask: str = "none"):
    numpy_dtype = {"i8": "i1", "f16": "f2", "f32": "f4", "f64": "f8"}[dtype]
    result = f"reg<{width} x {dtype}>" if width > 1 else dtype
    body = (
        f"  %0 = thread_id : i32\n  %1 = mul %0, {stride} : i32\n  %2 = addptr x, %1 : ptr<{dtype}>\n"
        f"  %3 = cmp_lt %0, 5 : bool\n  %4 = ld_global %2, {mask}, none {{width={width}}} : {result}\n"
    )
    return count(body, f"x: ptr<{dtype}>", {"x": lined_up(32 * stride + width, numpy_dtype, offset)})


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("stride", [1, 2, 3, 8, 32, 33])
def test_sectors_of_a_strided_load(dtype, stride):
    counts = strided_load(dtype, 1, stride)
    touched = {lane * stride * SIZES[dtype] // 32 for lane in range(32)}
    lines = {lane * stride * SIZES[dtype] // 128 for lane in range(32)}
    assert counts.load_sectors == len(touched)
    assert counts.load_lines == len(lines)
    assert counts.load_requests == 1
    assert counts.least_sectors == -(-32 * SIZES[dtype] // 32)
    assert counts.efficiency == counts.least_sectors / len(touched)


@pytest.mark.parametrize(("dtype", "width"), [("f32", 2), ("f32", 4), ("f16", 8), ("f64", 2), ("i8", 16)])
def test_wide_accesses_fill_their_sectors(dtype, width):
    counts = strided_load(dtype, width, width)
    size = SIZES[dtype] * width
    assert counts.load_sectors == 32 * size // 32
    assert counts.load_lines == 32 * size // 128
    assert counts.requests_by_bytes == {size: 1}
    assert counts.efficiency == 1.0


def test_an_array_off_its_line_costs_one_sector_more():
    assert strided_load("f32", 1, 1, offset=4).load_sectors == 5
    assert strided_load("f32", 1, 1, offset=32).load_sectors == 4
    assert strided_load("f32", 1, 1, offset=32).load_lines == 2


def test_idle_threads_cost_nothing():
    assert strided_load("f32", 1, 1, mask="%3").load_sectors == 1
    assert strided_load("f32", 1, 8, mask="%3").load_sectors == 5
    assert strided_load("f32", 1, 1, mask="False").load_requests == 0


def test_one_address_is_one_sector():
    counts = count("  %0 = ld_global x, none, none : f32\n", "x: ptr<f32>", {"x": lined_up(1, "f4")}, warps=4)
    assert (counts.load_requests, counts.load_sectors, counts.least_sectors) == (4, 4, 4)


@pytest.mark.parametrize("stride", [0, 1, 2, 3, 4, 5, 8, 16, 32, 33])
def test_bank_conflicts_of_words(stride):
    """Lanes at a stride of s words meet in 32 / gcd(s, 32) banks, so gcd(s, 32) in each; all at one share it."""
    elements = 31 * stride + 1
    store = "  st_shared %1, %2, 1.0, %3\n" if stride == 0 else "  st_shared %1, %2, 1.0, none\n"
    body = (
        f"  %0 = thread_id : i32\n  %1 = shared_alloc {{offset=0}} : shared<{elements} x f32>\n"
        f"  %2 = mul %0, {stride} : i32\n  %3 = cmp_eq %0, 0 : bool\n{store}  barrier\n"
        "  %4 = ld_shared %1, %2 : f32\n"
    )
    counts = count(body, "x: ptr<f32>", {"x": lined_up(1, "f4")}, shared=4 * elements)
    passes = gcd(stride, 32) if stride else 1
    assert counts.shared_load_wavefronts == passes
    assert counts.shared_load_conflicts == passes - 1
    assert counts.shared_store_conflicts == passes - 1
    assert (counts.shared_load_requests, counts.barriers) == (1, 1)


@pytest.mark.parametrize(("width", "passes"), [(2, 2), (4, 4)])
@pytest.mark.parametrize("spread", [1, 2])
def test_wide_shared_accesses_pass_in_parts_of_a_warp(width, passes, spread):
    """8 bytes a thread move half a warp at a time, 16 a quarter: side by side that needs no further pass; a gap of one
    access between neighbours leaves half of the banks idle, so each part takes two."""
    elements = 32 * width * spread
    body = (
        f"  %0 = thread_id : i32\n  %1 = shared_alloc {{offset=0}} : shared<{elements} x f32>\n"
        f"  %2 = mul %0, {width * spread} : i32\n  st_shared %1, %2, 1.0, none {{width={width}}}\n"
    )
    counts = count(body, "x: ptr<f32>", {"x": lined_up(1, "f4")}, shared=4 * elements)
    assert counts.shared_store_wavefronts == passes * spread
    assert counts.shared_store_conflicts == passes * (spread - 1)


def test_halves_of_a_word_share_its_bank():
    body = "  %0 = thread_id : i32\n  %1 = shared_alloc {offset=0} : shared<32 x f16>\n  st_shared %1, %0, 1.0, none\n"
    counts = count(body, "x: ptr<f16>", {"x": lined_up(1, "f2")}, shared=64)
    assert (counts.shared_store_wavefronts, counts.bank_conflicts) == (1, 0)


def test_barriers_count_for_ctas_and_shuffles_for_warps_and_registers():
    body = (
        "  %0 = thread_id : i32\n  %1 = pack %0, %0, %0 : reg<3 x i32>\n  barrier\n"
        "  for %2 in range(0, 5, 1) {\n    barrier\n    %3 = shfl_xor %1 {mask=1} : reg<3 x i32>\n    yield\n  }\n"
    )
    counts = count(body, "x: ptr<f32>", {"x": lined_up(1, "f4")}, warps=2, grid=(3,))
    assert counts.barriers == 3 * (1 + 5)
    assert counts.shuffles == 3 * 2 * 5 * 3
    assert counts.instructions["shuffle"] == counts.shuffles


def test_counts_do_not_depend_on_how_many_ctas_run_at_once(monkeypatch):
    body = (
        "  %0 = thread_id : i32\n  %1 = program_id {axis=0} : i32\n  %2 = mul %1, 32 : i32\n  %3 = add %2, %0 : i32\n"
        "  %4 = addptr x, %3 : ptr<f32>\n  %5 = ld_global %4, none, none : f32\n"
        "  for %6 in range(0, %1, 1) {\n    %7 = add %6, 1 : i32\n    barrier\n    yield\n  }\n"
    )
    arrays = {"x": lined_up(32 * 9, "f4")}
    together = count(body, "x: ptr<f32>", arrays, grid=(9,))
    monkeypatch.setattr("refcompiler.simulator.launch.NUMBERS_AT_ONCE", 1)
    alone = count(body, "x: ptr<f32>", arrays, grid=(9,))
    assert together == alone
    assert together.barriers == sum(range(9))
    assert together.instructions["integer"] == 5 * 9 + sum(range(9))  # five ops outside the loop, one inside


def test_the_specification_may_limit_every_count_and_no_other():
    counts = simulator.Counts()
    for size in (1, 2, 4, 8, 16):
        counts.requests_by_bytes[size] = 1
    for kind in ("float", "integer", "conversion", "control", "global", "shared", "shuffle", "barrier"):
        counts.instructions[kind] = 1
    schema = json.loads((Path(__file__).parents[1] / "spec/schema/feature.schema.json").read_text())
    known = schema["$defs"]["launch_budget"]["properties"]["counts"]["properties"]
    assert set(known) == set(counts.to_json())
