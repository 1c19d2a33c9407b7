"""The launching function of matrix products: layouts, batches, splits and configurations, on NumPy arrays."""

import ml_dtypes
import numpy as np
import pytest

from refcompiler.errors import LaunchError
from refcompiler.kernels import matmul as library
from refcompiler.kernels import operands
from refcompiler.kernels.matmul import matmul
from refcompiler.kernels.operands import operand
from refcompiler.kernels.tiles import configuration, narrow
from refcompiler.runtime import describe

SMALL = {"BM": 16, "BN": 32, "BK": 32, "num_warps": 4}
RNG = np.random.default_rng(0)


def whole(shape, dtype):
    return RNG.integers(-4, 5, shape).astype(dtype)


def product(a, b):
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize("dtype, result", [(np.float16, np.float16), (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
                                           (np.float32, np.float32), (np.int8, np.int32)])  # fmt: skip
@pytest.mark.parametrize("shape", [(40, 48, 64), (33, 17, 50), (1, 1, 1)])
def test_dtypes_and_sizes(dtype, result, shape):
    M, N, K = shape
    a, b = whole((M, K), dtype), whole((K, N), dtype)
    out = matmul(a, b, **SMALL)
    assert out.dtype == result
    assert (out.astype(np.float64) == product(a, b)).all()


def held(x, turned):
    """The same matrix with its columns contiguous."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if turned else x


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("turn_c", [False, True])
def test_layouts(batch, turn_a, turn_b, turn_c):
    a, b = (held(whole((*batch, *shape), np.float16), t) for shape, t in (((24, 40), turn_a), ((40, 56), turn_b)))
    out = held(np.full((*batch, 24, 56), 7, np.float32), turn_c)
    assert matmul(a, b, out, **SMALL) is out
    assert (out == product(a, b)).all()


def test_gaps_between_elements_and_a_shared_operand():
    a, b = whole((3, 20, 64), np.float16)[:, :, ::2], whole((32, 24), np.float16)[::-1]
    assert (matmul(a, b, **SMALL) == product(a, b)).all()


def test_unaligned_operands():
    a, b = whole(20 * 32 + 1, np.float16)[1:].reshape(20, 32), whole((32, 24), np.float16)
    assert not operand(describe(a), "a").is_box
    assert (matmul(a, b, **SMALL) == product(a, b)).all()


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("splits", [2, 5])
def test_splits(batch, splits):
    a, b = whole((*batch, 16, 160), ml_dtypes.bfloat16), whole((*batch, 160, 40), ml_dtypes.bfloat16)
    bias = whole((40,), ml_dtypes.bfloat16)
    out = matmul(a, b, np.empty((*batch, 16, 40), np.float32), bias, "relu", SPLITS=splits, **SMALL)
    assert (out == np.maximum(product(a, b) + bias.astype(float), 0)).all()


def test_bias_and_activation():
    a, b, bias = whole((24, 32), np.float16), whole((32, 40), np.float16), whole((40,), np.float16)
    out = matmul(a, b, np.empty((24, 40), np.float32), bias, "silu", **SMALL)
    x = product(a, b) + bias
    assert np.allclose(out, x / (1 + np.exp(-x)), rtol=1e-5)


def test_nothing_to_add_up_and_nothing_to_write():
    bias = whole((24,), np.float16)
    out = matmul(np.empty((20, 0), np.float16), np.empty((0, 24), np.float16), bias=bias, activation="relu", **SMALL)
    assert (out == np.maximum(bias, 0)).all()
    assert matmul(np.empty((0, 16), np.float16), np.empty((16, 24), np.float16)).shape == (0, 24)


@pytest.mark.parametrize("a, b, out, options, message", [
    ((4, 8), (9, 4), None, {}, "K or batches differ"),
    ((2, 4, 8), (3, 8, 4), None, {}, "K or batches differ"),
    ((8,), (8, 4), None, {}, "a has shape"),
    ((4, 8), (8, 4), (4, 5), {}, "out has shape"),
    ((4, 8), (8, 4), None, {"activation": "tanh"}, "expected one of none, relu"),
    ((4, 8), (8, 4), None, {"precision": "fp32"}, "precision 'fp32'; expected one of tf32, tf32x3, ieee"),
    ((4, 8), (8, 4), None, {"bias": np.zeros((1, 4), np.float16)}, r"the bias has shape \(1, 4\), expected \(4,\)"),
    ((4, 8), (8, 4), None, {"bias": np.zeros(8, np.float16)[::2]}, "the bias has a stride of 2"),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(a, b, out, options, message):
    arrays = [np.zeros(shape, np.float16) if shape else None for shape in (a, b, out)]
    with pytest.raises(LaunchError, match=message):
        matmul(*arrays, **options)


@pytest.mark.parametrize("a, b, message", [
    (ml_dtypes.bfloat16, np.float32, "a and b have dtypes bf16 and f32; expected one dtype"),
    (np.int8, np.float16, "a and b have dtypes i8 and f16"),
    (np.float64, np.float64, "a has dtype f64; expected one of f16, bf16, f32, i8, "),
    (np.float16, np.int32, "b has dtype i32; expected one of"),
])  # fmt: skip
def test_dtypes_that_do_not_fit_are_refused(a, b, message):
    with pytest.raises(LaunchError, match=message):
        matmul(np.zeros((16, 32), a), np.zeros((32, 16), b))


def test_two_dtypes_of_float8_are_multiplied():
    a, b = np.full((16, 32), 1.5, ml_dtypes.float8_e4m3fn), np.full((32, 16), 2, ml_dtypes.float8_e5m2)
    assert (matmul(a, b, np.empty((16, 16), np.float32), **SMALL) == 96).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("item_bytes", [1, 2, 4])
def test_configurations_are_legal_and_fill_the_gpu(arch, item_bytes):
    for M, N, K in [(8192, 8192, 8192), (1024, 1024, 1024), (16, 8192, 8192), (8192, 8, 4096), (1, 1, 1)]:
        c = configuration(M, N, K, 1, item_bytes, arch, 132, "tf32")
        assert all(c[n] & (c[n] - 1) == 0 for n in ("BM", "BK", "num_warps"))
        assert ("profile" in c) == (c["BN"] & (c["BN"] - 1) != 0)
        assert c["BK"] >= 16 and 1 <= c["SPLITS"] <= max(1, K // 512)
    big, small = (configuration(n, n, n, 1, 2, "sm_90a", 132, "tf32") for n in (8192, 1024))
    assert (big["BM"], big["BN"], big["BK"], big["num_warps"]) == (128, 256, 64, 8)
    assert small["BM"] * small["BN"] < big["BM"] * big["BN"]
    between = configuration(3072, 3072, 3072, 1, 2, "sm_90a", 132, "tf32")
    assert (between["BM"], between["BN"], between["profile"]) == (128, 192, "ext.any_extent")
    by_pointers = configuration(3072, 3072, 3072, 1, 2, "sm_90a", 132, "tf32", boxes=False)
    assert "profile" not in by_pointers and by_pointers["BN"] & (by_pointers["BN"] - 1) == 0
    assert configuration(512, 512, 16384, 1, 2, "sm_90a", 132, "tf32")["SPLITS"] == 8
    assert configuration(512, 512, 16384 + 64, 1, 2, "sm_90a", 132, "tf32")["SPLITS"] == 1  # parts are equal
    skinny = configuration(16, 8192, 8192, 1, 2, "sm_90a", 132, "tf32")
    assert skinny["BM"] == 16 and skinny["SPLITS"] * (8192 // skinny["BN"]) >= 2 * 132


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("shape", [(16, 4288), (3, 4320), (4288, 24)])
def test_few_rows_or_columns(batch, shape):
    """The defaults turn a product of few rows round, so that warpgroups read the larger operand."""
    M, N = shape
    a, b = whole((*batch, M, 32), ml_dtypes.bfloat16), whole((*batch, 32, N), ml_dtypes.bfloat16)
    bias = whole((N,), ml_dtypes.bfloat16)
    out = matmul(a, b, np.empty((*batch, M, N), np.float32), bias, "relu")
    assert (out == np.maximum(product(a, b) + bias.astype(float), 0)).all()


@pytest.mark.parametrize("dtype, precision", [(np.float32, "tf32"), (np.float32, "ieee"), (np.int8, "ieee")])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("turn_b", [False, True])
def test_operands_that_lie_the_other_way_are_copied(monkeypatch, dtype, precision, turn_a, turn_b):
    """Multiply-adds want rows of b and columns of a, instructions of warpgroups on 8 and 32 bits what runs along K."""
    found = []
    true = operands.copied
    monkeypatch.setattr(operands, "copied", lambda x, *a: found.append(x.shape) or true(x, *a))
    monkeypatch.setattr(operands, "WORTH_A_COPY", 64)
    a, b = (held(x, t) for x, t in ((whole((80, 32), dtype), turn_a), (whole((32, 64), dtype), turn_b)))
    assert (matmul(a, b, precision=precision) == product(a, b)).all()
    along = precision == "tf32" or dtype == np.int8
    assert found == [(80, 32)] * (turn_a == along) + [(32, 64)] * (turn_b != along)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(
    "dtype, precision", [(ml_dtypes.bfloat16, "ieee"), (np.float32, "tf32"), (np.float32, "ieee"), (np.int8, "ieee")]
)
@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_any_length_are_copied_to_such_as_boxes_have(monkeypatch, batch, dtype, precision, turned):
    for name in ("WORTH_A_COPY", "WORTH_ALIGNING"):
        monkeypatch.setattr(operands, name, 32)
    by = []
    true = library._by_boxes
    monkeypatch.setattr(library, "_by_boxes", lambda *a: by.append("boxes") or true(*a))
    a, b = (held(whole((*batch, *shape), dtype), turned) for shape in ((33, 37), (37, 35)))
    bias = whole((35,), dtype)
    out = held(np.full((*batch, 33, 35), 7, np.int32 if dtype == np.int8 else np.float32), turned)
    assert matmul(a, b, out, None if dtype == np.int8 else bias, precision=precision) is out
    assert by == ["boxes"]
    assert (out == product(a, b) + (0 if dtype == np.int8 else bias.astype(float))).all()


@pytest.mark.parametrize("M, N", [(4288, 1), (1, 4288)])
def test_one_row_or_column_is_a_box(monkeypatch, M, N):
    a, b = whole((M, 32), ml_dtypes.bfloat16), whole((32, N), ml_dtypes.bfloat16)
    assert operand(describe(a), "a").is_box and operand(describe(b), "b").is_box
    assert operand(describe(np.empty((M, N), np.float32)), "out").is_box
    assert (matmul(a, b, np.empty((M, N), np.float32)) == product(a, b)).all()


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x6", "bf16x3"])
@pytest.mark.parametrize("turn_a, turn_b, K", [(False, False, 33), (True, True, 64)])
def test_large_products_of_three_in_tf32(precision, turn_a, turn_b, K):
    a, b = (RNG.standard_normal(s).astype(np.float32) for s in ((512, K), (K, 528)))
    bias = RNG.standard_normal(528).astype(np.float32)
    out = matmul(held(a, turn_a), held(b, turn_b), bias=bias, precision=precision)
    bound = np.abs(a).astype(float) @ np.abs(b) * 2.0**-20 + 2.0**-22
    assert (np.abs(out - (product(a, b) + bias)) <= bound).all()


def test_infinity_and_nan_have_no_fine_part():
    a, b = whole((512, 16), np.float32), np.full((16, 512), 1 + 2**-20, np.float32)
    a[3, 5], a[4, 1], a[5, 2] = np.inf, np.nan, -np.inf
    out = matmul(a, b, precision="tf32x3")
    assert (out[3] == np.inf).all() and np.isnan(out[4]).all() and (out[5] == -np.inf).all()
    assert np.isfinite(np.delete(out, [3, 4, 5], 0)).all()


def test_few_rows_in_splits():
    a, b, bias = (whole(shape, ml_dtypes.bfloat16) for shape in ((8, 64), (64, 4288), (4288,)))
    out = matmul(a, b, np.empty((8, 4288), np.float32), bias, "relu", SPLITS=2, BK=32)
    assert (out == np.maximum(product(a, b) + bias.astype(float), 0)).all()


@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("splits, depth", [(2, 64), (4, 96), (3, 64)])
def test_narrow_products_in_splits(monkeypatch, splits, depth, turn_b):
    """As batches of boxes where parts are equally deep, else through pointers."""
    config = narrow(4288, 16, 64, 1, 2, "sm_90a", 132) | {"SPLITS": splits, "BK": 32}
    monkeypatch.setattr(library, "narrow", lambda *_: config)
    by = {"boxes": 0, "pointers": 0}
    for name in by:
        true = getattr(library, f"_by_{name}")
        monkeypatch.setattr(library, f"_by_{name}", lambda *a, n=name, t=true: by.update({n: by[n] + 1}) or t(*a))
    a, b, bias = (whole(shape, ml_dtypes.bfloat16) for shape in ((8, depth), (depth, 200), (200,)))
    out = matmul(a, held(b, turn_b), np.empty((8, 200), np.float32), bias, "relu")
    assert (out == np.maximum(product(a, b) + bias.astype(float), 0)).all()
    assert by == {"boxes": int(depth % splits == 0), "pointers": int(depth % splits != 0)}


def test_the_narrow_configuration():
    assert narrow(8192, 16, 8192, 1, 2, "sm_90a", 132)["SPLITS"] == 1
    assert narrow(4096, 16, 8192, 1, 2, "sm_90a", 132)["SPLITS"] == 1  # two parts are not worth their sum
    assert narrow(2048, 16, 8192, 1, 2, "sm_90a", 132)["SPLITS"] == 4
    assert narrow(64, 16, 8192, 1, 2, "sm_90a", 132)["SPLITS"] == 16  # no shorter ones
    assert narrow(64, 16, 8192 + 64, 1, 2, "sm_90a", 132)["SPLITS"] == 1  # nor unequal ones
    assert narrow(2048, 16, 8192, 8, 2, "sm_90a", 132)["SPLITS"] == 1
    assert narrow(8192, 16, 8192, 1, 2, "sm_80", 108) is None
    assert narrow(8192, 16, 8192, 1, 4, "sm_90a", 132) is None


def test_groups_make_squares():
    big = configuration(8192, 8192, 8192, 1, 2, "sm_90a", 132, "tf32")
    assert (big["BM"], big["BN"], big["GROUP"]) == (128, 256, 16)
    assert configuration(1024, 1024, 1024, 1, 2, "sm_90a", 132, "tf32")["GROUP"] == 1
    assert configuration(8192, 8192, 8192, 1, 2, "sm_80", 108, "tf32")["GROUP"] == 8
