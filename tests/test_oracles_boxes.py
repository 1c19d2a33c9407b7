"""Boxes: zeros outside, and the swizzle against the table of the PTX ISA."""

import numpy as np
import pytest

from oracles.boxes import load_box
from oracles.registry import OracleError


def test_a_box_without_swizzle_is_rows_of_the_array_and_zeros():
    x = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
    found = load_box({"x": x}, {"height": 3, "width": 3, "row": -1, "column": 2, "m": 2, "n": 4})["out"]
    assert found.tolist() == [0, 0, 0, 3, 4, 0, 7, 8, 0]


def test_chunks_change_places_as_ptx_says():
    # PTX ISA, tables of the swizzling modes: the chunk that lies at each place of the rows of 128 bytes
    chunks = np.arange(64).reshape(8, 8)
    x = np.repeat(chunks, 4, axis=1).astype(np.int32)
    params = {"height": 8, "width": 32, "row": 0, "column": 0, "m": 8, "n": 32}
    found = load_box({"x": x}, {**params, "swizzle": 128})["out"].reshape(8, 32)[:, ::4] % 8
    assert found[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7] and found[1].tolist() == [1, 0, 3, 2, 5, 4, 7, 6]
    assert found[2].tolist() == [2, 3, 0, 1, 6, 7, 4, 5] and found[7].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    half = load_box({"x": x}, {**params, "width": 16, "swizzle": 64})["out"].reshape(4, 32)[:, ::4] % 8
    assert half.tolist() == [[0, 1, 2, 3] * 2, [1, 0, 3, 2] * 2, [2, 3, 0, 1] * 2, [3, 2, 1, 0] * 2]
    quarter = load_box({"x": x}, {**params, "width": 8, "swizzle": 32})["out"].reshape(2, 32)[:, ::4] % 8
    assert quarter.tolist() == [[0, 1] * 4, [1, 0] * 4]


def test_rows_are_as_long_as_their_swizzle():
    with pytest.raises(OracleError, match="rows of 64 bytes with a swizzle of 128"):
        params = {"height": 1, "width": 16, "row": 0, "column": 0, "m": 1, "n": 16, "swizzle": 128}
        load_box({"x": np.zeros((1, 16), np.float32)}, params)
