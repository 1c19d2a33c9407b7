"""The reference compiler as targets: `interp` and `simt` run its IR in NumPy, `cuda`, `mlir` compile it for a GPU."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conformance.adapters import (
    CallArgument,
    CompileRequest,
    Counted,
    Info,
    Ran,
    Rejected,
    TargetUnavailable,
    Transformed,
    Unsupported,
    Valid,
)
from conformance.adapters.kernel_source import PACKAGES, SourceUnusable, kernel_module
from conformance.dtypes import DTYPES
from conformance.signatures import source_level

PROFILES = ("core", "ext.any_extent", "ext.mytriton")
PHASES = ("parse", "type", "verify", "lower", "codegen", "launch")


def interp() -> Interpreter:
    """The target `interp`."""
    return Interpreter()


def simt() -> Simulator:
    """The target `simt`."""
    return Simulator()


def unoptimised() -> Unoptimised:
    """The interpreter on the function as the frontend made it; no target of its own, for comparison with `interp`."""
    return Unoptimised()


def cuda(arch: str = "") -> Cuda:
    """The target `cuda`, for every architecture or for one; raises TargetUnavailable without the compiler wheels."""
    return Cuda(arch)


def mlir(arch: str = "") -> Mlir:
    """The target `mlir`, like `cuda`; raises TargetUnavailable without the wheels of MLIR or of the CUDA compilers."""
    return Mlir(arch)


def _constexprs(request: CompileRequest) -> dict[str, Any]:
    """Constexpr values; the name of a dtype becomes the language's dtype object."""
    from refcompiler import language

    return {
        k: getattr(language, DTYPES[v].triton) if isinstance(v, str) and v in DTYPES else v
        for k, v in request.constexprs
    }


def _options(request: CompileRequest) -> dict[str, Any]:
    """Options of the compiler; an extension of the language is one of them, unless it is a package of its own."""
    profile = {} if request.profile in ("core", *PACKAGES) else {"profile": request.profile}
    return {**dict(request.options), **profile}


def _rejected(error: Any) -> Rejected:
    """One of the compiler's own errors as an answer."""
    span = error.span
    place = None if span is None else (span.line, span.col, span.end_line, span.end_col)
    return Rejected(error.phase, error.id, error.message, place, str(error))


class _Reference:
    """What the targets share: loading kernels, compiling, launching, turning errors into answers, transforming."""

    backend = "cuda"

    def compile(self, request: CompileRequest) -> Valid | Rejected | Unsupported:
        from refcompiler.analysis.exactness import is_exact
        from refcompiler.errors import InternalError, TileSpecError

        try:
            kernel, compiled = self._kernel(request)
            self._finish(compiled)
            texts = {s: compiled.asm[s] for s in request.emit if s not in ("cubin", "resources")}
            blobs = {"cubin": compiled.asm["cubin"]} if "cubin" in request.emit else {}
            resources = dict(compiled.resources) if "resources" in request.emit else {}
            remarks = [remark.to_json() for remark in compiled.remarks] if "remarks" in request.emit else []
        except InternalError:
            raise
        except TileSpecError as e:
            return _rejected(e)
        except SourceUnusable as e:
            return Rejected("parse", e.id, str(e))
        except SyntaxError as e:
            where = f"{e.filename}:{e.lineno}:{e.offset}"
            return Rejected(
                "parse", "source.syntax", e.msg, None, f"{where}: error[source.syntax]: {e.msg}\n   {e.text}"
            )
        return Valid((kernel, compiled, request), texts, resources, blobs, is_exact(compiled.func), remarks)

    def _kernel(self, request: CompileRequest) -> tuple[Any, Any]:
        """The kernel as a user launches it (none for SIMT text), and its specialisation."""
        from refcompiler.jit.text import from_simt

        if source_level(request.source) == "simt":
            return None, from_simt(request.source, request.file or "<simt>", self._arch(request), self.backend)
        kernel = getattr(kernel_module(request.source, request.file, request.profile), request.entry)
        if not hasattr(kernel, "compile"):
            raise SourceUnusable(f"{request.entry} is not decorated with @triton.jit", "source.kernel")
        return kernel, kernel.compile(
            signature=dict(request.signature),
            constexprs=_constexprs(request),
            arch=self._arch(request),
            backend=self.backend,
            **_options(request),
        )

    def _arch(self, request: CompileRequest) -> str:
        return request.arch

    def _finish(self, compiled: Any) -> None:
        """Make the stages without which a kernel has not compiled for this target."""

    def _launch(
        self, compiled: Valid, grid: Any, arguments: Sequence[CallArgument], values: Sequence[Any]
    ) -> Rejected | None:
        """Launch the compiled kernel; with a bent argument the way a user would, so that all checks are asked."""
        from refcompiler.errors import InternalError, TileSpecError

        kernel, specialised, request = compiled.handle
        try:
            given = list(zip(arguments, values, strict=True))
            named = {a.name: v for a, v in given if not a.positional}
            if any(a.bent for a in arguments):
                first = [v for a, v in given if a.positional]
                kernel[grid](*first, **named, **_constexprs(request), **_options(request))
            else:
                specialised[grid](**named)
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

        table = {p.name: p for p in (*pipeline.SIMT, *pipeline.LAID_OUT, *pipeline.TILE)}
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
            profiles=PROFILES,
            capabilities=frozenset({"fp64", "fp8", "large_grids", "precise_math"}),
            stages=("tile", "tile_opt"),
            phases=(*PHASES, "run"),
            passes=True,
        )

    def _finish(self, compiled: Any) -> None:
        compiled.asm["tile_opt"]

    def run(self, compiled: Valid, grid: Any, arguments: Sequence[CallArgument]) -> Ran | Rejected | Unsupported:
        return self._launch(compiled, grid, arguments, [a.value for a in arguments]) or Ran()


