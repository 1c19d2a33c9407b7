"""The reference compiler as two targets: `interp` runs tile IR in NumPy, `cuda` compiles to cubin and runs on a GPU."""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import linecache
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from conformance.adapters import (
    CallArgument,
    CompileRequest,
    Info,
    Ran,
    Rejected,
    TargetUnavailable,
    Transformed,
    Unsupported,
    Valid,
)
from conformance.dtypes import DTYPES

PHASES = ("parse", "type", "verify", "lower", "codegen", "launch")


def interp() -> Interpreter:
    """The target `interp`."""
    return Interpreter()


def cuda() -> Cuda:
    """The target `cuda`; raises TargetUnavailable without the compiler wheels."""
    return Cuda()


# ---------------------------------------------------------------------------------------------- kernel source
class _SourceLoader(importlib.abc.ExecutionLoader):
    """Makes a module from text, with a file name under which tracebacks and the compiler find the text."""

    def __init__(self, source: str, file: str) -> None:
        self.source, self.file = source, file

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_filename(self, fullname: str) -> str:
        return self.file

    def is_package(self, fullname: str) -> bool:
        return False


@lru_cache(maxsize=256)
def kernel_module(source: str, file: str = "") -> ModuleType:
    """A module of kernel source with `triton` and `tl` in scope; `import triton` inside gets the reference compiler."""
    import refcompiler
    from refcompiler import language

    file = file or f"<kernel {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    spec = importlib.util.spec_from_loader("kernels", _SourceLoader(source, file))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(triton=refcompiler, tl=language)
    with _triton_is(refcompiler, language):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _triton_is(package: ModuleType, language: ModuleType):
    """While a kernel file is imported, `triton` and `triton.language` are ours."""
    names = {"triton": package, "triton.language": language}
    before = {n: sys.modules.get(n) for n in names}
    sys.modules.update(names)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _constexprs(request: CompileRequest) -> dict[str, Any]:
    """Constexpr values; the name of a dtype becomes the language's dtype object."""
    from refcompiler import language

    return {
        k: getattr(language, DTYPES[v].triton) if isinstance(v, str) and v in DTYPES else v
        for k, v in request.constexprs
    }


def _rejected(error: Any) -> Rejected:
    """One of the compiler's own errors as an answer."""
    span = error.span
    place = None if span is None else (span.line, span.col, span.end_line, span.end_col)
    return Rejected(error.phase, error.id, error.message, place, str(error))


class _Reference:
    """What both targets share: loading kernels, compiling, launching, turning errors into answers, transforming."""

    def compile(self, request: CompileRequest) -> Valid | Rejected | Unsupported:
        from refcompiler.errors import InternalError, TileSpecError

        try:
            kernel = getattr(kernel_module(request.source, request.file), request.entry)
            compiled = kernel.compile(
                signature=dict(request.signature),
                constexprs=_constexprs(request),
                arch=self._arch(request),
                backend="cuda",
                **dict(request.options),
            )
            self._finish(compiled)
            texts = {s: compiled.asm[s] for s in request.emit if s not in ("cubin", "resources")}
            blobs = {"cubin": compiled.asm["cubin"]} if "cubin" in request.emit else {}
            resources = dict(compiled.resources) if "resources" in request.emit else {}
        except InternalError:
            raise
        except TileSpecError as e:
            return _rejected(e)
        return Valid((kernel, compiled, request), texts, resources, blobs)

    def _arch(self, request: CompileRequest) -> str:
        return request.arch

    def _finish(self, compiled: Any) -> None:
        """Make the stages without which a kernel has not compiled for this target."""

    def _launch(self, compiled: Valid, grid: tuple[int, ...], values: dict[str, Any], bent: bool) -> Rejected | None:
        """Launch the compiled kernel; with a bent argument the way a user would, so that all checks are asked."""
        from refcompiler.errors import InternalError, TileSpecError

        kernel, specialised, request = compiled.handle
        try:
            if bent:
                kernel[grid](**values, **_constexprs(request), **dict(request.options))
            else:
                specialised[grid](**values)
        except InternalError:
            raise
        except TileSpecError as e:
            return _rejected(e)
        return None

    def transform(self, text: str, passes: Sequence[str]) -> Transformed | Rejected | Unsupported:
        """Parse, verify, run the passes in the order given, print."""
        from refcompiler import pipeline
        from refcompiler.errors import InternalError, TileSpecError
        from refcompiler.ir import PassManager, print_func, verify
        from refcompiler.ir.parser import parse_func

        table = {p.name: p for p in pipeline.TILE}
        unknown = [p for p in passes if p not in table]
        if unknown:
            return Unsupported(f"pass.{unknown[0]}", f"there is no pass {unknown[0]}; passes: {', '.join(table)}")
        try:
            func = parse_func(text)
        except InternalError:
            raise
        except TileSpecError as e:
            return _phased(_rejected(e), "parse")
        try:
            verify(func)
        except InternalError:
            raise
        except TileSpecError as e:
            return _phased(_rejected(e), "verify")
        func = PassManager([table[p] for p in passes], pipeline.Context()).run(func)
        return Transformed(print_func(func))


