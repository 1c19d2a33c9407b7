"""A script as users of mytriton write them: matrix products, one by unrolled vectors, one by tiles and a loop."""

import mytriton
import mytriton.language as tl
import numpy as np


@mytriton.jit
def naive(a, b, c, N, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = column < N
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(K):
        total += tl.load(a + row * K + k) * tl.load(b + k * N + column, mask=mask)
    tl.store(c + row * N + column, total, mask=mask)


@mytriton.jit
def tiled(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside_rows = (rows < M)[:, None]
    inside_columns = (columns < N)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K):
        x = tl.load(a + (rows * K)[:, None] + k, mask=inside_rows)
        y = tl.load(b + k * N + columns[None, :], mask=inside_columns)
        total += x * y
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=inside_rows & inside_columns)


def main():
    m, k, n = 13, 9, 37
    a = (np.arange(m * k) % 7 - 3).astype(np.float32).reshape(m, k)
    b = (np.arange(k * n) % 5 - 2).astype(np.float32).reshape(k, n)
    c = np.zeros((m, n), np.float32)
    naive[(m, mytriton.cdiv(n, 16))](a, b, c, n, K=k, BLOCK=16)
    np.testing.assert_array_equal(c, a @ b)

    c[...] = 0
    _, _, source = tiled[mytriton.cdiv(m, 4), mytriton.cdiv(n, 16)](a, b, c, m, n, k, BM=4, BN=16)
    np.testing.assert_array_equal(c, a @ b)
    print(source)


main()
