"""A script as users of mytriton write them: kernels that use the Python around them, and arrays of integers."""

from __future__ import annotations

import math
from typing import Annotated

import mytriton
import numpy as np
from mytriton import language as tl

COMBINE = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}
WEIGHTS = [1.0, 2.0, 0.5]


@mytriton.jit
def weighted(x, out, n, HOW: Annotated[str, tl.constexpr], BLOCK: Annotated[int, tl.constexpr] = 12):
    i = tl.arange(0, BLOCK)
    v = tl.load(i + x, mask=i < n)
    total = v * 0
    for w in WEIGHTS:
        total = COMBINE[HOW](total, v) + w * math.pi
    tl.store(out + i, total, i < n)


class Layer:
    """A kernel made in a method reads the object around it."""

    scale = 4.0

    @staticmethod
    def activation(v, by=2.0):
        return tl.maximum(v, 0.0) * by

    def __call__(self, x):
        out, scale = np.zeros_like(x), self.scale

        @mytriton.jit
        def kernel(x, out, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, Layer.activation(tl.load(x + i, i < n), by=scale), i < n)

        kernel[(mytriton.cdiv(x.size, 7),)](x, out, x.size, BLOCK=7)
        return out


@mytriton.jit
def countdown(x, out, n):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    total = tl.zeros((8,), tl.int32)
    for k in range(n):
        if k < 2:
            total -= v
        else:
            total += v * k
    tl.store(out + i, total)


def main():
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    weighted[1](x, out, 10, "add")
    np.testing.assert_allclose(out, 3 * x + 3.5 * math.pi, rtol=1e-6)

    y = np.linspace(-3, 3, 33, dtype=np.float32)
    np.testing.assert_array_equal(Layer()(y), np.maximum(y, 0) * 4)

    z, counted = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    _, _, source = countdown[(np.int64(1),)](z, counted, n=5)
    np.testing.assert_array_equal(counted, z * (2 + 3 + 4) - 2 * z)
    print(source)


main()
