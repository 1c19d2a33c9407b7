"""Boxes of tensors, as asynchronous copies of a GPU lay them out in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oracles.registry import OracleError, Refs, oracle

Inputs = Mapping[str, np.ndarray]
Params = Mapping[str, Any]
CHUNK, LINE = 16, 128  # bytes that move together; bytes after which the places of chunks change


@oracle(inputs="x", params="height width row column m n swizzle?")
def load_box(inputs: Inputs, params: Params) -> Refs:
    """Rows `row` to `row + height` and columns `column` to `column + width` of x[:m, :n], 0 outside, row after row.

    Chunk c of 16 bytes in a row of `swizzle` bytes that begins at byte b lies where chunk c ^ (b / 128) % (chunks of a
    row) would lie (PTX ISA, "Swizzling Modes").
    """
    x = inputs["x"]
    height, width, swizzle = params["height"], params["width"], params.get("swizzle", 0)
    if swizzle and width * x.itemsize != swizzle:
        raise OracleError(f"rows of {width * x.itemsize} bytes with a swizzle of {swizzle}")
    box = np.zeros((height, width), x.dtype)
    for i in range(height):
        for j in range(width):
            row, column = params["row"] + i, params["column"] + j
            if 0 <= row < params["m"] and 0 <= column < params["n"]:
                box[i, j] = x[row, column]
    if swizzle:
        per_chunk, chunks = CHUNK // x.itemsize, swizzle // CHUNK
        rows = box.reshape(height, chunks, per_chunk)
        box = np.stack([rows[i, np.arange(chunks) ^ (i * swizzle // LINE % chunks)] for i in range(height)])
    return {"out": box.reshape(-1)}
