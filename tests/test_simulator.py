"""The SIMT simulator: it agrees with the tile interpreter, and sees races, bad addresses and disagreement."""

import numpy as np
import pytest
import simt_kernels as k
from compiled import compile_kernel, differences
from test_lowering import KERNELS, compiled

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import interpreter, simulator
from refcompiler.errors import RunError
from refcompiler.ir.parser import parse_func
from refcompiler.ir.types import PointerType

RNG = np.random.default_rng(3)
ARGUMENTS = {
    "add": [RNG.standard_normal(1008).astype("f4") for _ in range(3)] + [1008],
    "add_unaligned": [RNG.standard_normal(1003).astype("f2") for _ in range(3)] + [1003],
    "add_rows": [RNG.standard_normal((16, 50)).astype("f4"), np.zeros((16, 50), "f4"), 16, 50, 50, 50],
    "transpose": [RNG.standard_normal((31, 30)).astype("f4"), np.zeros((30, 31), "f4"), 31, 30],
    "softmax": [RNG.standard_normal((15, 50)).astype("f4"), np.zeros((15, 50), "f4"), 15, 50],
    "row_softmax": [RNG.standard_normal(1500).astype("f4"), np.zeros(1500, "f4"), 1500],
    "matmul": [RNG.integers(-4, 5, s).astype("f4") for s in ((15, 24), (24, 14), (15, 14))] + [15, 14, 24],
    "argmax": [RNG.integers(-9, 9, (32, 32)).astype("f4"), np.zeros(32, "f4"), np.zeros(32, "i4")],
    "total": [RNG.integers(-9, 9, 4096).astype("f4"), np.zeros(1, "f4")],
    "total_integers": [RNG.integers(-9, 9, 4096).astype("i4"), np.zeros(1, "i4")],
    "reverse": [RNG.standard_normal(256).astype("f4")],
    "read_after_write": [np.zeros(256, "i4"), np.zeros(256, "i4")],
    "rotate": [np.arange(256, dtype="i4"), 4],
    "scale": [RNG.standard_normal(256).astype("f4"), 3],
    "scalars": [RNG.integers(-9, 9, 8).astype("f4"), np.zeros(9, "f4"), 8],
    "swap": [RNG.integers(-9, 9, 512).astype("f4"), np.zeros(512, "f4"), 4],
}


def given(func, arguments) -> dict:
    pairs = zip(func.params, arguments, strict=True)
    return {p.name: a.copy() if isinstance(p.type, PointerType) else a for p, a in pairs}


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_simulation_agrees_with_the_interpreter(name, num_warps):
    stages = compiled(name, num_warps=num_warps)
    wanted, got = given(stages.tile, ARGUMENTS[name]), given(stages.simt, ARGUMENTS[name])
    interpreter.run(stages.tile, (1,), wanted)
    simulator.run(stages.simt, (1,), got)
    for key, value in wanted.items():
        if isinstance(value, np.ndarray):
            tolerance = 1e-6 if "softmax" in name else 0.0  # sums in another order
            assert not differences(value, got[key], tolerance).any(), key


@pytest.mark.parametrize("name", ["total", "transpose", "reverse", "read_after_write", "rotate", "matmul"])
def test_every_barrier_is_needed(name):
    """Without any one of its barriers each kernel has a race, for these arguments or where parameters are one array."""
    stages = compiled(name)
    count = sum(op.name == "barrier" for op in stages.simt.walk())
    for left_out in range(count):
        func = stages.simt.clone()
        _drop_barrier(func.body, [left_out])
        with pytest.raises(RunError, match="without a barrier between"):
            for aliased in (False, True):
                arguments = given(func, ARGUMENTS[name])
                arrays = [key for key, value in arguments.items() if isinstance(value, np.ndarray)]
                if aliased:
                    largest = max((arguments[key] for key in arrays), key=lambda a: a.nbytes)
                    arguments.update({key: largest.reshape(-1) for key in arrays})
                simulator.run(func, (1,), arguments)


def _drop_barrier(block, left: list[int]) -> None:
    for op in list(block.ops):
        if op.name == "barrier":
            if left[0] == 0:
                block.ops.remove(op)
            left[0] -= 1
        elif op.body is not None:
            _drop_barrier(op.body, left)


def simulate(body: str, x: np.ndarray, attrs: str = "num_warps=1, threads=32, shared_bytes=128") -> None:
    simulator.run(parse_func(f"simt func @k(x: ptr<f32>) {{{attrs}}} {{\n{body}}}\n", "k.simt"), (1,), {"x": x})


