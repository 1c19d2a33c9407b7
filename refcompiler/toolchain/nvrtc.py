"""CUDA C++ to PTX and cubin by NVRTC, PTX to cubin by nvJitLink.

Contraction of multiply and add is off everywhere: fused operations are explicit in our IR, and every target must give
the same bits. Generated code includes no headers, so none are searched for.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from refcompiler.errors import CompileError, InternalError
from refcompiler.toolchain.installed import ToolUnavailable, bindings, failed_to_load
from refcompiler.toolchain.ptxas import assemble
from refcompiler.toolchain.reproducer import check_remarks, rejected

# --minimal leaves textures, cooperative groups and nested launches out of what NVRTC reads first: a sixth of its time.
_COMMON_OPTIONS = ("--fmad=false", "--std=c++17", "--minimal")


@dataclass(frozen=True)
class Artifacts:
    """What an external compiler makes of a kernel: PTX, the cubin of the architecture, and its log."""

    ptx: str
    cubin: bytes
    log: str = ""


def compile_cuda(source: str, arch: str, options: Sequence[str] = (), *, lineinfo: bool = False) -> Artifacts:
    """Compile CUDA C++ ``source`` for ``arch`` (``"sm_90a"``) to PTX and cubin; ``options`` are further NVRTC options.

    Raises CompileError (toolchain.arch) for an architecture this NVRTC does not know, InternalError
    (toolchain.nvrtc) when the source does not compile: generated code is our responsibility; InternalError
    (toolchain.serialized) when wgmma instructions would not overlap.
    """
    check_arch(arch)
    flags = (f"--gpu-architecture={arch}", *_COMMON_OPTIONS, *(["--generate-line-info"] if lineinfo else []), *options)
    nvrtc = bindings("nvrtc")
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = (
            _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            .decode(errors="replace")
            .rstrip("\0")
        )
        if int(status):
            raise rejected("nvrtc", source, ".cu", flags, log or status.name)
        ptx = _fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0").decode()
        cubin = _fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    check_remarks("nvrtc", source, ".cu", flags, log)
    return Artifacts(ptx, cubin, log)


def cuda_to_cubin(source: str, arch: str, options: Sequence[str] = (), *, lineinfo: bool = False) -> bytes:
    """The cubin of CUDA C++ ``source``; see :func:`compile_cuda`."""
    return compile_cuda(source, arch, options, lineinfo=lineinfo).cubin


def cuda_to_ptx(source: str, arch: str, options: Sequence[str] = (), *, lineinfo: bool = False) -> str:
    """The PTX of CUDA C++ ``source``; see :func:`compile_cuda`."""
    return compile_cuda(source, arch, options, lineinfo=lineinfo).ptx


def ptx_to_cubin(ptx: str, arch: str, options: Sequence[str] = ()) -> bytes:
    """The cubin of ``ptx`` for ``arch``, by nvJitLink; ``options`` are further nvJitLink options.

    nvJitLink assembles for code that is linked later, and leaves out setmaxnreg then; PTX with it goes through ptxas,
    where that is installed. Raises InternalError (toolchain.nvjitlink, toolchain.ptxas) with the log when the PTX is
    not accepted, InternalError (toolchain.serialized) when wgmma instructions would not overlap.
    """
    check_arch(arch)
    if "setmaxnreg" in ptx and not options:
        with contextlib.suppress(ToolUnavailable):
            return assemble(ptx, arch)
    # nvJitLink's own -fma=0 concerns LTO only; PTX goes through its ptxas, which contracts unless told so.
    flags = [f"-arch={arch}", "-Xptxas=-fmad=false", *options]
    nvjitlink = bindings("nvjitlink")
    text = ptx.encode() + b"\0"
    try:
        handle = nvjitlink.create(len(flags), flags)
    except nvjitlink.nvJitLinkError as error:
        raise rejected("nvjitlink", ptx, ".ptx", flags, str(error)) from None
    except Exception as error:  # the library is not there; the class differs between releases of the bindings
        raise failed_to_load("nvjitlink", error) from None
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "kernel.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        check_remarks("nvjitlink", ptx, ".ptx", flags, _log(nvjitlink, "info", handle))
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        said = _log(nvjitlink, "error", handle)
        raise rejected("nvjitlink", ptx, ".ptx", flags, said or str(error)) from None
    finally:
        nvjitlink.destroy(handle)


def _log(nvjitlink: Any, kind: str, handle: Any) -> str:
    """What nvJitLink has to say: "info" or "error"."""
    log = bytearray(getattr(nvjitlink, f"get_{kind}_log_size")(handle))
    getattr(nvjitlink, f"get_{kind}_log")(handle, log)
    return log.decode(errors="replace").rstrip("\0")


@functools.cache
def _supported_archs() -> tuple[int, ...]:
    nvrtc = bindings("nvrtc")
    try:
        return tuple(_checked(nvrtc.nvrtcGetSupportedArchs()))
    except InternalError:
        raise
    except Exception as error:  # the library is not there; the class differs between releases of the bindings
        raise failed_to_load("nvrtc", error) from None


def check_arch(arch: str) -> None:
    """Raise CompileError (toolchain.arch) for an architecture that this toolkit does not know."""
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if found is None or int(found[1]) not in _supported_archs():
        known = ", ".join(f"sm_{number}" for number in _supported_archs())
        raise CompileError(
            "toolchain.arch",
            f"unknown architecture {arch!r}",
            phase="codegen",
            notes=[f"expected one of {known}, with an 'a' after it for features of that one architecture"],
        )


def _fetch(size: Callable, get: Callable, program: object) -> bytes:
    """The bytes of one of NVRTC's pairs of functions: its size, then its content written in place."""
    # Not `b" " * size`: the interpreter shares one-byte strings, and an empty log would overwrite every b" ".
    buffer = bytearray(_checked(size(program)))
    _checked(get(program, buffer))
    return bytes(buffer)


def _checked(returned: tuple) -> Any:
    status, *values = returned
    if int(status):
        raise InternalError("toolchain.nvrtc", f"NVRTC answers {status.name}")
    return values[0] if values else None
