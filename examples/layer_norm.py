"""Layer normalisation of rows, mean and variance in one pass: a reduction of three values with a function of its own.

python examples/layer_norm.py
"""

import numpy as np

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.runtime import gpu_available


@triton.jit
def join_statistics(mean_a, spread_a, count_a, mean_b, spread_b, count_b):
    """Mean, summed squared distance from it and count of two samples taken together."""
    count = count_a + count_b
    share = tl.where(count > 0.0, count_b / tl.maximum(count, 1.0), 0.0)
    distance = mean_b - mean_a
    return mean_a + distance * share, spread_a + spread_b + distance * distance * count_a * share, count


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n_columns, epsilon, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * n_columns
    out_ptr += row * n_columns
    mean = tl.zeros((BLOCK_SIZE,), tl.float32)
    spread = tl.zeros((BLOCK_SIZE,), tl.float32)
    count = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, n_columns, BLOCK_SIZE):
        columns = start + tl.arange(0, BLOCK_SIZE)
        mask = columns < n_columns
        x = tl.load(x_ptr + columns, mask=mask, other=0.0)
        mean, spread, count = join_statistics(mean, spread, count, x, 0.0, mask.to(tl.float32))
    mean, spread, count = tl.reduce((mean, spread, count), axis=0, combine_fn=join_statistics)
    scale = tl.rsqrt(spread / count + epsilon)
    for start in range(0, n_columns, BLOCK_SIZE):
        columns = start + tl.arange(0, BLOCK_SIZE)
        mask = columns < n_columns
        x = tl.load(x_ptr + columns, mask=mask)
        y = (x - mean) * scale * tl.load(weight_ptr + columns, mask=mask)
        tl.store(out_ptr + columns, y + tl.load(bias_ptr + columns, mask=mask), mask=mask)


def layer_norm(x, weight, bias, out, epsilon=1e-5):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias for each row of a contiguous f32 matrix, into `out`."""
    rows, columns = x.shape
    layer_norm_kernel[(rows,)](x, weight, bias, out, columns, epsilon, BLOCK_SIZE=128)
    return out


def main() -> None:
    xp = np
    if gpu_available():
        import cupy as xp
    generator = np.random.default_rng(0)
    x = (generator.normal(size=(64, 1000)) * 3 + 100).astype(np.float32)  # far from 0: sums of squares would cancel
    weight, bias = (generator.normal(size=1000).astype(np.float32) for _ in range(2))
    found = layer_norm(*(xp.asarray(a) for a in (x, weight, bias)), xp.empty(x.shape, xp.float32))
    found = found if xp is np else xp.asnumpy(found)

    wide = x.astype(np.float64)
    deviation = np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    exact = (wide - wide.mean(axis=1, keepdims=True)) / deviation * weight + bias
    # The mean errs by a rounding of the values for each of the 8 rounds and 7 levels of the reduction, and once more.
    bound = 16 * np.finfo(np.float32).eps * np.abs(wide).max() / deviation.min() * (1 + np.abs(weight)).max() * 4
    error = np.abs(found - exact).max()
    print(f"{xp.__name__}: 64x1000, largest error {error:.1e}, bound {bound:.1e}")
    if not error <= bound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
