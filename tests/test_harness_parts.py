"""The harness's parts: input sets, ids, expressions, SSA comparison, guarded arrays, self-check, deviations."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from conformance import model, ssa
from conformance.adapters import Info, Rejected, Unsupported, Valid
from conformance.buffers import GUARD, guarded
from conformance.coverage import clause_coverage
from conformance.deviations import apply_deviations, load_deviations
from conformance.dtypes import DTYPES, bits
from conformance.errors import SpecError
from conformance.execution import judge_rejection, span_text
from conformance.expressions import ExpressionError, evaluate, names
from conformance.inputs import SETS, InputError, fill
from conformance.instances import Selection, collect, format_value, shard
from conformance.loader import load_suite
from conformance.results import EXIT, Result, exit_code, totals
from conformance.runner import Session, run_all
from conformance.selfcheck import SelfCheck
from conformance.signatures import parse_argument, substitute
from conformance.tolerance import Unjudgeable, compare, tolerance
from oracles.compare import Tolerance
from tests.evil.honest import Honest

SPEC = Path(__file__).parent / "evil" / "spec"
WRITTEN = {
    "ints": "ints(-8, 8)",
    "const": "const(2)",
    "values": "values(1, 2, 3)",
    "bits": "bits(1, 2)",
    "uniform": "uniform(0, 1)",
    "indices": "indices(9)",
}
ONLY = {"mask": "bool", "all16": "bf16", "indices": "i32", "permutation": "i32"}


def make(text, dtype="f32", shape=(4, 8), instance="a.b/c", array="x", index=0):
    return fill(text, dtype, shape, instance=instance, array=array, index=index, params={"N": 8})


# ------------------------------------------------------------------------------------------------ input sets
@pytest.mark.parametrize("name", sorted(SETS))
def test_input_sets_are_deterministic_and_have_the_dtype(name):
    text, dtype = WRITTEN.get(name, name), ONLY.get(name, "f32")
    first, again = make(text, dtype), make(text, dtype)
    assert first.tobytes() == again.tobytes()
    assert first.shape == (4, 8) and first.dtype == DTYPES[dtype].numpy and first.flags.c_contiguous


def test_random_sets_depend_on_instance_and_array():
    seen = {make("random", instance=i, array=a).tobytes() for i in ("a.b/c", "a.b/d") for a in ("x", "y")}
    assert len(seen) == 4


def test_random_bits_are_the_same_on_every_machine():
    """The documented recipe, written a second time: a change of it changes every input and must be deliberate."""
    key = int.from_bytes(hashlib.sha256(b"1|a.b/c|x").digest()[:16], "little")
    raw = np.random.Philox(key=key).random_raw(8)
    assert make("ints(-8, 8)", "i32", (8,)).tolist() == [int(r) % 17 - 8 for r in raw]


def test_input_sets_do_not_depend_on_the_hash_seed():
    program = (
        "from conformance.inputs import fill;"
        "print(fill('random','f32',(4,),instance='a.b/c',array='x',index=0,params={}).tobytes().hex())"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[1],
        ).stdout
        for seed in ("0", "1")
    }
    assert len(runs) == 1


def test_exact_integers_stay_exact():
    with pytest.raises(InputError, match="not every integer"):
        make("ints(0, 300)", "bf16")
    assert set(np.unique(make("ints(-2, 2)", "bf16").astype(float))) <= {-2, -1, 0, 1, 2}


def test_onehot_sweeps_every_place():
    x = make("onehot(sweep)", shape=(8, 8))
    assert (x == 3 * np.eye(8)).all()


def test_products_of_zeros_products_are_zero():
    x, y = make("zeros_products"), make("zeros_products", array="y", index=1)
    assert (x * y == 0).all() and (x != 0).any() and (y != 0).any()


def test_two_special_arrays_meet_in_every_pair():
    n = 4
    x = make("special(nan, inf, -0.0, max)", shape=(n * n,))
    y = make("special(nan, inf, -0.0, max)", shape=(n * n,), array="y", index=1)
    assert len({(a, b) for a, b in zip(bits(x).tolist(), bits(y).tolist(), strict=True)}) == n * n


def test_special_keeps_the_sign_of_zero_and_subnormals():
    x = make("special(-0.0, min_sub, -min_sub)", "f16", (3,))
    assert bits(x).tolist() == [0x8000, 0x0001, 0x8001]


def test_all16_is_every_pattern_once():
    x = make("all16", "f16", (65536,))
    assert (bits(x) == np.arange(65536)).all()


def test_bf16_inputs_are_rounded_once():
    """1 + 2^-8 + 2^-30 lies above the tie; through f32 it would be rounded to the tie and then down."""
    x = make("values(1.0039062509313226)", "bf16", (1,))
    assert float(x[0]) == 1.0078125


def test_permutation_is_one():
    assert sorted(make("permutation", "i32", (64,)).tolist()) == list(range(64))


# ------------------------------------------------------------------------------------------------ ids, selection
def test_ids_tell_the_parameters_in_order():
    ids = [i.id for i in collect(load_suite(SPEC), ["memory.copy/tail"])]
    assert ids[0] == "memory.copy/tail:T=f32;N=100;n=0;BLOCK=32;x=random"
    assert len(ids) == 3 * 4 * 2


@pytest.mark.parametrize(
    "pattern, id, selected",
    [
        ("memory", "memory.copy/tail:T=f32", True),
        ("mem", "memory.copy/tail:T=f32", False),
        ("memory.copy", "memory.copy/tail:T=f32", True),
        ("memory.co", "memory.copy/tail:T=f32", False),
        ("memory.co*", "memory.copy/tail:T=f32", True),
        ("memory.copy/tail", "memory.copy/tail2:T=f32", False),
        ("memory.copy/tail:T=f32", "memory.copy/tail:T=f32", True),
        ("*:T=f16*", "memory.copy/tail:T=f16;N=1", True),
        ("*:T=f16*", "memory.copy/tail:T=f32;N=1", False),
    ],
)
def test_selection(pattern, id, selected):
    assert (id in Selection([pattern])) is selected


def test_unmatched_patterns_are_named():
    assert Selection(["memory", "nothing"]).unmatched(["memory.copy/x"]) == ["nothing"]


def test_tiers_include_the_lower_ones():
    counts = [len(collect(load_suite(SPEC), tier=t)) for t in model.TIERS]
    assert counts == sorted(counts) and 0 < counts[0] < counts[1] < counts[2]


def test_shards_are_a_partition_by_case():
    every = collect(load_suite(SPEC))
    parts = [shard(every, i, 3) for i in (1, 2, 3)]
    assert sorted(i.id for p in parts for i in p) == sorted(i.id for i in every)
    assert not {i.case_id for i in parts[0]} & {i.case_id for i in parts[1]}


def test_values_in_ids_are_escaped():
    assert format_value("ints(-8, 8)") == "ints(-8,8)"
    assert format_value("a=b;c") == "a%3Db%3Bc"
    assert format_value(True) == "True" and format_value(0.5) == "0.5"


def test_a_digest_changes_with_the_question(tmp_path):
    before = {i.id: i.digest() for i in collect(load_suite(SPEC), ["memory.copy/tail"])}
    assert before == {i.id: i.digest() for i in collect(load_suite(SPEC), ["memory.copy/tail"])}
    assert len(set(before.values())) == len(before)
    folder = tmp_path / "features" / "memory"
    folder.mkdir(parents=True)
    text = (SPEC / "features" / "memory" / "copy.yaml").read_text()
    (folder / "copy.yaml").write_text(text.replace("arange(N) < n", "arange(N) <= n"))
    after = {i.id: i.digest() for i in collect(load_suite(tmp_path), ["memory.copy/tail"])}
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())


# ------------------------------------------------------------------------------------------------ expressions
def test_expressions():
    env = {"N": 1000, "BLOCK": 128, "x": np.arange(4, dtype=np.int32)}
    assert evaluate("cdiv(N, BLOCK) + log2(BLOCK)", env) == 15
    assert evaluate("N if N > BLOCK and not N == 3 else -1", env) == 1000
    assert evaluate("x[1:3]", env).tolist() == [1, 2]
    assert evaluate("0 <= x < 2", env).tolist() == [True, True, False, False]
    assert names("cdiv(N, BLOCK) + inf") == {"N": 5, "BLOCK": 8}


@pytest.mark.parametrize(
    "text", ["__import__('os')", "x.__class__", "(lambda: 1)()", "[i for i in x]", "f'{x}'", "x := 1", "open('f')"]
)
def test_expressions_cannot_do_more(text):
    with pytest.raises(ExpressionError):
        evaluate(text, {"x": np.zeros(1)})


def test_unknown_names_are_told_with_the_known_ones():
    with pytest.raises(ExpressionError, match="unknown name 'M'; known here: N"):
        evaluate("M + 1", {"N": 1})


@pytest.mark.parametrize("text", ["N / 0", "N <= T", "x[7]", "log2(-1)", "arange(T)", "N << -1"])
def test_expressions_without_a_value(text):
    with pytest.raises(ExpressionError, match="has no value"):
        evaluate(text, {"N": 3, "T": "f32", "x": np.zeros(2)})


# ------------------------------------------------------------------------------------------------ signatures
def test_signatures():
    a = parse_argument("x: *{T}:16[M, max(N, 1)] inout")
    assert (a.name, a.dtype, a.shape, a.role, a.hint) == ("x", "{T}", ("M", "max(N, 1)"), "inout", 16)
    s = parse_argument("stride: i32 = N * 2")
    assert (s.is_array, s.value) == (False, "N * 2")


def test_substitution_uses_tritons_names_in_sources():
    assert substitute("x.to(tl.{T})", {"T": "bf16"}) == "x.to(tl.bfloat16)"
    assert substitute("tl.{FN}(x, {n})", {"FN": "max"}) == "tl.max(x, {n})"
    assert substitute("*{T}", {"T": "bf16"}, triton=False) == "*bf16"


# ------------------------------------------------------------------------------------------------ SSA text
def test_ssa_is_compared_up_to_names_and_space():
    one = "func @f() {\n  %0 = arange {start=0} : t   // first\n  %1 = add %0, %0 : t\n}"
    two = "func @f() {\n%a = arange   {start=0} : t\n%b = add %a, %a : t\n}\n"
    assert ssa.same(one, two)
    assert not ssa.same(one, two.replace("add %a, %a", "add %a, %b"))
    assert not ssa.same(one, two.replace("add %a", "sub %a"))
    assert "+%1 = sub" in ssa.difference(one, two.replace("add %a", "sub %a"))


def test_ssa_swapped_operands_differ():
    assert not ssa.same("%0 = a\n%1 = b\n%2 = sub %0, %1", "%0 = a\n%1 = b\n%2 = sub %1, %0")


def test_ssa_leaves_strings_alone():
    assert not ssa.same('print "%1 // x"', 'print "%2 // x"')


def test_words_are_whole():
    assert ssa.count_word("load", "load %1\nloader\nmy.load\ntl_load\nload") == 2


# ------------------------------------------------------------------------------------------------ guarded arrays
@pytest.mark.parametrize("shift", [0, 1])
def test_guards_see_one_byte_on_either_side(shift):
    for at in (-1, -GUARD, 40):
        a = guarded("x", "out", "f32", (10,), None, shift)
        assert a.complaint() is None
        a.array[:] = 1
        assert a.complaint() is None
        a.storage[a.offset + at] ^= 0xFF
        assert "1 bytes" in a.complaint()


def test_alignment_and_shift():
    plain, moved = (guarded("x", "in", "f32", (10,), np.ones(10, np.float32), s) for s in (0, 1))
    assert plain.array.ctypes.data % 256 == 0
    assert moved.array.ctypes.data % 256 == 4


def test_poison_is_what_the_documentation_says():
    a = guarded("x", "out", "i32", (2,), None, 0)
    assert a.array.view(np.uint32).tolist() == [0xFFFFDEAD] * 2


def test_changed_inputs_are_seen_by_value():
    a = guarded("x", "in", "f32", (4,), np.zeros(4, np.float32), 0)
    a.array[2] = -0.0
    assert "input array 'x' was changed" in a.complaint()


# ------------------------------------------------------------------------------------------------ rejections
SOURCE = "def k(x):\n    return tl.sum(x,\n        axis=3)\n"
EXPECT = model.Expect("error", "type", "reduction.sum#E1", "tl.sum(x, axis=3)", "axis 3")
RIGHT = Rejected("type", "reduction.sum#E1", "axis 3 is out of range", (2, 11, 3, 15))


def test_the_right_rejection_passes_with_white_space_aside():
    assert judge_rejection(RIGHT, EXPECT, SOURCE)[0] == "pass"
    assert span_text(SOURCE, (2, 11, 2, 17)) == "tl.sum"


@pytest.mark.parametrize(
    "answer, reason",
    [
        (Valid(), "accepted"),
        (Unsupported("core"), "unsupported"),
        (Rejected("lower", RIGHT.id, RIGHT.message, RIGHT.span), "expected phase type"),
        (Rejected("type", "reduction.sum#E2", RIGHT.message, RIGHT.span), "expected the error reduction.sum#E1"),
        (Rejected("type", RIGHT.id, "wrong", RIGHT.span), "expected a message with"),
        (Rejected("type", RIGHT.id, RIGHT.message, None), "found none"),
        (Rejected("type", RIGHT.id, RIGHT.message, (2, 4, 3, 15)), "it covers"),
        (Rejected("type", RIGHT.id, RIGHT.message, (9, 0, 9, 1)), "it covers ''"),
    ],
)
def test_wrong_rejections_fail(answer, reason):
    status, message, _ = judge_rejection(answer, EXPECT, SOURCE)
    assert status == "fail" and reason in message


# ------------------------------------------------------------------------------------------------ self-check
def test_a_case_that_accepts_anything_is_found():
    check = SelfCheck()
    ref = np.linspace(1, 2, 16)
    loose, tight = Tolerance("ulp", ulp=1e9), Tolerance("exact")
    start = np.full(16, np.nan, np.float32)
    check.observe("a.b/loose", {"out": ref}, "out", "f32", loose, start)
    check.observe("a.b/tight", {"out": ref}, "out", "f32", tight, start)
    found = check.complaints()
    assert {case for case, _ in found} == {"a.b/loose"}
    assert any("zeros everywhere" in sentence for _, sentence in found)


def test_one_instance_with_teeth_is_enough_and_zeros_may_be_right():
    check = SelfCheck()
    start = np.full(4, np.nan, np.float32)
    check.observe("a.b/c", {"out": np.zeros(4)}, "out", "f32", Tolerance("exact"), start)
    assert check.complaints() == []


def test_a_toothless_case_turns_the_run_red():
    feature = load_suite(SPEC)[0]
    case = feature.case("sums")
    blind = model.Case(**{**vars(case), "numerics": model.Numerics("ulp", ulp=1e30)})
    suite = [model.Feature(**{**vars(feature), "cases": (blind,), "ir": ()})]
    results = run_all(Session("honest", Honest()), collect(suite))
    assert [r.kind for r in results if r.status == "error"].count("selfcheck") >= 1
    assert exit_code(results) == EXIT["failures"]


# ------------------------------------------------------------------------------------------------ results, deviations
def result(status, kind="oracle", i="a.b/c", message=""):
    return Result(i, "t", status, kind, ("C1",), message)


def test_exit_codes():
    assert exit_code([]) == EXIT["nothing"] == 5
    assert exit_code([result("pass"), result("warn"), result("xfail")]) == 0
    assert exit_code([result("fail")]) == 1
    assert exit_code([result("fail", "budget"), result("pass")]) == 10
    assert exit_code([result("fail", "budget"), result("crash")]) == 1
    assert exit_code([result("xpass")]) == 11
    assert totals([result("pass"), result("fail")], 3) | {
        "expected": 3,
        "collected": 2,
        "pass": 1,
        "fail": 1,
    } == totals([result("pass"), result("fail")], 3)


DEVIATION = """
- instance: "a.b/c*"
  status: fail
  signature: "expected 3"
  reason: rounds twice
  issue: https://example.org/1
  since: "2026-11-01"
  expires: "2027-01-01"
