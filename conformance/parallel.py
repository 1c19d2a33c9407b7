"""Runs a target's instances in worker processes: faster, and a process that dies takes only its instance with it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from conformance.adapters import load
from conformance.instances import Instance, collect
from conformance.loader import load_suite
from conformance.plan import Planned
from conformance.results import Result
from conformance.runner import Session, run_all

_session: list[Session] = []
_instances: dict[str, Instance] = {}


def _start(target: str, spec: Path) -> None:
    """Worker initialisation: the adapter and the suite, once for each process."""
    _session.append(Session(target, load(target), snapshots=spec / "snapshots"))
    _instances.update({i.id: i for i in collect(load_suite(spec))})


def _work(ids: Sequence[str]) -> list[Result]:
    return run_all(_session[0], [_instances[i] for i in ids])


def run_in_processes(planned: Planned, spec: Path, workers: int, each: Callable[[Result], None]) -> list[Result]:
    """Results in the plan's order. A chunk is all instances of one case, so compilations and self-checks stay whole."""
    chunks: dict[str, list[str]] = {}
    for instance in planned.instances:
        chunks.setdefault(instance.case_id, []).append(instance.id)
    done: dict[str, list[Result]] = {}
    _pool_run(planned, spec, workers, chunks, done, each)
    for case, ids in chunks.items():
        if case not in done:
            done[case] = [_alone(planned, spec, i) for i in ids]
            for result in done[case]:
                each(result)
    return [r for case in chunks for r in done[case]]


def _pool_run(planned, spec, workers, chunks, done, each) -> None:
    """Fill `done`; when a worker dies, what was not finished stays missing."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start, (planned.target, spec)) as pool:
        futures = {pool.submit(_work, ids): case for case, ids in chunks.items()}
        try:
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                for result in done[futures[future]]:
                    each(result)
        except BrokenProcessPool:
            return


def _alone(planned: Planned, spec: Path, id: str) -> Result:
    """One instance in a process of its own; `crash` if that process dies."""
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, context, _start, (planned.target, spec)) as pool:
            return pool.submit(_work, [id]).result()[0]
    except BrokenProcessPool:
        instance = next(i for i in planned.instances if i.id == id)
        repro = f"tilespec run '{id}' --target {planned.target}"
        return Result(id, planned.target, "crash", instance.kind, (), "the process running it died", repro=repro)
