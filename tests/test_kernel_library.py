"""The kernel library: the sources of the features, and the launching functions against NumPy in f64."""

import inspect
import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from ruamel.yaml import YAML

from refcompiler.errors import LaunchError
from refcompiler.kernels import elementwise, layer_norm, reduce, rms_norm, rows, softmax, transpose
from refcompiler.kernels.rows import extent, row_configuration

SPEC = Path(__file__).parents[1] / "spec"
SOURCES = {
    "softmax": (softmax.softmax_kernel, softmax.softmax_rows_kernel, softmax.softmax_long_kernel),
    "layer_norm": (layer_norm.layer_norm_kernel, layer_norm.layer_norm_rows_kernel, layer_norm.layer_norm_long_kernel),
    "rms_norm": (rms_norm.rms_norm_kernel, rms_norm.rms_norm_rows_kernel, rms_norm.rms_norm_long_kernel),
    "transpose": (transpose.transpose_kernel,),
    "reduce": (reduce.row_sum_kernel, reduce.column_sum_kernel, reduce.sum_kernel),
}
RNG = np.random.default_rng(0)
TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(ml_dtypes.bfloat16): 4e-3}  # of the largest value


@pytest.mark.parametrize("feature", SOURCES)
def test_the_feature_has_the_source_of_the_library(feature):
    loaded = YAML(typ="safe").load((SPEC / "features" / "kernels" / f"{feature}.yaml").read_text())
    programs = loaded["programs"].values()
    written = {p["source"].strip() for p in programs}
    assert written == {textwrap.dedent(inspect.getsource(kernel.fn)).strip() for kernel in SOURCES[feature]}


def matrix(m, n, dtype):
    return (RNG.normal(size=(m, n)) * 2 + 3).astype(dtype)


def wide(x):
    return np.asarray(x, np.float64)


def close(found, exact, dtype):
    return np.abs(wide(found) - exact).max() <= TOLERANCE[np.dtype(dtype)] * np.abs(exact).max()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "options",
    [{}, {"BLOCK": 64, "STEP": 32, "num_warps": 2}, {"ROWS": 2, "num_warps": 1, "num_ctas": 2}, {"PROGRAMS": 2}],
    ids=["held", "long", "looped", "programs"],
)
@pytest.mark.parametrize(("m", "n"), [(3, 100), (2, 256), (0, 5), (2, 1)])
def test_rows(dtype, options, m, n):
    x, weight, bias = matrix(m, n, dtype), *matrix(2, n, dtype)
    wide_x, out = wide(x), np.empty_like(x)
    if not m:
        assert softmax.softmax(x, out, **options) is out
        return
    e = np.exp(wide_x - wide_x.max(1, keepdims=True))
    assert close(softmax.softmax(x, out, **options), e / e.sum(1, keepdims=True), dtype)
    normal = (wide_x - wide_x.mean(1, keepdims=True)) / np.sqrt(wide_x.var(1, keepdims=True) + 1e-5)
    exact = normal * wide(weight) + wide(bias)
    assert close(layer_norm.layer_norm(x, weight, bias, out, **options), exact, dtype)
    exact = wide_x / np.sqrt(np.square(wide_x).mean(1, keepdims=True) + 1e-6) * wide(weight)
    assert close(rms_norm.rms_norm(x, weight, out, **options), exact, dtype)


@pytest.mark.parametrize(
    ("multiprocessors", "chosen", "running"),
    [
        (132, {"RESIDENT": 4, "num_ctas": 8}, 61),  # an H200, whose GPCs have 16 or 18 multiprocessors
        (132, {"RESIDENT": 1, "num_ctas": 4}, 30),
        (132, {"RESIDENT": 1, "num_ctas": 2}, 66),
        (114, {"RESIDENT": 2, "num_ctas": 8}, 26),
        (16, {"RESIDENT": 1}, 16),
        (4, {"RESIDENT": 1, "num_ctas": 8}, 1),
        (132, {"PROGRAMS": 5}, 5),
        (132, {"ROWS": 4}, 250),
        (132, {}, 0),
    ],
)
def test_programs_that_run_at_a_time(monkeypatch, multiprocessors, chosen, running):
    monkeypatch.setattr(rows, "multiprocessors", lambda device: multiprocessors)
    x = np.empty((1000, 8), np.float32)
    assert rows.programs(dict(chosen), 1000, x) == running
    assert rows.programs(dict(chosen), 3, x) <= 3
    left = dict(chosen)
    rows.programs(left, 1000, x)
    assert left.keys() <= {"num_ctas"}


def test_rows_in_place():
    """Where the result replaces the rows none is copied ahead: a program works on one."""
    x, table = matrix(5, 512, np.float32), {(4, 512): {"ROWS": 2}}
    assert "ROWS" in row_configuration(512, x, np.empty_like(x), {}, {}, table)
    assert "ROWS" not in row_configuration(512, x, x, {}, {}, table)
    assert "ROWS" not in row_configuration(510, x, np.empty_like(x), {}, {}, table)  # rows that are not copied
    e = np.exp(wide(x) - wide(x).max(1, keepdims=True))
    assert close(softmax.softmax(x, x, ROWS=2, backend="simt"), e / e.sum(1, keepdims=True), np.float32)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("m", "n", "rows"), [(3, 100, 32), (400, 16, 16), (1, 1, 32)])
