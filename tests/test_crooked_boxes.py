"""Boxes that begin anywhere in a row: they are fetched ahead only where they surely begin at multiples of 16 bytes."""

import ml_dtypes
import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl

BF16 = ml_dtypes.bfloat16


@triton.jit
def shifted(a, b, c, shift, K, B: tl.constexpr, STEP: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [B, K], [K, 1], [B, B])
    right = tl.make_tensor_descriptor(b, [K, 128], [128, 1], [B, B])
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(left.load([0, k]), right.load([k, shift * STEP]), acc)
    at = tl.arange(0, B)
    tl.store(c + at[:, None] * B + at[None, :], acc)


@pytest.mark.parametrize(("shift", "step", "fetched"), [(5, 1, False), (5, 4, False), (5, 8, True), (48, 1, True)])
def test_boxes_are_fetched_where_they_begin_at_16_bytes(shift, step, fetched):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (64, 128)).astype(BF16), rng.integers(-4, 5, (128, 128)).astype(BF16)
    out = np.zeros((64, 64), np.float32)
    kernel = shifted[(1,)](a, b, out, shift, 128, B=64, STEP=step, backend="simt")
    expected = np.zeros((128, 64), np.float32)
    inside = b[:, shift * step : shift * step + 64]
    expected[:, : inside.shape[1]] = inside
    assert (out == a.astype(np.float32) @ expected).all()
    assert ("tma_load" in kernel.asm["simt"]) == fetched
