"""One run of `tilespec bench`: what is left is compiled ahead, measured line by line, and kept as it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conformance.bench import document, machine
from conformance.bench.statistics import median
from conformance.benchmarks import Line

SECONDS, QUICK_SECONDS = 1.5, 0.4  # of rounds for each line


@dataclass(frozen=True)
class Plan:
    """Lines with the names of their peers; `kept` are entries of an earlier run, whose lines are not measured again.

    `within` is a limit in seconds: no line begins that would probably end after it. `say` gets words on the progress.
    """

    lines: Sequence[tuple[Line, Sequence[str]]]
    seconds: float
    seed: int
    processes: int
    select: Sequence[str]
    quick: bool
    say: Callable[[str], None]
    kept: Sequence[Mapping[str, Any]] = ()
    within: float | None = None
    file: Path | None = None

    @property
    def left(self) -> list[tuple[Line, Sequence[str]]]:
        """What is to be measured."""
        known = {entry["id"] for entry in self.kept}
        return [(line, names) for line, names in self.lines if line.id not in known]


def measure(plan: Plan) -> tuple[dict[str, Any], int]:
    """The judged document, and how many lines the limit left unmeasured. The machine has a GPU."""
    from conformance import report_data
    from conformance.bench import measuring, preparing

    began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    commit = report_data.commit()
    run = {"started": started, "select": list(plan.select), "quick": plan.quick, "seed": plan.seed, **commit}
    left, entries = plan.left, [dict(entry) for entry in plan.kept]
    _prepare(preparing, left, plan)
    gpu = machine.current_gpu()
    described = {**machine.machine(), "copy_bytes_per_second": measuring.copy_rate()}
    measuring.release()
    longest, done = 0.0, 0
    for line, names in left:
        at = time.perf_counter()
        if plan.within is not None and at - began + longest > plan.within:
            break
        found = measuring.measure(line, names, plan.seconds, plan.seed)
        state = machine.state(gpu)
        entries.append(
            {**document.line_entry(line), **found.to_json(), "state": state, "commit": document.commit_of(run)}
        )
        del found
        measuring.release()
        done += 1
        longest = max(longest, time.perf_counter() - at)
        plan.say(f"[{done}/{len(left)}] {_told(entries[-1])}, {time.perf_counter() - at:.1f} s")
        if plan.file is not None:
            document.record(entries, described, run, plan.file)
    run["seconds"] = time.perf_counter() - began
    return document.document(_ordered(entries, plan), described, run), len(left) - done


def _prepare(preparing: Any, left: Sequence[tuple[Line, Sequence[str]]], plan: Plan) -> None:
    every, began = preparing.jobs(left), time.perf_counter()
    if plan.processes > 1 and len(every) > 1:
        plan.say(f"compiling for {len(left)} lines in {min(plan.processes, len(every))} processes")
        failed = preparing.prepare(every, plan.processes)
        plan.say(f"compiled in {time.perf_counter() - began:.1f} s, {len(failed)} of {len(every)} jobs failed")
        for sentence in failed[:10]:
            plan.say(f"  {sentence}")


def _ordered(entries: Sequence[dict[str, Any]], plan: Plan) -> list[dict[str, Any]]:
    """In the order of the specification, what it does not have first."""
    places = {line.id: place for place, (line, _) in enumerate(plan.lines)}
    return sorted(entries, key=lambda entry: places.get(entry["id"], -1))


def _told(entry: Mapping[str, Any]) -> str:
    """A line in a few words: our time, and the ratio to each peer."""
    mine = entry["contestants"][0]
    if not mine["times_us"] or mine["status"] != "right":
        return f"{entry['id']}: {mine['status']}: {mine.get('why', '')}"
    ratios = [
        f"{median(c['times_us']) / median(mine['times_us']):.3f} of {c['name']}"
        if c["times_us"] and c["status"] == "right"
        else f"{c['name']} {c['status']}"
        for c in entry["contestants"][1:]
    ]
    return f"{entry['id']}: {median(mine['times_us']):.4g} us, " + ", ".join(ratios)