class Unoptimised(Interpreter):
    """Tile IR as the frontend made it: what optimising must not change."""

    def _finish(self, compiled: Any) -> None:
        compiled.asm["tile"]

    def run(self, compiled: Valid, grid: Any, arguments: Sequence[CallArgument]) -> Ran | Rejected | Unsupported:
        from refcompiler import interpreter
        from refcompiler.errors import InternalError, TileSpecError

        _, specialised, _ = compiled.handle
        try:
            interpreter.run(specialised.func, (*grid, 1, 1)[:3], {a.name: a.value for a in arguments})
        except InternalError:
            raise
        except TileSpecError as e:
            return _rejected(e)
        return Ran()


class Simulator(Interpreter):
    """SIMT IR on NumPy arrays, thread by thread: layouts, exchanges and barriers are judged with no GPU."""

    backend = "simt"

    def info(self) -> Info:
        return Info(
            name="simt",
            version=_version(),
            profiles=PROFILES,
            capabilities=frozenset({"fp64", "fp8", "large_grids", "precise_math"}),
            stages=("laid_out", "simt", "counts"),
            phases=(*PHASES, "simulate"),
        )

    def _finish(self, compiled: Any) -> None:
        compiled.asm["simt"]

    def count(
        self, compiled: Valid, grid: tuple[int, ...], arguments: Sequence[CallArgument]
    ) -> Counted | Rejected | Unsupported:
        from refcompiler import simulator
        from refcompiler.errors import RunError

        _, specialised, _ = compiled.handle
        values = {a.name: a.value.reshape(-1) if isinstance(a.value, np.ndarray) else a.value for a in arguments}
        try:
            return Counted(simulator.run(specialised.level("simt"), grid, values).to_json())
        except RunError as e:
            return _rejected(e)


