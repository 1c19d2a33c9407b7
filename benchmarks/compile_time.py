"""Times cold compiles of the specification's kernels, every verifier on: stage by stage to CUDA text, then to cubin.

Run ``python benchmarks/compile_time.py [--cubin] [--mlir] [--select "area.*"] [--repeats N] [--json FILE]``.
A kernel is a program of a feature with the first parameters it is given. Each repeat compiles it from its source text
with empty caches; the best of the repeats counts, as user CPU time and as wall time, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from conformance.adapters import CompileRequest
from conformance.adapters.kernel_source import kernel_module
from conformance.calls import bind
from conformance.dtypes import DTYPES
from conformance.instances import collect
from conformance.loader import load_suite
from conformance.signatures import source_level
from refcompiler import language

TEXT_STAGES = ("tile", "tile_opt", "laid_out", "simt", "cuda")
TOTALS = {"cuda": "to CUDA text", "cubin": "to cubin", "mlir": "to MLIR text", "mlir_cubin": "to cubin by MLIR"}


def kernels(select: Sequence[str], every: bool) -> Iterator[tuple[str, CompileRequest]]:
    """Name and request of each kernel; ``every`` takes all parameters of all cases that compile."""
    seen = set()
    for instance in collect(load_suite(), select):
        program = instance.program
        if instance.kind not in ("oracle", "ssa", "invariant", "budget") or program is None:
            continue
        if source_level(program.source) != "kernel" or instance.feature.profile not in ("core", "ext.any_extent"):
            continue
        request = bind(program, instance.params, shapes=False).request()
        key = request if every else (instance.feature.id, program.source, program.entry)
        if key not in seen:
            seen.add(key)
            yield instance.id, request


def measure(request: CompileRequest, backends: dict[str, bool], arch: str) -> dict[str, tuple[float, float]]:
    """(user CPU, wall) milliseconds of each stage of one cold compile, and of the totals.

    ``backends`` maps "cuda" or "mlir" to whether machine code is made too.
    """
    found: dict[str, tuple[float, float]] = {}
    for backend, to_cubin in backends.items():
        text = "cuda" if backend == "cuda" else "mlir"
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TILESPEC_CACHE_DIR"] = folder
            started = clocks()
            kernel = compiled(request, backend, arch)
            for stage in (*TEXT_STAGES[:-1], text):
                before = clocks()
                kernel.asm[stage]
                found[stage] = since(started if stage == "tile" else before)
            found[f"total {text}"] = since(started)
            if to_cubin:
                before = clocks()
                kernel.asm["cubin"]
                found[f"{text} to cubin"] = since(before)
                found[f"total {'cubin' if backend == 'cuda' else 'mlir_cubin'}"] = since(started)
    return found


def compiled(request: CompileRequest, backend: str, arch: str) -> Any:
    """The kernel of a request, compiled from its text to tile IR."""
    constexprs = {
        k: getattr(language, DTYPES[v].triton) if isinstance(v, str) and v in DTYPES else v
        for k, v in request.constexprs
    }
    kernel_module.cache_clear()
    kernel = getattr(kernel_module(request.source, request.file, request.profile), request.entry)
    options = dict(request.options) | ({} if request.profile == "core" else {"profile": request.profile})
    return kernel.compile(dict(request.signature), constexprs, arch=arch, backend=backend, **options)


def clocks() -> tuple[float, float]:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.perf_counter()


def since(start: tuple[float, float]) -> tuple[float, float]:
    user, wall = clocks()
    return (user - start[0]) * 1e3, (wall - start[1]) * 1e3


def best(runs: Sequence[dict[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    """The least of each number over the repeats."""
    return {key: (min(r[key][0] for r in runs), min(r[key][1] for r in runs)) for key in runs[0]}


def summary(rows: dict[str, dict[str, tuple[float, float]]]) -> dict[str, dict[str, Any]]:
    """Median, 90th percentile and worst kernel of each stage; CPU and wall."""
    table: dict[str, dict[str, Any]] = {}
    for stage in next(iter(rows.values())):
        cpu = sorted((row[stage][0], name) for name, row in rows.items() if stage in row)
        wall = sorted((row[stage][1], name) for name, row in rows.items() if stage in row)
        table[stage] = {
            "median_cpu": statistics.median(v for v, _ in cpu),
            "median": statistics.median(v for v, _ in wall),
            "p90": wall[ceil(0.9 * len(wall)) - 1][0],
            "worst": wall[-1][0],
            "worst_kernel": wall[-1][1],
        }
    return table


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--select", nargs="*", default=[], help="features or cases, as for `tilespec run`")
    parser.add_argument("--every", action="store_true", help="every parameter of every case")
    parser.add_argument("--cubin", action="store_true", help="machine code too")
    parser.add_argument("--mlir", action="store_true", help="the MLIR backend too")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=int, help="at most this many kernels, spread over the specification")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments)
    backends = {"cuda": chosen.cubin} | ({"mlir": chosen.cubin} if chosen.mlir else {})
    todo = list(kernels(chosen.select, chosen.every))
    if chosen.limit and len(todo) > chosen.limit:
        todo = todo[:: len(todo) // chosen.limit][: chosen.limit]
    rows = {}
    for name, request in todo:
        rows[name] = best([measure(request, backends, chosen.arch) for _ in range(chosen.repeats)])
    table = summary(rows)
    print(f"{len(rows)} kernels, {chosen.arch}, best of {chosen.repeats}, ms")
    print(f"{'':18}{'median CPU':>12}{'median':>10}{'p90':>10}{'worst':>10}")
    for stage, row in table.items():
        shown = "".join(f"{row[k]:{w}.2f}" for k, w in (("median_cpu", 12), ("median", 10), ("p90", 10), ("worst", 10)))
        label = TOTALS[stage.removeprefix("total ")] if stage.startswith("total ") else stage
        print(f"{label:18}{shown}  {row['worst_kernel']}")
    if chosen.json:
        chosen.json.write_text(json.dumps({"arch": chosen.arch, "stages": table, "kernels": rows}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
