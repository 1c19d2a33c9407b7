"""Integer expressions in the loop variable for lists of register numbers and offsets."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.emitters.cuda.expressions import Expr, binary
from refcompiler.layouts import pieces_of


def entry(values: Sequence[int], index: Expr) -> Expr | None:
    """``values[index]`` as arithmetic on the index; None where the values follow no such rule."""
    if index.text.isdigit():
        return _number(values[int(index.text)])
    step = values[1] - values[0]
    if all(v == values[0] + i * step for i, v in enumerate(values)):
        return _plus(_times(index, step), values[0])
    return _bitwise(values, index)


def _number(value: int) -> Expr:
    return Expr(str(value), 16 if value >= 0 else 15)


def _times(index: Expr, factor: int) -> Expr:
    return index if factor == 1 else binary(_number(factor), "*", index)


def _plus(x: Expr, offset: int) -> Expr:
    if offset < 0:
        return binary(x, "-", _number(-offset))
    return binary(x, "+", _number(offset)) if offset else x


def _bitwise(values: Sequence[int], index: Expr) -> Expr | None:
    """Each bit of the index moves the value by a constant, without carries."""
    count, start = len(values), values[0]
    if count & (count - 1) or min(values) < 0:
        return None
    bases = [values[1 << bit] ^ start for bit in range(count.bit_length() - 1)]
    span = 0
    for base in bases:
        if span & base:
            return None
        span |= base
    for i, value in enumerate(values):
        expected = start
        for bit, base in enumerate(bases):
            expected ^= base if i >> bit & 1 else 0
        if value != expected:
            return None
    total: Expr | None = None
    for shift, mask, multiplier in reversed(pieces_of(bases)):
        part = binary(index, "/", _number(1 << shift)) if shift else index
        if count >> shift != mask + 1:
            part = binary(part, "%", _number(mask + 1))
        part = binary(part, "*", _number(multiplier)) if multiplier != 1 else part
        total = part if total is None else binary(total, "+", part)
    if total is None:
        return _number(start)
    return binary(total, "^", _number(start)) if start & span else _plus(total, start)
