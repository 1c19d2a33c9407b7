"""The comparison rules: each accepts what is right, rejects what is wrong, and says where."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from oracles import OracleError
from oracles.compare import Tolerance, judge, self_check
from oracles.formats import ulp

F32 = np.float32


def one(got, ref, tolerance, dtype=F32, **words):
    refs = {"out": np.array([ref], np.float64), **{f"out.{k}": np.array([v]) for k, v in words.items()}}
    return judge(np.array([got], dtype), refs, "out", tolerance)


def test_exact_treats_nan_as_a_class_and_zero_by_its_sign():
    payload = np.array([0x7FC00001, 0xFFC00000], np.uint32).view(F32)
    assert judge(payload, {"out": np.array([np.nan, np.nan])}).ok
    assert not one(0.0, -0.0, Tolerance()).ok
    assert one(0.0, -0.0, Tolerance(signed_zero="any")).ok
    assert not one(np.nan, 1.0, Tolerance()).ok
    assert not one(1.0, np.nan, Tolerance()).ok


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, bool])
def test_exact_integers(dtype):
    ref = np.array([0, 1, 1, 0]).astype(dtype)
    assert judge(ref, {"out": ref}).ok
    wrong = ref.copy()
    wrong[2] = 0
    verdict = judge(wrong, {"out": ref})
    assert not verdict.ok and verdict.index == (2,) and verdict.failures == 1


def test_exact_applies_the_conversion_of_the_store():
    assert judge(np.array([127, -128, 0], np.int8), {"out": np.array([1e9, -1e9, np.nan])}).ok
    assert judge(np.array([1.0], np.float16), {"out": np.array([1 + 2**-12], F32)}).ok


def test_ulp_counts_from_the_real_value():
    ref = 1.0 + 0.25 * 2.0**-23
    up = float(np.nextafter(F32(1), F32(2)))
    assert one(up, ref, Tolerance("ulp", ulp=0.76)).ok
    assert not one(up, ref, Tolerance("ulp", ulp=0.74)).ok
    assert one(1.0, ref, Tolerance("ulp", ulp=0.5)).ok


def test_ulp_judges_premature_overflow_and_rejects_wild_values():
    top = float(np.finfo(F32).max)
    assert one(np.inf, top, Tolerance("ulp", ulp=1)).ok
    assert not one(np.inf, top * (1 - 2.0**-20), Tolerance("ulp", ulp=2)).ok
    assert one(np.inf, 1e300, Tolerance("ulp", ulp=1)).ok
    assert not one(top, 1e300, Tolerance("ulp", ulp=4)).ok
    assert not one(-np.inf, 1e300, Tolerance("ulp", ulp=4)).ok
    assert not one(top, np.inf, Tolerance("ulp", ulp=4)).ok


def test_ulp_flush_only_below_the_normal_range():
    assert one(0.0, 1e-40, Tolerance("ulp", ulp=2, flush=True)).ok
    assert not one(0.0, 1e-40, Tolerance("ulp", ulp=2)).ok
    assert not one(0.0, 2e-38, Tolerance("ulp", ulp=2, flush=True)).ok


def test_ulp_in_f64_uses_the_tail():
    ref, tail = 1.0, 0.4 * 2.0**-52
    up = 1.0 + 2.0**-52
    assert one(up, ref, Tolerance("ulp", ulp=0.61), np.float64, tail=tail).ok
    assert not one(up, ref, Tolerance("ulp", ulp=0.59), np.float64, tail=tail).ok
    below = 1.0 - 2.0**-53
    assert one(below, ref, Tolerance("ulp", ulp=0.61), np.float64, tail=-tail / 2).ok
    assert not one(below, ref, Tolerance("ulp", ulp=0.59), np.float64, tail=-tail / 2).ok


def test_dot_bound_is_the_formula():
    h, a, ref = 10, 1000.0, 1.0
    u = 2.0**-24
    g = h * u / (1 - h * u)
    bound = g * a + u * (ref + g * a) + h * 2.0**-149
    verdict = one(1.0, ref, Tolerance("dot", depth=h), abs_terms=a)
    assert verdict.bound == pytest.approx(bound, rel=1e-12)
    inside, outside = 1.0 + 2.0**-23 * 5003, 1.0 + 2.0**-23 * 5010
    assert 1.0 + bound == pytest.approx(1.0 + 2.0**-23 * 5000.5, abs=2.0**-22)
    assert not one(inside, ref, Tolerance("dot", depth=h), abs_terms=a).ok
    assert one(1.0 + 2.0**-23 * 4999, ref, Tolerance("dot", depth=h), abs_terms=a).ok
    assert not one(outside, ref, Tolerance("dot", depth=h), abs_terms=a).ok


def test_dot_without_terms_is_exactly_zero():
    assert one(0.0, 0.0, Tolerance("dot", depth=9), abs_terms=0.0).ok
    assert not one(1e-45, 0.0, Tolerance("dot", depth=9), abs_terms=0.0).ok


def test_dot_specials():
    t = Tolerance("dot", depth=4)
    assert one(np.nan, np.nan, t, abs_terms=np.nan).ok
    assert not one(0.0, np.nan, t, abs_terms=np.nan).ok
    assert one(np.inf, np.inf, t, abs_terms=np.inf).ok
    assert not one(-np.inf, np.inf, t, abs_terms=np.inf).ok
    assert not one(np.nan, np.inf, t, abs_terms=np.inf).ok
    assert not one(np.nan, 1.0, t, abs_terms=3.0).ok
    assert one(np.nan, 1.0, t, abs_terms=1e39).ok, "some order overflows: anything goes"
    assert one(np.inf, 65519.99, t, np.float16, abs_terms=65519.99).ok
    assert not one(np.inf, 65000.0, t, np.float16, abs_terms=65000.0).ok


def test_dot_stores_a_narrow_format_once():
    verdict = one(1.0, 1 + 2.0**-9, Tolerance("dot", depth=1), bfloat16, abs_terms=1.0)
    assert verdict.ok
    assert not one(1.0, 1 + 2.0**-7, Tolerance("dot", depth=1), bfloat16, abs_terms=1.0).ok


def test_derived_accepts_the_rounded_interval_only():
    t = Tolerance("derived")
    assert one(1.0, 1.0, t, lower=1 - 1e-9, upper=1 + 1e-9).ok
    assert not one(1.0 + 2.0**-22, 1.0, t, lower=1 - 1e-9, upper=1 + 1e-9).ok
    assert one(np.nan, 1.0, t, lower=-np.inf, upper=np.inf).ok
    assert not one(1.0, np.nan, t, lower=np.nan, upper=np.nan).ok
    assert one(np.inf, 1e39, t, lower=np.inf, upper=np.inf).ok
    assert not one(np.nan, 1.0, t, lower=0.5, upper=2.0).ok


def test_written_and_unspecified_elements():
    poison = np.full(4, 0x7FC0DEAD, np.uint32).view(F32)
    refs = {"out": np.ones(4), "out.written": np.array([1, 1, 0, 0], bool)}
    got = poison.copy()
    got[:2] = 1
    assert judge(got, refs, initial=poison).ok
    got[3] = 1
    assert not judge(got, refs, initial=poison).ok
    assert judge(got, refs).ok
    refs = {"out": np.ones(4), "out.unspecified": np.array([0, 0, 1, 0], bool)}
    assert judge(np.array([1, 1, 77, 1], F32), refs).ok
    assert not judge(np.array([1, 77, 1, 1], F32), refs).ok


def test_self_check_finds_cases_without_teeth():
    x = np.random.default_rng(1).standard_normal((8, 64))
    refs = {"out": x.sum(1), "out.abs_terms": np.abs(x).sum(1), "out.dropped": x[:, 1:].sum(1)}
    assert self_check(refs, "out", "f32", Tolerance("dot", depth=64)) == []
    blunt = {w.wrong for w in self_check(refs, "out", "f32", Tolerance("ulp", ulp=1e12))}
    assert blunt == {"zeros", "shifted", "scaled", "dropped"}
    assert [w.wrong for w in self_check({"out": np.zeros(4)}, "out", "f32", Tolerance())] == ["zeros"]
    assert [w.wrong for w in self_check({"out": np.arange(4)}, "out", "i8", Tolerance())] == []


def test_bad_requests_are_clear():
    with pytest.raises(OracleError, match="gives no reference for output 'y'"):
        judge(np.ones(2), {"out": np.ones(2)}, "y")
    with pytest.raises(OracleError, match="shape"):
        judge(np.ones(2), {"out": np.ones(3)})
    with pytest.raises(OracleError, match="abs_terms"):
        judge(np.ones(2), {"out": np.ones(2)}, tolerance=Tolerance("dot", depth=3))
    with pytest.raises(OracleError, match="needs depth"):
        Tolerance("dot")
    with pytest.raises(OracleError, match="tolerance mode 'close'"):
        Tolerance("close")
    with pytest.raises(OracleError, match="judges floats"):
        judge(np.ones(2, int), {"out": np.ones(2)}, tolerance=Tolerance("ulp", ulp=1))


def test_ulp_of_powers_of_two_is_the_lower_gap():
    assert ulp(1.0, "f32") == 2.0**-24
    assert ulp(1.0000001, "f32") == 2.0**-23
    assert ulp(0.0, "f16") == ulp(2.0**-24, "f16") == 2.0**-24
