"""Times the memory-bound kernels of the library against a device copy, torch, torch.compile and upstream Triton.

Run ``python benchmarks/memory_bound.py [--quick] [--only PART] [--json FILE]`` on a machine with a GPU and torch; peers
that are not installed are left out. All of a row runs in one process and takes turns, each launch between two events,
on fresh random data in working sets of 256 MiB and more; afterwards every output is filled with NaN, computed once more
and held against f64. A row gives the median rate of each peer in GB/s, counting what must be read and written once, and
its ratio to the copy of as many bytes with a 95 % interval. ``--sweep`` times our configurations instead of the peers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import refcompiler.kernels
from refcompiler.jit import ShapeDtype
from refcompiler.kernels import reduce

MIB = 1 << 20
COLUMNS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
QUICK_COLUMNS = (1024, 8192, 16384, 32768, 65536)
ROWWISE = ("softmax", "layer_norm", "rms_norm", "row_sum", "column_sum")
BOUNDS = {"float32": 1e-6, "bfloat16": 3.5e-3}  # of the root mean square error to that of the values
SWEEP_WARPS = (1, 2, 4, 8, 16, 32)
SAMPLED_ROWS = 256


@dataclass(frozen=True)
class Work:
    """One line of the table: an operation on an array of rows x columns."""

    op: str
    dtype: str
    rows: int
    columns: int

    @property
    def name(self) -> str:
        return f"{self.op} {'f32' if self.dtype == 'float32' else 'bf16'} {self.rows}x{self.columns}"

    @property
    def item_bytes(self) -> int:
        return 4 if self.dtype == "float32" else 2

    @property
    def moved_bytes(self) -> int:
        """What must be read and written once; weights and sums are not counted."""
        arrays = {"add": 3, "row_sum": 1, "column_sum": 1, "sum": 1}.get(self.op, 2)
        return arrays * self.rows * self.columns * self.item_bytes


def table(quick: bool) -> list[Work]:
    works = []
    for dtype, item in (("float32", 4), ("bfloat16", 2)):
        elements = 1 << 28
        works += [Work(op, dtype, 1, elements) for op in ("copy", "add", "sum")]
        elements = 256 * MIB // item
        for op in ROWWISE:
            size = elements * (4 if op.endswith("sum") else 1)  # what only reads must read more to be worth a launch
            works += [Work(op, dtype, size // c, c) for c in (QUICK_COLUMNS if quick else COLUMNS)]
        works.append(Work("transpose", dtype, 8192, elements // 8192))
    return works


# --- what runs
@dataclass
class Bench:
    """The arrays of one work and what its peers do with them. ``xp`` is torch, or None to describe arrays only."""

    work: Work
    xp: Any
    arrays: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        w = self.work
        shape, other = (w.rows, w.columns), (w.columns, w.rows)
        if w.op in ("copy", "add", "sum"):
            shape = (w.columns,)
        self.arrays["x"] = self.array(shape)
        if w.op == "add":
            self.arrays["y"] = self.array(shape)
        if w.op in ("layer_norm", "rms_norm"):
            self.arrays |= {"weight": self.array((w.columns,)), "bias": self.array((w.columns,))}
        outs = {"transpose": other, "row_sum": (w.rows,), "column_sum": (w.columns,), "sum": (1,)}
        sums = w.op.endswith("sum")
        self.arrays["out"] = self.array(outs.get(w.op, shape), "float32" if sums else w.dtype)

    def array(self, shape: tuple[int, ...], dtype: str | None = None) -> Any:
        dtype = dtype or self.work.dtype
        if self.xp is None:
            import ml_dtypes

            return ShapeDtype(shape, np.dtype(getattr(ml_dtypes, dtype, dtype)))
        return self.xp.randn(shape, dtype=getattr(self.xp, dtype), device="cuda")

    def run(self, kernels: Callable[[str], Any], **options: Any) -> Any:
        """One launch of the library's function, from ``kernels``, the library under some compiler."""
        a, op = self.arrays, self.work.op
        if op in ("copy", "add"):
            inputs = [a["x"], *([a["y"]] if op == "add" else [])]
            return getattr(kernels("elementwise"), op)(*inputs, a["out"], **options)
        if op == "row_sum":
            return kernels("reduce").row_sum(a["x"], a["out"], **options)
        if op == "column_sum":
            return kernels("reduce").column_sum(a["x"], a["out"], **options)
        if op == "sum":
            return kernels("reduce").total_sum(a["x"], a["out"], **options)
        parameters = {"layer_norm": ("weight", "bias"), "rms_norm": ("weight",)}.get(op, ())
        return getattr(kernels(op), op)(a["x"], *(a[p] for p in parameters), a["out"], **options)

    def torch_function(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """What torch computes of which arrays."""
        torch, a, f = self.xp, self.arrays, self.xp.nn.functional
        columns = (self.work.columns,)
        x = a["x"]
        return {
            "copy": (lambda x: x.clone(), (x,)),
            "add": (lambda x, y: x + y, (x, a.get("y"))),
            "sum": (lambda x: x.sum(dtype=torch.float32), (x,)),
            "row_sum": (lambda x: x.sum(1, dtype=torch.float32), (x,)),
            "column_sum": (lambda x: x.sum(0, dtype=torch.float32), (x,)),
            "softmax": (lambda x: torch.softmax(x, -1), (x,)),
            "layer_norm": (lambda x, w, b: f.layer_norm(x, columns, w, b), (x, a.get("weight"), a.get("bias"))),
            "rms_norm": (lambda x, w: f.rms_norm(x, columns, w, 1e-6), (x, a.get("weight"))),
            "transpose": (lambda x: x.t().contiguous(), (x,)),
        }[self.work.op]

    def error(self) -> float:
        """The root mean square error of ``out`` against f64 over that of the values; of sums, over the summed sizes."""
        torch, out, op = self.xp, self.arrays["out"], self.work.op
        function, arrays = self.torch_function()
        if op in ("softmax", "layer_norm", "rms_norm"):  # rows are independent of each other
            rows = random.sample(range(self.work.rows), min(SAMPLED_ROWS, self.work.rows))
            out, arrays = out[rows], (arrays[0][rows], *arrays[1:])
            if not torch.isfinite(self.arrays["out"]).all():
                return math.inf
        wide = [a.double() for a in arrays]
        if op.endswith("sum"):
            axis = {"row_sum": 1, "column_sum": 0, "sum": 0}[op]
            exact, size = wide[0].sum(axis), wide[0].abs().sum(axis)
        else:
            exact = function(*wide)
            size = exact
        difference = (out.double() - exact.reshape(out.shape)).square().mean().sqrt()
        return float(difference / size.square().mean().sqrt()) if torch.isfinite(difference) else math.inf


def ours(name: str) -> Any:
    return importlib.import_module(f"refcompiler.kernels.{name}")


def upstream(folder: str) -> Callable[[str], Any]:
    """The same sources under upstream Triton: the package, written to ``folder`` with other imports."""
    package = Path(folder) / "kernels_under_triton"
    package.mkdir()
    for path in Path(refcompiler.kernels.__path__[0]).glob("*.py"):
        text = path.read_text().replace("import refcompiler as triton", "import triton")
        text = text.replace("import refcompiler.language as tl", "import triton.language as tl")
        (package / path.name).write_text(text.replace("refcompiler.kernels", package.name))
    sys.path.insert(0, folder)
    return lambda name: importlib.import_module(f"{package.name}.{name}")


# --- machine code ahead of time, by many processes
def configurations(work: Work) -> Iterator[dict[str, Any]]:
    """The configurations of a sweep; the first is the default one."""
    yield {}
    if work.op in ("copy", "add"):
        for size in (4096, 8192, 16384, 32768):
            yield from ({"BLOCK": size // work.item_bytes, "num_warps": n} for n in (4, 8))
    elif work.op == "transpose":
        for rows, columns in ((32, 32), (32, 64), (64, 32), (64, 64), (64, 128), (128, 64), (128, 128)):
            yield from ({"ROWS": rows, "COLUMNS": columns, "num_warps": n} for n in (4, 8))
    elif work.op == "column_sum":
        for rows, size in ((8, 512), (16, 512), (32, 512), (16, 1024), (64, 256)):
            yield from ({"ROWS": rows, "BLOCK": size // work.item_bytes, "num_warps": n} for n in (4, 8))
    elif work.op == "row_sum":
        for rows, block, warps in (
            (1, 1024, 4),
            (4, 1024, 4),
            (4, 1024, 8),
            (8, 1024, 8),
            (16, 1024, 8),
            (16, 1024, 16),
        ):
            yield {"ROWS": rows, "BLOCK": block, "num_warps": warps}
        for block, warps in ((2048, 8), (4096, 8), (4096, 16), (8192, 8), (8192, 16)):
            if block <= work.columns:
                yield {"ROWS": 1, "BLOCK": block, "num_warps": warps}
    elif work.op.endswith("sum"):
        blocks = {min(work.columns, b // work.item_bytes) for b in (4096, 8192, 16384, 32768)}
        yield from ({"BLOCK": b, "num_warps": n} for b in sorted(blocks) for n in (8, 16, 32) if b >= 128 * n)
    else:
        yield from row_configurations(work.columns)


def row_configurations(columns: int) -> Iterator[dict[str, Any]]:
    """Whole rows by so many values a thread, under limits on registers; and rows held in part."""
    for warps in SWEEP_WARPS:
        if columns <= 32768 and 16 <= columns // (32 * warps) <= 64:
            yield {"BLOCK": columns, "num_warps": warps}
            if warps >= 8:
                yield {"BLOCK": columns, "num_warps": warps, "maxnreg": 64 if warps > 8 else 80}
    for block, warps, step, registers in (
        (8192, 8, 4096, 80), (8192, 16, 8192, 64), (8192, 8, 2048, 64), (16384, 8, 4096, 128), (16384, 16, 8192, 64),
        (16384, 32, 16384, 64),
    ):  # fmt: skip
        if block < columns and columns >= 16384:
            yield {"BLOCK": block, "num_warps": warps, "STEP": step, "maxnreg": registers}


def make_code(work: Work, options: dict[str, Any]) -> None:
    reduce.empty = lambda x, shape, dtype: ShapeDtype(shape, np.dtype(dtype))
    Bench(work, None).run(ours, warmup=True, **options)


def make_inductor_code(work: Work) -> None:
    """Fill the cache of torch.compile."""
    import torch

    function, arrays = Bench(work, torch).torch_function()
    torch.compile(function, dynamic=False)(*arrays)
    torch.cuda.synchronize()


def ahead(jobs: list[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
    """Run the jobs in processes of their own, which end before anything is timed."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for (job, arguments), done in [(j, pool.submit(j[0], *j[1])) for j in jobs]:
            if error := done.exception():
                print(f"{job.__name__}{arguments}: {str(error)[:300]}", file=sys.stderr)


# --- timing
def times(peers: dict[str, Callable[[], Any]], torch: Any, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each launch of each peer; the peers of a round run in a random order."""
    events = {name: [] for name in peers}
    order = list(peers)
    shuffle = random.Random(0).shuffle
    for launch in peers.values():
        launch()
    torch.cuda.synchronize()
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            peers[name]()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {name: [start.elapsed_time(end) for start, end in pairs] for name, pairs in events.items()}


def ratio_interval(ours: list[float], other: list[float]) -> tuple[float, float, float]:
    """The ratio of the medians, other over ours, and its 95 % interval by resampling."""
    generator = np.random.default_rng(0)
    samples = [np.median(generator.choice(t, (1000, len(t))), axis=1) for t in (np.asarray(ours), np.asarray(other))]
    low, high = np.quantile(samples[1] / samples[0], (0.025, 0.975))
    return float(np.median(other) / np.median(ours)), float(low), float(high)


def measured(bench: Bench, peers: dict[str, Callable[[], Any]], checked: set[str], rounds: int) -> dict[str, Any]:
    """The row of a work: rates, ratios to the copy, and the errors of what we computed."""
    torch, work = bench.xp, bench.work
    half = work.moved_bytes // 2
    source, target = (torch.empty(half, dtype=torch.uint8, device="cuda") for _ in range(2))
    taken = times({"device copy": lambda: target.copy_(source), **peers}, torch, rounds)
    row: dict[str, Any] = {"work": work.name, "bytes": work.moved_bytes, "peers": {}}
    for name, ms in taken.items():
        ratio, low, high = ratio_interval(ms, taken["device copy"])
        rate = work.moved_bytes / np.median(ms) / 1e6
        row["peers"][name] = {"gbps": rate, "of_copy": ratio, "interval": [low, high], "ms": float(np.median(ms))}
    if compiled := taken.get("torch.compile"):
        row["of_compile"] = {name: ratio_interval(taken[name], compiled) for name in taken if name in checked}
    for name in checked & peers.keys():
        bench.arrays["out"].fill_(math.nan)
        peers[name]()
        torch.cuda.synchronize()
        error = row["peers"][name]["error"] = bench.error()
        bound = BOUNDS["float32" if bench.arrays["out"].dtype == torch.float32 else work.dtype]
        row["peers"][name]["right"] = bool(error <= bound)
    return row


def peers_of(bench: Bench, triton_kernels: Callable[[str], Any] | None, skip: set[str]) -> dict[str, Callable[[], Any]]:
    torch = bench.xp
    function, arrays = bench.torch_function()
    torch._dynamo.reset()  # it compiles one source line for few shapes, then gives up
    compiled = torch.compile(function, dynamic=False)
    found = {
        "ours": lambda: bench.run(ours, backend="cuda"),
        "ours, mlir": lambda: bench.run(ours, backend="mlir"),
        "triton": lambda: bench.run(triton_kernels),
        "torch": lambda: function(*arrays),
        "torch.compile": lambda: compiled(*arrays),
    }
    return {name: launch for name, launch in found.items() if name not in skip and works(name, launch)}


def works(name: str, launch: Callable[[], Any]) -> bool:
    try:
        launch()
    except Exception as error:
        print(f"{name}: left out: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return False
    return True


def sweep_peers(bench: Bench) -> dict[str, Callable[[], Any]]:
    def named(options: dict[str, Any]) -> str:
        return ", ".join(f"{k}={v}" for k, v in options.items()) or "default"

    launches = {named(o): lambda o=o: bench.run(ours, backend="cuda", **o) for o in configurations(bench.work)}
    return {name: launch for name, launch in launches.items() if works(name, launch)}


def print_row(row: dict[str, Any]) -> None:
    print(row["work"])
    for name, p in row["peers"].items():
        low, high = p["interval"]
        right = {True: "", False: f"  WRONG by {p.get('error')}", None: ""}[p.get("right")]
        over = row.get("of_compile", {}).get(name)
        vs = f"  of torch.compile {over[0]:.3f} [{over[1]:.3f}, {over[2]:.3f}]" if over else ""
        print(f"  {name:34s} {p['gbps']:7.0f} GB/s  {p['of_copy']:.3f} [{low:.3f}, {high:.3f}] of copy{vs}{right}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds, for under 50 s")
    parser.add_argument("--sweep", action="store_true", help="our configurations instead of the peers")
    parser.add_argument("--only", default="", help="works whose name has this part; several separated by commas")
    parser.add_argument("--skip", default="", help="peers to leave out, separated by commas")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further row after this time")
    parser.add_argument("--json", help="where to write the rows")
    options = parser.parse_args()
    started = time.monotonic()
    works_ = [w for w in table(options.quick) if any(part in w.name for part in options.only.split(","))]
    skip = set(filter(None, options.skip.split(",")))
    jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
    for work in works_:
        if not options.sweep and "torch.compile" not in skip:
            jobs.append((make_inductor_code, (work,)))
        chosen = configurations(work) if options.sweep else ({"backend": b} for b in ("cuda", "mlir"))
        jobs += [(make_code, (work, c)) for c in chosen]
    ahead(jobs)
    print(f"{len(jobs)} kernels compiled in {time.monotonic() - started:.1f} s", flush=True)

    import torch

    torch.manual_seed(random.SystemRandom().randrange(1 << 30))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        triton_kernels = upstream(folder)
        for work in works_:
            if time.monotonic() - started > options.seconds:
                print(f"out of time before {work.name}")
                break
            bench = Bench(work, torch)
            peers = sweep_peers(bench) if options.sweep else peers_of(bench, triton_kernels, skip)
            checked = set(peers) - {"torch", "torch.compile"}
            rows.append(
                measured(bench, peers, checked, (9 if options.sweep else 15) if options.quick or options.sweep else 50)
            )
            print_row(rows[-1])
            if options.json:
                found = {"machine": torch.cuda.get_device_name(), "rows": rows}
                Path(options.json).write_text(json.dumps(found, indent=1))
            del bench, peers
    if wrong := [r["work"] for r in rows for p in r["peers"].values() if p.get("right") is False]:
        raise SystemExit(f"wrong results: {wrong}")


if __name__ == "__main__":
    main()
