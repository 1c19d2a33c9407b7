"""Times of one line: every contestant in one process, in turns, on data that the caches do not hold.

A sample is one launch between two events or, for work of less than SHORT_US, a CUDA graph of several launches on
different arguments. Before each sample the L2 cache is overwritten, which also lets the host run ahead of the GPU.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.bench import arrays, peers
from conformance.bench.verifying import Verifier
from conformance.benchmarks import Line

WORKING_SET = 256 << 20  # bytes over which the launches of a sample go; several times the L2 of any GPU
MOST_SETS = 64
SHORT_US = 200.0  # below this a sample holds several launches, so that the clock of the events is fine enough
LEAD_CYCLES = 400_000  # for which the GPU waits before a sample of one launch, so that no time of the host is in it
FEWEST_ROUNDS, MOST_ROUNDS = 10, 200


@dataclass
class Contestant:
    """Who does the work, and its times in microseconds a launch, one for each round. `status`: right or wrong after
    timing, absent where it cannot do this work here, failed where it raised; `why` says more."""

    name: str
    call: peers.Call | None = None
    times_us: list[float] = field(default_factory=list)
    status: str = ""
    why: str = ""
    slack: float | None = None
    run: Callable[[int], Any] | None = None
    last: dict[int, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the document has it; empty fields left out."""
        slack = self.slack if self.slack is not None and math.isfinite(self.slack) else None
        plain = {"name": self.name, "status": self.status, "why": self.why, "slack": slack}
        return {**{k: v for k, v in plain.items() if v not in ("", None)}, "times_us": self.times_us}


@dataclass
class Measured:
    """One line as measured: its contestants, how many launches a sample has, over how many sets of arguments."""

    line: Line
    contestants: list[Contestant]
    how: str = ""
    launches: int = 0
    sets: int = 0

    def to_json(self) -> dict[str, Any]:
        """As the document has it."""
        own = {"how": self.how, "launches": self.launches, "sets": self.sets}
        return {**own, "contestants": [c.to_json() for c in self.contestants]}


