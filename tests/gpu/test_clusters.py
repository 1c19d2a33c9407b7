"""Programs of several CTAs on a GPU: rows that are divided over a cluster, round after round, by both backends."""

from __future__ import annotations

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import LaunchError

cupy = pytest.importorskip("cupy")


@triton.jit
def normalized(x, w, out, total, rows, n, BLOCK: tl.constexpr):
    """Rows less their mean, times w; the sums of their largest elements and of their places."""
    c = tl.arange(0, BLOCK)
    weight = tl.load(w + c, mask=c < n)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        v = tl.load(x + row * n + c, mask=c < n, other=0.0)
        mean = tl.sum(v, axis=0) / n
        tl.store(out + row * n + c, (v - mean) * weight, mask=c < n)
        shown = tl.where(c < n, v, -float("inf"))
        tl.store(total + row, tl.max(shown, axis=0) + tl.argmax(shown, axis=0))


@triton.jit
def transposed_sums(x, out, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + (tl.program_id(1) * R + r)[:, None] * C + c[None, :])
    tl.store(out + tl.program_id(1) * R + r, tl.sum(v, axis=1))


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize("ctas", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("rows", "n", "block", "warps"), [(37, 5000, 8192, 4), (300, 4096, 4096, 2), (3, 60000, 65536, 8)]
)
def test_rows(rows, n, block, warps, ctas, backend):
    x = np.random.default_rng(n + ctas).integers(-50, 51, (rows, n)).astype(np.float32)
    w = np.random.default_rng(rows).integers(-3, 4, n).astype(np.float32)
    mean = x.sum(1, keepdims=True, dtype=np.float32) / np.float32(n)
    out, total = cupy.full((rows, n), np.nan, np.float32), cupy.zeros(rows, np.float32)
    for programs in (1, 7, rows):  # the later launches are prepared
        out[...] = np.nan
        normalized[(programs,)](
            cupy.asarray(x), cupy.asarray(w), out, total, rows, n, BLOCK=block, num_warps=warps, num_ctas=ctas,
            backend=backend,
        )  # fmt: skip
        np.testing.assert_array_equal(cupy.asnumpy(out), (x - mean) * w)
        np.testing.assert_array_equal(cupy.asnumpy(total), x.max(1) + x.argmax(1))


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
@pytest.mark.parametrize(("r", "ctas"), [(16, 4), (2, 8)])  # rows are divided, then columns, since two are too few
def test_other_axes_of_the_grid(r, ctas, backend):
    x = np.random.default_rng(r).integers(-50, 51, (6 * r, 512)).astype(np.int32)
    out = cupy.zeros(6 * r, np.int32)
    for _ in range(3):
        out[...] = 0
        transposed_sums[(1, 6)](cupy.asarray(x), out, R=r, C=512, num_warps=2, num_ctas=ctas, backend=backend)
        np.testing.assert_array_equal(cupy.asnumpy(out), x.sum(1))


def test_more_ctas_than_a_grid_may_have():
    """The limit is one of CTAs, not of programs, in a launch that is prepared as in a first one."""
    x, out = cupy.zeros((16, 512), np.int32), cupy.zeros(16, np.int32)
    for _ in range(2):
        transposed_sums[(1,)](x, out, R=16, C=512, num_ctas=8)
        with pytest.raises(LaunchError, match=r"extent 0|axis 0"):
            transposed_sums[(2**29,)](x, out, R=16, C=512, num_ctas=8)
