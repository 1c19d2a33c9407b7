"""The command line on mistakes: one message, the right exit code, nothing written, never a traceback of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance import output
from conformance.cli import main
from conformance.results import EXIT

ROOT = Path(__file__).parents[1]
KERNEL = """import refcompiler as triton
import refcompiler.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr = 16):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)

def plain(x):
    return x
"""


def tilespec(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    Path("file").write_text("")
    Path("latin.py").write_bytes(KERNEL.encode() + b"# \xe9\n")
    Path("syntax.py").write_text("def f(:\n")
    Path("leaves.py").write_text(KERNEL + "raise SystemExit(7)\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["k.py::double", "--out", "file/sub"], "usage", "is a file, not a folder"),
        (["k.py::double", "--out", "file"], "usage", "is a file"),
        (["k.py::double", "--emit", ""], "usage", "unknown stage ''"),
        (["k.py::double", "--emit", "tile,nonsense"], "usage", "unknown stage 'nonsense'"),
        (["k.py::double", "--set", "BLOCK"], "usage", "NAME=VALUE"),
        (["k.py::double", "--set", "BLOK=3"], "usage", "no parameter 'BLOK'"),
        (["k.py::double", "--set", "BLOCK=12"], "failures", "k.py:6:22: error[creation.arange#E2]"),
        (["k.py::plain"], "failures", "not decorated"),
        (["k.py::"], "usage", "it has double, plain"),
        (["nothing.py::double"], "usage", "there is no file nothing.py"),
        (["latin.py::double"], "usage", "latin.py is not UTF-8"),
        (["syntax.py::f"], "usage", "syntax.py:1:7: error[syntax]"),
        (["leaves.py::double"], "failures", "leaves.py cannot be imported: SystemExit: 7"),
    ],
)
def test_compile(kernel, words, code, message):
    before = sorted(kernel.rglob("*"))
    done = tilespec("compile", *words, "--signature", "x:*f32")
    assert done.exit_code == EXIT[code], done.output
    assert message in done.output and "Traceback" not in done.output
    assert sorted(kernel.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run", "memory.store/tail", "--target", "interp", "--json", "file/r.json"], "usage", "is a file, not a"),
        (["run", "memory.store/tail", "--target", "interp", "--junit", "file/r.xml"], "usage", "is a file, not a"),
        (["run", "memory.store/tail", "--target", ""], "usage", "unknown target ''"),
        (["compile", "memory.store/tail", "--signature", "x:*f32"], "usage", "a case has its own arguments"),
        (["compile", "memory.store/tail", "--set", "BLOK=64"], "usage", "has no parameter 'BLOK'; it takes T, N"),
        (["compile", "k.py::double", "--signature", "x:*f32, x:*f16"], "usage", "the type of 'x' is given twice"),
        (["mutate", "nothing"], "nothing", "no instance matches 'nothing'"),
        (["bless", "nothing"], "nothing", "no instance matches 'nothing'"),
    ],
)
def test_other_commands(kernel, words, code, message):
    done = tilespec(*words)
    assert done.exit_code == EXIT[code], done.output
    assert message in done.output and "Traceback" not in done.output
    assert "instances in" not in done.output  # refused before any work


def test_a_target_named_twice_runs_once():
    done = tilespec("run", "memory.store/whole:T=f32;*", "--target", "interp,interp")
    assert done.exit_code == 0 and done.output.count("interp") == 1


def test_a_disk_that_fails_is_one_line(kernel, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "out/tile.txt")

    monkeypatch.setattr(output, "write", full)
    done = tilespec("compile", "k.py::double", "--signature", "x:*f32", "--out", "out")
    assert (done.exit_code, done.output) == (EXIT["usage"], "error: out/tile.txt: No space left on device\n")


def test_files_are_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "a" / "b.txt"
    output.write(path, "old\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            output.write(path, "new\n")
    assert path.read_text() == "old\n" and list(path.parent.iterdir()) == [path]
    output.write(path, b"new\n")
    assert path.read_bytes() == b"new\n"


def test_an_interrupted_run_leaves_no_report(tmp_path):
    words = ["run", "--target", "interp", "-n", "1", "--json", str(tmp_path / "r.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # A shell that runs jobs in the background lets them ignore SIGINT, and their children inherit that.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{heard}; from conformance.cli import main; main()", *words],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate()
    assert child.returncode != 0 and list(tmp_path.iterdir()) == []
    assert b"Aborted" in errors or b"KeyboardInterrupt" in errors  # the latter while Python still starts


def test_a_reader_that_leaves_is_no_error():
    command, environment = (
        [sys.executable, "-m", "conformance", "list", "--json"],
        {**os.environ, "PYTHONPATH": str(ROOT)},
    )
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout.read(10)
    child.stdout.close()
    assert b"Traceback" not in child.stderr.read() and child.wait() in (0, 1)  # 0: it had written all


def test_nesting_without_end_is_located(tmp_path):
    folder = tmp_path / "features" / "memory"
    folder.mkdir(parents=True)
    (folder / "deep.yaml").write_text("a: " + "[" * 3000 + "]" * 3000 + "\n")
    done = tilespec("list", "--spec", tmp_path)
    assert done.exit_code == EXIT["usage"] and "deep.yaml:1:1: error[spec.yaml]: nested too deeply" in done.output
