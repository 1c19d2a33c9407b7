"""What a report says outside its pages: numbers, verdicts, alarms, JUnit, Markdown, badges, comparisons."""

from __future__ import annotations

import json
import re
from collections import Counter
from xml.etree import ElementTree

import jsonschema
import pytest
from report_samples import HOSTILE, clause, document, every_status, feature, implementation, large

from conformance import report, report_data
from conformance.report import badges, charts, history, summary
from conformance.report.summary import Summary
from conformance.results import RED, STATUSES, Result


def one(*results: Result, **fields):
    return document([feature("a.b", [clause("C1")])], list(results), **fields)


def passed(i="a.b/c", impl="interp", **fields) -> Result:
    return Result(i, impl, "pass", "oracle", ("C1",), **fields)


@pytest.fixture
def everything():
    return every_status()


# --- the document ---


def test_samples_follow_the_schema(tmp_path, everything):
    for n, sample in enumerate((everything, large(instances=200), one(passed()))):
        report_data.write(sample, tmp_path / f"{n}.json")
        assert report_data.read(tmp_path / f"{n}.json") == sample


def test_the_sample_has_every_status_and_kind(everything):
    assert {r["status"] for r in everything["results"]} == set(STATUSES)
    assert {r["kind"] for r in everything["results"]} == {k for kinds in summary.WITNESSES.values() for k in kinds}


# --- numbers ---


def test_rows_add_up(everything):
    rows = report.rows(everything)
    assert [r.id for r in rows] == [f["id"] for f in everything["features"]]
    for row, f in zip(rows, everything["features"], strict=True):
        assert dict(row.counts) == f["by_status"]
        lamps = [lamp for by_witness in row.lamps.values() for lamp in by_witness.values()]
        assert sum(lamp.total for lamp in lamps) == row.total == sum(f["by_status"].values())
        assert sum(lamp.red for lamp in lamps) == row.red


@pytest.mark.parametrize(
    "statuses, compiled, state",
    [
        ({}, 0, "none"),
        ({}, 3, "compiled"),
        ({"pass": 2}, 3, "pass"),
        ({"skip": 2}, 3, "compiled"),
        ({"skip": 2, "pass": 1}, 0, "pass"),
        ({"unsupported": 2}, 0, "unsupported"),
        ({"pass": 9, "warn": 1}, 0, "warn"),
        ({"pass": 9, "warn": 1, "fail": 1}, 0, "fail"),
    ],
)
def test_lamp_states(statuses, compiled, state):
    assert summary.Lamp(Counter(statuses), compiled).state == state


@pytest.mark.parametrize(
    "score, text",
    [(None, "none judged"), (0.0, "0.0 %"), (0.9999999, "99.9 %"), (1.0, "100 %"), (0.5, "50.0 %")],
)
def test_only_everything_is_a_hundred_percent(score, text):
    assert summary.percent(score) == text


def test_compiling_alone_judges_nothing():
    s = Summary(one(Result("a.b/c", "interp", "pass", "compile")))
    assert s.score is None and s.judged_clauses == 0 and s.implementations["interp"].score is None


def test_lost_instances_count_as_not_passed():
    s = Summary(one(passed(), expected=4))
    assert s.score == 0.25 and s.verdict == "incomplete"


def test_known_failures_do_not_count_as_passed():
    assert Summary(one(passed(), Result("a.b/d", "interp", "xfail", "oracle"))).score == 0.5


# --- what makes a run void ---


def test_a_good_run_has_no_alarm():
    s = Summary(one(passed()))
    assert not s.alarms and s.verdict == "passed" and s.score == 1


