"""Targets that are each right within their tolerance and differ in one bit: a failure that names both."""

import json

import numpy as np
from click.testing import CliRunner

from conformance.agreement import across, digest
from conformance.cli import main

APPROXIMATE = "math.sqrt/approximate:FN=sqrt;T=f32;*"
EVIL = "tests.evil.one_bit:OtherNeighbour"


def run(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


def results(file):
    return json.loads(file.read_text())


def test_one_bit_within_tolerance_is_a_disagreement(tmp_path):
    file = tmp_path / "r.json"
    done = run("run", APPROXIMATE, "--target", f"interp,{EVIL}", "--json", file)
    document = results(file)
    planned = [r for r in document["results"] if r["kind"] == "oracle"]
    assert {r["status"] for r in planned} == {"pass"}, "each is right within one ULP"
    wrong = [r for r in document["results"] if r["kind"] == "agreement"]
    assert done.exit_code == 1 and len(wrong) == len(planned) // 2 == 4
    assert all(r["status"] == "fail" and r["impl"] == EVIL for r in wrong)
    assert f"interp and {EVIL} differ in the bits of out" in wrong[0]["message"]
    assert document["agreement"] == {"instances": 4, "targets": ["interp", EVIL], "disagreements": 4}
    of_feature = {f["id"]: f["agreement"] for f in document["features"]}
    assert of_feature["math.sqrt"] == document["agreement"]


def test_targets_of_the_compiler_agree(tmp_path):
    file = tmp_path / "r.json"
    done = run("run", APPROXIMATE, "math.exp/fast:T=f32;*", "--target", "interp,simt", "--json", file)
    assert done.exit_code == 0, done.output
    assert results(file)["agreement"] == {"instances": 4, "targets": ["interp", "simt"], "disagreements": 0}
    assert not any(r.get("bits") for r in results(file)["results"] if r["i"].startswith("math.exp")), "exp is inexact"


def test_runs_of_different_machines_are_compared(tmp_path):
    for name, target in (("a", "interp"), ("b", EVIL), ("c", "simt")):
        assert run("run", APPROXIMATE, "--target", target, "--json", tmp_path / name).exit_code == 0
    same = run("report", tmp_path / "a", tmp_path / "c", "--out", tmp_path / "same")
    assert same.exit_code == 0 and "interp, simt left the same bits in 4 of 4 instances" in same.output
    differ = run("report", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "differ")
    assert differ.exit_code == 1 and f"interp and {EVIL} differ in the bits of out" in differ.output
    documents = [results(tmp_path / n) for n in "ab"]
    documents[0]["suite"]["spec_digest"] = "0" * 16
    assert across(documents)[0]["instances"] == 0, "another specification is not compared"


def test_digest_takes_nan_as_one_value_and_zeros_as_two():
    nan = np.array([0x7FC00000, 0], "u4").view("f4")
    other = np.array([0xFFFFDEAD, 0], "u4").view("f4")
    assert digest(nan) == digest(other) != digest(-nan[::-1])
    assert digest(np.array([0.0], "f4")) != digest(np.array([-0.0], "f4"))
    assert digest(np.array([1, 2]), [True, False]) == digest(np.array([3, 2]), [True, False])
