"""Timing of GPU work as `triton.testing` offers it: medians of launches with a cold L2 cache, and tables of them."""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refcompiler.errors import LaunchError
from refcompiler.runtime import gpu, streams

FLUSH_BYTES = 256 << 20  # several times the L2 of any GPU: writing as much leaves none of the kernel's data there
_SUMMARIES: dict[str, Callable[[list[float]], Any]] = {
    "min": min, "max": max, "mean": statistics.fmean, "median": statistics.median, "all": list,
}  # fmt: skip
_FEWEST = 5


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that the GPU takes for ``fn()``, which queues work on the current stream.

    ``fn`` is repeated for about ``warmup`` ms unmeasured and ``rep`` ms measured, each time after the L2 cache was
    flushed. ``quantiles`` gives a list of these, else ``return_mode`` is one of min, max, mean, median, all. The
    ``grad`` of each of ``grad_to_none`` is dropped before every repetition. Raises GpuUnavailable without a GPU.
    """
    if return_mode not in _SUMMARIES:
        raise LaunchError("testing.mode", f"return_mode is one of {', '.join(_SUMMARIES)}, found {return_mode!r}")

    def drop_gradients() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None

    times = milliseconds(fn, warmup, rep, before=drop_gradients)
    if quantiles is not None:
        return [quantile(times, q) for q in quantiles]
    return _SUMMARIES[return_mode](times)


def quantile(values: Sequence[float], q: float) -> float:
    """The ``q``-quantile, linear between neighbours."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _nothing() -> None:
    """What is done around a repetition where nothing is asked for."""


def milliseconds(
    fn: Callable[[], Any],
    warmup: float,
    rep: float,
    *,
    stream: int | None = None,
    before: Callable[[], Any] = _nothing,
    after: Callable[[], Any] = _nothing,
) -> list[float]:
    """One time for each repetition of ``fn``; ``before`` and ``after`` run around each and are not measured. ``stream``
    is the handle of the stream that all of them queue on, by default the current one."""
    handle = streams.current() if stream is None else stream

    def once() -> tuple[Any, Any]:
        before()
        flush(handle)
        pair = _record(fn, handle)
        after()
        return pair

    pairs: list[tuple[Any, Any]] = []
    before()
    fn()  # compiles, loads, and leaves a context current
    after()
    gpu.ask("cuStreamSynchronize", handle)
    with _scratch() as flush:
        outer = _record(lambda: pairs.extend(once() for _ in range(_FEWEST)), handle)
        gpu.ask("cuStreamSynchronize", handle)
        per_run = max(_between(outer) / _FEWEST, 1e-6)
        unmeasured = _FEWEST + max(1, int(warmup / per_run))
        pairs += [once() for _ in range(unmeasured - _FEWEST + max(_FEWEST, int(rep / per_run)))]
        gpu.ask("cuStreamSynchronize", handle)
        return [_between(pair) for pair in pairs][unmeasured:]


@contextlib.contextmanager
def _scratch() -> Iterator[Callable[[int], None]]:
    """A function that overwrites the L2 cache by way of memory that is given back afterwards."""
    memory = gpu.ask("cuMemAlloc", FLUSH_BYTES)
    try:
        yield lambda stream: gpu.ask("cuMemsetD32Async", memory, 0, FLUSH_BYTES // 4, stream)
    finally:
        gpu.ask("cuMemFree", memory)


def _record(fn: Callable[[], Any], stream: int) -> tuple[Any, Any]:
    """Events before and after the work that ``fn`` queues."""
    before, after = gpu.ask("cuEventCreate", 0), gpu.ask("cuEventCreate", 0)
    gpu.ask("cuEventRecord", before, stream)
    fn()
    gpu.ask("cuEventRecord", after, stream)
    return before, after


def _between(pair: tuple[Any, Any]) -> float:
    elapsed = gpu.ask("cuEventElapsedTime", *pair)
    for event in pair:
        gpu.ask("cuEventDestroy", event)
    return float(elapsed)


@dataclass(frozen=True)
class Benchmark:
    """What `perf_report` measures: the function of the benchmark is called with each of ``x_vals`` for all ``x_names``,
    each of ``line_vals`` for ``line_arg``, and ``args``. The labels and styles of upstream's plots are accepted."""

    x_names: Sequence[str]
    x_vals: Sequence[Any] = ()
    line_arg: str = ""
    line_vals: Sequence[Any] = ()
    line_names: Sequence[str] = ()
    plot_name: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[Any] | None = None


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Report]:
    """A decorator that makes a report of a function, which gives one number, or one and its bounds, per call."""
    given = [benchmarks] if isinstance(benchmarks, Benchmark) else list(benchmarks)
    return lambda fn: Report(fn, given)


class Report:
    """A function and what it is to be called with; ``run`` does it. `tilespec bench` draws pictures."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Sequence[Benchmark]):
        self.fn, self.benchmarks = fn, benchmarks

    def run(
        self, show_plots: bool = False, print_data: bool = False, save_path: str | Path = "", **arguments: Any
    ) -> list[list[dict[str, Any]]]:
        """The rows of each benchmark, by column; printed, or written to PLOT_NAME.csv in the folder ``save_path``.

        ``arguments`` go to every call. Raises LaunchError for ``show_plots``, which needs a screen.
        """
        if show_plots:
            raise LaunchError("testing.plots", "perf_report draws no plots: use print_data=True or save_path=FOLDER")
        tables = [self._rows(benchmark, arguments) for benchmark in self.benchmarks]
        for benchmark, rows in zip(self.benchmarks, tables, strict=True):
            text = (
                [",".join(map(str, line)) for line in [list(rows[0]), *(row.values() for row in rows)]] if rows else []
            )
            if print_data:
                sys.stdout.write("\n".join([f"{benchmark.plot_name}:", *text]) + "\n")
            if save_path:
                folder = Path(save_path)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{benchmark.plot_name}.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
        return tables

    def _rows(self, benchmark: Benchmark, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        rows = []
        for x in benchmark.x_vals:
            values = x if isinstance(x, tuple | list) else [x] * len(benchmark.x_names)
            row: dict[str, Any] = dict(zip(benchmark.x_names, values, strict=True))
            call = {**row, **benchmark.args, **arguments}
            for value, name in zip(benchmark.line_vals, benchmark.line_names, strict=True):
                found = self.fn(**call, **{benchmark.line_arg: value})
                row[name] = found[0] if isinstance(found, tuple | list) else found
            rows.append(row)
        return rows
