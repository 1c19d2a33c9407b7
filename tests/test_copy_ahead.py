"""Loops whose operands are copied ahead: on sm_80, simulated with copies that end early and late."""

from dataclasses import replace

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import simulator, toolchain
from refcompiler.dialects.simt.ptx import INSTRUCTIONS
from refcompiler.errors import InternalError
from refcompiler.kernels.rms_norm import rms_norm_rows_kernel

RNG = np.random.default_rng(7)


@triton.jit
def by_pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Pointers are carried and moved on; nothing is masked."""
    rows, cols, k = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    left, right = a + rows[:, None] * K + k[None, :], b + k[:, None] * N + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += BK
        right += BK * N
    tl.store(c + rows[:, None] * N + cols[None, :], acc)


@triton.jit
def by_index(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Addresses and masks are computed from the index; edges read 0; b is held by columns."""
    rows, cols = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + cols[:, None] * K + k[None, :], mask=(cols[:, None] < N) & (k[None, :] < K), other=0.0)
        acc = tl.dot(x, y.T, acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def twice(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The loop stands in another one, so its stages are used again."""
    rows, cols, k = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, 2):
        acc = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            x = tl.load(a + rows[:, None] * K + (start + k)[None, :])
            acc = tl.dot(x, tl.load(b + (start + k)[:, None] * N + cols[None, :]), acc)
        total += acc
    tl.store(c + rows[:, None] * N + cols[None, :], total)


def compiled(kernel, dtype="f16", num_warps=4, num_stages=3, blocks=(32, 32, 32)):
    signature = f"a:*{dtype}:16,b:*{dtype}:16,c:*f32:16,M:i32,N:i32:16,K:i32:16"
    constexprs = dict(zip(("BM", "BN", "BK"), blocks, strict=True))
    return kernel.compile(
        signature=signature, constexprs=constexprs, arch="sm_80", num_warps=num_warps, num_stages=num_stages
    )


def ops(kernel, level="simt"):
    return [op.name for op in kernel.level(level).walk()]


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("num_stages", [2, 3, 4])
@pytest.mark.parametrize("K", [0, 32, 64, 96, 224])
@pytest.mark.parametrize("kernel", [by_pointers, by_index, twice])
def test_every_round_has_its_own_operands(kernel, K, num_stages, early):
    done = compiled(kernel, num_stages=num_stages)
    assert ops(done).count("cp_async") == 2 * num_stages
    a = RNG.integers(-4, 5, (32, K)).astype(np.float16)
    b = RNG.integers(-4, 5, (64, K) if kernel is by_index else (K, 64)).astype(np.float16)
    c = np.full((32, 64), np.nan, np.float32)
    values = {"a": a.ravel(), "b": b.ravel(), "c": c.ravel(), "M": 32, "N": 64, "K": K}
    if not K:
        values |= {"a": np.zeros(1, np.float16), "b": np.zeros(1, np.float16)}
    simulator.run(done.level("simt"), (2, 1, 1), values, count=False, early_copies=early)
    wanted = a.astype(np.float32) @ (b.T if kernel is by_index else b).astype(np.float32)
    assert (values["c"].reshape(32, 64) == wanted * (2 if kernel is twice else 1)).all()


@pytest.mark.parametrize(("dtype", "numpy"), [("f32", np.float32), ("bf16", "bfloat16")])
def test_edges_are_zero(dtype, numpy):
    if numpy == "bfloat16":
        import ml_dtypes

        numpy = ml_dtypes.bfloat16
    done = compiled(by_index, dtype)
    assert "cp_async" in ops(done)
    M, N, K = 20, 48, 80
    a, b = (RNG.integers(-4, 5, shape).astype(numpy) for shape in ((M, K), (N, K)))
    values = {"a": a.ravel(), "b": b.ravel(), "c": np.full(M * N, np.nan, np.float32), "M": M, "N": N, "K": K}
    simulator.run(done.level("simt"), (2, 1, 1), values, count=False)
    assert (values["c"].reshape(M, N) == a.astype(np.float32) @ b.T.astype(np.float32)).all()


def test_a_round_has_one_barrier():
    func = compiled(by_pointers).level("simt")
    loop = next(op for op in func.walk() if op.name == "for")
    names = [op.name for op in loop.body.ops]
    assert names.count("barrier") == 1 and names.index("cp_async_wait") + 1 == names.index("barrier")


def test_one_stage_copies_nothing_ahead():
    assert "cp_async" not in ops(compiled(by_pointers, num_stages=1))


@triton.jit
def writes(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    for start in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + cols[None, :])
        tl.store(c + rows[:, None] * N + cols[None, :], tl.dot(x, y))


@triton.jit
def gathers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        first = tl.load(b + start).to(tl.int32)
        x = tl.load(a + rows[:, None] * K + (first + k)[None, :])
        acc = tl.dot(x, tl.load(a + (first + k)[:, None] * N + cols[None, :]), acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc)


@pytest.mark.parametrize("kernel", [writes, gathers])
def test_what_a_round_may_change_or_has_to_load_first_is_not_copied_ahead(kernel):
    assert "cp_async" not in ops(compiled(kernel))


@triton.jit
def in_a_role(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """On sm_90a warps of their own fetch the boxes of the first loop; the second one belongs to the computing role."""
    rows, cols, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + rows[:, None] * K + (start + k)[None, :])
        acc = tl.dot(x, tl.load(b + (start + k)[:, None] * N + cols[None, :]), acc)
    for start in range(0, K, BK):
        x = tl.load(a + ((rows * rows) % M)[:, None] * K + (start + k)[None, :])
        acc = tl.dot(x, tl.load(b + ((start + k) ^ 1)[:, None] * N + cols[None, :]), acc)
    tl.store(c + rows[:, None] * N + cols[None, :], acc)


def test_roles_have_no_barrier_of_all_threads():
    done = in_a_role.compile(
        signature="a:*f16:16,b:*f16:16,c:*f32:16,M:i32:16,N:i32:16,K:i32:16",
        constexprs={"BM": 64, "BN": 64, "BK": 32},
        arch="sm_90a",
    )
    assert "roles" in ops(done) and "mma_sync" in ops(done)
    M, N, K = 64, 64, 96
    a, b = RNG.integers(-4, 5, (M, K)).astype(np.float16), RNG.integers(-4, 5, (K, N)).astype(np.float16)
    values = {"a": a.ravel(), "b": b.ravel(), "c": np.full(M * N, np.nan, np.float32), "M": M, "N": N, "K": K}
    simulator.run(done.level("simt"), (1, 1, 1), values, count=False)
    x, y = a.astype(np.float32), b.astype(np.float32)
    rows, depths = np.arange(M) ** 2 % M, np.arange(K) ^ 1
    assert (values["c"].reshape(M, N) == x @ y + x[rows] @ y[depths]).all()


@triton.jit
def rows(x, out, rows, n, BLOCK: tl.constexpr):
    """A program for many rows: the largest element of each is added to it."""
    col = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * n + col)
        tl.store(out + row * n + col, v + tl.max(v, axis=0))


@triton.jit
def shifted(x, out, rows, n, BLOCK: tl.constexpr):
    """What a round stores the next one reads."""
    col = tl.arange(0, BLOCK)
    for row in range(1, rows):
        tl.store(x + row * n + col, tl.load(x + (row - 1) * n + col) + 1.0)
    tl.store(out + col, tl.load(x + col))


@triton.jit
def nested(x, out, rows, n, BLOCK: tl.constexpr):
    """Stages of the inner loop beside those of the outer one."""
    col = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        total = tl.load(x + row * n + col)
        for other in range(0, rows):
            v = tl.load(x + other * n + col)
            total += v - tl.max(v, axis=0)
        tl.store(out + row * n + col, total)


ROWS = "x:*f32:16,out:*f32:16,rows:i32,n:i32:16"


def of_rows(kernel, **options):
    return kernel.compile(signature=ROWS, constexprs={"BLOCK": 512}, num_warps=2, **{"arch": "sm_90a", **options})


def test_threads_need_no_barrier_for_what_they_copied():
    done = of_rows(rows)
    loop = next(op for op in done.level("simt").walk() if op.name == "for")
    names = [op.name for op in loop.body.ops]
    assert names.count("barrier") == 2  # of the maximum
    assert names.index("cp_async_wait") < names.index("ld_shared") < names.index("cp_async") < names.index("barrier")
    assert ("out", "x") in done.level("simt").attrs["disjoint"]


@pytest.mark.parametrize("early", [False, True])
def test_loops_in_loops_have_stages_of_their_own(early):
    done = of_rows(nested)
    assert ops(done, "laid_out").count("stages") == 2
    x = RNG.integers(-4, 5, (5, 512)).astype(np.float32)
    values = {"x": x.ravel(), "out": np.full(5 * 512, np.nan, np.float32), "rows": 5, "n": 512}
    simulator.run(done.level("simt"), (2, 1, 1), values, count=False, early_copies=early)
    wanted = x + (x - x.max(1, keepdims=True)).sum(0)
    assert (values["out"].reshape(5, 512) == wanted).all()


@pytest.mark.parametrize("offset", [0, 512, 1024])
def test_arrays_that_overlap_are_read_in_time(offset):
    """Rows are written where later ones come from: the launcher runs a kernel that copies nothing ahead."""
    memory = RNG.integers(-4, 5, 8 * 512).astype(np.float32)
    x, out = memory[: 6 * 512], memory[offset : offset + 6 * 512]
    expected = memory.copy()
    for row in range(0, 6 * 512, 512):
        v = expected[row : row + 512]
        expected[offset + row : offset + row + 512] = v + v.max()
    rows[(1,)](x, out, 6, 512, BLOCK=512, num_warps=2, backend="simt")
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
def test_copies_have_the_priority_of_the_load(policy):
    @triton.jit
    def kept(x, out, n, BLOCK: tl.constexpr, POLICY: tl.constexpr):
        col = tl.arange(0, BLOCK)
        for row in range(tl.program_id(0), n, tl.num_programs(0)):
            v = tl.load(x + row * BLOCK + col, eviction_policy=POLICY)
            tl.store(out + row * BLOCK + col, v + tl.max(v, axis=0))

    signature, values = "x:*f32:16,out:*f32:16,n:i32", {"BLOCK": 512, "POLICY": policy}
    done = kept.compile(signature=signature, constexprs=values, num_warps=2, arch="sm_90a")
    assert {op.eviction for op in done.level("simt").walk() if op.name == "cp_async"} == {policy}
    assert ("cp.async.cg.shared.global.L2::cache_hint" in done.asm["cuda"]) == bool(policy)


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("stages", [2, 3])
def test_copies_with_a_priority_assemble_to_what_gpus_run(monkeypatch, tmp_path, guarded, stages):
    """Without the limit on their addresses the assembler gives descriptors to odd registers."""
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    name = "cp_async_16_evict_last"
    if not guarded:
        text = INSTRUCTIONS[name].text.replace("min.u32 to, {0}, 0x7fffffff", "mov.u32 to, {0}")
        monkeypatch.setitem(INSTRUCTIONS, name, replace(INSTRUCTIONS[name], text=text))
    kernel = triton.jit(rms_norm_rows_kernel.fn)  # with a cache of its own
    signature = "x:*f32:16,weight:*f32:16,out:*f32:16,rows:i32,stride:i32:16,n:i32:16,epsilon:f32"
    try:
        done = kernel.compile(signature, {"BLOCK": 512, "HELD": True}, "sm_90a", "mlir", num_warps=2, num_stages=stages)
        cubin = done.asm["cubin"]
    except toolchain.ToolUnavailable as reason:
        pytest.skip(str(reason))
    if guarded:
        assert "LDGSTS" in toolchain.disassemble(cubin)
    else:
        with pytest.raises(InternalError, match="descriptor"):
            toolchain.disassemble(cubin)


def test_what_a_round_stores_is_not_read_ahead():
    assert "cp_async" not in ops(of_rows(shifted))


@pytest.mark.parametrize(("arch", "stages"), [("sm_80", 9), ("sm_89", 5), ("sm_90a", 13)])
def test_stages_fit_into_shared_memory(arch, stages):
    """Of 16 KiB each; as many as there is room for where more are asked for."""
    done = rows.compile(signature=ROWS, constexprs={"BLOCK": 4096}, arch=arch, num_stages=20)
    buffer = next(op.result.type for op in done.level("laid_out").walk() if op.name == "stages")
    assert buffer.count == stages * 4096


@pytest.mark.parametrize("step", [1 << 20, 1 << 30, (1 << 31) - 1])
def test_indices_far_apart_do_not_wrap(step):
    """The index of a round ahead of the last one has no place in 32 bits."""

    @triton.jit
    def apart(x, out, stop, step, BLOCK: tl.constexpr):
        col = tl.arange(0, BLOCK)
        for index in range(tl.program_id(0), stop, tl.maximum(step, 1)):
            v = tl.load(x + index // step * BLOCK + col)
            tl.store(out + index // step * BLOCK + col, v + tl.max(v, axis=0))

    signature = "x:*f32:16,out:*f32:16,stop:i32,step:i32"
    done = apart.compile(signature=signature, constexprs={"BLOCK": 512}, num_warps=2, num_stages=4, arch="sm_90a")
    assert "cp_async" in ops(done)
    stop = min(2 * step + 1, (1 << 31) - 1)
    count = -(-stop // step)
    x = RNG.integers(-4, 5, (count, 512)).astype(np.float32)
    values = {"x": x.ravel(), "out": np.full(count * 512, np.nan, np.float32), "stop": stop, "step": step}
    simulator.run(done.level("simt"), (1, 1, 1), values, count=False)
    assert (values["out"].reshape(count, 512) == x + x.max(1, keepdims=True)).all()


@triton.jit
def bent(x, out, rows, n, BLOCK: tl.constexpr, BEND: tl.constexpr):
    """A load that is copied ahead, and twins that are not."""
    col = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        if BEND == "alike":
            v = tl.load(x + col)
        elif BEND == "volatile":
            v = tl.load(x + row * n + col, volatile=True)
        elif BEND == "stored":
            v = tl.load(out + row * n + col)
        elif BEND == "gathered":
            v = tl.load(x + tl.load(out + row).to(tl.int32) * n + col)
        else:
            v = tl.load(x + row * n + col)
        tl.store(out + row * n + col, v + 1.0)


@pytest.mark.parametrize(
    ("bend", "block", "said"),
    [
        ("", 1024, "the load is copied 2 rounds ahead"),
        ("", 256, "its block is small"),
        ("alike", 1024, "it is the same in all rounds"),
        ("volatile", 1024, "a volatile access"),
        ("stored", 1024, "it may be of what the loop stores"),
        ("gathered", 1024, "its addresses depend on `load`"),
    ],
)
def test_remarks_say_what_is_copied_ahead(bend, block, said):
    done = bent.compile(signature=ROWS, constexprs={"BLOCK": block, "BEND": bend}, arch="sm_90a", num_warps=2)
    found = [r for r in done.remarks if r.step == "copy_ahead"]
    assert any(said in r.message for r in found)
    assert any(r.applied for r in found) == (not bend and block == 1024) == ("cp_async" in ops(done))
