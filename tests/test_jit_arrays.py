"""Arrays and numbers as arguments on the host: views of every kind, overlaps, and integers of every width."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import LaunchError, RunError


@triton.jit
def copy2d(x, y, rows, columns, xr, xc, yr, yc, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.arange(0, BM)[:, None]
    j = tl.arange(0, BN)[None, :]
    m = (i < rows) & (j < columns)
    tl.store(y + i * yr + j * yc, tl.load(x + i * xr + j * xc, mask=m), mask=m)


@triton.jit
def bump(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def put(out, n):
    tl.store(out, n)


@pytest.fixture(params=["interp", "simt"])
def backend(request) -> str:
    return request.param


def strides(x: np.ndarray) -> tuple[int, int]:
    row, column = (s // x.itemsize for s in x.strides)
    return row, column


BASE = np.arange(96, dtype=np.float32).reshape(8, 12)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.T,
        np.asfortranarray,
        lambda x: x[::2, 1::3],
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: x[::-2, ::-5],
        lambda x: x.T[1:, ::-1],
        lambda x: x[3:4, 5:6],
        lambda x: np.broadcast_to(x[2], (4, 12)),
        lambda x: x[2:2],
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "i1", "f8", ml_dtypes.bfloat16])
def test_any_view_is_read_and_written_by_its_strides(backend, view, dtype):
    x = view(BASE.astype(dtype))
    rows, columns = x.shape
    dense = np.zeros(x.shape, dtype)
    copy2d[(1,)](x, dense, rows, columns, *strides(x), *strides(dense), BM=16, BN=16, backend=backend)
    assert (dense == x).all()
    if x.flags.writeable:
        whole = np.full((8, 12), 99).astype(dtype)
        target, untouched = view(whole), whole.copy()
        if np.shares_memory(target, whole):
            copy2d[(1,)](dense, target, rows, columns, *strides(dense), *strides(target), 16, 16, backend=backend)
            assert (target == x).all()
            view(untouched)[...] = x
            assert (whole == untouched).all()


def test_arrays_without_axes(backend):
    x, y = np.array(5.0), np.array(0.0)
    bump[(1,)](x, y, 1, BLOCK=4, backend=backend)
    assert y == 6
    with pytest.raises(RunError):
        bump[(1,)](x, y, 2, BLOCK=4, backend=backend)


def test_overlapping_arguments(backend):
    whole = np.arange(10, dtype=np.int32)
    bump[(1,)](whole[:-1], whole[1:], 9, BLOCK=16, backend=backend)
    assert whole.tolist() == [0, *range(1, 10)]  # all is loaded before any is stored: x[i + 1] = x[i] + 1
    bump[(1,)](whole, whole, 10, BLOCK=16, backend=backend)
    assert whole.tolist() == list(range(1, 11))
    halves = whole.view(np.int16)
    bump[(1,)](halves, halves, 20, BLOCK=32, backend=backend)
    assert (whole - np.arange(1, 11) == 1 + (1 << 16)).all()


def test_outside_of_a_view_is_out_of_bounds_though_memory_is_there(backend):
    whole = np.arange(32, dtype=np.int32)
    for x, n in ((whole[4:20:4], 14), (whole[:3], 4), (whole[8:4:-1], 2)):
        before = whole.copy()
        with pytest.raises(RunError):
            bump[(1,)](x, whole[20:], n, BLOCK=16, backend=backend)
        assert (whole == before).all()


def test_a_read_only_array_is_an_error_only_where_it_is_written():
    x, y = np.arange(4), np.zeros(4, np.int64)
    x.flags.writeable = False
    bump[(1,)](x, y, 4, BLOCK=4)
    assert y.tolist() == [1, 2, 3, 4]
    with pytest.raises(LaunchError) as caught:
        bump[(1,)](y, x, 4, BLOCK=4)
    assert caught.value.id == "program.arguments#E5"


@pytest.mark.parametrize(
    ("array", "id", "words"),
    [
        (np.zeros(3, ">f4"), "E8", "byte order"),
        (np.zeros(3, "i4,f4"), "E8", "argument `x`"),
        (np.zeros(3, "M8[s]"), "E8", "datetime64"),
        (np.array([None]), "E8", "object"),
        (np.zeros(3, [("a", "i4"), ("b", "i1")])["a"], "E9", "5 bytes apart"),
    ],
)
def test_arrays_that_no_kernel_can_read(array, id, words):
    with pytest.raises(LaunchError, match=words) as caught:
        bump[(1,)](array, np.zeros(4), 1, BLOCK=4)
    assert caught.value.id == f"program.arguments#{id}"


@pytest.mark.parametrize(
    "value",
    [
        *(kind(v) for kind in (np.int8, np.int16, np.int32, np.int64) for v in (-5, 16, np.iinfo(kind).max)),
        *(kind(v) for kind in (np.uint8, np.uint16, np.uint32) for v in (1, np.iinfo(kind).max)),
        *(2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**40, 2**63 - 1, -(2**63)),
        *(np.int64(2**40), np.int64(-(2**63)), True, np.True_),
    ],
    ids=repr,
)
def test_integers_arrive_whole_first_and_again(backend, value):
    for _ in range(2):
        out = np.zeros(1, np.int64)
        put[(1,)](out, value, backend=backend)
        assert out[0] == value


def test_unsigned_integers_of_64_bits(backend):
    for value in (2**63, 2**64 - 1, np.uint64(2**64 - 1)):
        out = np.zeros(1, np.uint64)
        put[(1,)](out, value, backend=backend)
        assert int(out[0]) == int(value)
    for value in (2**64, -(2**63) - 1, 10**30):
        with pytest.raises(LaunchError, match="64 bits") as caught:
            put[(1,)](np.zeros(1, np.uint64), value, backend=backend)
        assert caught.value.id == "program.arguments#E3"


@pytest.mark.parametrize("value", [0.1, 1e300, -np.inf, np.float16(0.1), np.float32(0.1), np.float64(0.1)], ids=repr)
def test_floats_are_rounded_to_f32_once(backend, value):
    out = np.zeros(1)
    put[(1,)](out, value, backend=backend)
    with np.errstate(over="ignore"):
        assert out[0] == np.float32(value)
