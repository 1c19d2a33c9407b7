"""Timing of GPU work as `triton.testing` offers it: medians of launches with a cold L2 cache."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Sequence
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
