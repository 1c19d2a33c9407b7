"""Every mutant of the catalogue is found, by the cases and the witness it names; and the mechanism can tell.

Each mutant runs in a process of its own, with snapshot and SSA comparison switched off.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import jsonschema
import pytest

from conformance.errors import SpecError
from conformance.loader import load_suite, spec_root
from conformance.mutation import campaign, catalogue, load_catalogue
from conformance.mutation.catalogue import DeadAnchor, patch
from conformance.mutation.patching import marked
from conformance.mutation.verdicts import Kill, MutationReport, Verdict

MUTANTS = load_catalogue()


@pytest.fixture(scope="module")
def verdict_on(request):
    """Judges the selected mutants, as many at a time as there are cores; in a worker of xdist one after the other."""
    if hasattr(request.config, "workerinput"):
        yield campaign.judge
        return
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = [c.params["mutant"] for c in calls if c is not None and "mutant" in c.params]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {m.id: pool.submit(campaign.judge, m) for m in wanted}
        yield lambda mutant: futures[mutant.id].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.id)
def test_every_mutant_is_red(mutant, verdict_on):
    verdict = verdict_on(mutant)
    if verdict.status == "unserved":
        pytest.skip(verdict.message)
    assert verdict.status == "killed", f"{mutant.what}: {verdict.status} {verdict.message}"
    assert verdict.how == "red", verdict.message
    assert verdict.unmet == (), f"killed by {[(k.instance, k.witness) for k in verdict.kills]}"


@pytest.mark.parametrize("target", sorted({m.target for m in MUTANTS}))
def test_the_compiler_as_it_is_passes_the_same_cases(target):
    assert campaign.baseline([m for m in MUTANTS if m.target == target], target, spec_root()) == {}


def test_the_catalogue_covers_the_compiler():
    """A floor, because what is missing from a catalogue cannot fail."""
    assert len(MUTANTS) >= 120
    assert {m.area for m in MUTANTS} >= {"frontend", "folds", "masks", "reductions", "layouts", "barriers", "emitter"}
    assert {m.witness for m in MUTANTS} == {
        "exact",
        "bound",
        "negative",
        "transform",
        "invariant",
        "budget",
        "emulator",
    }


def test_what_features_promise_to_kill_is_in_the_catalogue():
    killers = {m.id: {p.split("/")[0] for p in m.killed_by} for m in MUTANTS}
    promised = [(f.id, m) for f in load_suite() for m in f.kills]
    assert [(f, m) for f, m in promised if f not in killers.get(m, ())] == []


# ----------------------------------------------------------------------------------------------- the mechanism
FIRST = MUTANTS[0]


def test_an_equivalent_mutant_survives():
    line = FIRST.find.splitlines()[0]
    same = replace(FIRST, find=line, replace=line + "  # says the same")
    verdict = campaign.judge(same)
    assert (verdict.status, verdict.kills) == ("survived", ()), verdict.message
    assert verdict.ran > 0


def test_a_statement_that_never_runs_is_an_error():
    idle = next(m for m in MUTANTS if m.module.endswith(".licm"))
    verdict = campaign.judge(replace(idle, killed_by=("opt.fold/add_wraps",)))
    assert verdict.status == "not_activated", verdict


def test_a_dead_anchor_is_an_error_and_never_a_survivor():
    for find in ("this text is nowhere", "import"):
        verdict = campaign.judge(replace(FIRST, find=find))
        assert verdict.status == "dead_anchor"
        assert MutationReport([verdict], gate=0.0).exit_code == 1
    assert campaign.judge(replace(FIRST, replace="):")).status == "dead_anchor"


def test_a_selection_without_instances_is_an_error():
    assert campaign.judge(replace(FIRST, killed_by=("opt.fold/no_such_case",))).status == "no_cases"


def test_a_dying_process_is_a_kill_that_says_so():
    crashing = replace(FIRST, replace=f"import os; os._exit(7); {FIRST.replace}")
    verdict = campaign.judge(crashing)
    assert (verdict.status, verdict.how) == ("killed", "crash")
    assert "ended with 7" in verdict.message
    assert set(verdict.unmet) == set(FIRST.killed_by), "a process that died witnessed nothing"


def test_a_hanging_process_is_ended(monkeypatch):
    monkeypatch.setattr(campaign, "SILENCE_SECONDS", 5.0)
    hanging = replace(FIRST, replace=f"exec('while True: pass'); {FIRST.replace}")
    verdict = campaign.judge(hanging)
    assert (verdict.status, verdict.how) == ("killed", "timeout")


@pytest.mark.parametrize("grows", [True, False])
def test_a_process_that_goes_on_is_let_be(tmp_path, monkeypatch, grows):
    answers, clock = tmp_path / "answers.jsonl", [0.0]

    class Child:
        left = 10

        def wait(self, timeout):
            self.left -= 1
            clock[0] += 60.0
            if self.left:
                answers.write_text("x" * (int(clock[0]) if grows else 1))
                raise subprocess.TimeoutExpired("child", timeout)

    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    assert campaign._ends(Child(), answers) == grows


def test_instances_red_without_the_mutant_kill_nothing():
    red = campaign.judge(FIRST).kills
    assert campaign.judge(FIRST, known={k.instance for k in red}).status == "survived"


def test_each_child_has_an_artifact_cache_of_its_own(tmp_path):
    environment = campaign._environment(str(tmp_path))
    assert environment["TILESPEC_CACHE_DIR"].startswith(str(tmp_path))


def test_a_run_writes_the_block_that_the_schema_describes(tmp_path):
    schema = json.loads((spec_root() / "schema" / "report.schema.json").read_text())
    out = tmp_path / "mutation.json"
    report = campaign.run(jobs=2, out=out, mutants=[FIRST.id])
    block = json.loads(out.read_text())
    jsonschema.validate(block, {"$defs": schema["$defs"], "$ref": "#/$defs/mutation"})
    assert (block["killed"], block["total"], report.exit_code) == (1, 1, 0)
    assert block["mutants"][0]["killers"]


def test_the_gate():
    kill = Kill(FIRST.killed_by[0], FIRST.witness, "pr")
    three = [Verdict(FIRST, "killed", "red", (kill,))] * 3
    assert MutationReport([*three, Verdict(FIRST, "survived")], gate=0.75).exit_code == 0
    assert MutationReport([*three, Verdict(FIRST, "survived")], gate=0.8).exit_code == 12
    assert MutationReport([*three, Verdict(FIRST, "not_activated")], gate=0.0).exit_code == 1
    assert MutationReport([Verdict(FIRST, "unserved")], gate=0.0).exit_code == 5
    assert MutationReport(three, gate=1.0, baseline={"a/b": "red anyway"}).exit_code == 1
    assert MutationReport([*three, Verdict(FIRST, "unserved")], gate=1.0).rate == 1.0


def test_a_selection_that_matches_no_mutant_is_an_error():
    with pytest.raises(SpecError, match="no mutant matches 'M-NO-01'"):
        campaign.run(mutants=["M-NO-01"])


ROW = """schema: 1
mutants:
  - id: M-A-01
    area: folds
    what: something is wrong here
    module: refcompiler.passes.cse
    find: "a"
    replace: "b"
    killed_by: [opt.cse/twice]
    witness: transform
