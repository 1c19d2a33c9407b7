"""A sparse matrix times a vector, and a bitonic sort: loops whose bounds are loaded, and blocks seen as pairs.

python examples/sparse_matvec.py
"""

import numpy as np

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.runtime import gpu_available


@triton.jit
def sparse_matvec_kernel(starts_ptr, columns_ptr, values_ptr, x_ptr, y_ptr, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    start = tl.load(starts_ptr + row)
    stop = tl.load(starts_ptr + row + 1)
    total = 0.0
    for first in range(start, stop, BLOCK_SIZE):  # no round for an empty row
        places = first + tl.arange(0, BLOCK_SIZE)
        mask = places < stop
        columns = tl.load(columns_ptr + places, mask=mask, other=0)
        values = tl.load(values_ptr + places, mask=mask, other=0.0)
        total += tl.sum(values * tl.load(x_ptr + columns), axis=0)
    tl.store(y_ptr + row, total)


def sparse_matvec(starts, columns, values, x, y):
    """y = A x for the compressed rows of A: row r holds the places starts[r] to starts[r + 1] of columns and values."""
    sparse_matvec_kernel[(len(y),)](starts, columns, values, x, y, BLOCK_SIZE=32)
    return y


@triton.jit
def compare_and_swap(keys, ascending, DISTANCE: tl.constexpr, N: tl.constexpr):
    """Order every key and its partner at DISTANCE: the block is seen as pairs of stretches."""
    pairs = tl.reshape(keys, (N // (2 * DISTANCE), 2, DISTANCE))
    low = tl.min(pairs, axis=1, keep_dims=True)
    high = tl.max(pairs, axis=1, keep_dims=True)
    first = (tl.arange(0, 2) == 0)[None, :, None]
    up = tl.reshape(ascending, (N // (2 * DISTANCE), 2, DISTANCE))
    return tl.reshape(tl.where(first == up, low, high), (N,))


@triton.jit
def sort_kernel(keys_ptr, N: tl.constexpr, LOG_N: tl.constexpr):
    places = tl.arange(0, N)
    keys = tl.load(keys_ptr + places)
    for size in tl.static_range(1, LOG_N + 1):
        for step in tl.static_range(size - 1, -1, -1):
            keys = compare_and_swap(keys, (places >> size) & 1 == 0, 1 << step, N)
    tl.store(keys_ptr + places, keys)


def main() -> None:
    xp = np
    if gpu_available():
        import cupy as xp
    generator = np.random.default_rng(0)
    dense = generator.integers(-4, 5, (300, 200)) * (generator.random((300, 200)) < 0.1)
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(np.int32)
    columns, values = np.nonzero(dense)[1].astype(np.int32), dense[dense != 0].astype(np.float32)
    x = generator.integers(-4, 5, 200).astype(np.float32)
    y = sparse_matvec(*(xp.asarray(a) for a in (starts, columns, values, x)), xp.empty(300, xp.float32))
    right = np.array_equal(y if xp is np else xp.asnumpy(y), dense @ x)  # whole numbers: exact in any order

    keys = xp.asarray(generator.integers(-1000, 1000, 256).astype(np.int32))
    expected = xp.sort(keys)
    sort_kernel[(1,)](keys, N=256, LOG_N=8)
    right = right and bool((keys == expected).all())
    print(f"{xp.__name__}: 300x200 sparse product and 256 sorted keys {'are right' if right else 'DIFFER'}")
    if not right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
