"""Each pass that makes code faster can be left out, and code is as right as before."""

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import pipeline
from refcompiler.errors import LaunchError
from refcompiler.kernels.softmax import softmax_kernel
from tests.test_specialize_warps import numbers, pointers, product, scores, tiles

ROWS = "x:*f32:16,out:*f32:16,stride:i32:16,n:i32:16"
MATRICES = "a:*bf16:16,b:*bf16:16,c:*f32:16,M:i32,N:i32:16,K:i32:16"


@pytest.mark.parametrize("name", sorted(pipeline.ONLY_FOR_SPEED))
@pytest.mark.parametrize("warps", [2, 4])  # without and with warps that fetch
def test_results_stay(warps, name, monkeypatch):
    """Descriptors, pointers whose boxes have to be found, and two products of which the second waits for the first."""
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", name)
    kernels = [triton.jit(kernel.fn) for kernel in (tiles, pointers, scores)]
    options = {"num_warps": warps, "backend": "simt"}
    a, b = numbers(100, 80), numbers(80, 144)
    for kernel, grid, more in ((kernels[0], (2,), {"TURNED": False}), (kernels[1], (2, 3), {})):
        c = np.zeros((100, 144), np.float32)
        kernel[grid](a, b, c, 100, 144, 80, BM=64, BN=64, BK=32, **more, **options)
        np.testing.assert_array_equal(c, product(a, b))
    q, k, v = (numbers(128, 64) for _ in range(3))
    out, expected = np.zeros((128, 64), np.float32), np.zeros((128, 64))
    kernels[2][(2,)](q, k, v, out, 128, B=64, D=64, **options)
    for start in range(0, 128, 64):
        s = np.maximum(product(q, k[start : start + 64].T), 0.0).astype(q.dtype)
        expected = expected * 0.5 + product(s, v[start : start + 64])
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@triton.jit
def held(x, w, out, rows, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    weight = tl.load(w + c)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        tl.store(out + row * BLOCK + c, tl.load(x + row * BLOCK + c) * weight)


def test_each_pass_does_something(monkeypatch):
    """Leaving one out changes the program of one of these kernels, so that their results say something of it."""
    shapes = {"BM": 64, "BN": 64, "BK": 32}
    cases = [
        (tiles, {**shapes, "TURNED": False}, MATRICES, 4),
        (pointers, shapes, MATRICES, 4),
        (pointers, shapes, MATRICES, 2),
    ]
    cases.append((scores, {"B": 64, "D": 64}, "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16", 4))

    def programs():
        made = [triton.jit(k.fn).compile(types, given, num_warps=w) for k, given, types, w in cases]
        made.append(triton.jit(held.fn).compile("x:*f32:16,w:*f32:16,out:*f32:16,rows:i32", {"BLOCK": 4096}))
        made.append(triton.jit(softmax_kernel.fn).compile(ROWS, {"BLOCK": 1024}, num_ctas=2))
        return [kernel.asm["simt"] for kernel in made]

    with_all = programs()
    unseen = set()
    for name in sorted(pipeline.ONLY_FOR_SPEED):
        monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", name)
        if programs() == with_all:
            unseen.add(name)
    # Wrapped indices, rows that fill a block, selects by extrema and exchanges side by side are not here: opt.boxes,
    # opt.decide_comparisons, opt.skip_unselected and tests/test_delay_shared_loads.py have them.
    assert unseen == {"unwrap_indices", "decide_comparisons", "skip_unselected", "delay_shared_loads"}


def test_rotation_is_seen():
    """The first product of the next iteration is in the loop only where it is computed ahead."""
    kernel = scores.compile("q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16", {"B": 64, "D": 64})
    assert kernel.asm["laid_out"].count("warpgroup_dot") == 3


def test_a_pass_that_is_needed(monkeypatch):
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", "insert_barriers")
    scores.clear_cache()
    with pytest.raises(LaunchError, match="names insert_barriers, which is no pass that may be left out"):
        scores.compile("q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16", {"B": 64, "D": 64}).asm["laid_out"]


def test_machine_code_is_kept_apart(monkeypatch):
    kernel = triton.jit(scores.fn)
    types = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16"
    with_all = kernel.compile(types, {"B": 64, "D": 64}).key
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", "licm")
    kernel.clear_cache()
    assert kernel.compile(types, {"B": 64, "D": 64}).key != with_all
