"""Where wgmma finds the elements of a matrix: the descriptor's fields and swizzle, as PTX and CUTLASS describe them."""

from __future__ import annotations

import numpy as np

SWIZZLE_BYTES = {1: 128, 2: 64, 3: 32}  # by the code in bits 62 and 63


def matrix_bytes(
    start: int, high: int, low: int, extent: int, depth: int, element_bytes: int, transposed: bool
) -> np.ndarray:
    """The byte of shared memory at which element (i, k) begins, as an array (extent, depth); i counts along m or n.

    ``high`` and ``low`` are the halves of a descriptor without its address, which is ``start``. Strides are those of
    the canonical layouts of CUTLASS (mma_traits_sm90_gmma.hpp); then address bits 4 and up are xor-ed by bits 7 and up.
    """
    group, row = (high & 0x3FFF) << 4, SWIZZLE_BYTES[high >> 30]  # the stride byte offset; the bytes of a row
    block = (low >> 16 & 0x3FFF) << 4  # the leading byte offset
    i, k = np.arange(extent)[:, None], np.arange(depth)[None, :]
    if transposed:
        along = i * element_bytes
        linear = along % row + along // row * block + k % 8 * row + k // 8 * group
    else:
        linear = i % 8 * row + i // 8 * group + k * element_bytes
    address = start + linear
    return address ^ (address >> 7 & row // 16 - 1) << 4
