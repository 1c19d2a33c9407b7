"""How `tilespec bench` takes its samples: turns, graphs, and who is left out, on a GPU whose clock is ours."""

from __future__ import annotations

import contextlib
import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conformance import benchmarks
from conformance.bench import arrays, measuring, peers
from conformance.loader import load_suite

SPEC = Path(__file__).parent / "bench_spec"


class Gpu:
    """Enough of torch to queue work, record events and capture graphs. Work takes time when it is queued outside of a
    capture; what is captured takes its time at each replay."""

    def __init__(self):
        self.now, self.log, self.capturing = 0.0, [], None
        gpu = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = gpu.now

            def elapsed_time(self, other):
                return (other.at - self.at) / 1e3

            def synchronize(self):
                pass

        class CUDAGraph:
            def __init__(self):
                self.work = []

            def replay(self):
                for work in self.work:
                    gpu.do(*work)

        @contextlib.contextmanager
        def graph(made):
            self.capturing = made.work
            try:
                yield
            finally:
                self.capturing = None

        memory = SimpleNamespace(zero_=lambda: gpu.do("flush", 60.0), random_=lambda *a: gpu.do("flush", 60.0))
        self.torch = SimpleNamespace(
            uint8=None,
            empty=lambda *a, **k: memory,
            cuda=SimpleNamespace(
                Event=Event,
                CUDAGraph=CUDAGraph,
                graph=graph,
                synchronize=lambda: None,
                _sleep=lambda n: gpu.do("wait", 200.0),
            ),
        )

    def do(self, name, us, then=lambda: None):
        """Queue work of a name that takes so many microseconds."""
        if self.capturing is not None:
            self.capturing.append((name, us, then))
            return
        self.now += us
        self.log.append(name)
        then()


@pytest.fixture
def gpu(monkeypatch):
    made = Gpu()
    monkeypatch.setitem(sys.modules, "torch", made.torch)
    counter = itertools.count(1)

    def arguments(line, seed):
        return {"x": np.full(line.shapes["x"], next(counter), "f4"), "out": np.full(line.shapes["out"], np.nan, "f4")}

    def sampled(line, name, array, chosen):
        return np.take(array, chosen["N"])

    for name, function in {"arguments": arguments, "sampled": sampled, "poison": lambda a: a.fill(np.nan)}.items():
        monkeypatch.setattr(arrays, name, function)
    return made


@pytest.fixture
def line():
    return benchmarks.collect(load_suite(SPEC), ["kernels.scale/plain:T=f32;N=1024"])[0]


def contestants(monkeypatch, **calls):
    """`ours` and peers by what they do with arguments."""
    monkeypatch.setattr(peers, "ours", lambda line: calls["ours"])
    monkeypatch.setattr(peers, "call_of", lambda name, line: calls[name])


def doubling(gpu, name, us, factor=2):
    def call(a):
        gpu.do(name, us, lambda: np.multiply(a["x"], factor, out=a["out"]))

    return call


def test_long_work_is_taken_in_turns_one_launch_a_sample(gpu, line, monkeypatch):
    contestants(monkeypatch, ours=doubling(gpu, "ours", 1000.0), torch=doubling(gpu, "torch", 1500.0))
    found = measuring.measure(line, ["torch"], 0.01, seed=1)
    ours, theirs = found.contestants
    assert (found.how, found.launches, found.sets) == ("single", 1, measuring.MOST_SETS)
    assert set(ours.times_us) == {1000.0} and set(theirs.times_us) == {1500.0}
    assert len(ours.times_us) == len(theirs.times_us) >= measuring.FEWEST_ROUNDS
    assert (ours.status, theirs.status) == ("right", "right") and ours.slack == 0
    turns = [name for name in gpu.log if name in ("ours", "torch")]
    rounds = ["".join(n[0] for n in turns[k : k + 2]) for k in range(14, len(turns) - 2, 2)]
    assert set(rounds[::2]) == {rounds[0]} and set(rounds[1::2]) == {rounds[0][::-1]}
    for at, name in enumerate(gpu.log[-len(turns) : -2]):
        if name in ("ours", "torch"):
            assert gpu.log[-len(turns) + at - 2 : -len(turns) + at] == ["flush", "wait"]


