"""Compiles what will be measured in processes of their own, all cores at once, before anything is timed.

What they compile lies in caches on disk, where the process that measures finds it. Nothing is tuned here, because that
times kernels, and these processes disturb each other. Who fails here is told again when it is measured.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from typing import Any, NamedTuple

from conformance.bench import arrays, measuring, peers
from conformance.benchmarks import Line

MOST_PROCESSES = 16  # each has a context on the GPU, and the arguments of one line
SHARES = 6  # into which the configurations that tune a product or attention are divided


class Job(NamedTuple):
    """What one contestant compiles for one line; of many configurations only a share."""

    line: Line
    contestant: str
    share: int = 0
    shares: int = 1


def jobs(lines: Sequence[tuple[Line, Sequence[str]]]) -> list[Job]:
    """Of lines with the names of their peers. Lines take the shares of a tuner's configurations in another order
    each, because what one compiles the next finds compiled."""
    found = []
    for turn in range(SHARES):
        for place, (line, names) in enumerate(lines):
            shares = SHARES if line.flops else 1
            if "triton" in names and turn < shares:
                found.append(Job(line, "triton", (turn + place) % shares, shares))
            if turn == 0:
                found += [Job(line, name) for name in ("ours", "mlir", "compile") if name == "ours" or name in names]
    return found


def prepare(every: Sequence[Job], processes: int) -> list[str]:
    """Do the jobs, wait until all are done, and say which failed why."""
    with ProcessPoolExecutor(min(processes, len(every)), multiprocessing.get_context("spawn")) as pool:
        queued = [pool.submit(do, job) for job in every]
        wait(queued)
    return [
        f"{job.contestant} of {job.line.id}: {measuring.first_line(error)}"
        for job, done in zip(every, queued, strict=True)
        if (error := done.exception()) is not None
    ]


def processes() -> int:
    """Processes for the cores that this one may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_PROCESSES)


def do(job: Job) -> None:
    """One job, in a process of its own. Raises whatever the compiler does."""
    import torch

    arguments = arrays.arguments(job.line, 0)
    try:
        if job.contestant == "triton":
            _triton(job, arguments)
        elif job.contestant == "compile":
            _inductor(job.line, arguments)
        else:
            call = peers.ours(job.line) if job.contestant == "ours" else peers.call_of(job.contestant, job.line)
            call(arguments)
        torch.cuda.synchronize()
    finally:
        del arguments
        measuring.release()


def _triton(job: Job, arguments: Any) -> None:
    if importlib.util.find_spec("triton") is None:
        return
    from conformance.bench.upstream import triton_kernels

    if job.line.benchmark.operation in triton_kernels.OPERATIONS:
        triton_kernels.compile_share(job.line.benchmark.operation, arguments, job.share, job.shares)


def _inductor(line: Line, arguments: Any) -> None:
    """torch.compile into its cache: the graph is compiled, and the call then goes on without it, so that the first run,
    which chooses among configurations by their times, is left to the process that measures."""
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx

    def compile_only(graph: Any, inputs: Any) -> Any:
        compile_fx(graph, inputs)
        return graph.forward

    config.compile_threads = 1  # the other cores have jobs of their own
    peers.compiled(line, compile_only)(arguments)
