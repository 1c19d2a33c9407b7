"""The Python function of one prepared launch: straight through its guards to the driver, written out as source text.

Text is made of names of our own only: arguments are ``a0``, ``a1`` and so on, all other objects ``v0``, ``v1`` and so
on, bound in the function's globals. So launches of like form have the same text, which is compiled once.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from refcompiler.config import backend_setting
from refcompiler.frontend.dependencies import Dependencies
from refcompiler.frontend.kernel_source import EMPTY
from refcompiler.jit.compiled import CompiledKernel
from refcompiler.jit.grids import LIMITS, extents
from refcompiler.jit.specialize import constexpr_key
from refcompiler.runtime import launcher, streams
from refcompiler.runtime.abi import LaunchBuffer
from refcompiler.runtime.arrays import DeviceReader
from refcompiler.runtime.overlap import apart

TEXT = """\
def launch(grid, /, *args, **keywords):
    try:
        {positional} = args
        {named}
        warm = (
            {guards}
        )
    except misfits:
        warm = False
    if not warm:
        return other(launch, grid, args, keywords)
    if type(grid) is not tuple and callable(grid):
        grid = grid({meta})
    if type(grid) is tuple and len(grid) == 1 and type(x := grid[0]) is int and 0 < x <= {limit}:
        y = z = 1
    else:
        x, y, z = extents(grid, {name}, {ctas})
        if not x * y * z:
            return kernel
    try:
        buffer = take()
    except IndexError:
        buffer = new_buffer(abi)
    stream = {stream}
    try:
        pack(buffer.memory, 0, {numbers}{x}, y, z, {threads}, 1, 1, {shared_bytes}, stream)
    except unpackable:
        pack(buffer.memory, 0, *converted(function, [{numbers}]), {x}, y, z, {threads}, 1, 1, {shared_bytes}, stream)
    status = queue(buffer.config, handle, buffer.arguments, None)
    if status:
        queue_again(function, buffer, status)
    give(buffer)
    return kernel
