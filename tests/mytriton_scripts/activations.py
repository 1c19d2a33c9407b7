"""A script as users of mytriton write them: activations, one of them with a scalar parameter and a helper."""

import numpy as np
from mytriton import cdiv, jit
from mytriton import language as tl


def positive(v):
    return 0.0 < v


@jit
def relu(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.maximum(tl.load(x + i, mask), 0.0), mask)


@jit
def leaky_relu(x, out, n, slope, *, BLOCK: tl.constexpr = 128):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask)
    tl.store(out + i, tl.where(positive(v), v, slope * v), mask)


@jit
def sigmoid(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, 1.0 / (1.0 + tl.exp(-tl.load(x + i, mask))), mask)


def main():
    n, block = 517, 128
    x = np.linspace(-8, 8, n, dtype=np.float32)
    x[3], x[4] = np.nan, -0.0
    out = np.empty_like(x)
    grid = (cdiv(n, block),)

    relu[grid](x, out, n, BLOCK=block)
    np.testing.assert_array_equal(out, np.maximum(x, 0))
    assert not np.signbit(out[4])  # of equal operands the right one

    leaky_relu[grid](x, out, n, 0.125)
    np.testing.assert_array_equal(out, np.where(x > 0, x, np.float32(0.125) * x))

    _, _, source = sigmoid[grid](x, out, n, BLOCK=block)
    np.testing.assert_allclose(out, 1 / (1 + np.exp(-x.astype(np.float64))), rtol=2e-6)
    print(source)


main()
