"""The protocol between the harness and an implementation, and the table of known targets.

An adapter is any object with the methods of `Adapter`. It answers; it never raises for what an implementation
rejects or lacks. The harness reaches implementations only through this package.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Info:
    """What an implementation claims; a claim that fails is a failure, not a gap.

    `stages`: texts it can give (from tile to sass), `resources`, and `counts` of a launch. `phases`: error phases it
    can find. `runs`: whether it executes kernels on this machine; `why_not` says why if not. `compiles`: whether it
    makes machine code, where it runs and elsewhere. `passes`: whether it can transform tile text. `toolchain` as in
    budgets (`cuda-12.9`). `defect` says what is broken on this machine (a GPU that is visible and cannot be used); it
    fails the run.
    """

    name: str
    version: str
    profiles: tuple[str, ...] = ("core",)
    capabilities: frozenset[str] = frozenset()
    stages: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    runs: bool = True
    compiles: bool = False
    passes: bool = False
    toolchain: str = ""
    device: str = ""
    why_not: str = ""
    defect: str = ""


@dataclass(frozen=True)
class CompileRequest:
    """One kernel to compile: source (Triton's surface, or SIMT text where the stage `simt` is claimed), argument types
    (`*f32`, `*f32:16`, `i32`), constexprs, options.

    `emit` names the stages whose text is wanted; `arch` is the GPU architecture where that matters; `file` is where the
    source came from, if from a file; `profile` is the edition of the language it is written in.
    """

    source: str
    entry: str
    signature: tuple[tuple[str, str], ...]
    constexprs: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    arch: str = "sm_90a"
    emit: tuple[str, ...] = ()
    file: str = ""
    profile: str = "core"


@dataclass(frozen=True)
class Valid:
    """The kernel compiled. `texts` by stage; `resources`: regs, spill_bytes, stack, smem, threads; `blobs`: cubin;
    `remarks`: what the implementation did to make the kernel fast and what not, as JSON.

    `exact`: the implementation claims that no operation of the kernel leaves any bit of its results open, so that every
    target must give the same ones.
    """

    handle: Any = None
    texts: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, int] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    exact: bool = False
    remarks: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Rejected:
    """The implementation refused: phase, diagnostic id (a clause id), message, and the span in the request's source.

    `span` is (line, column, end line, end column), lines from 1, columns from 0.
    """

    phase: str
    id: str
    message: str
    span: tuple[int, int, int, int] | None = None
    rendered: str = ""


@dataclass(frozen=True)
class Unsupported:
    """A capability the implementation lacks; must be one that its `Info` does not claim."""

    capability: str
    message: str = ""


@dataclass(frozen=True)
class Ran:
    """The kernel ran; outputs are in the arguments' arrays."""


@dataclass(frozen=True)
class Counted:
    """What a launch cost, by the names that budgets use (spec/README.md)."""

    counts: Mapping[str, float]


@dataclass(frozen=True)
class Transformed:
    """Tile text after the requested passes."""

    text: str


@dataclass
class CallArgument:
    """One argument of a launch. Arrays come with the guarded bytes they lie in, so that a device can hold the same.

    `bent` marks a call of which a case changed an argument: the kernel is then launched the way a user does it, with
    all its checks. `positional` asks to pass it by position.
    """

    name: str
    value: Any
    storage: np.ndarray | None = None
    offset: int = 0
    bent: bool = False
    positional: bool = False


class Adapter(Protocol):
    """An implementation under test."""

    def info(self) -> Info: ...

    def compile(self, request: CompileRequest) -> Valid | Rejected | Unsupported: ...

    def run(self, compiled: Valid, grid: Any, arguments: Sequence[CallArgument]) -> Ran | Rejected | Unsupported: ...

    def transform(self, text: str, passes: Sequence[str]) -> Transformed | Rejected | Unsupported: ...

    def count(
        self, compiled: Valid, grid: tuple[int, ...], arguments: Sequence[CallArgument]
    ) -> Counted | Rejected | Unsupported:
        """Run, and count what it cost; asked only where `Info.stages` has `counts`."""
        ...


@dataclass(frozen=True)
class Target:
    """A known implementation: where its adapter is, and what it can witness at most (used without loading it).

    One that compiles `for_architectures` also answers to `NAME@ARCHITECTURE`, such as `cuda@sm_80`: every kernel is
    then compiled for that GPU, and runs only on one.
    """

    name: str
    factory: str
    title: str
    kinds: frozenset[str]
    needs: str = ""
    for_architectures: bool = False


_REFERENCE = "conformance.adapters.reference"
TARGETS: Mapping[str, Target] = {
    t.name: t
    for t in (
        Target(
            "interp",
            f"{_REFERENCE}:interp",
            "the tile interpreter, on NumPy arrays",
            frozenset({"oracle", "unpredictable", "negative", "rewrite", "ssa", "invariant"}),
        ),
        Target(
            "simt",
            f"{_REFERENCE}:simt",
            "the lowered program, simulated thread by thread on NumPy arrays; reports races",
            frozenset({"oracle", "unpredictable", "negative", "invariant", "budget"}),
        ),
        Target(
            "cuda",
            f"{_REFERENCE}:cuda",
            "CUDA C++ through NVRTC; runs where a GPU is, compiles everywhere",
            frozenset({"oracle", "unpredictable", "negative", "invariant", "snapshot", "budget"}),
            needs="the CUDA compiler wheels, and CuPy with a GPU to run",
            for_architectures=True,
        ),
        Target(
            "mlir",
            f"{_REFERENCE}:mlir",
            "MLIR through its own passes; runs where a GPU is, compiles everywhere",
            frozenset({"oracle", "unpredictable", "negative", "invariant", "snapshot", "budget"}),
            needs="the wheels of MLIR and of the CUDA compilers, and CuPy with a GPU to run",
            for_architectures=True,
        ),
    )
}


class TargetUnavailable(Exception):
    """A target this machine cannot serve; the message says what is missing."""


def known(target: str) -> Target | None:
    """The entry of the table for a target's name, with an architecture where that has sense."""
    name, at, _ = target.partition("@")
    entry = TARGETS.get(name)
    return entry if entry is not None and (not at or entry.for_architectures) else None


def load(target: str) -> Adapter:
    """The adapter of a known target, or of `module:function`; raises TargetUnavailable saying what is wrong."""
    entry, (_, _, arch) = known(target), target.partition("@")
    place = target if entry is None else entry.factory
    if ":" not in place:
        raise TargetUnavailable(f"there is no target {target}; there are {', '.join(TARGETS)}")
    module, _, name = place.partition(":")
    try:
        factory = getattr(importlib.import_module(module), name)
        adapter: Adapter = factory(arch) if arch else factory()
        if entry is None and not isinstance(adapter.info(), Info):
            raise TypeError(f"info() gives {adapter.info()!r}, which is no conformance.adapters.Info")
    except ImportError as e:
        raise TargetUnavailable(f"target {target}: {e}") from e
    except Exception as e:
        if entry is not None:
            raise
        last = traceback.extract_tb(e.__traceback__)[-1]
        message = f"target {target} is no adapter: {type(e).__name__}: {e} (at {last.filename}:{last.lineno})"
        raise TargetUnavailable(message) from e
    return adapter
