"""An honest implementation is green; every evil one is red, for a reason that names its evil."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.adapters import Info
from conformance.instances import collect
from conformance.loader import load_suite
from conformance.results import RED
from conformance.runner import Session, applies, collect_for, run_all
from conformance.smoke import smoke
from tests.evil.honest import Honest
from tests.evil.impostors import EVIL

SPEC = Path(__file__).parent / "evil" / "spec"


@pytest.fixture(scope="module")
def everything():
    return collect(load_suite(SPEC))


def judge(implementation, everything):
    session = Session(implementation.__name__, implementation())
    return run_all(session, collect_for(everything, session.info))


def test_the_honest_implementation_is_green(everything):
    results = judge(Honest, everything)
    assert [(r.i, r.message) for r in results if r.status != "pass"] == []
    assert {r.kind for r in results} == {"oracle", "negative", "ssa", "invariant"}
    assert len(results) == len(everything)


REASONS = {
    "Zeros": "expected",
    "StaleBuffer": "never written",
    "PreviousResult": "expected",
    "NanEverywhere": "expected",
    "WritesOutOfBounds": "bytes after array 'out' were written",
    "WritesMaskedLanes": "expected",
    "EditsInputs": "the input array 'x' was changed",
    "AcceptsEverything": "accepted; expected the error",
    "RejectsEverything": "a legal program was rejected",
    "RejectsElsewhere": "expected the span to cover",
    "ClaimsUnsupported": "claims core and answers that it is unsupported",
    "Crashes": "SystemError: segmentation fault",
    "NonDeterministic": "two runs on the same inputs differ",
    "DropsATerm": "expected",
    "WrongSsa": "the tile SSA differs",
}


@pytest.mark.parametrize("evil", [e for e in EVIL if e.__name__ in REASONS], ids=lambda e: e.__name__)
def test_every_evil_implementation_is_red(evil, everything):
    red = [r for r in judge(evil, everything) if r.status in RED]
    assert any(REASONS[evil.__name__] in r.message for r in red), [r.message for r in red][:5]


def test_claiming_nothing_is_never_green(everything):
    nothing = next(e for e in EVIL if e.__name__ == "ClaimsNothing")
    results = judge(nothing, everything)
    assert {r.status for r in results} == {"unsupported"}
    assert "core" in smoke(nothing())


def test_every_evil_implementation_has_its_reason():
    assert {e.__name__ for e in EVIL} == {*REASONS, "ClaimsNothing"}
    assert len(EVIL) >= 8


def test_error_cases_alone_do_not_satisfy_the_harness(everything):
    """A control twin makes rejecting everything visible: it is legal and must run."""
    rejecting = next(e for e in EVIL if e.__name__ == "RejectsEverything")
    results = {r.i: r.status for r in judge(rejecting, everything)}
    controls = {i.check.control for i in everything if i.kind == "negative"}
    assert controls == {"tail"}
    assert all(status == "fail" for i, status in results.items() if i.startswith("memory.copy/tail"))


def test_a_target_is_asked_only_what_it_can_witness(everything):
    compile_only = Info("c", "1", stages=("cuda", "resources"), phases=("type",), runs=False, why_not="no GPU")
    kinds = {(i.kind, i.check.expect.phase) for i in everything if i.kind == "negative" and applies(i, compile_only)}
    assert kinds == {("negative", "type")}
    assert not any(applies(i, compile_only) for i in everything if i.kind == "ssa")
