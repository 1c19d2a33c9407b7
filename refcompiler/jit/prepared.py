"""Launches prepared for what their arguments were specialised on: found by a look-up, with no lock, copy or check left.

A launch on a GPU is prepared after it went the long way once. The next one with arguments of the same types, the same
properties (dtype, alignment, range of integers) and equal compile-time values needs a look-up, the addresses of its
arrays, and the driver. Whatever is not plain goes the long way every time: annotated parameters, arrays of several
libraries or of one that is neither CuPy nor torch, several GPUs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refcompiler.config import backend_setting
from refcompiler.ir.types import I32, I64, U64
from refcompiler.jit.compiled import CompiledKernel
from refcompiler.jit.grids import extents
from refcompiler.jit.specialize import Argument, constexpr_key
from refcompiler.runtime import gpu, launcher, streams
from refcompiler.runtime.arrays import DeviceReader, device_reader

Pick = Callable[[Sequence[Any]], tuple]


class _Kinds(dict):
    """Integers -> their type and hint, made when asked for; OverflowError for one that no type holds."""

    LARGEST = 10_000

    def __missing__(self, value: int) -> tuple[str, int]:
        number = int(value)
        fitting = (d.name for d in (I32, I64, U64) if d.min_int <= number <= d.max_int)
        name = next(fitting, None)
        if name is None:
            raise OverflowError(value)
        kind = (name, 1 if number == 1 else 16 if number % 16 == 0 else 0)
        if len(self) < self.LARGEST:
            self[number] = kind
        return kind


_past_16 = (15).__and__  # bytes past a multiple of 16
_X_LIMIT = launcher.GRID_LIMITS[0]
_kind_of = _Kinds().__getitem__
_INTEGERS = frozenset({int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64})
_OTHER_NUMBERS = frozenset({float, bool, np.bool_, np.float16, np.float32, np.float64})
_EXACT = frozenset({int, bool, str, type(None)})  # of one type, equal means the same; not so floats


def _pick(places: Sequence[int]) -> Pick:
    """The values at these places, as a tuple."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return (lambda values: (values[places[0]],)) if places else lambda values: ()


# What values are to a launch: see ``Call``. A "number" is a run-time float or bool, which decides nothing.
ROLES = ("array", "integer", "exact", "other")


class Launch:
    """One kernel, ready to be queued with the arguments of one form of call."""

    __slots__ = ("are_current", "arrange", "function", "kernel", "meta", "shared_bytes", "threads")

    def __init__(self, kernel: CompiledKernel, arrange: Pick, meta: Mapping[str, Any]):
        self.kernel, self.arrange, self.meta = kernel, arrange, meta
        self.are_current = kernel.compiled.dependencies.are_current
        self.function = kernel.function
        self.threads, self.shared_bytes = kernel.build.threads, kernel.build.shared_bytes


class Call:
    """A form of call: the values of the same types, passed the same way. What tells its launches apart is the dtypes,
    the alignment, the integers' kinds, and values known while compiling; ``plain`` gives the integers and such values,
    or a new object where equal ones may differ (0.0 and -0.0)."""

    __slots__ = (
        "addresses_of", "arrays", "exact", "facts_of", "integers", "last", "launches", "names", "others", "plain",
        "stream_at", "stream_of",
    )  # fmt: skip

    def __init__(self, names: tuple[str, ...], places: Mapping[str, list[int]], reader: DeviceReader):
        """``places`` are those of the values of each role in ``ROLES`` and of the stream."""
        self.names = names
        self.launches: dict[tuple, Launch] = {}
        self.last: Any = (None, None)  # what was seen of the last launch, and the launch
        self.arrays, self.integers, self.exact, self.others = [_pick(places[role]) for role in ROLES]
        self.plain: Callable[[Sequence[Any]], Any] = _pick(places["integer"] + places["exact"])
        if places["other"]:
            self.plain = lambda values: object()
        self.facts_of, self.addresses_of = reader.facts, reader.address
        self.stream_of = streams.reader(reader.library)
        self.stream_at = places["stream"][0] if places["stream"] else None

    def key(self, values: Sequence[Any], arrays: tuple, addresses: Sequence[int]) -> tuple:
        """What decides which launch serves ``values``, among which are ``arrays`` at ``addresses``."""
        return (
            backend_setting(),
            *[address & 15 == 0 for address in addresses],
            *map(self.facts_of, arrays),
            *map(_kind_of, self.integers(values)),
            *self.exact(values),
            *map(constexpr_key, self.others(values)),
        )