def test_sums(dtype, m, n, rows):
    x = matrix(m, n, dtype)
    assert close(reduce.row_sum(x, np.empty(m, np.float32)), wide(x).sum(1), np.float32)
    assert close(reduce.column_sum(x, np.empty(n, np.float32), ROWS=rows, BLOCK=16), wide(x).sum(0), np.float32)
    assert close(reduce.total_sum(x, np.empty(1, np.float32), BLOCK=256), wide(x).sum(), np.float32)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
def test_moves(dtype):
    x, y = matrix(37, 150, dtype), matrix(37, 150, dtype)
    assert np.array_equal(transpose.transpose(x, np.empty((150, 37), dtype)), x.T)
    assert np.array_equal(elementwise.copy(x, np.empty_like(x), BLOCK=256), x)
    if dtype != np.int8:
        assert np.array_equal(elementwise.add(x, y, np.empty_like(x), BLOCK=256), x + y)


X, ROW = np.ones((4, 6), np.float32), np.ones(6, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax.softmax(X.T, np.empty_like(X.T)), r"x has shape \(6, 4\) and strides \(1, 6\), .* contiguous"),
        (lambda: softmax.softmax(X, np.empty((3, 6), np.float32)), r"out has shape \(3, 6\), expected 24 elements"),
        (
            lambda: softmax.softmax(X.astype(np.int32), X.astype(np.int32)),
            "x has dtype i32; expected one of f16, bf16, f32",
        ),
        (lambda: softmax.softmax([1.0], [0.0]), "expected an array, found list"),
        (lambda: layer_norm.layer_norm(X, ROW, ROW[:5], X.copy()), r"bias has shape \(5,\), expected 6 elements"),
        (lambda: layer_norm.layer_norm(X, ROW, ROW, X[:, ::-1]), r"out has shape \(4, 6\) and strides \(6, -1\)"),
        (lambda: rms_norm.rms_norm(X, np.ones(7, np.float32), X.copy()), r"weight has shape \(7,\), expected 6"),
        (lambda: rms_norm.rms_norm(X.astype(float), ROW, X.copy()), "x has dtype f64"),
        (lambda: reduce.row_sum(X, np.empty(5, np.float32)), r"out has shape \(5,\), expected 4 elements"),
        (lambda: reduce.column_sum(X, np.empty(4, np.float32)), r"out has shape \(4,\), expected 6 elements"),
        (lambda: reduce.total_sum(X[::2], np.empty(1, np.float32)), r"x has shape \(2, 6\) and strides \(12, 1\)"),
        (lambda: elementwise.copy(X, np.empty((3, 6), np.float32)), r"out has shape \(3, 6\), expected 24"),
        (lambda: elementwise.add(X, ROW, np.empty_like(X)), r"y has shape \(6,\), expected 24"),
        (lambda: transpose.transpose(ROW, np.empty_like(ROW)), r"x has shape \(6,\), expected a matrix"),
        (lambda: transpose.transpose(X, np.empty((6, 5), np.float32)), r"out has shape \(6, 5\), expected 24 elements"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(call, message):
    with pytest.raises(LaunchError, match=message) as caught:
        call()
    assert caught.value.span is None


@pytest.mark.parametrize("option", [{"ROWS": -1}, {"PROGRAMS": 1.5}, {"RESIDENT": True}])
def test_options_that_count_nothing_are_refused(option):
    x = np.ones((2, 64), np.float32)
    out = np.zeros_like(x)
    with pytest.raises(LaunchError, match=f"{next(iter(option))} is a number of rows, programs or blocks"):
        rms_norm.rms_norm(x, x[0], out, **option)
    assert not out.any()


def test_rows_without_columns():
    x = np.empty((3, 0), np.float32)
    assert softmax.softmax(x, np.empty_like(x)).shape == (3, 0)
    assert (reduce.row_sum(x, np.full(3, 7, np.float32)) == 0).all()
    assert (reduce.column_sum(x.T, np.full(3, 7, np.float32)) == 0).all()
    assert (reduce.total_sum(x, np.full(1, 7, np.float32)) == 0).all()


def test_rows_that_fill_their_block_are_read_without_masks():
    signature = "x:*f32:16,out:*f32:16,stride:i32:16"
    kernel = softmax.softmax_kernel.compile(signature, {"n": 1024, "BLOCK": 1024})
    assert "cmp_lt" not in kernel.asm["tile_opt"] and "none, none" in kernel.asm["tile_opt"]
    assert extent(1024, 1024).value == 1024 and extent(1000, 1024) == 1000
    assert extent(4096, 1024).value == 4096 and extent(3072, 1024) == 3072  # no kernel for each number of columns


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_a_limit_on_registers_is_kept(backend):
    signature = "x:*f32:16,weight:*f32:16,bias:*f32:16,out:*f32:16,stride:i32:16,n:i32:16,epsilon:f32"
    free, limited = (
        layer_norm.layer_norm_kernel.compile(signature, {"BLOCK": 8192}, backend=backend, num_warps=16, maxnreg=most)
        for most in (None, 64)
    )
    assert limited.resources["regs"] <= 64 < free.resources["regs"]
    with pytest.raises(LaunchError, match="maxnreg is a positive integer"):
        layer_norm.layer_norm_kernel.compile(signature, {"BLOCK": 8192}, maxnreg=0)
