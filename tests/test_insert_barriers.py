"""Barriers around asynchronous accesses and inside roles, and where buffers of either kind are placed."""

import pytest

import refcompiler.dialects  # noqa: F401  fills the registry
from refcompiler.ir import print_func
from refcompiler.ir.parser import parse_func
from refcompiler.passes.allocate_shared import allocate_shared
from refcompiler.passes.insert_barriers import insert_barriers
from refcompiler.pipeline import Context
from refcompiler.target import TARGETS


def lowered(body: str, attrs: str = "num_warps=4, threads=128"):
    func = parse_func(f"simt func @f(x: ptr<f32>, y: ptr<f32>, n: i32) {{{attrs}}} {{\n{body}}}\n")
    allocate_shared(func, Context(target=TARGETS["sm_90a"]))
    insert_barriers(func)
    assert parse_func(print_func(func)) == func
    return func


def names(ops) -> list[str]:
    return [op.name for op in ops if op.name != "yield"]


COPY = """\
  %0 = thread_id : i32
  %1 = addptr x, %0 : ptr<f32>
  %2 = shared_alloc : shared<128 x f32>
  for %9 in range(0, n, 1) {
    cp_async %2, %0, %1, none
    cp_async_commit
    {}
    %3 = ld_shared %2, 0 : f32
    st_global y, %3, none
    yield
  }
"""


@pytest.mark.parametrize(
    ("wait", "barriers"),
    [
        ("cp_async_wait", 2),  # others have read the last elements; all have waited
        ("cp_async_wait\n    barrier", 2),
        ("barrier\n    cp_async_wait", 3),  # a barrier before the wait tells nobody of what came after
    ],
)
def test_an_asynchronous_copy_needs_a_barrier_after_its_wait(wait, barriers):
    func = lowered(COPY.replace("{}", wait))
    body = next(op for op in func.walk() if op.name == "for").body.ops
    found = names(body)
    assert found.count("barrier") == barriers
    assert found[found.index("ld_shared") - 1] == "barrier" == found[found.index("cp_async") - 1]


def test_a_group_that_is_still_on_its_way_was_not_waited_for():
    body = COPY.replace("{}", "cp_async_wait {pending=1}\n    barrier")
    found = names(next(op for op in lowered(body).walk() if op.name == "for").body.ops)
    assert found[found.index("ld_shared") - 1] == "barrier" == found[found.index("ld_shared") - 2]


ROLES = """\
  %0 = thread_id : i32
  %1 = shared_alloc : shared<128 x f32>
  %2 = shared_alloc {synchronized="mbarrier", alignment=1024} : shared<128 x f32>
  %3 = mbarrier_alloc {count=3} : shared<3 x mbarrier>
  st_shared %1, %0, 1.0, none
  roles {warps=(1,)} {
    %4 = ld_shared %1, 0 : f32
    st_shared %2, %0, %4, none
    yield
  } {
    st_shared %1, %0, 2.0, none
    %5 = ld_shared %1, 5 : f32
    %6 = ld_shared %2, 5 : f32
    st_global y, %5, none
    yield
  }
"""


def test_a_role_meets_at_a_barrier_of_its_own():
    func = lowered(ROLES)
    assert names(func.body.ops)[-3:] == ["st_shared", "barrier", "roles"]
    first, second = func.body.ops[-1].regions
    assert names(first.ops) == ["ld_shared", "st_shared"]
    assert names(second.ops) == ["st_shared", "named_barrier", "ld_shared", "ld_shared", "st_global"]
    assert (second.ops[1].id, second.ops[1].threads) == (2, 96)


def test_a_role_avoids_barriers_that_the_program_names():
    func = lowered(ROLES.replace("    %6 =", "    named_barrier {id=2, threads=32}\n    %6 ="))
    assert [op.id for op in func.walk() if op.name == "named_barrier"] == [3, 2]


def test_what_the_program_synchronizes_is_aligned_and_alone():
    func = lowered(ROLES)
    offsets = [op.offset for op in func.walk() if "alloc" in op.effects]
    assert offsets == [0, 1024, 512] and func.attrs["shared_bytes"] == 1536


ROUNDS = """\
  %0 = thread_id : i32
  %1 = program_id {axis=0} : i32
  %2 = mul %1, n : i32
  %3 = addptr x, %2 : ptr<f32>
  %4 = addptr y, %2 : ptr<f32>
  for %5 in range(0, n, {step}) {
    %6 = addptr %3, {at} : ptr<f32>
    %7 = addptr %6, %0 : ptr<f32>
    %8 = ld_global %7, none, none : f32
    %9 = addptr %4, {at} : ptr<f32>
    %10 = addptr %9, %0 : ptr<f32>
    st_global %10, %8, none
    yield
  }
"""