class PreparedLaunches:
    """The prepared launches of one kernel function; ``long_way(grid, args, keywords)`` serves all others."""

    def __init__(self, long_way: Callable[[Any, tuple, dict[str, Any]], CompiledKernel]):
        self.long_way = long_way
        self.calls: dict[tuple, Call] = {}
        self.last: Any = (None, None)  # the form of the last call, and what is known of it

    def run(self, grid: Any, /, *args: Any, **keywords: Any) -> CompiledKernel:
        """Launch on ``grid``."""
        values = (*args, *keywords.values()) if keywords else args
        try:
            form = (*keywords, *map(type, values))
            known, call = self.last
            if form != known:
                call = self.calls[form]
                self.last = form, call
            arrays = call.arrays(values)
            addresses = [*map(call.addresses_of, arrays)]
            # Most launches are as the last one was: comparing is cheaper than asking each argument and hashing.
            seen = (backend_setting(), call.plain(values), *map(_past_16, addresses), *map(call.facts_of, arrays))
            known, launch = call.last
            if seen != known:
                launch = call.launches[call.key(values, arrays, addresses)]
                call.last = seen, launch
        except (KeyError, OverflowError, TypeError):  # not met before, or an error that the long way explains
            return self.long_way(grid, args, keywords)
        if not launch.are_current():
            return self.long_way(grid, args, keywords)
        if type(grid) is not tuple and callable(grid):
            grid = grid(dict(zip(call.names, values, strict=True)) | launch.meta)
        if type(grid) is tuple and len(grid) == 1 and type(grid[0]) is int and 0 < grid[0] <= _X_LIMIT:
            x, y, z = grid[0], 1, 1
        else:
            x, y, z = extents(grid, launch.kernel.name)
            if not x * y * z:
                return launch.kernel
        given = None if call.stream_at is None else values[call.stream_at]
        stream = call.stream_of() if given is None else streams.handle_of(given)
        numbers = launch.arrange((*addresses, *values))
        launcher.submit(launch.function, x, y, z, launch.threads, launch.shared_bytes, numbers, stream)
        return launch.kernel

    def clear(self) -> None:
        """Forget all of them."""
        self.calls.clear()
        self.last = (None, None)

    def add(
        self,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        arguments: Sequence[Argument],
        options: Mapping[str, Any],
        kernel: CompiledKernel,
    ) -> None:
        """Prepare the launch that just went the long way; ``arguments`` are those it bound."""
        positional = [a.parameter.name for a in arguments if a.parameter.kind is not a.parameter.kind.KEYWORD_ONLY]
        given = dict(zip(positional, args, strict=False)) | dict(keywords)
        bound = {a.parameter.name: a for a in arguments}
        params = kernel.build.abi.params
        made = _form(given, bound)
        if made is None or gpu.device_count() > 1 or not all(p.name in given for p in params):
            return
        values = tuple(given.values())
        call = self.calls.setdefault((*keywords, *map(type, values)), made)
        arrays = call.arrays(values)
        names = [n for n in given if n in bound and bound[n].info is not None]
        order = [names.index(p.name) if p.name in names else len(names) + call.names.index(p.name) for p in params]
        meta = {name: a.value for name, a in bound.items() if name not in given} | dict(options)
        key = call.key(values, arrays, [*map(call.addresses_of, arrays)])
        call.launches[key] = Launch(kernel, _pick(order), meta)
        call.last = (None, None)


def _form(given: Mapping[str, Any], bound: Mapping[str, Argument]) -> Call | None:
    """The form of a call with values by name, or None where such calls go the long way."""
    places: dict[str, list[int]] = {role: [] for role in (*ROLES, "number", "stream")}
    for at, (name, value) in enumerate(given.items()):
        role = _role(bound.get(name), name, value)
        if role is None:
            return None
        places[role].append(at)
    readers = {device_reader(a.info.library, a.value) for a in bound.values() if a.info is not None}
    reader = readers.pop() if len(readers) == 1 else None
    if reader is None:
        return None
    return Call(tuple(given), places, reader)


def _role(argument: Argument | None, name: str, value: Any) -> str | None:
    """What a value is to a launch; None where only the long way knows."""
    if argument is None and name == "stream":
        return "stream"
    if argument is None or argument.type is None:  # of the launch or the compiler, or known while compiling
        return "exact" if type(value) in _EXACT else "other"
    if not argument.plain:
        return None
    if argument.info is not None:
        return "array"
    return "integer" if type(value) in _INTEGERS else "number" if type(value) in _OTHER_NUMBERS else None