def broken(change):
    sample = one(passed())
    change(sample)
    return Summary(sample)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda d: d["totals"].update(expected=2), "1 of 2 expected results are missing"),
        (lambda d: d["totals"].update({"pass": 2}), "totals"),
        (lambda d: d["totals"].update(collected=7), "totals"),
        (lambda d: d["results"].clear(), "not one result"),
        (lambda d: d["suite"].update(dirty=True), "working tree"),
        (lambda d: d["implementations"].append(implementation("cuda")), "cuda has no results"),
        (lambda d: d["implementations"].clear(), "which the report does not list"),
        (lambda d: d["implementations"][0].update(smoke="does not compile"), "smoke test: does not compile"),
        (lambda d: d["results"][0].update(status="skip", clauses=[]), "judged nothing"),
        (lambda d: d["results"][0].update(i="x.y/c"), "feature 'x.y'"),
        (lambda d: d["features"][0]["clauses"][0].update(covered=False), "1 must-clauses of stable features"),
    ],
)
def test_what_makes_a_run_void(change, words):
    s = broken(change)
    assert s.void and s.verdict == "incomplete"
    assert any(words in a.text for a in s.alarms if a.void), s.alarms


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda d: d["run"].update(select=["a.*"]), "a.*"),
        (lambda d: d["run"].update(shard="1/4"), "1/4"),
        (lambda d: d["implementations"][0].update(runs=False, why_not="no GPU"), "no GPU"),
        (lambda d: d["suite"].update(commit=""), "commit"),
        (lambda d: d["run"].update(notes=["mind this"]), "mind this"),
    ],
)
def test_what_a_reader_must_know(change, words):
    s = broken(change)
    assert not s.void and [a for a in s.alarms if words in a.text]


def test_a_whole_suite_is_no_shard():
    assert not broken(lambda d: d["run"].update(shard="1/1")).alarms


def test_self_checks_do_not_stand_for_lost_instances():
    complaint = Result("a.b/c", "interp", "error", "selfcheck", (), "this case cannot fail")
    assert any("missing" in a.text for a in Summary(one(passed(), complaint, expected=2)).alarms)


def test_drafts_need_no_coverage():
    sample = document([feature("a.b", [clause("C1", covered=False)], status="draft")], [passed()])
    assert not Summary(sample).void


# --- failures ---


def test_failures_that_say_the_same_stand_together():
    results = [
        Result(f"a.b/c:N={n}", "interp", "fail", "oracle", (), f"y[{n}] is {n}.5e-07, run {n:012x}") for n in range(5)
    ]
    other = Result("a.b/c:N=9", "interp", "fail", "oracle", (), "something else")
    groups = summary.failures(one(*results, other, passed())["results"])
    assert [len(g.instances) for g in groups] == [5, 1] and groups[0].feature == "a.b"


def test_failures_cover_exactly_the_red_results(everything):
    named = [i for g in summary.failures(everything["results"]) for i in g.instances]
    assert sorted(named) == sorted(r["i"] for r in everything["results"] if r["status"] in RED)


# --- JUnit ---


def test_junit_counts_and_names(everything):
    root = ElementTree.fromstring(report.junit(everything).encode())
    tests = list(root.iter("testcase"))
    assert len(tests) == len(everything["results"]) == int(root.get("tests"))
    element = {
        "failure": {"fail", "xpass"},
        "error": {"error", "crash", "timeout"},
        "skipped": {"skip", "unsupported", "xfail"},
    }
    for tag, statuses in element.items():
        expected = sum(r["status"] in statuses for r in everything["results"])
        assert len(list(root.iter(tag))) == expected
        assert sum(int(s.get({"failure": "failures", "error": "errors"}.get(tag, tag))) for s in root) == expected
    for suite in root:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        assert {t.get("classname") for t in suite.iter("testcase")} == {suite.get("name")}


def test_junit_of_one_implementation_names_the_feature():
    [suite] = ElementTree.fromstring(report.junit(one(passed("a.b/c:T=f32"))).encode())
    [test] = suite.findall("testcase")
    assert (suite.get("name"), test.get("classname"), test.get("name")) == ("a.b", "a.b", "a.b/c:T=f32")


def test_junit_keeps_implementations_apart():
    sample = one(passed(), passed(impl="cuda"), implementations=[implementation("interp"), implementation("cuda")])
    tests = list(ElementTree.fromstring(report.junit(sample).encode()).iter("testcase"))
    assert {t.get("classname") for t in tests} == {"a.b@interp", "a.b@cuda"}
    assert {t.get("name") for t in tests} == {"a.b/c"}


def test_junit_says_why_and_how_to_repeat(everything):
    root = ElementTree.fromstring(report.junit(everything).encode())
    skipped = [e.get("message") for e in root.iter("skipped")]
    assert "no GPU" in skipped and "ext.fp8 is not claimed" in skipped
    failure = next(t for t in root.iter("testcase") if t.get("name") == "memory.store/whole:T=f16").find("failure")
    assert "spec/x.yaml:7" in failure.text and "tilespec run" in failure.text and failure.get("type") == "fail"
    properties = {p.get("name"): p.get("value") for p in root[0].iter("property")}
    assert properties["impl"] == "interp" and properties["clauses"] == "C1 C2 C3 E1" and properties["slack"] == "inf"
    assert "clauses: C1" in next(root.iter("system-out")).text