def _phased(answer: Rejected, phase: str) -> Rejected:
    return Rejected(phase, answer.id, answer.message, answer.span, answer.rendered)


class Interpreter(_Reference):
    """Tile IR on NumPy arrays: the meaning of the language, on any machine."""

    def info(self) -> Info:
        return Info(
            name="interp",
            version=_version(),
            capabilities=frozenset({"fp64"}),
            stages=("tile", "tile_opt"),
            phases=(*PHASES, "run"),
            passes=True,
        )

    def _finish(self, compiled: Any) -> None:
        compiled.asm["tile_opt"]

    def run(
        self, compiled: Valid, grid: tuple[int, ...], arguments: Sequence[CallArgument]
    ) -> Ran | Rejected | Unsupported:
        values = {a.name: a.value for a in arguments}
        return self._launch(compiled, grid, values, any(a.bent for a in arguments)) or Ran()


class Cuda(_Reference):
    """CUDA C++ through NVRTC to cubin; launched with CuPy arrays where a GPU is."""

    def __init__(self) -> None:
        try:
            from refcompiler import toolchain
            from refcompiler.runtime import gpu_available

            versions = toolchain.versions()
        except ImportError as e:
            raise TargetUnavailable(f"target cuda: {e}") from e
        self.versions: Mapping[str, str | None] = versions
        self.cupy: Any = None
        self.why_not = "no GPU is visible"
        if gpu_available():
            try:
                self.cupy = importlib.import_module("cupy")
            except ImportError as e:
                self.why_not = f"CuPy is not installed ({e})"

    def info(self) -> Info:
        return Info(
            name="cuda",
            version=_version(),
            capabilities=frozenset({"fp64"}),
            stages=("laid_out", "simt", "cuda", "ptx", "sass", "resources"),
            phases=PHASES,
            runs=self.cupy is not None,
            toolchain=_toolchain(self.versions),
            device=self._device(),
            why_not="" if self.cupy is not None else self.why_not,
        )

    def _device(self) -> str:
        if self.cupy is None:
            return ""
        from refcompiler.runtime import gpu_info

        return str(gpu_info())

    def _arch(self, request: CompileRequest) -> str:
        """What is only run is compiled for the GPU that is here."""
        if self.cupy is None or request.emit:
            return request.arch
        from refcompiler.runtime import native_arch

        return native_arch()

    def _finish(self, compiled: Any) -> None:
        compiled.asm["cubin"]

    def run(
        self, compiled: Valid, grid: tuple[int, ...], arguments: Sequence[CallArgument]
    ) -> Ran | Rejected | Unsupported:
        """Copy guarded storage to the device, launch, copy everything back: guards are judged as they were there."""
        values: dict[str, Any] = {}
        copies: list[tuple[np.ndarray, Any]] = []
        for a in arguments:
            if a.storage is None:
                values[a.name] = self.cupy.asarray(a.value) if isinstance(a.value, np.ndarray) else a.value
                continue
            device = self.cupy.asarray(a.storage)
            copies.append((a.storage, device))
            values[a.name] = DeviceArray(device, a)
        refused = self._launch(compiled, grid, values, any(a.bent for a in arguments))
        self.cupy.cuda.runtime.deviceSynchronize()
        for storage, device in copies:
            np.copyto(storage, device.get())
        return refused or Ran()


class DeviceArray:
    """An array inside storage on the device, for any dtype, bf16 included, through `__cuda_array_interface__`."""

    def __init__(self, storage: Any, argument: CallArgument) -> None:
        self.storage = storage
        self.dtype = argument.value.dtype
        known = self.dtype.kind in "biuf" and self.dtype.isbuiltin == 1
        self.__cuda_array_interface__ = {
            "shape": argument.value.shape,
            "typestr": self.dtype.str if known else f"<V{self.dtype.itemsize}",
            "data": (storage.data.ptr + argument.offset, not argument.value.flags.writeable),
            "version": 3,
            "strides": None,
        }


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("tilespec")
    except metadata.PackageNotFoundError:
        return "0+checkout"


def _toolchain(versions: Mapping[str, str | None]) -> str:
    """`cuda-12.9` from NVRTC's version, as budgets name it."""
    text = str(versions.get("nvrtc") or "")
    return "cuda-" + ".".join(text.split(".")[:2]) if text else ""


def environment() -> dict[str, str]:
    """Versions of the external compilers, for `tilespec doctor`."""
    from refcompiler import toolchain

    return {k: v or "" for k, v in toolchain.versions().items()}
