"""Contents of arguments that trials must not spoil: zeroed, or kept and put back; arrays of NumPy, CuPy and torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def zero(names: Sequence[str], arguments: Mapping[str, Any]) -> None:
    """Set every element of these arrays to zero; None stays."""
    for name in names:
        array = arguments.get(name)
        if array is not None:
            array.zero_() if hasattr(array, "zero_") else array.fill(0)


def kept(names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of these arrays, by name; None has none."""
    found = {name: arguments.get(name) for name in names}
    return {n: a.clone() if hasattr(a, "clone") else a.copy() for n, a in found.items() if a is not None}


def put_back(copies: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Give arrays the contents of their copies."""
    for name, copy in copies.items():
        array = arguments[name]
        if hasattr(array, "copy_"):
            array.copy_(copy)
        else:
            array[...] = copy
