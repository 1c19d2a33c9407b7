"""Runs a target's instances in worker processes: faster, and a process that dies or hangs takes one instance with it.

A worker gets all instances of one case at a time, so that compilations are shared and the self-check of a case is
whole. If it dies or an instance takes too long, that instance is the `crash` or the `timeout`, and a new worker takes
the rest of the case.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from conformance.adapters import load
from conformance.instances import Instance
from conformance.mutation import planting
from conformance.plan import Planned
from conformance.results import Result
from conformance.runner import Session, run_instance, selfcheck_results

LIMIT_SECONDS = 300.0
_CONTEXT = multiprocessing.get_context("spawn")


def _serve(connection: Connection, target: str, snapshots: Path, planted: planting.Planted | None) -> None:
    """The worker: chunks in; a result for each instance as it ends; after a chunk its self-check."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent ends this process
    planting.join(planted)
    session = Session(target, load(target), snapshots=snapshots)
    while True:
        chunk: list[Instance] | None = connection.recv()
        if chunk is None:
            return
        for instance in chunk:
            connection.send(("result", run_instance(session, instance)))
        connection.send(("done", selfcheck_results(session, chunk)))
        session.forget()


@dataclass
class _Worker:
    """One process, the instances it still has to run, and since when it has been running the first of them."""

    process: Any
    connection: Connection
    left: deque[Instance] = field(default_factory=deque)
    since: float = 0.0

    def give(self, chunk: Sequence[Instance]) -> None:
        self.left, self.since = deque(chunk), time.monotonic()
        self.connection.send(list(chunk))

    def end(self) -> None:
        """Stop the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def _worker(target: str, snapshots: Path) -> _Worker:
    mine, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_serve, args=(theirs, target, snapshots, planting.current()), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, mine)


def run_in_processes(
    planned: Planned,
    spec: Path,
    workers: int,
    each: Callable[[Result], None],
    limit: float = LIMIT_SECONDS,
) -> list[Result]:
    """Results in the order of `planned.instances`, each case followed by its self-check."""
    run = _Run(planned, spec / "snapshots", each, limit)
    try:
        run.loop(workers)
    finally:
        for worker in run.busy:
            worker.end()
    return run.ordered()


class _Run:
    """The state of one run: chunks that wait, workers that are busy, results by case."""

    def __init__(self, planned: Planned, snapshots: Path, each: Callable[[Result], None], limit: float) -> None:
        self.planned, self.snapshots, self.each, self.limit = planned, snapshots, each, limit
        cases: dict[str, list[Instance]] = {}
        for instance in planned.instances:
            cases.setdefault(instance.case_id, []).append(instance)
        self.cases = cases
        self.waiting: deque[list[Instance]] = deque(cases.values())
        self.busy: list[_Worker] = []
        self.results: dict[str, Result] = {}
        self.checks: dict[str, list[Result]] = {}

    def loop(self, workers: int) -> None:
        while self.waiting and len(self.busy) < workers:
            self._start(self.waiting.popleft())
        while self.busy:
            ready = wait([w.connection for w in self.busy], timeout=1.0)
            for worker in list(self.busy):
                if worker.connection in ready:
                    self._hear(worker)
                elif time.monotonic() - worker.since > self.limit:
                    self._lose(worker, "timeout", f"no result after {self.limit:.0f} s")

    def _start(self, chunk: Sequence[Instance]) -> None:
        worker = _worker(self.planned.target, self.snapshots)
        self.busy.append(worker)
        worker.give(chunk)

    def _hear(self, worker: _Worker) -> None:
        try:
            word, content = worker.connection.recv()
        except (EOFError, OSError):
            self._lose(worker, "crash", "the process running it died")
            return
        worker.since = time.monotonic()
        if word == "result":
            worker.left.popleft()
            self._keep(content)
        elif word == "done":
            for result in content:
                self.checks.setdefault(result.i, []).append(result)
                self.each(result)
            if self.waiting:
                worker.give(self.waiting.popleft())
            else:
                worker.end()
                self.busy.remove(worker)

    def _lose(self, worker: _Worker, status: str, message: str) -> None:
        """The worker is gone: its first instance is the culprit, a new worker takes the rest."""
        worker.end()
        self.busy.remove(worker)
        if not worker.left:
            return
        culprit = worker.left.popleft()
        repro = f"tilespec run '{culprit.id}' --target {self.planned.target}"
        mark = culprit.check.mark
        lost = Result(culprit.id, self.planned.target, status, culprit.kind, (), message, repro=repro)
        lost.file, lost.line = culprit.feature.file, mark.line if mark else 0
        self._keep(lost)
        if worker.left:
            self._start(list(worker.left))
        elif self.waiting:
            self._start(self.waiting.popleft())

    def _keep(self, result: Result) -> None:
        self.results[result.i] = result
        self.each(result)

    def ordered(self) -> list[Result]:
        found = [self.results[i.id] for i in self.planned.instances if i.id in self.results]
        return [*found, *(r for case in self.cases for r in self.checks.get(case, ()))]
