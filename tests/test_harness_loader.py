"""The loader: every mistake in a feature file is one error with id, line, column and a caret under the mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.errors import SpecError
from conformance.instances import collect
from conformance.loader import load_suite, parse_feature, spec_root

GOOD = (Path(__file__).parent / "evil" / "spec" / "features" / "memory" / "copy.yaml").read_text()


def reject(text: str, id: str, under: str, message: str = "") -> SpecError:
    """Parse, expect the error, and check that the caret stands under `under`."""
    with pytest.raises(SpecError) as caught:
        parse_feature(text, "f.yaml")
    error = caught.value
    assert error.id == id, error
    assert message in error.message, error
    rendered = error.render().splitlines()
    assert re.match(rf"f\.yaml:\d+:\d+: error\[{re.escape(id)}\]: ", rendered[0])
    column = rendered[2].index("^")
    assert rendered[1][column:].startswith(under), error
    assert text.splitlines()[error.mark.line - 1] == error.line_text
    return error


def edited(old: str, new: str) -> str:
    assert GOOD.count(old) >= 1, old
    return GOOD.replace(old, new, 1)


def test_the_good_file_loads():
    feature = parse_feature(GOOD, "f.yaml")
    assert feature.id == "memory.copy" and len(feature.cases) == 4
    assert feature.case("not_a_power_of_two").expect.id == "memory.copy#E1"


def test_duplicate_key():
    error = reject(
        edited("title: A masked copy", "status: stable\ntitle: A masked copy"), "spec.duplicate_key", "status"
    )
    assert "first on line 3" in error.message


@pytest.mark.parametrize("key, hint", [("clausses", "clauses"), ("titel", "title")])
def test_unknown_key_with_its_neighbour(key, hint):
    error = reject(edited(f"{hint}:", f"{key}: x\n{hint}:"), "spec.unknown_key", key)
    assert error.hint == f"did you mean '{hint}'?"


def test_unknown_key_inside_a_case():
    reject(edited("    tier: smoke", "    teir: smoke"), "spec.unknown_key", "teir")


def test_missing_key():
    reject(edited("since: 0.1.0\n", ""), "spec.missing_key", "schema", "'since'")


def test_a_case_must_cover():
    reject(
        edited("    covers: [C1, C2]\n    tier: smoke\n", "    tier: smoke\n"),
        "spec.missing_key",
        "id: tail",
        "'covers'",
    )


def test_wrong_type():
    reject(edited("cases:\n", "kills: C1\ncases:\n"), "spec.type", "C1", "expected array, found text ('C1')")


def test_wrong_word():
    error = reject(edited("status: stable", "status: stabel"), "spec.value", "stabel")
    assert error.hint == "did you mean 'stable'?"


def test_version_that_yaml_reads_as_a_number():
    reject(edited("since: 0.1.0", "since: 0.1"), "spec.type", "0.1", "expected string")


def test_an_error_needs_a_control():
    text = edited("    covers: [E1]\n    control: tail\n", "    covers: [E1]\n")
    reject(text, "spec.missing_key", "id: not_a_power_of_two", "'control'")


def test_an_error_needs_phase_and_id():
    text = edited("{outcome: error, phase: type, id: E1,", "{outcome: error, id: E1,")
    reject(text, "spec.missing_key", "{outcome", "'phase'")


def test_a_valid_case_has_no_phase():
    text = edited('    inputs: {x: ["random"', '    expect: {outcome: valid, phase: type}\n    inputs: {x: ["random"')
    reject(text, "spec.value", "{outcome")


def test_control_must_exist_and_be_valid():
    reject(edited("control: tail", "control: nothing"), "spec.reference", "nothing")
    reject(edited("control: tail", "control: empty_grid"), "spec.reference", "empty_grid", "itself not valid")


def test_unknown_clause():
    reject(edited("covers: [C1, C2]", "covers: [C1, C9]"), "spec.reference", "C9")


def test_dot_needs_depth():
    reject(edited("{mode: exact}", "{mode: dot, acc: f32}"), "spec.missing_key", "{mode", "'depth'")


def test_error_clauses_have_kind_error():
    reject(edited("{id: C1, level: must, kind: semantics", "{id: C1, level: must, kind: error"), "spec.clause", "error")


def test_clause_defined_twice():
    reject(edited("{id: C2,", "{id: C1,"), "spec.duplicate_id", "C1")


def test_case_defined_twice():
    reject(edited("- id: fuzz", "- id: tail"), "spec.duplicate_id", "tail")


def test_expression_with_an_unknown_name():
    error = reject(edited('grid: ["cdiv(N, BLOCK)"]', 'grid: ["cdiv(M, BLOCK)"]'), "spec.expression", "M, BLOCK")
    assert "unknown name 'M'" in error.message


def test_expression_that_would_run_code():
    text = edited('value: "x"', "value: \"__import__('os')\"")
    error = reject(text, "spec.expression", "__import__")
    assert "unknown function" in error.message


def test_expression_error_points_into_the_text():
    reject(edited('where: "n <= N"', 'where: "n <= Q"'), "spec.expression", "Q", "unknown name 'Q'")


def test_unknown_input_set():
    reject(
        edited('["random", "special"]', '["random", "rnadom"]'), "spec.inputs", '"rnadom"', "unknown input set 'rnadom'"
    )


def test_out_arrays_have_no_inputs():
    reject(edited("inputs: {x: [", "inputs: {out: random, x: ["), "spec.reference", "out", "starts as poison")


def test_input_array_without_inputs():
    reject(edited('    inputs: {x: ["random", "special"]}\n', ""), "spec.inputs", "id: tail", "array 'x' has no inputs")


def test_output_without_oracle():
    reject(edited("oracle: {out: {", "oracle: {output: {"), "spec.oracle", "{output", "output 'out' has no oracle")


def test_signature_mistakes():
    reject(edited('"x: *{T}[N]"', '"x: *{T}"'), "spec.signature", '"x', "both the star and a shape")
    reject(edited('"x: *{T}[N]"', '"x: *f99[N]"'), "spec.signature", '"x', "unknown dtype 'f99'")
    reject(edited('"n: i32"', '"m: i32 = N"'), "spec.signature", '"m: i32', "no parameter 'm'")


def test_scalar_without_value():
    text = edited(
        "params: {T: [f32, f16, i32], N: [100], n: [0, 1, 99, 100],", "params: {T: [f32, f16, i32], N: [100],"
    )
    error = reject(text, "spec.expression", "id: tail")
    assert "'n'" in error.message


def test_constexpr_without_value():
    text = GOOD.replace(", BLOCK: [32]}\n    inputs: {x: [", "}\n    inputs: {x: [").replace(
        '["cdiv(N, BLOCK)"]', '["4"]'
    )
    reject(text, "spec.signature", "id: tail", "'BLOCK'")


def test_at_must_be_in_the_source():
    reject(edited('at: "tl.arange(0, BLOCK)"', 'at: "tl.arange(1, BLOCK)"'), "spec.reference", '"tl.arange(1')


def test_source_must_be_python():
    reject(edited("def copy(x, out, n,", "def copy(x, out n,"), "spec.source", "n, BLOCK", "not Python")


def test_yaml_11_words_are_text():
    text = edited("    title", "    title") if "    title" in GOOD else GOOD
    feature = parse_feature(
        text.replace("title: A masked copy, for tests of the harness", "title: yes or no"), "f.yaml"
    )
    assert feature.title == "yes or no"


@pytest.mark.parametrize(
    "line, id, under",
    [
        ("notes: &a text", "spec.anchor", "&a"),
        ("notes: !!str text", "spec.tag", "!!str"),
        ("notes: [unclosed", "spec.yaml", ""),
        ("<<: {notes: x}", "spec.key", "<<"),
    ],
)
def test_yaml_that_is_not_used_here(line, id, under):
    with pytest.raises(SpecError) as caught:
        parse_feature(edited("clauses:", f"{line}\nclauses:"), "f.yaml")
    assert caught.value.id == id
    if under:
        rendered = caught.value.render().splitlines()
        assert rendered[1][rendered[2].index("^") :].startswith(under)


def test_the_id_is_the_place():
    with pytest.raises(SpecError, match=r"spec\.id"):
        parse_feature(GOOD, "f.yaml", "memory.other")


def test_errors_between_files(tmp_path):
    folder = tmp_path / "features" / "memory"
    folder.mkdir(parents=True)
    text = edited("phase: type, id: E1", 'phase: type, id: "memory.load#E7"')
    (folder / "copy.yaml").write_text(text)
    with pytest.raises(SpecError, match="no such clause"):
        load_suite(tmp_path)


def test_instance_ids_of_the_suite_are_unique_and_need_no_quoting():
    ids = [i.id for i in collect(load_suite(spec_root()))]
    assert len(ids) == len(set(ids))
    assert not [i for i in ids if re.search(r"[\s*\[\]]", i)]


COUNTS = """budgets:
  - {at: {T: f32, BLOCK: 64, N: 64}, inputs: {x: random}, counts: {sectors: "2 * N * 4 / 32", barriers: [0, 1]}}
cases:
"""


@pytest.mark.parametrize(
    ("old", "new", "id"),
    [
        ("sectors:", "sektors:", "spec.unknown_key"),
        ("2 * N * 4", "2 * M * 4", "spec.expression"),
        ("[0, 1]", "[0]", "spec.value"),
        ("{x: random}", "{z: random}", "spec.reference"),
        ("{x: random}", "{x: rnd}", "spec.inputs"),
        ("T: f32, ", "", "spec.missing_key"),
    ],
)
def test_a_budget_of_counts(old, new, id):
    text = edited("cases:\n", COUNTS)
    assert parse_feature(text, "f.yaml").budgets[0].counts["sectors"] == ("2 * N * 4 / 32",) * 2
    assert COUNTS.count(old) == 1
    with pytest.raises(SpecError) as caught:
        parse_feature(edited("cases:\n", COUNTS.replace(old, new)), "f.yaml")
    assert caught.value.id == id
