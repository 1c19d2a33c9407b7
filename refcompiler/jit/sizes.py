"""Host arithmetic that launches need: how many blocks, which power of two."""

from __future__ import annotations


def cdiv(x: int, y: int) -> int:
    """x / y rounded up, for integers; compile-time values only inside kernels (there is tl.cdiv)."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n. Raises ValueError for n < 1."""
    if n < 1:
        raise ValueError(f"next_power_of_2 needs a positive integer, found {n!r}")
    return 1 << (n - 1).bit_length()
