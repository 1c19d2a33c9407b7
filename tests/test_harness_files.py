"""Feature files with mistakes of many kinds: each is one error at its place, or one result that blames the file."""

import numpy as np
import pytest

from conformance import yaml_text
from conformance.errors import SpecError
from conformance.expressions import ExpressionError, evaluate
from conformance.loader import load_feature, load_suite, parse_feature
from conformance.model import Numerics
from conformance.tolerance import Unjudgeable, tolerance
from tests.test_harness_loader import edited, reject

NUMERICS = "numerics: {mode: exact}"


@pytest.mark.parametrize(
    ("old", "new", "id", "under", "message"),
    [
        ("title: A masked", "title: !!str A masked", "spec.tag", "!!str", "tags"),
        (NUMERICS, "numerics: !!map {mode: exact}", "spec.tag", "!!map", "tags"),
        (NUMERICS, "numerics: {<<: {mode: exact}}", "spec.key", "<<", "merge keys"),
        (NUMERICS, 'numerics: {mode: ulp, ulp: -1, why: "none"}', "spec.value", "-1", "a number from 0"),
        (NUMERICS, 'numerics: {mode: ulp, ulp: .nan, why: "none"}', "spec.value", ".nan", "a number from 0"),
        (NUMERICS, 'numerics: {mode: ulp, ulp: "2 * q", why: "none"}', "spec.expression", "q", "unknown name"),
        ("N: [100]", "N: [100, 100]", "spec.value", "100]", "given twice"),
        ("N: [100]", 'N: [100], "N, n": [[1, 1]]', "spec.value", '"N, n"', "'N' is given twice"),
        ("N: [100]", f"N: {list(range(4000))}", "spec.value", "{T:", "at most 10000"),
        ("inputs: {x: random}", 'inputs: {x: "uniform(1, 2, 3)"}', "spec.inputs", '"uniform', "too many"),
        ("tier: smoke", 'tier: smoke\n    where: "n > N"', "spec.value", '"n > N"', "no instance is left"),
        ("tier: smoke", 'tier: smoke\n    where: "n + T"', "spec.expression", '"n + T"', "no value"),
        ('"n: i32"', '"n: i32", "k: i32 = k"', "spec.expression", "k", "unknown name 'k'"),
        ("oracle: {out:", 'oracle: {ref: "oracles.nothing:at_all"} #', "spec.oracle", '"oracles.nothing', "no oracle"),
        ("since:", "requires: [warp_drive]\nsince:", "spec.value", "warp_drive", "fp64"),
    ],
)
def test_mistakes_are_found_where_they_stand(old, new, id, under, message):
    reject(edited(old, new), id, under, message)


def test_a_kernel_that_is_not_python_is_shown_in_the_file():
    text = edited("i = tl.program_id(0) * BLOCK +", "i = tl.program_id(0) * * BLOCK +")
    error = reject(text, "spec.source", "* BLOCK", "the kernel is not Python: line 3: invalid syntax")
    assert error.line_text.startswith("        i = tl.program_id(0) * * BLOCK")


def test_a_signature_is_wrong_where_it_is_written():
    reject(edited('"n: i32"', '"n: i32", "z: i32 = 1"'), "spec.signature", '"z: i32', "has no parameter 'z'; it has x")
    error = reject(edited('"n: i32"', '"n: {U}"'), "spec.expression", '"n: {U}"', "uses {U}")
    assert "has no parameter 'U'" in error.message


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        ("title: café".encode("latin-1"), (1, 11), "not UTF-8: found byte 0xe9"),
        ("title: x".encode("utf-16"), (1, 1), "not UTF-8"),
        (b"a: 1\ntitle: x\x07", (2, 9), "the character U+0007"),
        (b"a: 1\r\n\r\ntitle: \x00", (3, 8), "the character U+0000"),
    ],
)
def test_characters_that_no_file_has(tmp_path, content, place, message):
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    for read in (load_feature, lambda path: yaml_text.load(path, "f.yaml")):
        with pytest.raises(SpecError) as caught:
            read(path)
        assert (caught.value.mark.line, caught.value.mark.col) == place and message in caught.value.message


def test_a_check_and_a_case_of_one_name(tmp_path):
    at = "{T: f32, N: 100, n: 0, BLOCK: 32, x: random}"
    entry = f"ir:\n  - {{id: tail, stage: simt, at: {at}, has: [x], covers: [C1]}}\ncases:\n"
    error = reject(
        edited("cases:\n", entry), "spec.duplicate_id", "", "two instances are called memory.copy/tail:T=f32"
    )
    assert error.line_text.lstrip().startswith("- {id: tail")


@pytest.mark.parametrize("name", ["memory/copy.yml", "copy.yaml", "memory/deep/copy.yaml"])
def test_files_that_nobody_would_read(tmp_path, name):
    path = tmp_path / "features" / name
    path.parent.mkdir(parents=True)
    path.write_text(edited("title:", "title:"))
    (path.parent / ".copy.yml").touch()
    with pytest.raises(SpecError, match=rf"{name}: error\[spec.file\]: the file is not read: .*<name>.yaml"):
        load_suite(tmp_path)


def test_long_texts_are_shown_in_part():
    with pytest.raises(SpecError) as caught:
        parse_feature(edited("title: A", f"title: {'x' * 100_000} A"), "f.yaml")
    assert caught.value.mark.line == 3 and len(caught.value.render()) < 1500
    with pytest.raises(SpecError) as caught:
        parse_feature(edited("inputs: {x: random}", f"inputs: {{{' ' * 50_000}x: rnd}}"), "f.yaml")
    shown = caught.value.render().splitlines()
    assert shown[1][shown[2].index("^") :].startswith("rnd")


def test_errors_between_files_show_their_line(tmp_path):
    folder = tmp_path / "features" / "memory"
    folder.mkdir(parents=True)
    (folder / "copy.yaml").write_text(edited("phase: type, id: E1", 'phase: type, id: "memory.load#E7"'))
    with pytest.raises(SpecError) as caught:
        load_suite(tmp_path)
    assert "- id: " in caught.value.render().splitlines()[1]


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "1 << (1 << 40)",
        "+".join("1" * 5000),
        "-" * 3000 + "1",
        "(" * 300 + "1" + ")" * 300,
        "zeros(10**13)",
    ],
)
def test_expressions_without_end_have_no_value(text):
    with pytest.raises(ExpressionError):
        evaluate(text, {})
    assert evaluate("2**64 - (1 << 63)", {}) == 1 << 63


def test_limits_of_no_number_stand_where_there_is_none():
    """An expression over an input that is NaN is NaN there; a limit that is a number nowhere is a mistake."""
    inputs = {"x": np.array([1.0, np.nan], np.float32)}
    limits = tolerance(Numerics("ulp", ulp="abs(x)"), "out", "f32", inputs)
    np.testing.assert_array_equal(limits.ulp, [1.0, np.nan])
    for text in ("x * nan", "-abs(x)"):
        with pytest.raises(Unjudgeable, match="a limit is a number from 0"):
            tolerance(Numerics("ulp", ulp=text), "out", "f32", inputs)
