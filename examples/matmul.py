"""A matrix product, one tile a program, with masked edges; on CuPy arrays where a GPU is, otherwise interpreted.

python examples/matmul.py
"""

import numpy as np

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.runtime import gpu_available


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K):
        a = tl.load(a_ptr + rows * K + k, mask=rows < M, other=0.0)
        b = tl.load(b_ptr + k * N + columns, mask=columns < N, other=0.0)
        accumulator += a[:, None] * b[None, :]
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], accumulator, mask=mask)


def matmul(a, b, c, block=32):
    """c = a @ b for three contiguous matrices of f32."""
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, block), triton.cdiv(n, block))
    matmul_kernel[grid](a, b, c, m, n, k, BLOCK_M=block, BLOCK_N=block)
    return c


def main() -> None:
    xp = np
    if gpu_available():
        import cupy as xp
    generator = np.random.default_rng(0)
    m, n, k = 100, 70, 90
    a, b = (generator.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n)))
    found = matmul(xp.asarray(a), xp.asarray(b), xp.empty((m, n), xp.float32))
    found = found if xp is np else xp.asnumpy(found)

    a, b = a.astype(np.float64), b.astype(np.float64)
    # At most K + 1 roundings lie between a product and its sum, each of half a unit in the last place.
    bound = (k + 1) * np.finfo(np.float32).eps / 2 * (np.abs(a) @ np.abs(b))
    ratio = (np.abs(found - a @ b) / bound).max()
    print(f"{xp.__name__}: {m}x{k} @ {k}x{n}, largest error {ratio:.3f} of its bound")
    if not ratio <= 1:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
