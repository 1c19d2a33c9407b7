"""Products by warpgroups on a GPU: exact for small whole numbers, for every shape of tile, by both backends."""

from __future__ import annotations

import numpy as np
import pytest

from refcompiler.kernels.matmul import matmul
from tests.test_specialize_warps import heads, pointers, scores, strided, tiles

cupy = pytest.importorskip("cupy")


def numbers(*shape):
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("shape", "block", "warps", "stages"),
    [
        ((200, 136, 136), (64, 64, 64), 4, 3),
        ((512, 512, 512), (128, 128, 32), 4, 3),
        ((512, 512, 520), (128, 256, 32), 8, 3),
        ((512, 512, 1024), (128, 256, 64), 8, 4),
        ((512, 256, 512), (256, 128, 128), 8, 2),
        ((192, 72, 0), (64, 64, 64), 4, 3),
        ((128, 128, 256), (64, 32, 16), 4, 8),
    ],
)
def test_tiles(shape, block, warps, stages, turned, backend):
    (m, n, k), (bm, bn, bk) = shape, block
    a, b = numbers(m, k), numbers(*((n, k) if turned else (k, n)))
    c = cupy.full((m, n), np.nan, np.float32)
    options = {"BM": bm, "BN": bn, "BK": bk, "TURNED": turned, "num_warps": warps, "num_stages": stages}
    for programs in (1, 3, 1000):
        c[...] = np.nan
        tiles[(programs,)](cupy.asarray(a), cupy.asarray(b), c, m, n, k, **options, backend=backend)
        np.testing.assert_array_equal(cupy.asnumpy(c), product(a, b.T if turned else b))


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_overlapping_arrays(backend):
    """Each launch asks whether arrays overlap, also one that was prepared for arrays that do not."""
    options = {"BM": 64, "BN": 64, "BK": 64, "TURNED": False, "num_warps": 4, "backend": backend}
    a, b = np.sign(numbers(128, 64)).astype(np.float16), np.sign(numbers(64, 64)).astype(np.float16)
    expected = product(a, b)
    for shared in (False, True, False, True):
        memory = cupy.asarray(a)
        out = memory if shared else cupy.zeros_like(memory)
        tiles[(1,)](memory, cupy.asarray(b), out, 128, 64, 64, **options)
        np.testing.assert_array_equal(cupy.asnumpy(out), expected)


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_arrays_without_a_tensor_map(backend):
    a, b = numbers(64, 64), numbers(64, 64)
    options = {"BM": 64, "BN": 64, "BK": 64, "num_warps": 4, "backend": backend}
    for stride in (64, 0, 64, 0):
        c = cupy.zeros((64, 64), np.float32)
        strided[(1,)](cupy.asarray(a), cupy.asarray(b), c, stride, 64, 64, 64, **options)
        expected = product(a if stride else np.tile(a[:1], (64, 1)), b)
        np.testing.assert_array_equal(cupy.asnumpy(c), expected)


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_pointers(backend):
    a, b = numbers(100, 80), numbers(80, 144)
    c = cupy.zeros((100, 144), np.float32)
    options = {"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "backend": backend}
    pointers[(2, 3)](cupy.asarray(a), cupy.asarray(b), c, 100, 144, 80, **options)
    np.testing.assert_array_equal(cupy.asnumpy(c), product(a, b))


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_products_of_products(backend):
    q, k, v = (np.sign(numbers(192, 64)).astype(np.float16) for _ in range(3))
    out = cupy.zeros((192, 64), np.float32)
    scores[(3,)](*map(cupy.asarray, (q, k, v)), out, 192, B=64, D=64, num_warps=4, backend=backend)
    expected = np.zeros((192, 64))
    for start in range(0, 192, 64):
        s = np.maximum(product(q, k[start : start + 64].T), 0.0)
        expected = expected * 0.5 + product(s, v[start : start + 64])
    np.testing.assert_allclose(cupy.asnumpy(out), expected, rtol=1e-6)
    q, k, v = (np.sign(numbers(2, 128, 32)).astype(np.float16) for _ in range(3))
    out = cupy.zeros((2, 128, 32), np.float32)
    options = {"BM": 64, "BN": 32, "D": 32, "num_warps": 4, "num_stages": 2, "backend": backend}
    heads[(2,)](*map(cupy.asarray, (q, k, v)), out, 2, 128, **options)
    for head in range(2):
        s = product(q[head], k[head].T)
        s[:, 64:] *= -1
        np.testing.assert_array_equal(cupy.asnumpy(out[head, :64]), product(s, v[head])[:64])


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize(("rows", "n"), [(256, 2048), (16, 4352)])
def test_products_that_begin_early_wait_for_what_they_read(backend, rows, n):
    """Each reads what the one before it wrote, and writes what that one read: by itself, or after all were queued."""
    a = cupy.asarray(np.sign(numbers(rows, n)).astype(np.float16))
    turns = cupy.asarray(np.roll(np.eye(n, dtype=np.float16), 1, axis=1))
    here, there = a.copy(), cupy.zeros_like(a)
    for _ in range(60):
        matmul(here, turns, there, backend=backend)
        here, there = there, here
    np.testing.assert_array_equal(cupy.asnumpy(here), np.roll(cupy.asnumpy(a), 60, axis=1))
    there[...] = 2  # by a kernel of others, before and after
    matmul(there, turns, here, backend=backend)
    there[...] = 0
    np.testing.assert_array_equal(cupy.asnumpy(here), np.full((rows, n), 2, np.float16))


def test_graphs_of_products_that_begin_early():
    """After what is no kernel, after each other, and after the graph before."""
    a = cupy.asarray(np.sign(numbers(256, 2048)).astype(np.float16))
    turns = cupy.asarray(np.roll(np.eye(2048, dtype=np.float16), 1, axis=1))
    here, there = a.copy(), cupy.zeros_like(a)
    matmul(here, turns, there)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        cupy.cuda.runtime.memsetAsync(there.data.ptr, 0, there.nbytes, stream.ptr)
        matmul(here, turns, there)
        matmul(there, turns, here)
        graph = stream.end_capture()
        for _ in range(20):
            graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(here), np.roll(cupy.asnumpy(a), 40, axis=1))


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("dtype", "precision"),
    [("float16", "ieee"), ("float32", "ieee"), ("float32", "tf32"), ("float32", "tf32x3"), ("int8", "ieee")],
)
@pytest.mark.parametrize(
    "shape", [(1001, 1003, 517), (520, 648, 264), (3072, 1536, 256), (4096, 1, 64), (512, 512, 8192)]
)
def test_defaults_for_any_rows(shape, dtype, precision, turned, backend):
    """Copies along K, across it or between lines, parts in tf32, tiles of 192 columns and splits of K."""
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (cupy.asarray(rng.integers(-1, 2, s).astype(dtype)) for s in ((m, k), (k, n)))
    if turned:
        a, b = (cupy.ascontiguousarray(x.T).T for x in (a, b))
    out = matmul(a, b, precision=precision, backend=backend)
    assert (out.astype(cupy.float64) == a.astype(cupy.float64) @ b.astype(cupy.float64)).all()
