"""A script as users of mytriton write them: sums of long rows, by an unrolled loop and by a loop at run time."""

import mytriton
import mytriton.language as tl
import numpy as np


@mytriton.jit
def unrolled(x, out, columns, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in tl.static_range(0, COLUMNS, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + row * columns + column, mask=column < columns, other=0.0))
    tl.store(out + row, total)


@mytriton.jit
def looped(x, out, largest, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    partial = tl.zeros(BLOCK, tl.float32)
    top = -float("inf")
    pointer = x + row * columns + tl.arange(0, BLOCK)
    for start in range(0, columns, BLOCK):
        v = tl.load(pointer, mask=start + tl.arange(0, BLOCK) < columns, other=0.0)
        partial += v
        top = tl.maximum(top, tl.max(v))
        pointer += BLOCK
    tl.store(out + row, tl.sum(partial))
    tl.store(largest + row, top)


def main():
    rows, columns = 5, 4097
    x = (np.arange(rows * columns) % 11).astype(np.float32).reshape(rows, columns)
    out, largest = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    unrolled[rows](x, out, columns, COLUMNS=columns, BLOCK=1024)
    np.testing.assert_array_equal(out, x.sum(axis=1))

    out[...] = 0
    _, _, source = looped[rows](x, out, largest, columns, BLOCK=256)
    np.testing.assert_array_equal(out, x.sum(axis=1))
    np.testing.assert_array_equal(largest, x.max(axis=1))
    looped.clear_cache()
    print(source)


main()
