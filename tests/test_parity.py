"""The table of mytriton's faults: complete, naming what exists, and with committed answers to today's questions."""

from __future__ import annotations

import ast
import dataclasses
import json
from functools import cache
from pathlib import Path

import pytest

from conformance import parity
from conformance.adapters import TARGETS, load
from conformance.errors import SpecError
from conformance.instances import collect
from conformance.loader import load_suite
from conformance.runner import Session, run_instance

ROOT = Path(__file__).parents[1]
ROWS = parity.rows(ROOT / "spec")
EVIDENCE = parity.read_evidence(ROOT / "reports" / "parity.json")


@cache
def instances() -> tuple:
    return tuple(collect(load_suite(ROOT / "spec")))


def test_every_number_has_a_row():
    assert [row.number for row in ROWS] == [f"W{n}" for n in range(1, 27)] + [f"C{n}" for n in range(1, 17)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_exists(row):
    assert row.instances or row.tests
    parity.named(row, instances())
    for test in row.tests:
        file, _, name = test.partition("::")
        functions = {
            n.name: [a.arg for a in n.args.args]
            for n in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
            if isinstance(n, ast.FunctionDef)
        }
        assert "on" in functions.get(name, ()), f"{test} is no test with a parameter for the target"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_an_error_is_demanded_and_a_value_is_computed(row):
    kinds = {i.kind for i in parity.named(row, instances())}
    assert row.kind != "error" or kinds == {"negative"}
    assert row.kind != "value" or row.tests or "oracle" in kinds


def test_the_committed_answers_are_to_these_questions():
    now = parity.questions(ROWS, instances())
    assert EVIDENCE["questions"] == now, "judge the table again: docs/coming-from-mytriton.md says how"
    assert set(EVIDENCE["targets"]) == set(TARGETS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_every_target_answered(row):
    cells = EVIDENCE["rows"][row.number]
    assert all(cells[target] == "pass" for target in ("interp", "simt")), cells
    negatives = [i.check.expect for i in parity.named(row, instances()) if i.kind == "negative"]
    for target in TARGETS:
        allowed = {"pass"}
        if "no GPU" in EVIDENCE["targets"][target]:  # then nothing is launched, and no launch is refused
            allowed |= {"compiled"} | {"not run" for expect in negatives if expect.phase == "launch"}
        assert cells[target] in allowed, cells


# --------------------------------------------------------------------------- the faults would be found
def as_it_was(instance, changes):
    """The instance with its program as mytriton ran it, and the same demands on the outcome."""
    source = instance.program.source
    for old, new in changes.items():
        assert source.count(old) == 1, f"{instance.id}: {old!r} occurs {source.count(old)} times"
        source = source.replace(old, new)
    program = dataclasses.replace(instance.program, source=source)
    return dataclasses.replace(instance, check=dataclasses.replace(instance.check, program=program))


@pytest.mark.parametrize("row", [row for row in ROWS if row.became], ids=lambda row: row.number)
def test_the_program_as_it_was_fails(row):
    session = Session("interp", load("interp"), snapshots=None, law=False)
    first = dataclasses.replace(row, instances=row.instances[:1])
    outcomes = {i.id: run_instance(session, as_it_was(i, row.became)) for i in parity.named(first, instances())}
    assert "fail" in {r.status for r in outcomes.values()}, {i: (r.status, r.message) for i, r in outcomes.items()}
    assert {r.status for r in outcomes.values()} <= {"fail", "pass"}, [r.message for r in outcomes.values()]


def test_every_value_that_was_wrong_says_what_it_became():
    wrong = [row.number for row in ROWS if row.kind == "value" and row.number.startswith("W")]
    # A race has no text of its own: a mutant leaves the barrier out. What is no MLIR never ran.
    assert set(wrong) - {row.number for row in ROWS if row.became} == {"W8", "W25"}


# --------------------------------------------------------------------------- what counts as which answer
ROW = parity.Row("W1", "value", "a program", "wrong", ("memory.store/whole",), ("tests/test_x.py::test_y",))
MINE = [i for i in instances() if i.id.startswith("memory.store/whole")][:2]


def document(status: str = "pass", kind: str = "oracle", target: str = "cuda") -> dict:
    results = [{"i": i.id, "impl": target, "status": "pass", "kind": "oracle"} for i in MINE]
    results[-1] |= {"status": status, "kind": kind}
    return {"results": results, "implementations": [{"id": target, "device": "a GPU", "why_not": ""}]}


def suite(inside: str = "", target: str = "cuda") -> str:
    case = f'<testcase classname="tests.test_x" name="test_y[{target}-3]">{inside}</testcase>'
    return f"<testsuites><testsuite>{case}</testsuite></testsuites>"


COMPILED = '<properties><property name="judged" value="compiled"/></properties>'


@pytest.mark.parametrize(
    "documents, suites, expected",
    [
        ([document()], [suite()], "pass"),
        ([document(kind="compile")], [suite()], "compiled"),
        ([document("fail")], [suite()], "fail"),
        ([document("error")], [suite()], "fail"),
        ([document("skip")], [suite()], "not run"),
        ([document("fail"), document()], [suite()], "pass"),
        ([document(), document("fail")], [suite()], "fail"),
        ([document()], [suite(COMPILED)], "compiled"),
        ([document()], [suite("<failure/>")], "fail"),
        ([document()], [suite("<skipped/>")], "not run"),
        ([document()], [suite(), suite("<failure/>")], "fail"),
        ([document()], [], "not run"),
        ([], [suite()], "not run"),
        ([document(target="simt")], [suite()], "not run"),
        ([document()], [suite(target="simt")], "not run"),
    ],
)
def test_a_cell_is_the_worst_answer(documents, suites, expected):
    assert parity.evidence([ROW], MINE, documents, suites)["rows"]["W1"]["cuda"] == expected


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(SpecError, match=r"no instance matches 'memory\.store/nothing'"):
        parity.named(parity.Row("W1", "value", "", "", ("memory.store/nothing",)), MINE)


def test_a_table_with_a_mistake_is_refused_at_its_place(tmp_path):
    (tmp_path / "parity").mkdir()
    (tmp_path / "schema").mkdir()
    schema = (ROOT / "spec" / "schema" / "parity.schema.json").read_text(encoding="utf-8")
    (tmp_path / "schema" / "parity.schema.json").write_text(schema, encoding="utf-8")
    text = (ROOT / "spec" / "parity" / "mytriton.yaml").read_text(encoding="utf-8")
    (tmp_path / "parity" / "mytriton.yaml").write_text(text.replace("kind: value", "kind: valu", 1), encoding="utf-8")
    with pytest.raises(SpecError, match=r"mytriton.yaml:\d+:\d+: .*valu"):
        parity.rows(tmp_path)


def test_the_command_names_the_instances_and_keeps_the_answers(tmp_path):
    from click.testing import CliRunner

    from conformance.cli import main

    named = CliRunner().invoke(main, ["parity"])
    assert named.exit_code == 0 and named.output.splitlines() == parity.selection(ROWS)
    results, out = tmp_path / "results.json", tmp_path / "parity.json"
    words = ["run", "parity.crashes/c10_literal_left", "--target", "interp", "--json", str(results)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["parity", str(results), "--out", str(out)])
    assert done.exit_code == 0, done.output
    rows = json.loads(out.read_text())["rows"]
    assert rows["C10"] == {t: "pass" if t == "interp" else "not run" for t in TARGETS}
    assert set(rows["C1"].values()) == {"not run"}
