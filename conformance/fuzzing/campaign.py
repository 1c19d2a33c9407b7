"""Runs many programs in several processes; one that dies or hangs is a difference of the program it was judging."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.mutation.catalogue import Mutant

CHUNK = 8  # programs a worker is given at a time
SILENCE_SECONDS = 180.0  # no word of a worker for so long: it hangs


@dataclass
class Finding:
    """A program on which targets differ, and how to have it again."""

    index: int
    differences: list[dict[str, str]]
    source: str = ""
    case: str = ""
    script: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"index": self.index, "differences": self.differences, "source": self.source}


@dataclass
class Campaign:
    """What a campaign did and found."""

    seed: int
    targets: tuple[str, ...]
    plant: str = ""
    programs: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    unserved: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "targets": list(self.targets),
            "plant": self.plant,
            "programs": self.programs,
            "seconds": round(self.seconds, 2),
            "claims": self.claims,
            "operations": dict(sorted(self.operations.items())),
            "findings": [f.to_json() for f in self.findings],
        }


def run(
    targets: Sequence[str],
    seed: int,
    first: int,
    programs: int,
    jobs: int,
    *,
    plant: Mutant | None = None,
    smaller: bool = True,
    stop_at: int | None = None,
    each: Callable[[Campaign], None] = lambda campaign: None,
) -> Campaign:
    """Judge the programs `first` to `first + programs` of a seed; stop after `stop_at` findings."""
    started = time.perf_counter()
    campaign = Campaign(seed, tuple(targets), plant.id if plant else "")
    indices = range(first, first + programs)
    waiting: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    for at in range(0, programs, CHUNK):
        waiting.put(list(indices[at : at + CHUNK]))
    request = {
        "targets": list(targets),
        "seed": seed,
        "plant": plant.to_json() if plant else None,
        "smaller": smaller,
    }
    with tempfile.TemporaryDirectory(prefix="tilespec-fuzz-") as folder:
        jobs = max(1, min(jobs, waiting.qsize()))
        shared = _Shared(campaign, waiting, stop_at, each)
        with ThreadPoolExecutor(jobs) as pool:
            done = [pool.submit(_serve, request, Path(folder), shared) for _ in range(jobs)]
            for d in done:
                d.result()
    campaign.findings.sort(key=lambda f: f.index)
    campaign.seconds = time.perf_counter() - started
    return campaign


class _Shared:
    """What the threads share: each serves one worker process."""

    def __init__(self, campaign: Campaign, waiting: Any, stop_at: int | None, each: Callable[[Campaign], None]) -> None:
        self.campaign, self.waiting, self.stop_at, self.each = campaign, waiting, stop_at, each
        self.lock = threading.Lock()

    def chunk(self) -> list[int] | None:
        """The next programs to judge, None if there are none or enough was found."""
        if self.campaign.unserved or (self.stop_at is not None and len(self.campaign.findings) >= self.stop_at):
            return None
        try:
            return self.waiting.get_nowait()
        except queue.Empty:
            return None

    def keep(self, answer: dict[str, Any]) -> None:
        with self.lock:
            self.campaign.programs += 1
            self.campaign.operations.update(answer.get("operations", {}))
            if "differences" in answer:
                fields = {k: answer.get(k, "") for k in ("source", "case", "script")}
                self.campaign.findings.append(Finding(answer["done"], answer["differences"], **fields))
            self.each(self.campaign)


def _serve(request: dict[str, Any], folder: Path, shared: _Shared) -> None:
    """Give one worker process after another programs to judge, until none are left."""
    chunk = shared.chunk()
    while chunk is not None:
        left = _feed(request, folder, shared, chunk)
        chunk = left or shared.chunk()


def _feed(request: dict[str, Any], folder: Path, shared: _Shared, chunk: list[int]) -> list[int]:
    """One worker, until there is nothing to do or it is lost; what it was given and has not done."""
    command = [sys.executable, "-m", "conformance.fuzzing.worker"]
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8") as words:
        process = subprocess.Popen(
            command, env=_environment(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, text=True
        )
        assert process.stdin and process.stdout
        try:
            _send(process, request)
            while chunk:
                _send(process, chunk)
                chunk = _hear(process, shared, chunk) or shared.chunk() or []
            process.stdin.close()
            return []
        except _Lost as lost:
            words.seek(0)
            last = (words.read().strip().splitlines() or [""])[-1]
            shared.keep({"done": lost.index, "differences": [_loss(lost, last)]})
            return [i for i in lost.left if i != lost.index]
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


class _Lost(Exception):
    """A worker died or hung at a program."""

    def __init__(self, index: int, left: list[int], how: str) -> None:
        super().__init__(how)
        self.index, self.left, self.how = index, left, how


def _loss(lost: _Lost, last_words: str) -> dict[str, str]:
    message = f"the process judging it {lost.how}; its last words: {last_words[:300]}"
    return {"kind": "crash", "target": "some target", "against": "the language", "message": message}


def _send(process: subprocess.Popen[str], content: Any) -> None:
    assert process.stdin
    try:
        process.stdin.write(json.dumps(content) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # the reader notices that the process is gone


def _line(process: subprocess.Popen[str]) -> tuple[str, bool]:
    """The next line of a worker, and whether it was ended because none came for too long."""
    assert process.stdout
    hung = threading.Event()

    def end() -> None:
        hung.set()
        process.kill()

    watch = threading.Timer(SILENCE_SECONDS, end)
    watch.daemon = True
    watch.start()
    line = process.stdout.readline()
    watch.cancel()
    return line, hung.is_set()


def _hear(process: subprocess.Popen[str], shared: _Shared, chunk: list[int]) -> list[int]:
    """Answers until the chunk is done; raises _Lost where none comes."""
    left, current = list(chunk), chunk[0]
    assert process.stdout
    while left:
        line, hung = _line(process)
        if not line:
            raise _Lost(current, left, f"said nothing for {SILENCE_SECONDS:g} s" if hung else "died")
        answer = json.loads(line)
        if "unserved" in answer:
            shared.campaign.unserved = answer["unserved"]
            return []
        if "claims" in answer:
            shared.campaign.claims = answer["claims"]
        current = answer.get("start", current)
        if "done" in answer:
            left.remove(answer["done"])
            shared.keep(answer)
    return []


def _environment(folder: Path) -> dict[str, str]:
    """A worker finds the same packages; what it compiles goes to a folder that ends with the campaign."""
    here = str(Path(__file__).resolve().parents[2])
    inherited = dict(os.environ)  # noqa: TID251  a child process inherits all of it, and one folder changes
    path = os.pathsep.join(p for p in (here, inherited.get("PYTHONPATH", "")) if p)
    return {**inherited, "PYTHONPATH": path, "TILESPEC_CACHE_DIR": str(folder / "cache")}
