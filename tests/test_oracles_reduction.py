"""Reductions and matrix products against plain Python loops, fractions and integers."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from oracles import OracleError, lookup
from oracles.bounded import BoundedNamespace, Model
from oracles.compare import Tolerance, judge, self_check
from oracles.formats import widen

RNG = np.random.default_rng


def reduce(name, x, mask=None, **params):
    inputs = {"x": x} if mask is None else {"x": x, "mask": mask}
    return lookup(f"oracles.reduction:{name}")(inputs, params)


def lines(x, axis):
    """The reduced elements of every result, as Python lists, in row-major order of the results."""
    if axis is None:
        return [x.ravel().tolist()]
    rest = [range(n) for i, n in enumerate(x.shape) if i != axis % x.ndim]
    found = []
    for index in np.ndindex(*[len(r) for r in rest]):
        place = list(index)
        place.insert(axis % x.ndim, slice(None))
        found.append(x[tuple(place)].tolist())
    return found


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, None])
def test_axes_and_shapes(axis):
    x = RNG(0).integers(-100, 100, (2, 3, 4)).astype(np.int32)
    for name, function in (("sum", sum), ("max", max), ("min", min)):
        refs = reduce(name, x, axis=axis)
        assert refs["out"].ravel().tolist() == [function(line) for line in lines(x, axis)]
        assert refs["out"].shape == (() if axis is None else tuple(np.delete(x.shape, axis)))
    kept = reduce("sum", x, axis=axis, keep_dims=True)["out"]
    assert kept.shape == ((1, 1, 1) if axis is None else tuple(np.where(np.arange(3) == axis % 3, 1, x.shape)))
    for name, function in (("argmax", max), ("argmin", min)):
        out = reduce(name, x, axis=axis)["out"]
        assert out.dtype == np.int32
        assert out.ravel().tolist() == [line.index(function(line)) for line in lines(x, axis)]


def test_axis_out_of_range():
    with pytest.raises(OracleError, match="axis 1 of a block of rank 1"):
        reduce("sum", np.ones(3), axis=1)


@pytest.mark.parametrize(
    "dtype,result",
    [(np.int8, np.int32), (np.int16, np.int32), (np.uint8, np.uint32), (bool, np.uint32), (np.int64, np.int64)],
)
def test_integer_sums_widen_and_wrap(dtype, result):
    x = (RNG(1).integers(0, 2**63, 500) // 3).astype(dtype)
    out = reduce("sum", x)["out"]
    assert out.dtype == result
    bits = 8 * np.dtype(result).itemsize
    assert (int(out) - sum(int(v) for v in x)) % 2**bits == 0
    assert reduce("sum", np.array([2**31 - 1, 1], np.int32))["out"] == -(2**31)


def test_types_of_extrema():
    for dtype, result in ((np.uint8, np.int32), (np.int16, np.int32), (np.uint32, np.uint32), (np.float16, np.float32)):
        for name in ("max", "min"):
            assert reduce(name, np.array([3, 7], dtype))["out"].dtype == result
    assert reduce("max", np.array([255, 1], np.uint8))["out"] == 255
    assert reduce("min", np.array([-(2**63), 5], np.int64))["out"] == -(2**63)
    assert reduce("max", np.array([2**64 - 1, 5], np.uint64))["out"] == 2**64 - 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_float_sums_are_exact(dtype):
    x = (RNG(2).standard_normal((5, 300)) * 2.0 ** RNG(3).integers(-12, 12, (5, 300))).astype(dtype)
    refs = reduce("sum", x, axis=1)
    for row, out, tail, terms in zip(widen(x), refs["out"], refs["out.tail"], refs["out.abs_terms"], strict=True):
        exact = sum(map(Fraction, row.tolist()))
        assert float(exact) == out
        assert abs(exact - Fraction(out) - Fraction(tail)) <= abs(exact) / 2**100
        assert terms == pytest.approx(sum(abs(v) for v in row.tolist()), rel=1e-12)


def test_special_sums():
    x = np.array([[1, np.nan, 2], [np.inf, 1, -np.inf], [np.inf, 1, 1], [-0.0, -0.0, -0.0]], np.float32)
    out = reduce("sum", x, axis=1)["out"]
    assert np.isnan(out[:2]).all() and out[2] == np.inf and out[3] == 0


def test_a_dropped_term_is_seen_by_the_dot_rule():
    x = RNG(4).standard_normal((8, 1000)).astype(np.float32)
    refs = reduce("sum", x, axis=1)
    assert self_check(refs, "out", "f32", Tolerance("dot", depth=1000)) == []
    assert judge(x.sum(1), refs, "out", Tolerance("dot", depth=1000)).ok
    whole = np.round(x * 8)
    assert judge(whole.sum(1), reduce("sum", whole, axis=1), "out", Tolerance()).ok


def test_nan_is_skipped_unless_all_are_nan():
    x = np.array([[np.nan, 6, 8], [6, np.nan, 4], [np.nan, np.nan, np.nan]], np.float32)
    for name, values, index in (("max", [8, 6], [2, 0]), ("min", [6, 4], [1, 2])):
        out = reduce(name, x, axis=1)["out"]
        assert out[:2].tolist() == values and np.isnan(out[2])
        refs = reduce(f"arg{name}", x, axis=1)
        assert refs["out"][:2].tolist() == index
        assert refs["out.unspecified"].tolist() == [False, False, True]


def test_ties_go_left_unless_unspecified():
    x = np.array([[1, 5, 5, 2], [3, 1, 0, 1]], np.int32)
    refs = reduce("argmax", x, axis=1)
    assert refs["out"].tolist() == [1, 0] and not refs["out.unspecified"].any()
    refs = reduce("argmax", x, axis=1, tie_break_left=False)
    assert refs["out.unspecified"].tolist() == [True, False]
    infinite = np.array([-np.inf, -np.inf], np.float32)
    assert reduce("argmax", infinite)["out"] == 0 and reduce("max", infinite)["out"] == -np.inf


def test_products():
    x = np.array([[3, 5, 7], [100, 100, 100]], np.int8)
    assert reduce("prod", x, axis=1)["out"].tolist() == [105, (1_000_000 + 128) % 256 - 128]
    refs = reduce("prod", np.array([1.5, -2.0, 0.25], np.float32))
    assert refs["out"] == -0.75 and refs["out.abs_terms"] == 0.75


def test_bit_reductions():
    x = np.array([0b1100, 0b1010, 0b1000], np.int32)
    assert [int(reduce(n, x)["out"]) for n in ("xor_sum", "reduce_or", "reduce_and")] == [0b1110, 0b1110, 0b1000]
    mask = np.array([True, True, False])
    assert [int(reduce(n, x, mask)["out"]) for n in ("xor_sum", "reduce_or", "reduce_and")] == [0b110, 0b1110, 0b1000]
    flags = np.array([[True, False], [False, False]])
    assert reduce("reduce_or", flags, axis=1)["out"].tolist() == [True, False]
    with pytest.raises(OracleError, match="expected integers"):
        reduce("xor_sum", np.ones(2))


def test_masked_elements_do_not_count():
    x = np.array([9, -9, 1, 2], np.float32)
    mask = np.array([False, False, True, True])
    assert reduce("sum", x, mask)["out"] == 3 and reduce("sum", x, mask)["out.abs_terms"] == 3
    assert reduce("max", x, mask)["out"] == 2 and reduce("min", x, mask)["out"] == 1
    assert reduce("argmin", x, mask)["out"] == 2 and reduce("prod", x, mask)["out"] == 2


def test_the_bounded_sum_contains_f32_sums():
    x = RNG(5).standard_normal((16, 777)).astype(np.float32)
    refs = lookup("oracles.reduction:sum")({"x": x}, {"axis": 1}, xp=BoundedNamespace(Model("f32")))
    assert judge(x.sum(1), refs, "out", Tolerance("derived")).ok
    assert judge(x[:, ::-1].cumsum(1)[:, -1], refs, "out", Tolerance("derived")).ok
    assert self_check(refs, "out", "f32", Tolerance("derived")) == []


# ------------------------------------------------------------------------------------- matrix products
MATMUL = "oracles.linalg:matmul"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_matmul_against_fractions(dtype):
    a, b, c = (RNG(s).standard_normal(n).astype(dtype) for s, n in ((6, (4, 9)), (7, (9, 5)), (8, (4, 5))))
    for addend in (None, c):
        inputs = {"a": a, "b": b} if addend is None else {"a": a, "b": b, "addend": c}
        refs = lookup(MATMUL)(inputs, {})
        for i, j in np.ndindex(4, 5):
            terms = [Fraction(float(a[i, k])) * Fraction(float(b[k, j])) for k in range(9)]
            terms += [] if addend is None else [Fraction(float(c[i, j]))]
            tail = refs["out.tail"][i, j] if dtype == np.float64 else 0.0
            error = abs(sum(terms) - Fraction(refs["out"][i, j]) - Fraction(float(tail)))
            assert error <= Fraction(2) ** (-95 if dtype == np.float64 else -48) * sum(map(abs, terms))
            assert refs["out.abs_terms"][i, j] == pytest.approx(float(sum(map(abs, terms))), rel=1e-12)


def test_matmul_accepts_f32_and_notices_a_lost_term():
    a, b = RNG(9).standard_normal((16, 64)).astype(np.float32), RNG(10).standard_normal((64, 8)).astype(np.float32)
    refs = lookup(MATMUL)({"a": a, "b": b}, {})
    rule = Tolerance("dot", depth=65)
    assert judge(a @ b, refs, "out", rule).ok
    assert self_check(refs, "out", "f32", rule) == []
    assert not judge((a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32), refs, "out", rule).ok
    enclosed = lookup(MATMUL)({"a": a, "b": b}, {}, xp=BoundedNamespace(Model("f32")))
    assert judge(a @ b, enclosed, "out", Tolerance("derived")).ok
    assert self_check(enclosed, "out", "f32", Tolerance("derived")) == []


def test_integer_matmul_wraps_at_32_bits():
    a, b = RNG(11).integers(-128, 128, (3, 7)).astype(np.int8), RNG(12).integers(-128, 128, (7, 2)).astype(np.int8)
    out = lookup(MATMUL)({"a": a, "b": b}, {})["out"]
    assert out.dtype == np.int32 and out.tolist() == (a.astype(object) @ b.astype(object)).tolist()
    big = np.full((1, 2), 2**30, np.int32)
    assert lookup(MATMUL)({"a": big, "b": big.T}, {})["out"].tolist() == [[0]]


def test_an_output_called_c_is_not_an_addend():
    a, poison = np.ones((2, 2), np.float32), np.full((2, 2), np.nan, np.float32)
    assert lookup(MATMUL)({"a": a, "b": a, "c": poison}, {})["out"].tolist() == [[2, 2], [2, 2]]


def test_matmul_of_unfit_shapes():
    with pytest.raises(OracleError, match="matmul of shapes"):
        lookup(MATMUL)({"a": np.ones((2, 3)), "b": np.ones((2, 3))}, {})
