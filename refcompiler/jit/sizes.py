"""Host arithmetic that launches need: how many blocks, which power of two."""

from __future__ import annotations

import operator


def cdiv(x: int, y: int) -> int:
    """x / y rounded up, for integers; compile-time values only inside kernels (there is tl.cdiv)."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n. Raises ValueError for n < 1, TypeError for what is no integer."""
    count = operator.index(n)
    if count < 1:
        raise ValueError(f"next_power_of_2 needs a positive integer, found {n!r}")
    return 1 << (count - 1).bit_length()
