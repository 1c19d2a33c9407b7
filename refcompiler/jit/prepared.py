"""Launches prepared for what their arguments were specialised on: no lock, copy or description of arrays left.

A launch on a GPU is prepared after it went the long way once. The function of the last one is current: it serves the
next call if that has values of the same types, with the same properties (dtype, alignment, range of integers) and equal
compile-time values, and nothing outside has changed. Otherwise another prepared one is looked up. Whatever is not plain
goes the long way every time: annotated parameters, arrays of several libraries or of one that is neither CuPy nor
torch, several GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refcompiler.config import backend_setting
from refcompiler.ir.types import I32, I64, U64
from refcompiler.jit.compiled import CompiledKernel
from refcompiler.jit.launch_text import Value, launch_function
from refcompiler.jit.specialize import Argument, constexpr_key, integer_hint
from refcompiler.runtime import gpu
from refcompiler.runtime.arrays import DeviceReader, device_reader

Run = Callable[..., CompiledKernel]

_INTEGERS = frozenset({int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64})
_OTHER_NUMBERS = frozenset({float, bool, np.bool_, np.float16, np.float32, np.float64})
_EXACT = frozenset({int, bool, str, type(None)})  # of one type, equal means the same; not so floats


def _kind_of(value: int) -> tuple[str, int | None]:
    """The type and hint of an integer argument; OverflowError for one that no type holds."""
    number = int(value)
    for dtype in (I32, I64, U64):
        if dtype.min_int <= number <= dtype.max_int:
            return dtype.name, integer_hint(number)
    raise OverflowError(value)


# What values are to a launch -> what decides about one. A "number" is a run-time float or bool, which decides nothing.
_DECIDES: dict[str, Callable[[Any], Any]] = {
    "integer": _kind_of,
    "exact": lambda value: value,
    "other": constexpr_key,
    "number": type,
    "stream": type,
}
ROLES = ("array", *_DECIDES)


class Call:
    """A form of call: the values of the same types, passed the same way. What tells its launches apart is the dtypes,
    the alignment, the integers' kinds, and values known while compiling."""

    def __init__(self, given: Mapping[str, Any], keywords: int, roles: Sequence[str], reader: DeviceReader):
        """``given`` are values by name, the last ``keywords`` of them passed by it."""
        self.names, self.roles, self.reader = tuple(given), roles, reader
        self.keywords = keywords
        self.launches: dict[tuple, Run] = {}

    def key(self, values: Sequence[Any]) -> tuple:
        """What decides which launch serves ``values``."""
        reader = self.reader
        return (
            backend_setting(),
            *[
                (reader.facts(value), reader.address(value) % 16 == 0) if role == "array" else _DECIDES[role](value)
                for role, value in zip(self.roles, values, strict=True)
            ],
        )

    def prepare(self, values: Sequence[Any], kernel: CompiledKernel, meta: Mapping[str, Any], other: Run) -> Run:
        """Write the function of the launch that serves ``values``, and keep it."""
        key = self.key(values)
        first_keyword = len(values) - self.keywords
        rows = [
            Value(name, at >= first_keyword, role, decides[1] if role == "array" else decides, value)
            for at, (name, role, decides, value) in enumerate(zip(self.names, self.roles, key[1:], values, strict=True))
        ]
        run = self.launches[key] = launch_function(self.reader, rows, kernel, meta, other)
        return run


class PreparedLaunches:
    """The prepared launches of one kernel function; ``long_way(grid, args, keywords)`` serves all others. ``current``
    takes a grid, arguments and keywords. Numbers of parameters in ``exact`` tell launches apart by their values."""

    def __init__(
        self, long_way: Callable[[Any, tuple, dict[str, Any]], CompiledKernel], exact: frozenset[str] = frozenset()
    ):
        self.long_way, self.exact = long_way, exact
        self.calls: dict[tuple, Call] = {}
        self.current: Run = self.run

    def run(self, grid: Any, /, *args: Any, **keywords: Any) -> CompiledKernel:
        """Launch on ``grid``."""
        return self.other(None, grid, args, keywords)

    def other(self, failed: Run | None, grid: Any, args: tuple, keywords: dict[str, Any]) -> CompiledKernel:
        """Launch what ``failed``, a prepared launch, does not serve."""
        values = (*args, *keywords.values())
        try:
            call = self.calls[(*keywords, *map(type, values))]
            found = call.launches[call.key(values)]
        except (KeyError, OverflowError, TypeError):  # not met before, or an error that the long way explains
            return self.long_way(grid, args, keywords)
        if found is failed:  # something outside has changed
            return self.long_way(grid, args, keywords)
        self.current = found
        return found(grid, *args, **keywords)

    def clear(self) -> None:
        """Forget all of them."""
        self.calls.clear()
        self.current = self.run

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
        made = _form(given, len(keywords), bound, self.exact)
        if made is None or gpu.device_count() > 1 or not all(p.name in given for p in kernel.build.abi.visible):
            return
        values = tuple(given.values())
        call = self.calls.setdefault((*keywords, *map(type, values)), made)
        meta = {name: a.value for name, a in bound.items() if name not in given} | dict(options)
        self.current = call.prepare(values, kernel, meta, self.other)


def _form(given: Mapping[str, Any], keywords: int, bound: Mapping[str, Argument], exact: frozenset[str]) -> Call | None:
    """The form of a call with values by name, or None where such calls go the long way."""
    roles = [_role(bound.get(name), name, value) for name, value in given.items()]
    for at, (name, value) in enumerate(given.items()):
        if name in exact and roles[at] in ("integer", "number"):
            roles[at] = _compared(value)
    readers = {device_reader(a.info.library, a.value) for a in bound.values() if a.info is not None}
    reader = readers.pop() if len(readers) == 1 else None
    if reader is None or None in roles:
        return None
    return Call(given, keywords, roles, reader)


def _role(argument: Argument | None, name: str, value: Any) -> str | None:
    """What a value is to a launch; None where only the long way knows."""
    if argument is None and name == "stream":
        return "stream"
    if argument is None or argument.type is None:  # of the launch or the compiler, or known while compiling
        return _compared(value)
    if not argument.plain:
        return None
    if argument.info is not None:
        return "array"
    return "integer" if type(value) in _INTEGERS else "number" if type(value) in _OTHER_NUMBERS else None


def _compared(value: Any) -> str:
    """The role of a value that must be the same: by comparing, or by its key where equal is not the same."""
    return "exact" if type(value) in _EXACT else "other"
