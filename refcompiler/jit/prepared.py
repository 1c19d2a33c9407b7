"""Launches prepared for what their arguments were specialised on: found by asking each argument, with no lock or copy.

A launch on a GPU is prepared after it went the long way once. The next one with arguments of the same types, the same
properties (dtype, alignment, range of integers) and equal compile-time values needs a look-up, the addresses of its
arrays, and the driver. Whatever is not plain goes the long way every time: annotated parameters, arrays of libraries
that are neither CuPy nor torch, several GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from refcompiler import config
from refcompiler.ir.types import I32, I64, U64
from refcompiler.jit.compiled import CompiledKernel
from refcompiler.jit.grids import resolve_grid
from refcompiler.jit.specialize import Argument, constexpr_key
from refcompiler.runtime import gpu, launcher, streams
from refcompiler.runtime.arrays import device_reader

Asker = Callable[[Any], Any]
_I32, _I64, _U64 = ((d.min_int, d.max_int) for d in (I32, I64, U64))


def _integer(value: int) -> str:
    """Type and hint of an integer; OverflowError for one that no type holds."""
    if _I32[0] <= value <= _I32[1]:
        return "i32:1" if value == 1 else "i32" if value & 15 else "i32:16"
    if _I64[0] <= value <= _I64[1]:
        return "i64" if value & 15 else "i64:16"
    if value <= _U64[1] and value > 0:
        return "u64" if value & 15 else "u64:16"
    raise OverflowError(value)


def _itself(value: Any) -> Any:
    """The identity of a value whose type is part of the call."""
    return value


def _nothing(value: Any) -> None:
    """The answer for what does not decide which code runs."""


# What is asked of the arguments of run-time parameters, by their type; arrays are added when first met.
_NUMBERS: dict[type, Asker] = {int: _integer, float: _nothing, bool: _nothing, np.bool_: _nothing}
_NUMBERS |= {kind: lambda value: _integer(int(value)) for kind in (np.int32, np.int64, np.uint8, np.uint32, np.uint64)}
_NUMBERS |= dict.fromkeys((np.float16, np.float32, np.float64), _nothing)
_EXACT: dict[type, Asker] = dict.fromkeys((int, bool, str, type(None)), _itself) | {float: float.hex}


class Launch:
    """One kernel with the arguments of one form of call, ready to be queued."""

    __slots__ = (
        "are_current", "function", "kernel", "meta", "names", "readers", "shared_bytes", "stream_at", "stream_of",
        "threads",
    )  # fmt: skip

    def __init__(self, kernel: CompiledKernel, form: Form, meta: Mapping[str, Any]):
        self.kernel, self.meta = kernel, meta
        self.names, self.readers, self.stream_at, self.stream_of = form[1:]
        self.are_current = kernel.compiled.dependencies.are_current
        self.function, self.threads, self.shared_bytes = (
            kernel.function,
            kernel.build.threads,
            kernel.build.shared_bytes,
        )

    def run(self, grid: Any, values: Sequence[Any]) -> CompiledKernel:
        """Queue the kernel on ``grid`` with the arguments ``values``, in the order of the call."""
        if callable(grid):
            grid = grid(dict(zip(self.names, values, strict=True)) | self.meta)
        if type(grid) is tuple and len(grid) == 1 and type(grid[0]) is int and 0 < grid[0] <= launcher.GRID_LIMITS[0]:
            x, y, z = grid[0], 1, 1
        else:
            x, y, z = resolve_grid(grid, {}, self.kernel.name)
            if not x * y * z:
                return self.kernel
        given = None if self.stream_at is None else values[self.stream_at]
        stream = self.stream_of() if given is None else streams.handle_of(given)
        numbers = [values[at] if read is None else read(values[at]) for at, read in self.readers]
        launcher.submit(self.function, x, y, z, self.threads, self.shared_bytes, numbers, stream)
        return self.kernel


class Call:
    """The calls with arguments of the same types, passed the same way: what to ask, and the launches by the answers."""

    __slots__ = ("askers", "launches")

    def __init__(self, askers: Sequence[Asker]):
        self.askers = askers
        self.launches: dict[tuple, Launch] = {}


class PreparedLaunches:
    """The prepared launches of one kernel function."""

    def __init__(self) -> None:
        self.calls: dict[tuple, Call] = {}

    def find(self, values: Sequence[Any], keywords: Mapping[str, Any]) -> Launch | None:
        """The launch for these arguments (positional ones first), or None where the long way must be gone."""
        try:
            call = self.calls[(*keywords, *map(type, values))]
            launch = call.launches[(config.backend_setting(), *[ask(v) for ask, v in zip(call.askers, values)])]  # noqa: B905
        except (KeyError, OverflowError, TypeError):  # not met before, or an error that the long way explains
            return None
        return launch if launch.are_current() else None

    def clear(self) -> None:
        self.calls.clear()

    def add(
        self,
        values: Sequence[Any],
        keywords: Mapping[str, Any],
        arguments: Sequence[Argument],
        defaults: Mapping[str, Any],
        kernel: CompiledKernel,
    ) -> None:
        """Prepare the launch that just went the long way: ``arguments`` are those it bound, ``defaults`` the options
        and values that it did not name."""
        form = _form(values, keywords, arguments, kernel)
        if form is None:
            return
        meta = {a.parameter.name: a.value for a in arguments if a.parameter.name not in form.names} | dict(defaults)
        call = self.calls.setdefault((*keywords, *map(type, values)), Call(form.askers))
        answers = [ask(v) for ask, v in zip(form.askers, values, strict=True)]
        call.launches[(config.backend_setting(), *answers)] = Launch(kernel, form, meta)


class Form(NamedTuple):
    """How calls of one form are answered: what to ask of each value; names of the values; for each parameter of the
    machine code which value it is and how to read an address of it; which value is the stream; else whose it is."""

    askers: tuple[Asker, ...]
    names: tuple[str, ...]
    readers: tuple[tuple[int, Callable | None], ...]
    stream_at: int | None
    stream_of: Callable[[], int]


def _form(
    values: Sequence[Any], keywords: Mapping[str, Any], arguments: Sequence[Argument], kernel: CompiledKernel
) -> Form | None:
    """The form of a call, or None where such calls go the long way."""
    positional = [a.parameter.name for a in arguments if a.parameter.kind is not a.parameter.kind.KEYWORD_ONLY]
    names = (*positional[: len(values) - len(keywords)], *keywords)
    given = dict(zip(names, values, strict=True))
    bound = {a.parameter.name: a for a in arguments}
    askers = [_asker(bound.get(name), name, value) for name, value in given.items()]
    libraries = {a.info.library for a in arguments if a.info is not None}
    stream_of = streams.OF_LIBRARY.get(libraries.pop()) if len(libraries) == 1 else None
    params = kernel.build.abi.params
    if stream_of is None or gpu.device_count() > 1 or None in askers or not all(p.name in given for p in params):
        return None
    readers = tuple(
        (names.index(p.name), device_reader(given[p.name]).address if p.kind == "pointer" else None) for p in params
    )
    stream_at = names.index("stream") if "stream" in given and "stream" not in bound else None
    return Form(tuple(askers), names, readers, stream_at, stream_of)


def _asker(argument: Argument | None, name: str, value: Any) -> Asker | None:
    """What to ask of a value; None where only the long way knows."""
    if argument is None or argument.type is None:  # of the launch or the compiler, or known while compiling
        return _nothing if argument is None and name == "stream" else _EXACT.get(type(value), constexpr_key)
    if not argument.plain:
        return None
    if argument.info is None:
        return _NUMBERS.get(type(value))
    reader = device_reader(value)
    return reader.kind if reader is not None else None
