"""The command line: exit codes, JSON documents, tables, and clear errors, on an implementation in NumPy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from conformance import parallel, report_data
from conformance.adapters import Info
from conformance.cli import main
from conformance.errors import SpecError
from conformance.floors import counts, floor, raise_floors
from conformance.instances import collect
from conformance.loader import load_suite
from tests.evil.honest import Honest

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "tests" / "evil" / "spec"
HONEST, EVIL = "tests.evil.honest:Honest", "tests.evil.impostors:"
SCHEMA = json.loads((ROOT / "spec" / "schema" / "report.schema.json").read_text())


def tilespec(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


def run(*words, target=HONEST, spec=SPEC):
    return tilespec("run", *words, "--target", target, "--spec", spec)


@pytest.fixture
def suite(tmp_path):
    """A copy of the small suite that a test may change."""
    for path in SPEC.glob("features/*/*.yaml"):
        target = tmp_path / path.relative_to(SPEC)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    return tmp_path


def test_a_conforming_run(tmp_path):
    file = tmp_path / "out" / "r.json"
    done = run("--json", file)
    assert done.exit_code == 0, done.output
    assert "memory.copy" in done.output and "conforms" in done.output
    document = json.loads(file.read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    counts = document["totals"]
    assert counts["expected"] == counts["collected"] == counts["pass"] == len(document["results"])
    assert {f["id"] for f in document["features"]} == {"elementwise.add", "memory.copy", "reduction.sum"}
    assert all(c["statuses"] == ["pass"] for f in document["features"] for c in f["clauses"])


def test_failures_are_shown_with_how_to_repeat_them():
    done = run(target=EVIL + "Zeros")
    assert done.exit_code == 14 and "smoke test" in done.output  # a copy that writes zeros does not even start
    done = run("reduction", target=EVIL + "DropsATerm")
    assert done.exit_code == 1
    assert "reduction/sum.yaml:" in done.output and "tilespec run 'reduction.sum/exact:" in done.output


def test_several_processes_give_the_same_results(tmp_path):
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    run("--json", one)
    done = run("--json", two, "-n", 2)
    assert done.exit_code == 0, done.output
    first, second = (json.loads(p.read_text())["results"] for p in (one, two))
    for r in (*first, *second):
        del r["ms"]
    assert first == second


def test_a_process_that_dies_is_one_crash(tmp_path):
    file = tmp_path / "r.json"
    done = run("reduction.sum/exact", "--json", file, "-n", 2, target="tests.evil.impostors:Exits")
    assert done.exit_code == 1
    results = json.loads(file.read_text())["results"]
    assert {r["status"] for r in results} == {"crash", "pass"}


def test_a_process_that_hangs_is_one_timeout():
    from conformance.parallel import run_in_processes
    from conformance.plan import make_plan

    plan = make_plan(load_suite(SPEC), ["reduction.sum/exact"], ["tests.evil.impostors:Hangs"])
    for instance in plan.targets[0].instances:
        assert instance.params["N"] in (32, 128)
    chosen = [i for i in plan.targets[0].instances if i.id.endswith("T=f32;M=7;N=128;x=onehot(sweep)")]
    plan.targets[0].instances = [*chosen, *(i for i in plan.targets[0].instances if i.params["N"] == 32)]
    results = run_in_processes(plan.targets[0], SPEC, 1, lambda r: None, limit=5.0)
    assert [r.status for r in results] == ["timeout", *["pass"] * 4]


def test_nothing_selected_is_exit_5():
    done = run("nothing.here")
    assert done.exit_code == 5 and "no instance matches 'nothing.here'" in done.output


def test_nothing_judged_is_exit_5():
    """A target that claims no profile fails its smoke test; one that is asked nothing is no success."""
    assert run(target=EVIL + "ClaimsNothing").exit_code == 14
    assert run("memory.copy/not_a_power_of_two", target="tests.evil.impostors:FindsNoErrors").exit_code == 5


def test_usage_errors_are_exit_2(tmp_path):
    assert tilespec("run", "--target", "nonsense").exit_code == 2
    assert tilespec("run", "--shard", "3/2").exit_code == 2
    assert tilespec("run", "--tier", "weekly").exit_code == 2
    broken = tmp_path / "features" / "a"
    broken.mkdir(parents=True)
    (broken / "b.yaml").write_text("schema: 1\nschema: 1\n")
    done = run(spec=tmp_path)
    assert done.exit_code == 2 and "b.yaml:2:1: error[spec.duplicate_key]" in done.output


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("os:system", "TypeError: system() missing"),
        ("os:nothing", "module 'os' has no attribute 'nothing'"),
        ("collections:OrderedDict", "object has no attribute 'info'"),
        ("unittest.mock:MagicMock", "no conformance.adapters.Info"),
        ("tests.nothing:Adapter", "No module named"),
    ],
)
def test_targets_that_are_no_adapters(target, message):
    done = run("memory.copy", target=target)
    assert done.exit_code == 2 and message in done.output and "Traceback" not in done.output


def test_fewer_instances_than_the_floor_is_exit_15(suite):
    (suite / "floors.yaml").write_text(f'"{HONEST}": {{pr: 10000}}\n')
    done = run(spec=suite)
    assert done.exit_code == 15 and "fewer than the floor of 10000" in done.output
    assert run("memory", spec=suite).exit_code == 0  # a part is not measured by the whole


def test_bless_raises_floors_and_never_lowers_them(suite):
    info, every = Honest().info(), collect(load_suite(suite))
    found = counts(every, info)
    assert found["smoke"] < found["pr"] < found["gpu"] == len(every)
    assert raise_floors(suite, {"t": found}) == 4
    assert raise_floors(suite, {"t": {"pr": 1}}) == 0
    assert floor(suite, "t", "pr", info) == found["pr"]


@pytest.mark.parametrize(
    "text, message", [("a: 1\n", "tier to count"), ("a: {weekly: 1}\n", "smoke"), ("- a\n", "mapping")]
)
def test_floors_are_checked(suite, text, message):
    (suite / "floors.yaml").write_text(text)
    done = run(spec=suite)
    assert done.exit_code == 2 and message in done.output


def test_an_uncovered_clause_is_exit_13(suite):
    path = suite / "features" / "reduction" / "sum.yaml"
    clause = '  - {id: C3, level: must, kind: memory, text: "nothing tests this sentence"}\n'
    path.write_text(path.read_text().replace("program:\n", clause + "program:\n", 1))
    (suite / "floors.yaml").write_text(f'"{HONEST}": {{pr: 1}}\n')
    done = run(spec=suite)
    assert done.exit_code == 13 and "reduction.sum#C3" in done.output


def test_a_stale_deviation_is_exit_11(suite):
    folder = suite / "deviations"
    folder.mkdir()
    entry = (
        '- {instance: "memory.copy/tail*", status: fail, signature: x, reason: r, issue: "https://example.org/1", '
        'since: "2026-11-01", expires: "2027-01-01"}\n'
    )
    (folder / f"{HONEST}.yaml").write_text(entry)
    assert run(spec=suite).exit_code == 11


def test_shards_make_a_whole(tmp_path):
    ids = []
    for i in (1, 2):
        file = tmp_path / f"{i}.json"
        assert run("--shard", f"{i}/2", "--json", file).exit_code == 0
        ids += [r["i"] for r in json.loads(file.read_text())["results"]]
    whole = tmp_path / "w.json"
    run("--json", whole)
    assert sorted(ids) == sorted(r["i"] for r in json.loads(whole.read_text())["results"])


def test_list_json_is_the_contract():
    document = json.loads(tilespec("list", "--json", "--spec", SPEC).output)
    assert set(document) == {"targets", "features"}
    feature = document["features"][0]
    keys = {"id", "area", "title", "since", "status", "profile", "file", "clauses", "cases", "instances", "negatives"}
    assert set(feature) == keys
    assert set(feature["clauses"][0]) == {"id", "level", "covered"}


def test_list_for_people():
    done = tilespec("list", "memory", "--spec", SPEC)
    assert done.exit_code == 0 and "memory.copy" in done.output and "reduction.sum" not in done.output
    assert tilespec("list", "nothing", "--spec", SPEC).exit_code == 5


def test_explain_a_clause_and_an_instance():
    done = tilespec("explain", "memory.copy#C2", "--spec", SPEC)
    assert "keep their contents" in done.output and "memory.copy/tail" in done.output
    done = tilespec("explain", "memory.copy/tail:T=f32;N=100;n=0;BLOCK=32;x=random", "--spec", SPEC)
    assert "tl.store" in done.output and "memory.copy#C1" in done.output
    done = tilespec("explain", "memory.cpy#C1", "--spec", SPEC)
    assert done.exit_code == 5 and "did you mean memory.copy?" in done.output


def test_new_scaffolds_a_file_that_loads(tmp_path):
    done = tilespec("new", "elementwise/softsign", "--spec", tmp_path)
    assert done.exit_code == 0, done.output
    done = tilespec("list", "--json", "--spec", tmp_path)
    assert json.loads(done.output)["features"][0]["id"] == "elementwise.softsign"
    assert tilespec("new", "elementwise/softsign", "--spec", tmp_path).exit_code == 2
    assert tilespec("new", "Elementwise", "--spec", tmp_path).exit_code == 2


def test_help_shows_an_example_for_every_command():
    assert "Exit codes" in tilespec("--help").output
    for command in main.commands:
        text = tilespec(command, "--help").output
        assert command == "doctor" or f"tilespec {command}" in text, command


def test_a_report_that_is_none_is_told(tmp_path):
    file = tmp_path / "r.json"
    file.write_text('{"report": 1}')
    done = tilespec("report", file, "--out", tmp_path / "out")
    assert done.exit_code == 2 and "not a report" in done.output
    with pytest.raises(SpecError, match="not a report"):
        report_data.read(tmp_path / "missing.json")


def test_no_colour_unless_on_a_terminal():
    assert "\x1b[" not in run("reduction", target=EVIL + "DropsATerm").output


def test_no_colour_on_a_terminal_where_none_is_wanted():
    command = [sys.executable, "-m", "conformance"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    for options, plain in ((["--no-color"], True), ([], False)):
        leader, follower = os.openpty()
        words = [*command, *options, "list", "memory", "--spec", str(SPEC)]
        subprocess.run(words, env=environment, stdout=follower, check=True)
        os.close(follower)
        assert (b"\x1b[" not in os.read(leader, 10_000)) == plain
        os.close(leader)


def test_workers_leave_interrupts_to_their_parent(monkeypatch):
    class Begun(Exception):
        pass

    def begin(planted):
        raise Begun

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(parallel.planting, "join", begin)
    try:
        with pytest.raises(Begun):
            parallel._serve(None, HONEST, SPEC, None)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_floor_of_a_target_that_only_compiles_does_not_bind_the_smoke_tier(tmp_path):
    (tmp_path / "floors.yaml").write_text("cuda: {smoke: 7, pr: 50, compile: 40}\n", encoding="utf-8")
    runs, compiles = Info("cuda", "1", runs=True), Info("cuda", "1", runs=False)
    assert [floor(tmp_path, "cuda", t, runs) for t in ("smoke", "pr")] == [7, 50]
    assert [floor(tmp_path, "cuda", t, compiles) for t in ("smoke", "pr", "gpu")] == [0, 40, 40]


COUNT_BUDGET = """budgets:
  - {id: sectors, at: {T: f32, BLOCK: 128, N: 384, n: 384}, counts: {sectors: "LIMIT", barriers: 0}}