"""

# Guards of integers, {0} being one where it is read first and {1} from then on: their types, and what they are to the
# specialiser (``integer_hint``): 1, a multiple of 16, one of 8 alone, or none. 1 needs no guard of its type.
_RANGES = {
    "i32": f"{-(2**31)} <= {{0}} < {2**31}",
    "i64": f"{-(2**63)} <= {{0}} < {2**63} and not {-(2**31)} <= {{1}} < {2**31}",
    "u64": f"{2**63} <= {{0}} < {2**64}",
}
_HINTS = {1: "{0} == 1", 16: "not {1} & 15", 8: "{1} & 15 == 8", None: "{1} & 7 and {1} != 1"}
# What reading and comparing the values of another form of call may raise.
_MISFITS = (KeyError, ValueError, TypeError, OverflowError)


class Value(NamedTuple):
    """One value of a call: its name and whether it goes by it, its role (see ``prepared.ROLES``), what decides about it
    (for an integer its type and hint, for an array whether it is aligned, for a compile-time value its key), and it."""

    name: str
    keyword: bool
    role: str
    decides: Any
    example: Any


class LaunchText:
    """The text of one launch while it is written, and the objects that its names stand for."""

    def __init__(self, reader: DeviceReader, values: Sequence[Value]):
        self.reader = reader
        self.values = [(f"a{at}", value) for at, value in enumerate(values)]
        self.scope: dict[str, Any] = {}
        self.named: dict[int, str] = {}
        self.guards: list[str] = []

    def name(self, value: Any) -> str:
        """A name for an object in the text."""
        name = self.named.setdefault(id(value), f"v{len(self.named)}")
        self.scope[name] = value  # kept, so that its id stays its own
        return name

    def guard_values(self) -> None:
        """Guards of the form of the call, and of all that decides which code serves the values."""
        self.guards.append(f"len(keywords) == {sum(value.keyword for _, value in self.values)}")
        for a, value in self.values:
            if value.role != "other":  # its key holds its type
                self.guards.append(f"type({a}) is {self.name(type(value.example))}")
        for a, value in self.values:
            if value.role == "array":
                dtype = self.name(value.example.dtype)
                self.guards.append(f"({a}.dtype is {dtype} or {a}.dtype == {dtype})")
                self.guards.append(self.reader.on_gpu_text.format(a))
            elif value.role == "integer":
                kind, hint = value.decides
                read = (
                    a if type(value.example) is int else f"({self.number(a, value)} := int({a}))",
                    self.number(a, value),
                )
                if hint != 1:
                    self.guards.append(_RANGES[kind].format(*read))
                self.guards.append(_HINTS[hint].format(*read))
            elif value.role == "exact" and value.example is not None:
                self.guards.append(f"{a} == {self.name(value.example)}")
            elif value.role == "other":
                self.guards.append(f"{self.name(constexpr_key)}({a}) == {self.name(value.decides)}")

    def guard_alignment(self) -> None:
        """Guards of the addresses, which are read here: all aligned ones at once."""
        reads = [
            (f"({self.number(a, value)} := {self.reader.address_text.format(a)})", value.decides)
            for a, value in self.values
            if value.role == "array"
        ]
        aligned = [read for read, is_aligned in reads if is_aligned]
        if aligned:
            self.guards.append(f"not ({' | '.join(aligned)}) & 15")
        self.guards += [f"{read} & 15" for read, is_aligned in reads if not is_aligned]

    def guard_arrays(self, kernel: CompiledKernel) -> None:
        """Guards of what the code takes for granted of its arrays: that pairs of them share no byte, and that tensor
        maps describe them."""
        place = {value.name: a for a, value in self.values}
        maps = kernel.function.tensor_maps
        if maps is not None:
            numbers = [self.number(place[p.name], dict(self.values)[place[p.name]]) for p in kernel.build.abi.visible]
            self.guards.append(f"{self.name(maps.describe)}([{', '.join(numbers)}])")
        for first, second in kernel.build.disjoint:
            self.guards.append(f"{self.name(apart)}({place[first]}, {place[second]})")

    def guard_surroundings(self, dependencies: Dependencies) -> None:
        """Guards of the backend's setting, and of all that the kernel read outside of itself."""
        self.guards.append(f"{self.name(backend_setting)}() == {self.name(backend_setting())}")
        seen = []
        for scope, name, value in dependencies.names_in_scopes:
            there = f"{self.name(scope)}.get({self.name(name)}, {self.name(EMPTY)})"
            seen.append(f"{there} is {self.name(value)}")
        if seen:
            self.guards.append(f"({' and '.join(seen)} or {self.name(dependencies.are_current)}())")
        if dependencies.has_others:
            self.guards.append(f"{self.name(dependencies.others_are_current)}()")

    def number(self, a: str, value: Value) -> str:
        """What goes into the buffer for a value."""
        if value.role == "array":
            return f"p{a[1:]}"
        return f"i{a[1:]}" if value.role == "integer" and type(value.example) is not int else a

    def stream(self) -> str:
        """The handle of the stream: the one given, else the library's current one."""
        given = [(a, value.example) for a, value in self.values if value.role == "stream"]
        if given and given[0][1] is not None:
            return f"{self.name(streams.handle_of)}({given[0][0]})"
        text, function = streams.reader(self.reader.library)
        return text.format(self.name(function))

    def source(self, kernel: CompiledKernel, meta: Mapping[str, Any]) -> str:
        """The whole text, for calls of which functions of the grid see the values by name and ``meta``."""
        by_name = {value.name: self.number(a, value) for a, value in self.values}
        numbers = [by_name[param.name] for param in kernel.build.abi.visible]
        maps, ctas = kernel.function.tensor_maps, kernel.build.num_ctas
        if maps is not None:
            numbers.append(f"*{self.name(maps.encoded)}([{', '.join(numbers)}])")
        seen = ", ".join(f"{self.name(value.name)}: {a}" for a, value in self.values)
        return TEXT.format(
            positional="".join(f"{a}, " for a, value in self.values if not value.keyword) or "()",
            named="; ".join(f"{a} = keywords[{self.name(v.name)}]" for a, v in self.values if v.keyword) or "pass",
            guards="\n            and ".join(self.guards),
            limit=LIMITS[0] // ctas,
            ctas=ctas,
            x=f"{ctas} * x" if ctas > 1 else "x",
            meta=f"{{{seen}}} | {self.name(meta)}",
            name=self.name(kernel.name),
            stream=self.stream(),
            numbers="".join(f"{number}, " for number in numbers),
            threads=kernel.build.threads,
            shared_bytes=kernel.build.shared_bytes,
        )


def launch_function(
    reader: DeviceReader,
    values: Sequence[Value],
    kernel: CompiledKernel,
    meta: Mapping[str, Any],
    other: Callable[[Any, Any, tuple, dict[str, Any]], CompiledKernel],
) -> Callable[..., CompiledKernel]:
    """The function of a launch of ``kernel`` prepared for values like these, which it takes after the grid. Where a
    guard fails it hands ``other`` itself, the grid, the arguments and the keywords."""
    text = LaunchText(reader, values)
    text.guard_values()
    text.guard_alignment()
    text.guard_arrays(kernel)
    text.guard_surroundings(kernel.compiled.dependencies)
    function = kernel.function
    source = text.source(kernel, meta)
    scope = text.scope | {
        "abi": function.abi,
        "converted": launcher.converted,
        "extents": extents,
        "function": function,
        "give": function.buffers.append,
        "handle": function.handle,
        "kernel": kernel,
        "misfits": _MISFITS,
        "new_buffer": LaunchBuffer,
        "other": other,
        "pack": function.pack,
        "queue": function.queue,
        "queue_again": launcher.queue_again,
        "take": function.buffers.pop,
        "unpackable": (struct.error, OverflowError),
    }
    exec(_code(source), scope)  # noqa: S102  # of names of our own only, as dataclasses are made
    return scope["launch"]


@functools.lru_cache(maxsize=1024)
def _code(source: str) -> CodeType:
    return compile(source, "<prepared launch>", "exec")