def copy_rate() -> float:
    """Bytes that a device-to-device copy of 1 GiB reads and writes in a second: the median of several."""
    import torch

    source, target = (torch.randint(0, 256, (1 << 30,), dtype=torch.uint8, device="cuda") for _ in range(2))
    times = []
    for _ in range(FEWEST_ROUNDS):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        target.copy_(source)
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) * 1e-3)
    return 2.0 * (1 << 30) / sorted(times)[len(times) // 2]


def release() -> None:
    """Give the memory of a line back, before the next one."""
    import gc

    import torch

    gc.collect()
    with contextlib.suppress(RuntimeError):  # of a GPU that failed, which the next line will tell
        torch.cuda.empty_cache()


def measure(line: Line, names: Sequence[str], seconds: float, seed: int) -> Measured:
    """Measure `ours` and the named peers for about so many seconds, then verify what they left.

    Whatever goes wrong (memory that does not suffice, a GPU that failed) is our failure on this line; others go on.
    """
    try:
        return _measure(line, names, seconds, seed)
    except Exception as error:
        return Measured(line, [Contestant("ours", status="failed", why=first_line(error))])


def _measure(line: Line, names: Sequence[str], seconds: float, seed: int) -> Measured:
    import torch

    count = max(1, min(MOST_SETS, math.ceil(WORKING_SET / max(1, line.array_bytes))))
    sets = [arrays.arguments(line, seed + k) for k in range(count)]
    contestants = [c for name in ("ours", *names) if (c := _contestant(name, line)) is not None]
    torch.cuda.synchronize()
    ready = [c for c in contestants if c.call is not None and _warm(c, sets)]
    measured = Measured(line, contestants, sets=count)
    if not any(c.name == "ours" for c in ready):
        for c in ready:
            c.status, c.why = "absent", "not measured, because our own call failed"
        return measured
    flush = torch.empty(WORKING_SET, dtype=torch.uint8, device="cuda")
    fastest = min(_estimate(c, sets, flush) for c in ready if c.name != "copy" or len(ready) == 1)
    measured.launches = 1 if fastest >= SHORT_US else min(MOST_SETS, math.ceil(SHORT_US / max(fastest, 0.5)))
    measured.how = _prepare(ready, sets, measured.launches)
    _rounds(ready, flush, measured, seconds)
    verifier = Verifier(line, sets, seed)
    for c in ready:
        try:
            c.status, why, c.slack = verifier.verify(c)
            c.why = why or c.why
        except Exception as error:
            c.status, c.why = "failed", f"while verifying: {first_line(error)}"
    return measured


def _contestant(name: str, line: Line) -> Contestant | None:
    """Who does the work of a line; None for a peer that is for other work."""
    try:
        return Contestant(name, peers.ours(line) if name == "ours" else peers.call_of(name, line))
    except peers.Inapplicable:
        return None
    except peers.Absent as error:
        return Contestant(name, status="absent", why=str(error))
    except Exception as error:
        return Contestant(name, status="failed", why=first_line(error))


def _warm(c: Contestant, sets: Sequence[Any]) -> bool:
    """Compile and run it once; False, with the reason in it, where that fails."""
    import torch

    assert c.call is not None
    try:
        for arguments in sets[:2]:
            c.call(arguments)
        torch.cuda.synchronize()
    except Exception as error:
        c.status, c.why, c.call = "failed", first_line(error), None
        return False
    return True


def first_line(error: BaseException) -> str:
    """The kind of an error and the beginning of its message."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def _estimate(c: Contestant, sets: Sequence[Any], flush: Any) -> float:
    """Microseconds of one launch, roughly."""
    import torch

    assert c.call is not None
    found = []
    for k in range(5):
        flush.zero_()
        torch.cuda._sleep(LEAD_CYCLES)
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        c.call(sets[k % len(sets)])
        after.record()
        after.synchronize()
        found.append(before.elapsed_time(after) * 1e3)
    return sorted(found)[1]


def _prepare(ready: Sequence[Contestant], sets: Sequence[Any], launches: int) -> str:
    """Give every contestant its `run(round)`; how the launches of a sample are queued."""
    graphs = launches > 1
    for c in ready if graphs else ():
        try:
            c.run = _graph(c, sets, launches)
        except Exception as error:  # one that cannot be captured: then nobody is, so that all are measured alike
            c.why = f"no graph: {first_line(error)}"
            graphs = False
            break
    if not graphs:
        for c in ready:
            c.run = _queued(c, sets, launches)
    return ("graph" if graphs else "queued") if launches > 1 else "single"


def _graph(c: Contestant, sets: Sequence[Any], launches: int) -> Callable[[int], Any]:
    import torch

    assert c.call is not None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for k in range(launches):
            c.last[k % len(sets)] = c.call(sets[k % len(sets)])
    return lambda number: graph.replay()


def _queued(c: Contestant, sets: Sequence[Any], launches: int) -> Callable[[int], Any]:
    call = c.call
    assert call is not None

    def run(number: int) -> None:
        c.last.clear()  # its memory is free for the next results
        for k in range(launches):
            place = (number * launches + k) % len(sets)
            c.last[place] = call(sets[place])

    return run


def _rounds(ready: Sequence[Contestant], flush: Any, measured: Measured, seconds: float) -> None:
    """Samples in turns, forwards and backwards, until the time is up; a few rounds before are not kept."""
    import time

    import torch

    began, kept, number = time.perf_counter(), 0, 0
    warm = max(3, FEWEST_ROUNDS // 4)
    while kept < MOST_ROUNDS and (kept < FEWEST_ROUNDS or time.perf_counter() - began < seconds):
        order = ready if number % 2 == 0 else ready[::-1]
        pairs = []
        for c in order:
            assert c.run is not None
            flush.random_(0, 256) if number == 0 else flush.zero_()
            torch.cuda._sleep(LEAD_CYCLES)
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            c.run(number)
            after.record()
            pairs.append((c, before, after))
        torch.cuda.synchronize()
        number += 1
        if number <= warm:
            began = time.perf_counter()
            continue
        kept += 1
        for c, before, after in pairs:
            c.times_us.append(before.elapsed_time(after) * 1e3 / measured.launches)
