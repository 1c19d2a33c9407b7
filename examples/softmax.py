"""Softmax of rows: one program a row, two reductions; on CuPy arrays where a GPU is, otherwise in the interpreter.

python examples/softmax.py
"""

import numpy as np

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.runtime import gpu_available


@triton.jit
def softmax_kernel(out_ptr, x_ptr, row_stride, n_columns, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK_SIZE)
    mask = columns < n_columns
    x = tl.load(x_ptr + row * row_stride + columns, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))  # the largest element becomes 0: nothing overflows
    tl.store(out_ptr + row * row_stride + columns, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x, out):
    """Softmax of each row of a contiguous matrix, into `out`."""
    rows, columns = x.shape
    softmax_kernel[(rows,)](out, x, columns, columns, BLOCK_SIZE=triton.next_power_of_2(columns))
    return out


def main() -> None:
    xp = np
    if gpu_available():
        import cupy as xp
    x = np.random.default_rng(0).normal(size=(256, 781)).astype(np.float32)
    found = softmax(xp.asarray(x), xp.empty(x.shape, xp.float32))
    found = found if xp is np else xp.asnumpy(found)

    wide = x.astype(np.float64)
    exact = np.exp(wide - wide.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    # Relative: one rounding for each term of the sum; x - max is rounded too, which exp multiplies by its magnitude.
    spread = (wide.max(axis=1) - wide.min(axis=1)).max()
    bound = (x.shape[1] + spread + 8) * np.finfo(np.float32).eps
    error = np.abs(found / exact - 1).max()
    print(f"{xp.__name__}: 256x781, largest relative error {error:.1e}, bound {bound:.1e}")
    if not error <= bound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
