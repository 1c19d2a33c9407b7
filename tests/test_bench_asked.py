"""The table of what was asked and what was seen, and what a report says of floors that were missed. No GPU."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import bench_samples
import pytest
from click.testing import CliRunner

from conformance import benchmarks
from conformance.bench import asked, document, profiles, roofline, tables
from conformance.cli import main
from conformance.loader import load_suite

REPORTS = sorted((Path(__file__).parents[1] / "reports").glob("*/bench.json"))


@cache
def softmax():
    return benchmarks.collect(load_suite(), ["kernels.softmax/rows:T=f32;*"])


def entry(line, **us):
    """A line of the specification with made-up times: of our own, and of peers."""
    times = {"ours": 131.0, "copy": 128.0, "compile": 134.0, **us}
    return {
        **document.line_entry(line), "how": "single", "launches": 1, "sets": 1,
        "contestants": [bench_samples.contestant(name, t) for name, t in times.items()],
    }  # fmt: skip


def made(*entries):
    return document.document(entries, bench_samples.MACHINE, bench_samples.RUN)


def rows(document, lines):
    return {(d.place, d.peer, d.mean): d for d in asked.demands(document, lines)}


def test_every_demand_has_a_row():
    lines = softmax()
    slow = {"ours": 200.0}
    found = rows(made(*(entry(line, **(slow if line is lines[-1] else {})) for line in lines)), lines)
    copy, compiled = found["kernels.softmax/rows", "copy", False], found["kernels.softmax/rows", "compile", False]
    assert (copy.floor, copy.aim, copy.asked, copy.under, copy.short_of_aim) == (0.9, 0.95, 7, 1, 1)
    assert copy.verdict == "**1 of 7 under the floor**, 6 of 7 reach the aim"
    assert re.fullmatch(r"0\.6\d\d to 0\.9\d\d", copy.seen)
    assert compiled.verdict.startswith("**1 of 7 under the floor**")
    mean = found["kernels.softmax/rows", "compile", True]
    assert mean.floor == 1.0 and mean.verdict == "**under the floor**" and "[" in mean.seen
    assert found["kernels.softmax/rows", "mlir", False].verdict == "**not measured**"


def test_lines_that_were_not_compared_are_counted():
    lines = softmax()
    document = made(*(entry(line) for line in lines[:3]))
    assert rows(document, lines)["kernels.softmax/rows", "copy", False].verdict.endswith("; 4 not compared")
    assert asked.unmeasured(document, lines) == [line.id for line in lines[3:]]
    alone = rows(made(entry(lines[0])), lines[:1])
    assert alone["kernels.softmax/rows", "copy", False].verdict == "met, aim reached"
    nothing = entry(lines[0])
    nothing["contestants"][0] |= {"status": "wrong", "why": "element 3"}
    wrong = rows(made(nothing), lines[:1])["kernels.softmax/rows", "copy", False]
    assert wrong.verdict.startswith("**under the floor**") and wrong.seen == "-"


def test_what_nobody_measured_is_in_the_report():
    lines = softmax()
    text = tables.markdown(made(entry(lines[0], ours=300.0)), lines)
    assert "## What was asked, and what was seen" in text
    assert text.count("- kernels.softmax/rows:") == 1 + 1 + 1 + 6  # of copy, of compile, the mean, not measured
    assert "## Not measured\n\n- kernels.softmax/rows:T=f32;M=32768;N=2048\n" in text


def test_commits_are_named():
    lines = [entry(line) | {"commit": name} for line, name in zip(softmax(), ["a" * 40, "b" * 40 + "+"], strict=False)]
    assert ", 1 lines at aaaaaaa, 1 lines at bbbbbbb with changes." in tables.markdown(made(*lines))
    assert ", commit aaaaaaa." in tables.markdown(made(lines[0]))


def test_a_missed_floor_says_by_how_much_and_what_limits_it():
    line = softmax()[-1]
    stalls = {"long_scoreboard": 0.7, "barrier": 0.3}
    kernel = {"kernel": "softmax", "nanoseconds": 3e5, "dram_read": 2.0**29, "dram_written": 2.0**28, "stalls": stalls}
    profiled = [profiles.profile(line, name, [kernel]) for name in ("triton", "ours")]
    text = tables.markdown(made(entry(line, ours=200.0)), [line], profiled)
    missed = next(row for row in text.splitlines() if row.startswith(f"- {line.id}: ") and "of copy" in row)
    assert re.search(
        r"0\.6\d\d \[0\.6\d\d, 0\.6\d\d\] of copy, floor 0\.9: short by 0\.2\d\d\. Limited by latency", missed
    )
    assert missed.count("Limited by") == 1 and "1.50 of what it must (reads 2.00, writes 1.00)" in missed


def test_the_command_takes_profiles(tmp_path, monkeypatch):
    monkeypatch.setattr(roofline, "draw", lambda made, folder: [])
    line = softmax()[-1]
    document.write(made(entry(line, ours=200.0)), tmp_path / "bench.json")
    profiles.write([profiles.profile(line, "ours", [{"kernel": "f", "nanoseconds": 1.0}])], tmp_path / "profiles.json")
    words = ["bench", line.id, "--from", tmp_path / "bench.json", "--profiles", tmp_path / "profiles.json"]
    done = CliRunner().invoke(main, [*map(str, words), "--out", str(tmp_path / "out")])
    text = (tmp_path / "out/bench.md").read_text()
    assert done.exit_code == 0 and "Limited by latency" in text and "## Not measured" not in text


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.parent.name)
def test_tables_of_committed_reports_have_the_figures_of_their_timings(path):
    """One line of each benchmark: it takes its time to judge them all."""
    text, found = (path.parent / "bench.md").read_text(), json.loads(path.read_text())
    one = {(line["feature"], line["benchmark"]): line for line in found["lines"]}
    for line in document.judge({**found, "lines": list(one.values())})["lines"]:
        mine = line["contestants"][0]
        cells = [tables.label(line), f"{mine['median_us']:.4g}", tables.rate(line, mine)]
        ratios = [line["ratios"][p] for p in tables.peers_of([line])]
        row = next(row for row in text.splitlines() if row.startswith("| " + " | ".join(cells) + " | "))
        assert all(f" {entry['value']:.3f} ±" in row for entry in ratios)
