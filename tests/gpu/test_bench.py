"""`tilespec bench` on a GPU: every line is measured and right, a wrong kernel is found, files are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance import benchmarks
from conformance.bench import document, preparing
from conformance.cli import main
from conformance.loader import load_suite

torch = pytest.importorskip("torch")
SPEC = Path(__file__).parents[1] / "bench_spec"


def bench(tmp_path, *words):
    path = tmp_path / "bench.json"
    short = ["--seconds", "0.1", "--processes", "0"]
    done = CliRunner().invoke(main, ["bench", "--spec", str(SPEC), *short, "--json", str(path), *words])
    return done, document.read(path)


def test_every_line_is_measured_and_right(tmp_path):
    done, made = bench(tmp_path)
    assert done.exit_code == 0, done.output
    assert [line["how"] for line in made["lines"]] == ["graph", "single", "graph", "single"]
    for line in made["lines"]:
        assert {c["name"]: c["status"] for c in line["contestants"]} == {"ours": "right", "copy": "right"}
        assert line["ratios"]["copy"]["low"] > 0.2
    assert made["machine"]["memory_bus_bits"] > 0 and made["run"]["seed"] >= 0


def test_a_wrong_kernel_has_no_speed(tmp_path, monkeypatch):
    from tests import bench_kernels

    monkeypatch.setattr(bench_kernels, "scale", lambda x, out: torch.mul(x, 3, out=out))
    done, made = bench(tmp_path, "--quick")
    assert (
        done.exit_code == 1 and made["verdict"]["wrong"] and not made["lines"][0]["ratios"].get("copy", {}).get("value")
    )


def test_everybody_can_compile_ahead():
    lines = benchmarks.collect(load_suite(), ["kernels.softmax/rows:T=f32;M=65536;N=1024"])
    assert preparing.prepare(preparing.jobs([(line, line.benchmark.every_peer) for line in lines]), 4) == []
