"""Whether arrays have bytes in common, which kernels compiled for arrays that do not must know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from refcompiler.runtime.arrays import ArrayInfo, describe


def span(info: ArrayInfo) -> tuple[int, int]:
    """The addresses from the lowest byte of an array to behind its highest one."""
    if not info.nbytes or 0 in info.shape:
        return info.ptr, info.ptr
    size = info.nbytes // _count(info)
    reach = [(extent - 1) * stride * size for extent, stride in zip(info.shape, info.strides, strict=True)]
    return info.ptr + sum(r for r in reach if r < 0), info.ptr + size + sum(r for r in reach if r > 0)


def _count(info: ArrayInfo) -> int:
    count = 1
    for extent in info.shape:
        count *= extent
    return count


def overlap(pairs: Iterable[tuple[str, str]], infos: Mapping[str, ArrayInfo]) -> bool:
    """Whether the arrays of any pair of names share bytes."""
    for first, second in pairs:
        (a, b), (c, d) = span(infos[first]), span(infos[second])
        if a < d and c < b:
            return True
    return False


def apart(first: Any, second: Any) -> bool:
    """Whether two arrays of any library share no byte."""
    return not overlap([("a", "b")], {"a": describe(first), "b": describe(second)})
