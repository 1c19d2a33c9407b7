"""A script as users of mytriton write them: the softmax of rows that are no power of two long."""

import mytriton as mt
import numpy as np
from mytriton import language as tl


@mt.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=-float("inf"))
    exponentials = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + column, exponentials / tl.sum(exponentials), mask=mask)


def main():
    rows, columns = 7, 513
    x = (np.arange(rows * columns) % 97 - 40).astype(np.float32).reshape(rows, columns)
    x[2] = 1e4  # large, and equal
    out = np.empty_like(x)
    _, ssa, source = softmax_kernel[(rows,)](x, out, columns, BLOCK=mt.next_power_of_2(columns))
    exact = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, exact / exact.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-30)
    assert [op.name for op in ssa].count("reduce") == 2
    print(source)


main()
