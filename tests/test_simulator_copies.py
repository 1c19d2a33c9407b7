"""Asynchronous copies in the simulator, early and late: the same results, and the same mistakes found."""

from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from refcompiler import simulator
from refcompiler.dialects.simt.tensor_maps import TensorMap
from refcompiler.errors import RunError
from refcompiler.jit.text import from_simt

FEATURES = Path(__file__).parent.parent / "spec" / "features" / "exec"
TIMES = pytest.mark.parametrize("early", [False, True], ids=["late", "early"])


def program(feature: str, name: str, **values) -> str:
    """The text of a program of the specification."""
    text = YAML(typ="safe").load(FEATURES / f"{feature}.yaml")["programs"][name]["source"]
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


def run(text: str, early: bool, grid=(1,), **arguments) -> None:
    simulator.run(from_simt(text, "<simt>", "sm_90a", "simt").level("simt"), grid, arguments, early_copies=early)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(-99, 99, shape).astype(np.int32)


@TIMES
def test_a_ring_of_boxes_gives_the_same_whenever_copies_end(early):
    x, out = numbers(40, 32), np.zeros(32, np.int32)
    run(program("async_copies", "pipeline"), early, x=x, out=out, m=40, n=5)
    assert (out == x.sum(0)).all()


@TIMES
def test_boxes_are_stored_the_same_whenever_copies_end(early):
    x, out = numbers(2, 8, 32).astype(np.float32), np.full((12, 64), np.nan, np.float32)
    run(program("async_copies", "boxes"), early, x=x, out=out, m=9, n=64, row=3)
    assert (out[3:9] == np.concatenate(list(x), axis=1)[:6]).all() and np.isnan(out[9:]).all()


@TIMES
@pytest.mark.parametrize(
    ("feature", "name", "left_out", "id"),
    [
        ("async_copies", "pipeline", "mbarrier_wait %3, %22, %24\n", "exec.shared_memory#E1"),
        ("async_copies", "pipeline", "fence_mbarrier_init\n", "exec.mbarriers#E3"),
        ("async_copies", "boxes", "bulk_wait {read=True}\n", "exec.shared_memory#E1"),
        ("async_copies", "boxes", "bulk_commit\n  bulk_wait\n", "exec.async_copies#E3"),
        ("async_copies", "vector", "cp_async_wait\n", "exec.shared_memory#E1"),
        ("async_copies", "vector", "  barrier\n", "exec.shared_memory#E1"),
    ],
)
def test_a_missing_order_is_found_whenever_copies_end(early, feature, name, left_out, id):
    text = program(feature, name)
    assert left_out in text
    x = numbers(2, 8, 32) if name != "pipeline" else numbers(40, 32)
    if name != "pipeline":
        x = x.astype(np.float32)
    sizes = {"pipeline": {"m": 40, "n": 5}, "boxes": {"m": 12, "n": 64, "row": 2}, "vector": {"n": 256}}[name]
    out = np.zeros({"pipeline": (32,), "boxes": (12, 64), "vector": (256,)}[name], x.dtype)
    with pytest.raises(RunError) as caught:
        run(text.replace(left_out, "", 1), early, x=x.reshape(-1) if name == "vector" else x, out=out, **sizes)
    assert caught.value.id == id


@TIMES
def test_a_barrier_tells_others_what_one_waited_for(early):
    """Thread 32 waits for the box; a barrier lets all others read it, and only that."""
    text = """\
simt func @f(x: ptr<i32>, out: ptr<i32>) {num_warps=2, threads=64, shared_bytes=272, MAPS} {
  %0 = thread_id : i32
  %1 = shared_alloc {offset=0, alignment=128, synchronized="mbarrier"} : shared<64 x i32>
  %2 = mbarrier_alloc {count=1, offset=256} : shared<1 x mbarrier>
  %3 = cmp_eq %0, 0 : bool
  %4 = tensor_map {descriptor=0} : tensor_map
  mbarrier_init %2, 0, %3 {arrivals=1}
  fence_mbarrier_init
  barrier
  mbarrier_expect_tx %2, 0, %3 {bytes=256}
  tma_load %1, 0, %4, 0, %2, 0, %3 {box=(64,)}
  %5 = cmp_ge %0, 32 : bool
  if %5 {
    mbarrier_wait %2, 0, 0
    yield
  }
  barrier
  %6 = sub 63, %0 : i32
  %7 = ld_shared %1, %6 : i32
  %8 = addptr out, %0 : ptr<i32>
  st_global %8, %7, none
}
"""
    tensor = TensorMap("x", "i32", (("const", 64),), (), (64,))
    text = text.replace("MAPS", f"tensor_maps={(tensor.to_attribute(),)}")
    x, out = numbers(64), np.zeros(64, np.int32)
    run(text, early, x=x, out=out)
    assert (out == x[::-1]).all()
    with pytest.raises(RunError, match=r"thread 0 of CTA \(0, 0, 0\) reads byte 252 .* without a wait for it"):
        run(text.replace("  barrier\n  %6", "  %6"), early, x=x, out=out)
