"""Products begun ahead of others: threads go on while tensor cores add up what only the next iteration needs."""

import ml_dtypes
import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl

BF16 = ml_dtypes.bfloat16
TYPES = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16"


@triton.jit
def faded(q, k, v, out, S, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Two loops over keys; each halves the sum before it adds to it, as an online softmax does with its factor."""
    queries = tl.make_tensor_descriptor(q, [S, D], [D, 1], [M, D])
    keys = tl.make_tensor_descriptor(k, [S, D], [D, 1], [N, D])
    values = tl.make_tensor_descriptor(v, [S, D], [D, 1], [N, D])
    x = queries.load([tl.program_id(0) * M, 0])
    whole = S // 2 // N * N
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, whole, N):
        p = tl.maximum(tl.dot(x, keys.load([start, 0]).T), 0.0).to(v.dtype.element_ty)
        acc = tl.dot(p, values.load([start, 0]), acc * 0.5)
    for start in range(whole, S, N):
        p = tl.minimum(tl.dot(x, keys.load([start, 0]).T), 0.0).to(v.dtype.element_ty)
        acc = tl.dot(p, values.load([start, 0]), acc * 0.5)
    result = tl.make_tensor_descriptor(out, [S, D], [D, 1], [M, D])
    result.store([tl.program_id(0) * M, 0], acc)


def signs(seed, rows):
    return np.sign(np.random.default_rng(seed).standard_normal((rows, 32))).astype(BF16)


def expected(q, k, v, n):
    acc = np.zeros(q.shape)
    for start in range(0, len(k), n):
        s = q.astype(float) @ k[start : start + n].astype(float).T
        p = np.maximum(s, 0.0) if start < len(k) // 2 // n * n else np.minimum(s, 0.0)
        acc = acc * 0.5 + p @ v[start : start + n].astype(float)
    return acc


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("rows", "m", "n", "warps"), [(64, 64, 64, 4), (320, 64, 32, 4), (128, 128, 32, 8)])
def test_sums_stay_on_their_way(rows, m, n, warps, stages):
    """The first loop runs not at all, or often; rings of few slots."""
    q, k, v = (signs(i, rows) for i in range(3))
    out = np.zeros((rows, 32), np.float32)
    options = {"M": m, "N": n, "D": 32, "num_warps": warps, "num_stages": stages}
    kernel = faded[(triton.cdiv(rows, m),)](q, k, v, out, rows, **options, backend="simt")
    assert kernel.asm["simt"].count("{pending=1}") == 2  # in each loop the scores, and not the sum
    np.testing.assert_array_equal(out, expected(q, k, v, n))


@triton.jit
def held(x, k, v, out, S, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Both left operands stay in shared memory for all iterations."""
    queries = tl.make_tensor_descriptor(x, [M, D], [D, 1], [M, D])
    keys = tl.make_tensor_descriptor(k, [S, D], [D, 1], [N, D])
    values = tl.make_tensor_descriptor(v, [S, D], [D, 1], [N, D])
    left = queries.load([0, 0])
    again = queries.load([0, 0])
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, S, N):
        largest = tl.max(tl.dot(left, keys.load([start, 0]).T), axis=1)
        acc = tl.dot(again, values.load([start, 0]), acc * (largest[:, None] > 0).to(tl.float32))
    result = tl.make_tensor_descriptor(out, [M, D], [D, 1], [M, D])
    result.store([0, 0], acc)


def test_slots_of_other_loops_are_not_released():
    x, k, v = signs(0, 64)[:, :32], signs(1, 96), signs(2, 96)
    k[:32, :] = 1.0
    out = np.zeros((64, 32), np.float32)
    kernel = held[(1,)](x, k, v, out, 96, M=64, N=32, D=32, num_warps=4, num_stages=2, backend="simt")
    assert "{pending=1}" in kernel.asm["simt"]
    acc = np.zeros((64, 32))
    for start in range(0, 96, 32):
        largest = (x.astype(float) @ k[start : start + 32].astype(float).T).max(1, keepdims=True)
        acc = acc * (largest > 0) + x.astype(float) @ v[start : start + 32].astype(float)
    np.testing.assert_array_equal(out, acc)


def test_a_ring_of_one_slot_holds_the_sum_up():
    """With no room for a second block of values, the sum is complete before the next one is fetched."""
    simt = faded.compile(TYPES, {"M": 64, "N": 128, "D": 256}, arch="sm_90a", num_warps=4).asm["simt"]
    assert simt.count("roles") == 1 and "{pending=1}" not in simt


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_machine_code(backend):
    """Exponentials, or what stands for them, come before the wait for the sum; no register is spilled."""
    pytest.importorskip("cuda.bindings")
    if backend == "mlir":
        pytest.importorskip("mlir.ir")
    kernel = faded.compile(TYPES, {"M": 128, "N": 128, "D": 64}, arch="sm_90a", num_warps=8, backend=backend)
    assert kernel.resources["spill_bytes"] == 0
    assert kernel.asm["sass"].count("gsb0, 0x1") == 2