def test_short_work_is_a_graph_over_several_sets(gpu, line, monkeypatch):
    contestants(monkeypatch, ours=doubling(gpu, "ours", 10.0), torch=doubling(gpu, "torch", 30.0))
    found = measuring.measure(line, ["torch"], 0.001, seed=1)
    assert (found.how, found.launches) == ("graph", 20)
    assert found.contestants[0].times_us[0] == pytest.approx(10.0)
    assert found.contestants[1].times_us[0] == pytest.approx(30.0)
    assert [c.status for c in found.contestants] == ["right", "right"]


def test_if_one_cannot_be_captured_all_queue(gpu, line, monkeypatch):
    def stubborn(a):
        if gpu.capturing is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        doubling(gpu, "torch", 30.0)(a)

    contestants(monkeypatch, ours=doubling(gpu, "ours", 10.0), torch=stubborn)
    found = measuring.measure(line, ["torch"], 0.001, seed=1)
    assert found.how == "queued" and found.launches == 20
    assert found.contestants[1].status == "right" and "not permitted" in found.contestants[1].why
    assert found.contestants[0].times_us[0] == pytest.approx(10.0)


def test_who_is_wrong_is_found_after_timing(gpu, line, monkeypatch):
    contestants(monkeypatch, ours=doubling(gpu, "ours", 300.0, factor=3), torch=doubling(gpu, "torch", 300.0))
    found = measuring.measure(line, ["torch"], 0.001, seed=1)
    assert [c.status for c in found.contestants] == ["wrong", "right"] and found.contestants[0].why


def test_who_writes_nothing_is_wrong_although_others_wrote_there(gpu, line, monkeypatch):
    contestants(monkeypatch, ours=lambda a: gpu.do("ours", 300.0), torch=doubling(gpu, "torch", 300.0))
    found = measuring.measure(line, ["torch"], 0.001, seed=1)
    assert [c.status for c in found.contestants] == ["wrong", "right"]


def test_failures_are_told_and_stop_nobody_else(gpu, line, monkeypatch):
    def broken(a):
        raise RuntimeError("out of memory\nmore lines")

    def absent(name, line):
        if name == "torch":
            raise peers.Absent("torch is old")
        if name == "cudnn":
            raise peers.Inapplicable("attention only")
        return broken

    monkeypatch.setattr(peers, "ours", lambda line: doubling(gpu, "ours", 300.0))
    monkeypatch.setattr(peers, "call_of", absent)
    found = measuring.measure(line, ["torch", "cudnn", "triton"], 0.001, seed=1)
    told = {c.name: (c.status, c.why) for c in found.contestants}
    assert told == {
        "ours": ("right", ""),
        "torch": ("absent", "torch is old"),
        "triton": ("failed", "RuntimeError: out of memory"),
    }
    monkeypatch.setattr(peers, "ours", lambda line: broken)
    monkeypatch.setattr(peers, "call_of", lambda name, line: doubling(gpu, "torch", 300.0))
    found = measuring.measure(line, ["torch"], 0.001, seed=1).to_json()
    assert [c["status"] for c in found["contestants"]] == ["failed", "absent"] and found["launches"] == 0


def test_a_gpu_that_fails_ends_a_line_and_not_the_run(gpu, line, monkeypatch):
    contestants(monkeypatch, ours=doubling(gpu, "ours", 300.0), torch=doubling(gpu, "torch", 300.0))

    def failed():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(gpu.torch.cuda, "synchronize", failed)
    found = measuring.measure(line, ["torch"], 0.001, seed=1).to_json()
    assert [(c["name"], c["status"]) for c in found["contestants"]] == [("ours", "failed")]
    assert "illegal memory access" in found["contestants"][0]["why"]


def test_a_result_that_cannot_be_looked_at_fails_its_contestant_only(gpu, line, monkeypatch):
    contestants(monkeypatch, ours=doubling(gpu, "ours", 300.0), torch=lambda a: gpu.do("torch", 300.0) or "no array")
    found = measuring.measure(line, ["torch"], 0.001, seed=1)
    assert [c.status for c in found.contestants] == ["right", "failed"]
    assert "while verifying" in found.contestants[1].why