MISTAKES = {  # the clause that each body breaks
    "outside": ("exec.global_memory#E2", "%0 = thread_id : i32; %1 = addptr x, %0 : ptr<f32>; st_global %1, 1.0, none"),
    "before": ("exec.global_memory#E2", "%1 = addptr x, -1 : ptr<f32>; %2 = ld_global %1, none, none : f32"),
    "all_store": ("exec.global_memory#E1", "st_global x, 1.0, none"),
    "past_the_end": (
        "exec.global_memory#E2",
        "%0 = addptr x, 16 : ptr<f32>; %1 = ld_global %0, none, none {width=4} : reg<4 x f32>",
    ),
    "odd_address": (
        "exec.global_memory#E3",
        "%0 = addptr x, 1 : ptr<f32>; %1 = ld_global %0, none, none {width=2} : reg<2 x f32>",
    ),
    "unwritten": (
        "exec.shared_memory#E4",
        "%0 = shared_alloc {offset=0} : shared<32 x f32>; %1 = ld_shared %0, 3 : f32",
    ),
    "neighbour": (
        "exec.shared_memory#E1",
        "%0 = shared_alloc {offset=0} : shared<32 x f32>; %1 = thread_id : i32; st_shared %0, %1, 1.0, none; "
        "%2 = xor %1, 1 : i32; %3 = ld_shared %0, %2 : f32",
    ),
    "outside_buffer": (
        "exec.shared_memory#E2",
        "%0 = shared_alloc {offset=0} : shared<32 x f32>; st_shared %0, 32, 1.0, none",
    ),
    "divergent": (
        "exec.barriers#E1",
        "%0 = thread_id : i32; for %1 in range(0, %0, 1) {; barrier; yield; }",
    ),
    "no_step": ("control.for_range#E3", "%0 = thread_id : i32; for %1 in range(0, 9, %0) {; yield; }"),
    "assertion": ("control.assert#E3", "%0 = thread_id : i32; %1 = cmp_lt %0, 31 : bool; assert %1 {message='small'}"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_threads_do_wrong_is_one_located_error(name):
    id, body = MISTAKES[name]
    with pytest.raises(RunError) as caught:
        simulate(body.replace("; ", "\n") + "\n", np.zeros(18, "f4")[:17])
    assert caught.value.id == id
    assert str(caught.value).startswith("k.simt:")


def test_shuffles_move_between_lanes_of_one_warp():
    x = np.arange(64, dtype="f4")
    body = (
        "  %0 = thread_id : i32\n  %1 = addptr x, %0 : ptr<f32>\n  %2 = ld_global %1, none, none : f32\n"
        "  %3 = shfl_xor %2 {mask=5} : f32\n  %4 = sub 40, %0 : i32\n  %5 = shfl_idx %3, %4 : f32\n"
        "  st_global %1, %5, none\n"
    )
    simulate(body, x, "num_warps=2, threads=64")
    thread = np.arange(64)
    lane = (40 - thread) & 31
    assert (x == (thread & ~31 | lane) ^ 5).all()


def test_transactions_are_counted():
    stages = compile_kernel(k.add_vectors, "x:*f32:16,y:*f32:16,out:*f32:16,n:i32:16", BLOCK=1024)
    arrays = [_aligned(1024) for _ in range(3)]
    counts = simulator.run(stages.simt, (1,), {"x": arrays[0], "y": arrays[1], "out": arrays[2], "n": 1024})
    assert counts.load_sectors == 2 * 1024 * 4 // 32
    assert counts.store_sectors == 1024 * 4 // 32
    assert counts.load_lines == 2 * 1024 * 4 // 128
    assert counts.efficiency == 1.0
    assert counts.requests_by_bytes == {16: 3 * 1024 // 4 // 32}
    stages = compiled("transpose")
    counts = simulator.run(stages.simt, (1,), given(stages.simt, ARGUMENTS["transpose"]))
    assert counts.bank_conflicts == 0
    assert counts.shared_load_wavefronts + counts.shared_store_wavefronts == 64


def _aligned(elements: int) -> np.ndarray:
    """f32 zeros that begin at a line of global memory."""
    memory = np.zeros(elements + 32, "f4")
    start = -(memory.ctypes.data // 4) % 32
    return memory[start : start + elements]


CHAIN = """simt func @chain(x: ptr<i32>) {num_warps=3, threads=96, shared_bytes=128} {
  %0 = thread_id : i32
  %1 = and %0, 31 : i32
  %2 = shared_alloc {offset=0} : shared<32 x i32>
  roles {warps=(1, 1)} {
    st_shared %2, %1, %0, none
    named_barrier {id=1, threads=64}
    yield
  } {
    named_barrier {id=1, threads=64}
    named_barrier {id=2, threads=64}
    yield
  } {
    named_barrier {id=2, threads=64}
    %3 = ld_shared %2, %1 : i32
    %4 = addptr x, %1 : ptr<i32>
    st_global %4, %3, none
    yield
  }
}
"""


def test_named_barriers_order_through_a_warp_between():
    """The first warp's stores reach the third one by way of the second, which met both."""
    func = parse_func(CHAIN, "chain.simt")
    assert str(func) == CHAIN
    x = np.zeros(32, "i4")
    counts = simulator.run(func, (1,), {"x": x})
    assert (x == np.arange(32)).all()
    assert counts.barriers == 2
    broken = CHAIN.replace("    named_barrier {id=2, threads=64}\n", "", 1).replace("2, threads=64", "2, threads=32")
    assert broken.count("named_barrier") == 3
    with pytest.raises(RunError, match="without a barrier between"):
        simulator.run(parse_func(broken, "chain.simt"), (1,), {"x": x})


@triton.jit
def add_under_a_lock(lock, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x + i, tl.load(x + i) + 1)
    tl.atomic_xchg(lock, 0)


@triton.jit
def keep_the_lock(lock, x, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x, 1)


def test_a_spin_lock_ends_also_with_more_programs_than_are_resident():
    stages = compile_kernel(add_under_a_lock, "lock:*i32,x:*i32", BLOCK=64)
    lock, x = np.zeros(1, "i4"), np.zeros(64, "i4")
    simulator.run(stages.simt, (300,), {"lock": lock, "x": x})
    assert (x == 300).all() and not lock.any()


def test_programs_that_wait_for_ever_are_one_located_error(monkeypatch):
    monkeypatch.setattr("refcompiler.simulator.resident.MOST_ROUNDS", 20)
    stages = compile_kernel(keep_the_lock, "lock:*i32,x:*i32", BLOCK=64)
    lock, x = np.zeros(1, "i4"), np.zeros(64, "i4")
    with pytest.raises(RunError, match=r"a deadlock: .*\(CTAs \(1, 0, 0\), \(2, 0, 0\) wait\)") as caught:
        simulator.run(stages.simt, (3,), {"lock": lock, "x": x})
    assert caught.value.id == "control.while#E8"
    assert not lock.any() and not x.any()