cases:
"""


@pytest.mark.parametrize(("limit", "code"), [("2 * N * 4 / 32", 0), ("2 * N * 4 / 32 - 1", 10)])
def test_counts_over_their_budget_are_exit_10(suite, tmp_path, limit, code):
    path = suite / "features" / "memory" / "copy.yaml"
    path.write_text(path.read_text().replace("cases:\n", COUNT_BUDGET.replace("LIMIT", limit), 1))
    file = tmp_path / "r.json"
    done = run("memory.copy/sectors", "--json", file, target="simt", spec=suite)
    assert done.exit_code == code, done.output
    (result,) = json.loads(file.read_text())["results"]
    assert result["perf"]["sectors"] == 96
    assert result["perf"]["limits"]["sectors"] == [96 - code / 10] * 2
    if code:
        assert result["message"] == "sectors 96 instead of 95"


@pytest.mark.parametrize(
    ("words", "begun", "offered"),
    [
        (["run", "--target"], "simt,m", ["simt,mlir"]),
        (["compile", "--emit"], "tile,sa", ["tile,sass"]),
        (["bench", "--peers"], "cud", ["cudnn"]),
        (["run", "--spec", str(SPEC)], "mem", ["memory.copy"]),
        (["compile", "--spec", str(SPEC)], "memory.copy/t", ["memory.copy/tail"]),
        (["explain", "--spec", str(SPEC)], "memory.copy#E", ["memory.copy#E1", "memory.copy#E2"]),
        (["explain", "--spec", str(SPEC)], "memory.nothing/", []),
    ],
)
def test_what_shells_offer(words, begun, offered):
    complete = BashComplete(main, {}, "tilespec", "_TILESPEC_COMPLETE")
    assert [item.value for item in complete.get_completions(words, begun)] == offered