"""


def deviations(tmp_path, text=DEVIATION):
    (tmp_path / "t.yaml").write_text(text)
    return load_deviations(tmp_path, ["t", "other"])


def test_a_deviation_is_an_expected_failure_of_the_same_kind(tmp_path):
    same, other = result("fail", message="got 4, expected 3"), result("fail", i="a.b/cc", message="crashed")
    fine = result("pass", i="a.b/c2")
    stale = apply_deviations([same, other, fine], deviations(tmp_path), whole=True, today=date(2026, 12, 1))
    assert (same.status, other.status, fine.status, stale) == ("xfail", "fail", "xpass", [])


def test_unused_and_expired_deviations_are_told(tmp_path):
    assert "matches no instance" in apply_deviations([], deviations(tmp_path), whole=True, today=date(2026, 12, 1))[0]
    assert apply_deviations([], deviations(tmp_path), whole=False, today=date(2026, 12, 1)) == []
    late = apply_deviations(
        [result("fail", message="expected 3")], deviations(tmp_path), whole=True, today=date(2027, 3, 1)
    )
    assert "expired" in late[0]


@pytest.mark.parametrize(
    "old, new, id",
    [
        ("https://example.org/1", "none", "deviation.issue"),
        ("2027-01-01", "2028-01-01", "deviation.date"),
        ("2027-01-01", "soon", "deviation.date"),
        ("status: fail", "status: pass", "deviation.value"),
        ("  reason: rounds twice\n", "", "deviation.value"),
    ],
)
def test_deviations_are_strict(tmp_path, old, new, id):
    with pytest.raises(SpecError) as caught:
        deviations(tmp_path, DEVIATION.replace(old, new))
    assert caught.value.id == id


def test_claims_decide_what_unsupported_means():
    claims = Info("x", "1", capabilities=frozenset({"fp64"}))
    assert "core" in claims.profiles and "fp64" in claims.capabilities


# --------------------------------------------------------------------------- who witnesses an error clause
@pytest.mark.parametrize(
    "expected, covered",
    [
        ("memory.store#E1", True),
        ("memory.store#E2", False),  # one error of this feature says nothing about its others
        ("arith.promotion#E1", True),  # what this feature has no name for
        ("ir.dominance", True),
    ],
)
def test_an_error_clause_is_witnessed_by_its_own_id_or_by_none_of_its_feature(expected, covered):
    feature = next(f for f in load_suite() if f.id == "memory.store")
    case = next(c for c in feature.cases if c.id == "value_not_pointer")
    case = replace(case, expect=replace(case.expect, id=expected))
    table = {c.clause.id: c.covered for c in clause_coverage([replace(feature, cases=(case,), ir=(), budgets=())])}
    assert table["E1"] is covered


def test_a_limit_of_each_element_may_be_none_where_the_input_is():
    numerics = model.Numerics("ulp", ulp="2 + floor(abs(f64(x)))")
    x = np.array([1.0, np.nan, 3.0], np.float32)
    limits = tolerance(numerics, "y", "f32", {"x": x})
    assert limits.ulp[0] == 3 and np.isnan(limits.ulp[1]) and limits.ulp[2] == 5
    refs = {"y": np.array([1.0, np.nan, 3.0])}
    assert compare(x, refs, "y", limits, x).ok
    wrong = np.array([1.0, 7.0, 3.0], np.float32)
    assert not compare(wrong, refs, "y", limits, x).ok
    assert not compare(x, {"y": np.array([1.0, 7.0, 3.0])}, "y", limits, x).ok
    for nothing in ("x * 0 - 1", "log2(f64(x) * 0 - 1)"):
        with pytest.raises(Unjudgeable, match="a limit is a number from 0"):
            tolerance(model.Numerics("ulp", ulp=nothing), "y", "f32", {"x": np.ones(3, np.float32)})