@pytest.mark.parametrize(
    ("step", "at", "base", "barriers"),
    [
        (128, "%5", "%2", 0),  # 128 threads: rounds lie side by side
        (-128, "%5", "%2", 0),
        (256, "%5", "%2", 0),
        (64, "%5", "%2", 1),  # half of what one round writes, the next one reads
        ("n", "%5", "%2", 1),  # a step that nobody knows
        (128, "%2", "%2", 0),  # every round at one place, each thread at its own element
        (128, "%5", "%0", 2),  # x and y are off by the thread: what one reads, another writes
    ],
)
def test_rounds_of_a_loop_that_lie_apart_need_no_barrier(step, at, base, barriers):
    body = ROUNDS.replace("{step}", str(step)).replace("{at}", at).replace("x, %2", f"x, {base}")
    assert names(lowered(body).walk()).count("barrier") == barriers


def test_rounds_of_two_loops_are_not_told_apart():
    inner = ROUNDS.splitlines(keepends=True)
    body = "".join(inner[:5]) + "  for %11 in range(0, 4, 1) {\n" + "".join(inner[5:]) + "    yield\n  }\n"
    found = names(lowered(body.replace("{step}", "128").replace("{at}", "%5")).walk())
    assert found.count("barrier") == 1


ROWS = """\
  %0 = thread_id : i32
  %1 = program_id {axis=0} : i32
  %2 = num_programs {axis=0} : i32
  %3 = shr %2, {SHIFT} : i32
  for %4 in range(%1, n, {STEP}) {
    %5 = mul %4, {WIDE} : i32
    %6 = addptr x, %5 : ptr<f32>
    %7 = addptr %6, %0 : ptr<f32>
    st_global %7, 1.0, none
    yield
  }
"""


@pytest.mark.parametrize(
    ("step", "wide", "ctas", "shift", "found"),
    [
        (1, 128, 1, 0, []),  # rounds of 128 elements, 128 apart
        (1, 127, 1, 0, ["barrier"]),
        ("%2", 128, 1, 0, []),  # there is at least one program
        ("%3", 128, 1, 1, ["barrier"]),  # of one program half is none
        ("%3", 128, 2, 1, []),  # but not in clusters of two
        (4, 32, 1, 0, []),
        (-2, 64, 1, 0, []),
        (1, 127, 2, 0, ["cluster_barrier"]),  # the CTAs of a cluster may meet as well
    ],
)
def test_rounds_that_store_apart_need_no_barrier(step, wide, ctas, shift, found):
    text = ROWS.replace("{STEP}", str(step)).replace("{WIDE}", str(wide)).replace("{SHIFT}", str(shift))
    clusters = f", num_ctas={ctas}" if ctas > 1 else ""
    func = lowered(text, f"num_warps=4, threads=128{clusters}")
    assert [op.name for op in func.walk() if "barrier" in op.name] == found


EXCHANGE = "    st_shared %9, %0, 1.0, none\n    barrier\n    %10 = ld_shared %9, 0 : f32\n"


@pytest.mark.parametrize("exchange", ["", EXCHANGE], ids=["alone", "exchange"])
def test_what_a_cluster_loads_before_a_loop_is_ordered_once(exchange):
    """Also where a barrier of the cluster in each round would spare one of its CTAs."""
    body = f"""\
  %0 = thread_id : i32
  %1 = addptr y, %0 : ptr<f32>
  %2 = ld_global %1, none, none : f32
  %9 = shared_alloc : shared<128 x f32>
  for %4 in range(0, n, 1) {{
{exchange}    %5 = mul %4, 128 : i32
    %6 = addptr x, %5 : ptr<f32>
    %7 = xor %0, 1 : i32
    %8 = addptr %6, %7 : ptr<f32>
    st_global %8, %2, none
    yield
  }}
"""
    func = lowered(body, "num_warps=4, threads=128, num_ctas=2")
    assert names(func.body.ops)[-2:] == ["cluster_barrier", "for"]
    assert "cluster_barrier" not in names(func.body.ops[-1].body.ops)
    assert names(func.body.ops[-1].body.ops).count("barrier") == (2 if exchange else 0)
