"""The program model and creation of blocks: program ids, grid extents, arange, full, zeros."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.casts import convert
from oracles.formats import format_of
from oracles.registry import OracleError, Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]


def extents(value: Any, what: str = "shape") -> tuple[int, ...]:
    """A shape or grid: an integer, a sequence of integers, or text of one (``"4, 2"``)."""
    if isinstance(value, str):
        value = ast.literal_eval(value)
    items = tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else (value,)
    if not all(isinstance(i, (int, np.integer)) and i >= 0 for i in items):
        raise OracleError(f"{what} {value!r}; expected non-negative integers")
    return tuple(int(i) for i in items)


def _grid(params: Params) -> tuple[int, int, int]:
    grid = extents(params["grid"], "grid")
    if not 1 <= len(grid) <= 3:
        raise OracleError(f"grid {grid} has {len(grid)} axes; expected 1 to 3")
    x, y, z = grid + (1,) * (3 - len(grid))
    return x, y, z


def _axis(params: Params) -> int:
    axis = params.get("axis", 0)
    if axis not in (0, 1, 2):
        raise OracleError(f"program axis {axis!r}; expected 0, 1 or 2")
    return int(axis)


@oracle(params="grid axis?")
def program_id(inputs: Inputs, params: Params) -> Refs:
    """i32 program_id(axis) of every program, by linear id pid0 + grid0 (pid1 + grid1 pid2). axis is 0 if left out."""
    x, y, z = _grid(params)
    coordinates = np.indices((z, y, x))[::-1]
    return {"out": coordinates[_axis(params)].ravel().astype(np.int32)}


@oracle(params="grid axis?")
def num_programs(inputs: Inputs, params: Params) -> Refs:
    """i32 num_programs(axis), once for every program."""
    grid = _grid(params)
    return {"out": np.full(int(np.prod(grid)), grid[_axis(params)], np.int32)}


@oracle(params="start end")
def arange(inputs: Inputs, params: Params) -> Refs:
    """i32 values start, start + 1, ..., end - 1."""
    return {"out": np.arange(params["start"], params["end"], dtype=np.int32)}


@oracle(params="shape value dtype")
def full(inputs: Inputs, params: Params) -> Refs:
    """A block of `shape` filled with `value` converted to `dtype`; an integer value wraps."""
    fmt, value = format_of(params["dtype"]), params["value"]
    one = np.asarray(value)
    if isinstance(value, int) and not isinstance(value, bool) and not fmt.is_float:
        one = np.asarray(value & (2**64 - 1), np.uint64)
    return {"out": np.full(extents(params["shape"]), convert(one, fmt), fmt.dtype)}


@oracle(params="shape dtype")
def zeros(inputs: Inputs, params: Params) -> Refs:
    """A block of `shape` of (positive) zeros."""
    return {"out": np.zeros(extents(params["shape"]), format_of(params["dtype"]).dtype)}
