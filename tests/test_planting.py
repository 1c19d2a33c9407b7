"""`tilespec run --plant`: a mistake of the catalogue reaches every target, its cache and its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REDUCTION = "reduce.sum/exact:T=f32;R=f32;M=3;N=1000;BLOCK=1024"
LOOP = "reduce.sum/rounds:n=7;BLOCK=512;W=4"


def run(folder: Path, *words: str) -> tuple[int, dict, str]:
    """Exit code, report and output of `tilespec run` in a process of its own."""
    file = folder / "report.json"
    command = [sys.executable, "-m", "conformance", "run", *words, "--json", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    report = json.loads(file.read_text()) if file.is_file() else {}
    return done.returncode, report, done.stdout + done.stderr


@pytest.mark.parametrize(("mutant", "select"), [("M-BAR-05", REDUCTION), ("M-BAR-06", LOOP)])
def test_the_simulator_finds_a_barrier_that_is_missing(tmp_path, mutant, select):
    code, report, output = run(tmp_path, select, "--target", "simt", "--plant", mutant)
    assert code == 1, output
    assert {r["status"] for r in report["results"]} == {"fail"}
    for result in report["results"]:
        assert "exec.shared_memory#E1" in result["message"]
        assert "without a barrier between" in result["message"]
        assert result["repro"].endswith(f"--plant {mutant}")
    assert report["run"]["planted"] == mutant
    assert "its statement ran" in report["run"]["notes"][-1]


def test_workers_have_the_mistake_too(tmp_path):
    code, report, output = run(tmp_path, REDUCTION, LOOP, "--target", "simt", "--plant", "M-BAR-05", "-n", "2")
    assert code == 1, output
    assert {r["status"] for r in report["results"]} == {"fail"}
    assert "its statement ran" in report["run"]["notes"][-1]


def test_a_mistake_that_never_runs_is_told(tmp_path):
    code, report, _ = run(tmp_path, "creation.full/*", "--target", "interp", "--plant", "M-BAR-05")
    assert code == 0
    assert "its statement never ran" in report["run"]["notes"][-1]


def test_an_unknown_mutant_is_exit_2(tmp_path):
    code, _, output = run(tmp_path, REDUCTION, "--target", "simt", "--plant", "M-NONE-01")
    assert code == 2
    assert "there is no mutant 'M-NONE-01'" in output


def test_the_wrong_code_is_compiled_though_the_right_one_is_in_the_cache(tmp_path):
    """A round of the loop has two barriers, and one with the mistake; NVRTC unrolls it."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    words = ("reduce.sum/rounds_sass", "--target", "cuda")
    found = []
    for planted in ([], ["--plant", "M-BAR-05"], []):
        code, report, output = run(tmp_path, *words, *planted)
        assert code in (0, 10), output
        found.append(report["results"][0]["perf"]["BAR"])
    assert found[0] == found[2] > found[1]
