"""`.ci/gpu`: every part is a command, what has passed is not run again, what fails or is left is said. No GPU."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci/gpu"
# Stands for every program: notes its words, and fails where they have the text of the file `fails`.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> "{log}"
echo 'RACECHECK SUMMARY: 1 hazards'
word=$(cat "{fails}" 2> /dev/null) || exit 0
case "$*" in *"$word"*) exit "$(cat "{code}")" ;; esac
"""


class Machine:
    """A folder of programs that only note that they are called."""

    def __init__(self, folder: Path) -> None:
        self.log, self.fails, self.code = folder / "log", folder / "fails", folder / "code"
        self.out, self.programs = folder / "out", folder / "bin"
        self.programs.mkdir()
        for name in ("python3", "compute-sanitizer", "ncu"):
            path = self.programs / name
            path.write_text(PROGRAM.format(log=self.log, fails=self.fails, code=self.code))
            path.chmod(0o755)

    def run(self, *words: str) -> tuple[int, str, list[str]]:
        """Exit code, what was said, and which programs were called."""
        self.log.write_text("")
        env = {**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", SCRIPT, *words], env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr, self.log.read_text().splitlines()

    def fail(self, word: str, code: int) -> None:
        self.fails.write_text(word)
        self.code.write_text(str(code))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_every_part_runs_a_program_once(machine):
    parts = machine.run("--list")[1].split()
    code, said, called = machine.run("--full", str(machine.out))
    assert code == 0 and said.endswith("all passed\n")
    assert {p for p in parts if f"== {p}\n" in said} == set(parts) - {"bench"}
    tools = [line for line in called if line.startswith("compute-sanitizer")]
    assert sum("memcheck" in t for t in tools) == 2 and sum("--plant M-BAR" in t for t in tools) == 4
    report = next(line for line in called if "--check" in line)
    assert report.count(f"--from={machine.out}/bench-") == 4 and report.count(".json") == 4
    assert machine.run("--full", str(machine.out))[2] == []
    assert [line for line in machine.run(str(machine.out))[2] if "--quick --check" in line]


def test_a_part_that_failed_is_run_again_and_one_that_is_named(machine):
    machine.fail("tests/gpu", 3)
    code, said, _ = machine.run(str(machine.out))
    assert code == 1 and said.endswith("failed: tests\n") and "FAILED with 3" in said
    machine.fails.unlink()
    code, said, called = machine.run(str(machine.out))
    assert code == 0 and len(called) == 1 and "tests/gpu" in called[0]
    (machine.out / "bench.json").write_text("{}")
    code, said, called = machine.run(str(machine.out), "bench")
    assert code == 0 and len(called) == 1 and not (machine.out / "bench.json").exists()


def test_what_is_left_is_for_another_call(machine):
    machine.fail(" bench ", 16)
    code, said, _ = machine.run(str(machine.out))
    assert code == 16 and said.endswith("left for another call: bench\n")
    code, said, called = machine.run(str(machine.out))
    assert code == 16 and len(called) == 1 and "--resume" in called[0]


def test_a_folder_holds_results_of_one_commit(machine):
    machine.run(str(machine.out), "tutorial")
    (machine.out / "commit").write_text("0123456\n")
    code, said, called = machine.run(str(machine.out))
    assert code == 2 and "has results of 0123456" in said and not called


def test_parts_and_options_that_are_none(machine):
    assert machine.run(str(machine.out), "nonsense")[0] == 1
    assert machine.run("--fast")[0] == 2
    for words in (("--jobs", "0"), ("--jobs", "many"), ("--within", "soon")):
        assert machine.run(*words, str(machine.out / "new"))[0] == 2 and not (machine.out / "new").exists()


@pytest.mark.parametrize("jobs", ["1", "3", "40"])
def test_parts_that_judge_run_beside_each_other_and_those_that_time_alone(machine, jobs):
    machine.fail("tests/gpu", 3)
    code, said, called = machine.run("--full", "--jobs", jobs, str(machine.out))
    parts = machine.run("--list")[1].split()
    assert (
        code == 1
        and said.endswith("failed: tests\n")
        and sorted(set(parts) - {"bench"}) == sorted(line[3:] for line in said.splitlines() if line.startswith("== "))
    )
    first = next(i for i, line in enumerate(called) if "launch_cost" in line)
    assert not [line for line in called[first:] if line.startswith("compute-sanitizer") or " run " in line]
    assert said.index("tests: FAILED") < said.index("== launch-cost")