# What the schema of the Jenkins xUnit plugin (junit-10) allows below each element, and the attributes it knows.
JUNIT = {
    "testsuites": ({"testsuite"}, {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package", "file"},
    ),
    "properties": ({"property"}, set()),
    "property": (set(), {"name", "value"}),
    "testcase": ({"skipped", "error", "failure", "system-out", "system-err"}, {"name", "time", "classname"}),
    **dict.fromkeys(("skipped", "error", "failure"), (set(), {"type", "message"})),
    "system-out": (set(), set()),
}


def test_junit_uses_only_what_the_schema_has(everything):
    for element in ElementTree.fromstring(report.junit(everything).encode()).iter():
        children, attributes = JUNIT[element.tag]
        assert {c.tag for c in element} <= children and set(element.attrib) <= attributes, element.tag


def test_junit_is_a_file(tmp_path, everything):
    report.write_junit(everything, tmp_path / "new" / "junit.xml")
    ElementTree.parse(tmp_path / "new" / "junit.xml")


# --- Markdown ---


def test_markdown_says_verdict_failures_and_features(everything):
    text = report.markdown(everything, artifact="https://example.org/a (1).zip")
    assert text.startswith("## ❌ TileSpec conformance: failed\n")
    assert "`tilespec run 'memory.store/late' --target interp`" in text
    assert "| memory.store | 2/3 |" in text and "https://example.org/a%20%281%29.zip" in text


def test_markdown_lets_no_text_become_markup(everything):
    text = report.markdown(everything)
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
    assert "alert" in outside and "<script" not in outside and "@team" not in outside and "[a](b)" not in outside


def test_markdown_shows_at_most_twenty_failures():
    results = [Result(f"a.b/c{n}", "interp", "fail", "oracle", (), f"m{n}") for n in range(30)]
    text = report.markdown(one(*results))
    assert text.count("tilespec run") == 20 and "10 more kinds of failure" in text


def test_markdown_stays_under_its_limit_and_keeps_the_verdict():
    results = [Result(f"f.n{n}/c:{'x' * 500}", "interp", "fail", "oracle", (), "é" * 5000) for n in range(500)]
    sample = document([feature(f"f.n{n}", []) for n in range(500)], results)
    for limit in (200_000, 20_000, 4_000, 500):
        text = report.markdown(sample, limit=limit)
        assert len(text.encode()) <= limit and "conformance: failed" in text


def test_markdown_compares_with_a_base():
    text = report.markdown(one(Result("a.b/c", "interp", "fail", "oracle")), base=one(passed()))
    assert "1 newly red, 0 repaired" in text


# --- badges ---


def test_badges(everything):
    good = badges.badges(one(passed()))
    assert (good["conformance"]["message"], good["conformance"]["color"]) == ("100 %", "brightgreen")
    assert good["mutants"]["message"] == "not measured" and all(b["schemaVersion"] == 1 for b in good.values())
    assert badges.badges(everything)["conformance"]["color"] == "red"
    assert badges.badges(everything)["clauses"]["message"] == "66.6 %"
    mutants = badges.badges({**one(passed()), "mutation": {"killed": 31, "total": 34, "equivalent": 2}})["mutants"]
    assert mutants["message"] == "96.8 %"


@pytest.mark.parametrize("change", [lambda d: d["results"].clear(), lambda d: d["suite"].update(dirty=True)])
def test_a_void_run_has_no_percentage(change):
    sample = one(passed())
    change(sample)
    badge = badges.badges(sample)["conformance"]
    assert "%" not in badge["message"] and badge["color"] == "red"


# --- history ---


def runs(*samples):
    return [history.Run(s, Summary(s)) for s in samples]


def test_comparison_names_what_changed():
    before = one(passed("a.b/gone"), passed("a.b/breaks"), Result("a.b/mends", "interp", "fail", "oracle"),
                 passed("a.b/same"), passed("a.b/drifts", numerics={"max_err_over_bound": 0.2}))  # fmt: skip
    after = one(passed("a.b/new"), Result("a.b/breaks", "interp", "fail", "oracle"), passed("a.b/mends"),
                passed("a.b/same"), passed("a.b/drifts", numerics={"max_err_over_bound": 0.9}))  # fmt: skip
    found = history.compare(before, after)
    names = {k: [c.instance for c in getattr(found, k)] for k in ("added", "removed", "changed", "drifted")}
    assert names == {
        "added": ["a.b/new"], "removed": ["a.b/gone"], "changed": ["a.b/breaks", "a.b/mends"],
        "drifted": ["a.b/drifts"],
    }  # fmt: skip
    assert (found.regressions, found.repairs, found.unchanged) == (1, 1, 1)


def test_a_report_equals_itself(everything):
    found = history.compare(everything, everything)
    assert not (found.added or found.removed or found.changed or found.drifted)
    assert found.unchanged == len(everything["results"])


def test_lines_join_only_aligned_runs():
    past = runs(one(passed()), one(passed()), one(passed(), digest="f" * 16), one(passed(), digest="f" * 16))
    points = history.courses(past, "interp")["a.b"].passed
    assert [[p.run for p in s] for s in history.segments(points)] == [[0, 1], [2, 3]]
    spark = charts.sparkline(points, len(past))
    assert len(spark.lines) == 2 and not spark.dots


def test_slack_has_a_course_of_its_own():
    past = runs(*(one(passed(numerics={"max_err_over_bound": s}), passed("a.b/exact")) for s in (0.25, 0.5, "inf")))
    assert [p.value for p in history.courses(past, "interp")["a.b"].slack] == [0.25, 0.5, 1.0]


def test_a_run_that_does_not_count_has_no_point():
    past = runs(one(passed()), one(passed(), expected=9), one(passed()))
    assert [p.run for p in history.courses(past, "interp")["a.b"].passed] == [0, 2]


def test_the_newest_report_is_shown_whatever_the_order(tmp_path):
    old, new = (
        one(passed(), started="2026-01-01T00:00:00"),
        one(passed(), passed("a.b/d"), started="2026-01-02T00:00:00"),
    )
    report.write([new, old], tmp_path)
    assert len(json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["results"]) == 2
    text = (tmp_path / "history.html").read_text(encoding="utf-8")
    assert text.index("2026-01-01") < text.index("2026-01-02") and "a.b/d" in text


def test_no_report_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="at least one"):
        report.write([], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_document_that_breaks_the_schema_leaves_the_folder_alone(tmp_path):
    with pytest.raises(jsonschema.ValidationError):
        report.write({**one(passed()), "unknown": 1}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- charts ---


def test_a_status_bar_is_as_long_as_its_box():
    pieces = charts.status_bar({"pass": 9990, "fail": 1, "warn": 9})
    assert [p.status for p in pieces] == ["pass", "warn", "fail"]
    assert sum(p.width for p in pieces) == pytest.approx(100, abs=0.1) and min(p.width for p in pieces) > 0.9


def test_histogram_bins():
    bars = charts.histogram([0.0, 0.0, 0.0005, 0.05, 0.5, 0.75, 1.0, 1.01, float("inf"), float("nan")])
    assert [b.count for b in bars] == [2, 1, 0, 1, 1, 2, 3] and bars[-1].beyond and bars[-1].height == 1
    assert charts.histogram([]) == []


@pytest.mark.parametrize(
    "value, limit, broken, used, mark",
    [
        (16, 32, False, 0.5, 1.0),
        (64, 32, True, 1.0, 0.5),
        (0, 0, False, 0.0, 0.0),
        (0, [1, 8], True, 0.0, 1.0),
        (5, None, False, 1.0, None),
    ],
)
def test_budget_bars(value, limit, broken, used, mark):
    bar = charts.budget_bar("regs", value, limit)
    assert (bar.broken, bar.used, bar.mark) == (broken, used, mark)


@pytest.mark.parametrize(
    "value, text",
    [
        (None, ""),
        (0, "0"),
        (0.5, "0.5"),
        (1234567, "1.2e+06"),
        (float("inf"), "∞"),
        ("inf", "∞"),
        (1e-9, "1.0e-09"),
        (32, "32"),
    ],
)
def test_numbers_for_people(value, text):
    assert charts.number(value) == text


def test_hostile_text_is_hostile():
    assert {"<", "`", "|", "@", "\x00"} <= set(HOSTILE)