"""


@pytest.mark.parametrize(
    "change, message",
    [
        (("M-A-01", "A1"), "does not have the form"),
        (("folds", "foldz"), "did you mean 'folds'"),
        (('replace: "b"', 'replace: "a"'), "the same text"),
        (("witness: transform", "witness: snapshot"), "'snapshot' is not one of"),
        (("    killed_by: [opt.cse/twice]\n", ""), "'killed_by' is missing"),
        (("refcompiler.passes.cse", "oracles.casts"), "does not have the form"),
        (("mutants:\n", "mutants:\n" + ROW.split("mutants:\n")[1]), "M-A-01 appears twice"),
    ],
)
def test_mistakes_in_a_catalogue_have_a_place(tmp_path, change, message):
    file = tmp_path / "catalogue.yaml"
    file.write_text(ROW.replace(*change, 1))
    with pytest.raises(SpecError, match=r"catalogue.yaml:\d+:\d+: error") as caught:
        load_catalogue(file)
    assert message in caught.value.render()


@pytest.mark.parametrize(
    "find, replace_, line",
    [("x = 1", "x = 2", 2), ("x = 1\n    return x", "x = 1\n    return 0", 3), ("    return x\n", "", 2)],
)
def test_the_line_of_a_patch(find, replace_, line):
    assert patch(find, replace_, "def f():\n    x = 1\n    return x\n").line == line


def test_a_patch_needs_one_occurrence():
    with pytest.raises(DeadAnchor, match="occurs 2 times"):
        patch("x", "y", "x = x")


@pytest.mark.parametrize(
    "line, before",
    [(1, "def f"), (2, "if a:"), (3, "return 1"), (4, "if b:"), (5, "return 2"), (6, "return 3")],
)
def test_the_mark_stands_before_the_innermost_statement(line, before):
    source = "def f(a, b):\n    if a:\n        return 1\n    elif b:\n        return (2,\n          3)\n"
    text = ast.unparse(marked(source, line))
    _, _, after = text.partition("__mutant_reached__()")
    expected = "return (2, 3)" if before in ("return 2", "return 3") else before
    assert after.strip().startswith(expected)


def test_no_two_mutants_are_the_same_mistake():
    sources = [(m.module, catalogue.check(m).source) for m in MUTANTS]
    assert [m.id for m, s in zip(MUTANTS, sources, strict=True) if sources.count(s) > 1] == []


def test_every_anchor_is_alive():
    dead = []
    for mutant in MUTANTS:
        try:
            catalogue.check(mutant)
        except DeadAnchor as e:
            dead.append(f"{mutant.id}: {e}")
    assert dead == []
