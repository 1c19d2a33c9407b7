"""Which means serve a matrix product: fused multiply-add in every thread, or the tensor cores."""

from __future__ import annotations

from typing import Any

from refcompiler.dialects.tile.dot import Dot


def dot_strategy(op: Dot, num_warps: int, target: Any = None) -> str:
    """ "fma": any dtype, shape and target. ``target`` is None where none was chosen."""
    return "fma"
