"""A script as users of mytriton write them: the sum of two vectors, with a callable grid."""

import mytriton
import mytriton.language as tl
import numpy as np


@mytriton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def main():
    n = 1000
    x = np.linspace(-1, 1, n, dtype=np.float32)
    y = np.arange(n, dtype=np.float32)
    out = np.zeros_like(x)
    grid = lambda meta: (mytriton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
    ops, ssa, source = add_kernel[grid](x, y, out, n, BLOCK=256)
    np.testing.assert_array_equal(out, x + y)
    assert len(ops) >= len(ssa) > 5
    print(source)


main()