class Cuda(_Reference):
    """CUDA C++ through NVRTC to cubin; launched with CuPy arrays where a GPU is."""

    stages: tuple[str, ...] = ("laid_out", "simt", "cuda", "ptx", "sass", "resources")
    compiler = ("cuda", "nvrtc")

    def __init__(self, arch: str = "") -> None:
        """For the architecture of each request and of the GPU that is here, or for ``arch`` alone."""
        try:
            from refcompiler import config, toolchain
            from refcompiler.errors import CompileError
            from refcompiler.runtime import gpu_available, native_arch
            from refcompiler.target import target

            versions = toolchain.versions()
            self.only = target(arch).name if arch else ""
        except ImportError as e:
            raise TargetUnavailable(f"target {self.backend}: {e}") from e
        except CompileError as e:
            raise TargetUnavailable(f"target {self.backend}@{arch}: {e.message}") from e
        self.versions: Mapping[str, str | None] = versions
        self.cupy: Any = None
        self.why_not, self.defect = "no GPU is visible", ""
        if self.only and not (gpu_available() and native_arch() == self.only):
            self.why_not = f"compiled for {self.only} and never executed: no such GPU is here"
        elif gpu_available():
            try:
                self.cupy = importlib.import_module("cupy")
            except ImportError as e:
                self.defect = self.why_not = f"a GPU is visible and CuPy cannot be imported: {e}"
        elif config.REQUIRE_GPU():
            self.defect = "TILESPEC_REQUIRE_GPU is set and no GPU is visible"

    def info(self) -> Info:
        return Info(
            name=f"{self.backend}@{self.only}" if self.only else self.backend,
            version=_version(),
            profiles=PROFILES,
            capabilities=frozenset({"fp64", "fp8", "large_grids", "precise_math"}),
            stages=()
            if self.only
            else self.stages,  # what is expected of texts and resources is for other architectures
            phases=PHASES,
            runs=self.cupy is not None,
            compiles=True,
            toolchain=_toolchain(self.versions, *self.compiler),
            device=self._device(),
            why_not="" if self.cupy is not None else self.why_not,
            defect=self.defect,
        )

    def _device(self) -> str:
        if self.cupy is None:
            return ""
        from refcompiler.runtime import gpu_info

        gpu = gpu_info()
        return f"{gpu['name']} ({gpu['arch']}), driver {gpu['driver']}, CUDA {gpu['cuda']}"

    def _arch(self, request: CompileRequest) -> str:
        """What is only run is compiled for the GPU that is here."""
        if self.only:
            return self.only
        if self.cupy is None or request.emit:
            return request.arch
        from refcompiler.runtime import native_arch

        return native_arch()

    def _finish(self, compiled: Any) -> None:
        compiled.asm["cubin"]

    def run(self, compiled: Valid, grid: Any, arguments: Sequence[CallArgument]) -> Ran | Rejected | Unsupported:
        """Copy guarded storage to the device, launch, copy everything back: guards are judged as they were there."""
        values: list[Any] = []
        copies: list[tuple[np.ndarray, Any]] = []
        for a in arguments:
            if a.storage is None:
                values.append(self._on_device(a.value))
                continue
            device = next((d for storage, d in copies if storage is a.storage), None)
            if device is None:
                device = self.cupy.asarray(a.storage)
                copies.append((a.storage, device))
            values.append(DeviceArray(device, a))
        refused = self._launch(compiled, grid, arguments, values)
        self.cupy.cuda.runtime.deviceSynchronize()
        for storage, device in copies:
            np.copyto(storage, device.get())
        return refused or Ran()

    def _on_device(self, value: Any) -> Any:
        """A bent argument on the device, gaps between elements kept; what CuPy has no dtype for stays on the host."""
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufc" or not value.dtype.isnative:
            return value
        if value.flags.c_contiguous or value.base is None:
            return self.cupy.asarray(value)
        memory = self.cupy.asarray(value.base)
        start = memory.data + (value.ctypes.data - value.base.ctypes.data)
        return self.cupy.ndarray(value.shape, value.dtype, start, value.strides)


class Mlir(Cuda):
    """MLIR through its own passes to PTX and on to cubin; launched as `cuda` is."""

    backend = "mlir"
    stages = ("simt", "mlir", "ptx", "sass", "resources")
    compiler = ("mlir", "mlir")

    def __init__(self, arch: str = "") -> None:
        super().__init__(arch)
        from refcompiler import toolchain

        try:
            toolchain.require_mlir()
        except toolchain.ToolUnavailable as e:
            raise TargetUnavailable(f"target mlir: {e.message}; {'; '.join(e.notes)}") from e


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
            "strides": argument.value.strides,
        }


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("tilespec")
    except metadata.PackageNotFoundError:
        return "0+checkout"


def _toolchain(versions: Mapping[str, str | None], word: str, part: str) -> str:
    """`cuda-12.9` from NVRTC's version, as budgets name it; `mlir-22.1` from MLIR's."""
    text = str(versions.get(part) or "")
    return f"{word}-" + ".".join(text.split(".")[:2]) if text else ""


def environment() -> dict[str, str]:
    """Versions of the external compilers, for `tilespec doctor`."""
    from refcompiler import toolchain

    return {k: v or "" for k, v in toolchain.versions().items()}
