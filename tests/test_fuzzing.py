"""Random kernels of `tilespec fuzz`: the same everywhere, over the whole language, agreed on by all that runs here."""

import re
from pathlib import Path

import numpy as np
import pytest

from conformance.adapters import load
from conformance.fuzzing.campaign import run
from conformance.fuzzing.differential import Comparison, Member, unlike
from conformance.fuzzing.planted import PLANTED, SEED, chosen
from conformance.fuzzing.rendering import source
from conformance.fuzzing.search import draw, search
from conformance.fuzzing.vocabulary import LEFT_OUT, ROWS, STRUCTURE
from refcompiler.ir.opdef import OPS


def comparison():
    members = [Member(n, load(n), True) for n in ("interp", "simt")]
    return Comparison(members, load("conformance.adapters.reference:unoptimised"))


def test_same_seed_same_program():
    assert source(draw(3, 14)) == source(draw(3, 14))
    assert len({source(draw(3, i)) for i in range(20)}) == 20


def test_every_op_of_the_language_is_generated_or_left_out_for_a_reason():
    import refcompiler.dialects.tile  # noqa: F401  fills the table of ops

    generated = {op for row in ROWS.values() for op in row.emits} | set(STRUCTURE)
    known = {name for name, cls in OPS.items() if "tile" in cls.levels}
    assert known - generated - set(LEFT_OUT) == set()
    assert (generated | set(LEFT_OUT)) - known == set(), "the vocabulary names ops that do not exist"
    assert not generated & set(LEFT_OUT)


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_targets_agree(first):
    judge = comparison().differences
    for index in range(first, first + 5):
        outcome = search(2026, index, judge)
        assert not outcome.differences, f"program {index}: {outcome.differences[0]}\n{source(outcome.program)}"


def test_both_backends_compile_what_is_generated():
    campaign = run(("cuda", "mlir"), 2026, 100, 16, 1)
    assert campaign.unserved or campaign.programs == 16
    assert not campaign.findings, campaign.findings[0].differences


def test_the_page_shows_what_planted_mistakes_show():
    page = (Path(__file__).parents[1] / "docs" / "fuzzing.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(M-\w+-\d+): found after \d+ programs.*\n    program (\d+):", page, flags=re.M)
    assert len(shown) > len(PLANTED) and all(PLANTED[mutant] == int(program) for mutant, program in shown)
    assert re.findall(r"fuzz --plant \S+ --programs \d+ --seed (\d+)", page) == [str(SEED)] * 2


@pytest.mark.parametrize("mutant", PLANTED)
def test_a_planted_mistake_is_found(mutant):
    """The same program is without differences when nothing is planted."""
    (planted,), at = chosen(mutant), PLANTED[mutant]
    wrong = run(("interp", "simt"), SEED, at, 1, 1, plant=planted, smaller=False)
    assert wrong.findings, (
        f"program {at} does not find {mutant}; tilespec fuzz --seed {SEED} --plant {mutant} says which does"
    )
    found = wrong.findings[0].differences[0]
    assert "judging it" not in found["message"], found["message"]
    right = run(("interp", "simt"), SEED, at, 1, 1, smaller=False)
    assert not right.findings, right.findings[0].differences


@pytest.mark.parametrize("smaller", [False, True])
def test_a_fault_of_the_judge_is_no_agreement(smaller):
    def judge(program):
        raise TypeError("an oracle cannot")

    with pytest.raises(TypeError, match="an oracle cannot"):
        search(1, 0, judge, smaller=smaller)


def test_bits_are_compared_with_nan_as_one_value():
    f32 = np.array([0x7FC00000, 0x80000000, 0x3F800000], "u4").view("f4")
    assert unlike(np.array([0xFFC00001, 0x80000000, 0x3F800000], "u4").view("f4"), f32, 0) == ""
    assert "[1] is 0.0 (0x00000000), not -0.0 (0x80000000)" in unlike(
        np.array([0x7FC00000, 0, 0x3F800000], "u4").view("f4"), f32, 0
    )
    assert unlike(np.array([0x7FC00000, 0x80000000, 0x3F800001], "u4").view("f4"), f32, 0)
