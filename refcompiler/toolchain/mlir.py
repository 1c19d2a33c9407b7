"""MLIR text to PTX by MLIR's own passes in this process, and on to cubin by nvJitLink; no GPU and no driver needed.

LLVM forms no fma by itself and divides and takes roots with correct rounding; libdevice is part of the wheel.
"""

from __future__ import annotations

import importlib
import threading
from types import SimpleNamespace
from typing import Any

from refcompiler.toolchain.installed import unavailable
from refcompiler.toolchain.nvrtc import Artifacts, check_arch, ptx_to_cubin
from refcompiler.toolchain.reproducer import rejected

_PTX_FEATURE = "+ptx86"  # the first with sm_100a
_COMPILES_PER_CONTEXT = 64  # a context keeps every attribute it has seen, PTX among them
_LOWERING = "gpu.module(convert-scf-to-cf,convert-gpu-to-nvvm,reconcile-unrealized-casts)"


class _Contexts(threading.local):
    """The MLIR context of each thread: none is used by two, and one costs 10 ms to make."""

    def __init__(self) -> None:
        self.context: Any = None
        self.left = 0

    def get(self, ir: Any) -> Any:
        if not self.left:
            self.context = ir.Context()
            self.context.enable_multithreading(False)
            self.left = _COMPILES_PER_CONTEXT
        self.left -= 1
        return self.context


_CONTEXTS = _Contexts()


def _bindings() -> SimpleNamespace:
    """The modules of MLIR's Python bindings, imported on first use: it takes a fifth of a second."""
    try:
        names = {"ir": "mlir.ir", "passes": "mlir.passmanager", "gpu": "mlir.dialects.gpu"}
        return SimpleNamespace(**{short: importlib.import_module(name) for short, name in names.items()})
    except ImportError as error:
        raise unavailable("mlir", f"import of mlir.ir ({error})") from None


def require_mlir() -> None:
    """Raise ToolUnavailable, with what to install, where MLIR's bindings cannot be imported."""
    _bindings()


def verify_mlir(source: str) -> None:
    """Parse and verify; raises InternalError (toolchain.mlir) for invalid text, ToolUnavailable without MLIR."""
    mlir = _bindings()
    _parse(mlir, source, ())


def mlir_to_ptx(source: str, arch: str) -> str:
    """The PTX of a module of MLIR text with one ``gpu.module``, for ``arch`` (``"sm_90a"``).

    Raises InternalError (toolchain.mlir) when the text is not valid or cannot be lowered, ToolUnavailable without MLIR,
    CompileError (toolchain.arch) for an unknown architecture.
    """
    check_arch(arch)
    mlir = _bindings()
    target = f"nvvm-attach-target{{chip={arch} features={_PTX_FEATURE} O=3}}"
    pipeline = f"builtin.module({target},{_LOWERING},gpu-module-to-binary{{format=isa}})"
    module = _parse(mlir, source, (pipeline,))
    try:
        mlir.passes.PassManager.parse(pipeline, module.context).run(module.operation)
    except mlir.ir.MLIRError as error:
        raise rejected("mlir", source, ".mlir", (pipeline,), str(error)) from None
    with module.context:
        (binary,) = module.body.operations
        return bytes(mlir.gpu.ObjectAttr(binary.attributes["objects"][0]).object).rstrip(b"\0").decode()


def compile_mlir(source: str, arch: str) -> Artifacts:
    """The PTX and the cubin of MLIR text; see :func:`mlir_to_ptx`."""
    ptx = mlir_to_ptx(source, arch)
    return Artifacts(ptx, ptx_to_cubin(ptx, arch))


def _parse(mlir: SimpleNamespace, source: str, flags: tuple[str, ...]) -> Any:
    """The verified module."""
    try:
        return mlir.ir.Module.parse(source, _CONTEXTS.get(mlir.ir))
    except mlir.ir.MLIRError as error:
        raise rejected("mlir", source, ".mlir", flags, str(error)) from None
