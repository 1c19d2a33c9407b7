"""One run of `tilespec bench` from line to line: what is compiled ahead, resumed, left for later and kept. No GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import bench_samples
import pytest

from conformance import benchmarks
from conformance.bench import campaign, document, machine, measuring, preparing
from conformance.loader import load_suite


@cache
def lines():
    select = ["kernels.matmul/large:T=bf16;LAYOUT=nn;*", "kernels.softmax/rows:T=f32;M=1024;N=65536"]
    found = benchmarks.collect(load_suite(), select)
    return [(line, line.benchmark.every_peer) for line in found]


class Bench:
    """A machine that takes a second for each line."""

    def __init__(self, monkeypatch):
        self.measured, self.prepared, self.said, self.now = [], [], [], 0.0
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
        monkeypatch.setattr(campaign, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(machine, "machine", lambda: dict(bench_samples.MACHINE))
        monkeypatch.setattr(machine, "current_gpu", lambda: "0")
        monkeypatch.setattr(machine, "state", lambda gpu: {})
        monkeypatch.setattr(measuring, "copy_rate", lambda: 4e12)
        monkeypatch.setattr(measuring, "release", lambda: None)
        monkeypatch.setattr(measuring, "measure", self.measure)
        monkeypatch.setattr(preparing, "prepare", self.prepare)

    def measure(self, line, names, seconds, seed):
        self.now += 1.0
        self.measured.append(line.id)
        times = {"ours": 4000.0, **dict.fromkeys(names, 4400.0)}
        contestants = [bench_samples.contestant(name, us) for name, us in times.items()]
        entry = {"how": "single", "launches": 1, "sets": 1, "contestants": contestants}
        return SimpleNamespace(to_json=lambda: entry)

    def prepare(self, every, processes):
        self.prepared = every
        return ["triton of a line: RuntimeError: no"]

    def plan(self, **more):
        return campaign.Plan(lines(), 0.1, 1, more.pop("processes", 4), [], False, self.said.append, **more)


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


def test_every_line_is_measured_in_turn_and_told(bench):
    made, left = campaign.measure(bench.plan())
    assert left == 0 and [line["id"] for line in made["lines"]] == bench.measured == [line.id for line, _ in lines()]
    assert made["verdict"]["floors"] > 0 and made["run"]["seed"] == 1 and made["lines"][0]["commit"]
    assert any("1 of" in text and "jobs failed" in text for text in bench.said)
    assert any(text.startswith("[3/3] kernels.softmax/rows") and " of compile" in text for text in bench.said)


def test_a_limit_leaves_lines_that_another_run_measures(bench, tmp_path):
    file = tmp_path / "bench.json"
    made, left = campaign.measure(bench.plan(within=2.5, file=file))
    assert left == 1 and len(made["lines"]) == 2
    # What lies there was written before the run ended, and is enough to go on.
    kept = document.read(file)["lines"]
    assert [line["id"] for line in kept] == bench.measured and "ratios" not in json.loads(file.read_text())["lines"][0]
    second, left = campaign.measure(replace(bench.plan(within=2.5, file=file), kept=kept))
    assert left == 0 and [line["id"] for line in second["lines"]] == [line.id for line, _ in lines()]
    first, again = (m["lines"][0]["contestants"][0]["times_us"] for m in (made, second))
    assert len(bench.measured) == 3 and again == pytest.approx(first, rel=1e-5)


def test_what_is_left_is_compiled_ahead(bench):
    ours = bench_samples.contestant("ours", 4000.0)
    campaign.measure(bench.plan(kept=[{**document.line_entry(lines()[2][0]), "contestants": [ours]}]))
    assert {job.line.id for job in bench.prepared} == {line.id for line, _ in lines()[:2]}


@pytest.mark.parametrize("processes", [0, 1])
def test_one_process_compiles_what_it_measures(bench, processes):
    campaign.measure(bench.plan(processes=processes))
    assert bench.prepared == []


def test_jobs_cover_every_configuration_of_tuners_once():
    found = preparing.jobs(lines())
    by_line = {}
    for job in found:
        by_line.setdefault((job.line.id, job.contestant), []).append((job.share, job.shares))
    for line, names in lines():
        for name in ("ours", "mlir", "triton", "compile"):
            shares = by_line.get((line.id, name), [])
            if name not in ("ours", *names):
                assert not shares
            elif name == "triton" and line.flops:
                assert sorted(shares) == [(k, preparing.SHARES) for k in range(preparing.SHARES)]
            else:
                assert shares == [(0, 1)]
    # What several lines compile alike is not begun by all of them at once.
    assert len({job.share for job in found[:8] if job.contestant == "triton" and job.shares > 1}) > 1
    assert len({(job.line.id, job.contestant, job.share) for job in found}) == len(found)
