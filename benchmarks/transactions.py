"""Compares what the simulator counts with what the hardware does: Nsight Compute on the kernels of count budgets.

    python benchmarks/transactions.py [SELECT...] [--json FILE] [--ncu PATH]

needs a GPU, CuPy, and `ncu` with the right to read performance counters. Besides the budgets of the specification that
have `counts`, it runs probes whose accesses are strided, off their line, or meet in a bank. Prints a table and exits
with 1 where a number differs. Without a GPU `--simulate` prints the left half.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.adapters import Valid, load
from conformance.calls import bind, call_arguments, make_arrays
from conformance.instances import collect, instances
from conformance.loader import load_suite
from conformance.model import Argument, Program
from conformance.signatures import parse_argument

# What Nsight Compute calls each count. Conflicts are those of data, not of arbitration.
METRICS = {
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


@dataclass(frozen=True)
class Launch:
    """A program, its parameters and inputs."""

    name: str
    program: Program
    at: dict[str, Any]
    inputs: dict[str, str]


def launches(select: list[str]) -> Iterator[Launch]:
    """The probes, and the budgets with counts that are selected."""
    for probe in probes():
        if not select or probe.name in select:
            yield probe
    features = load_suite()
    patterns = [s for s in select if "/" in s or "." in s]
    wanted = {i.id for i in collect(features, patterns)} if patterns else set() if select else None
    for feature in features:
        for instance in instances(feature):
            counted = instance.kind == "budget" and instance.check.counts
            if counted and (wanted is None or instance.id in wanted):
                budget = instance.check
                yield Launch(instance.id, budget.program, dict(budget.at), dict(budget.inputs))


# --- probes
def probes() -> Iterator[Launch]:
    """Access patterns whose costs a formula gives: strides, an offset, conflicts of words and of wide accesses."""
    for stride in (1, 2, 3, 8, 33):
        yield _probe(f"load_stride_{stride}", _load(stride, 1, 0), 32 * stride + 8)
    for width in (2, 4):
        yield _probe(f"load_width_{width}", _load(width, width, 0), 32 * width + 8)
    yield _probe("load_off_its_line", _load(1, 1, 1), 64)
    for stride in (1, 2, 3, 8, 32, 33):
        yield _probe(f"shared_stride_{stride}", _shared(stride, 1), 64)
    for width in (2, 4):
        for gap in (1, 2, 4):
            yield _probe(f"shared_width_{width}_gap_{gap}", _shared(width * gap, width), 64)
    for width in (1, 2, 4):
        for share in (2, 4, 32):
            yield _probe(f"shared_width_{width}_read_by_{share}", _shared(width, width, share), 64)


def _probe(name: str, source: str, elements: int) -> Launch:
    arguments: tuple[Argument, ...] = (
        parse_argument(f"x: *f32:16[{elements}]"),
        parse_argument("out: *f32:16[128] out"),
    )
    return Launch(name, Program(name, "probe", source, arguments, ("1",)), {}, {})


def _load(stride: int, width: int, offset: int) -> str:
    result = f"reg<{width} x f32>" if width > 1 else "f32"
    return (
        "simt func @probe(x: ptr<f32>, out: ptr<f32>) {num_warps=1, threads=32} {\n"
        f"  %0 = thread_id : i32\n  %1 = mul %0, {stride} : i32\n  %2 = add %1, {offset} : i32\n"
        f"  %3 = addptr x, %2 : ptr<f32>\n  %4 = ld_global %3, none, none {{width={width}}} : {result}\n"
        f"  %5 = mul %0, {width} : i32\n  %6 = addptr out, %5 : ptr<f32>\n"
        f"  st_global %6, %4, none {{width={width}}}\n}}\n"
    )


def _shared(stride: int, width: int, share: int = 1) -> str:
    """Each lane stores at its stride and loads what another one stored, or ``share`` lanes the same."""
    elements = 31 * stride + width
    result = f"reg<{width} x f32>" if width > 1 else "f32"
    value = f"  %4 = splat %3 : {result}\n" if width > 1 else "  %4 = add %3, 0.0 : f32\n"
    return (
        f"simt func @probe(x: ptr<f32>, out: ptr<f32>) {{num_warps=1, threads=32, shared_bytes={4 * elements}}} {{\n"
        f"  %0 = thread_id : i32\n  %1 = mul %0, {stride} : i32\n  %2 = addptr x, %0 : ptr<f32>\n"
        f"  %3 = ld_global %2, none, none : f32\n{value}"
        f"  %5 = shared_alloc {{offset=0}} : shared<{elements} x f32>\n"
        f"  st_shared %5, %1, %4, none {{width={width}}}\n  barrier\n  %6 = xor %0, 1 : i32\n"
        f"  %11 = div %6, {share} : i32\n  %7 = mul %11, {stride} : i32\n"
        f"  %8 = ld_shared %5, %7 {{width={width}}} : {result}\n"
        f"  %9 = mul %0, {width} : i32\n  %10 = addptr out, %9 : ptr<f32>\n"
        f"  st_global %10, %8, none {{width={width}}}\n}}\n"
    )


# --- both sides
def simulated(launch: Launch) -> dict[str, float]:
    """Counts by name."""
    call, adapter, compiled = _compiled(launch, "simt")
    arrays = make_arrays(call, launch.inputs, launch.name, aligned=True)
    return dict(adapter.count(compiled, call.grid, call_arguments(call, arrays, {})).counts)


def run_on_gpu(launch: Launch) -> None:
    """One launch, for Nsight Compute to watch."""
    call, adapter, compiled = _compiled(launch, "cuda")
    arrays = make_arrays(call, launch.inputs, launch.name, aligned=True)
    answer = adapter.run(compiled, call.launch_grid, call_arguments(call, arrays, {}))
    if type(answer).__name__ != "Ran":
        raise SystemExit(f"{launch.name}: {answer}")


def _compiled(launch: Launch, target: str) -> tuple[Any, Any, Valid]:
    call, adapter = bind(launch.program, launch.at), load(target)
    compiled = adapter.compile(call.request())
    if not isinstance(compiled, Valid):
        raise SystemExit(f"{launch.name} does not compile for {target}: {compiled}")
    return call, adapter, compiled


def measured(launch: Launch, ncu: str) -> dict[str, float]:
    """The same counts by Nsight Compute."""
    watched = ["--csv", "--page", "raw", "--target-processes", "all", "--metrics", ",".join(METRICS.values())]
    command = [ncu, *watched, sys.executable, __file__, "--launch", launch.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [row for row in csv.reader(io.StringIO(done.stdout)) if len(row) > 5]
    head = next((i for i, row in enumerate(rows) if row[0] == "ID"), None)
    found = [row for row in rows[head + 1 :] if row[0].isdigit()] if head is not None else []
    if not found:
        raise SystemExit(f"{launch.name}: ncu says\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    kernels = [dict(zip(rows[head], row, strict=False)) for row in found]
    mine = [k for k in kernels if launch.program.entry in k.get("Kernel Name", "")] or kernels
    return {name: sum(float(k[metric].replace(",", "")) for k in mine) for name, metric in METRICS.items()}


def main() -> int:
    """The table; 1 where a number differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("select", nargs="*", help="instances of the specification, or names of probes")
    parser.add_argument("--json", type=Path, help="write the rows")
    parser.add_argument("--ncu", default="ncu", help="the program")
    parser.add_argument("--simulate", action="store_true", help="only what the simulator counts")
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        run_on_gpu(next(iter(launches([options.launch]))))
        return 0
    rows: list[dict[str, Any]] = []
    differing = 0
    for launch in launches(options.select):
        ours = simulated(launch)
        theirs = {} if options.simulate else measured(launch, options.ncu)
        print(launch.name)
        for name in METRICS:
            row = {"launch": launch.name, "count": name, "simulated": ours[name], "measured": theirs.get(name)}
            rows.append(row)
            differs = bool(theirs) and ours[name] != theirs[name]
            differing += differs
            if ours[name] or differs:
                shown = "" if not theirs else f"{theirs[name]:>10g}{'   differs' if differs else ''}"
                print(f"  {name:<26}{ours[name]:>10g}{shown}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"rows": rows, "differing": differing}, indent=1) + "\n")
    print(f"{len(rows)} numbers, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
