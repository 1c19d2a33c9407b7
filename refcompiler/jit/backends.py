"""What a kernel runs on: an argument says so, else TILESPEC_BACKEND, else the side on which its arrays are."""

from __future__ import annotations

from refcompiler import config
from refcompiler.errors import LaunchError

HOST = ("interp", "simt")  # run NumPy arrays: the meaning of the program, and its threads simulated
CODE = ("cuda", "mlir")  # make machine code, by way of CUDA C++ or MLIR
AUTO = "auto"


def asked(argument: str | None) -> str:
    """The backend that ``argument`` or TILESPEC_BACKEND names, "auto" where none does.  Raises LaunchError."""
    if argument is None:
        return config.BACKEND()
    if argument not in (*HOST, *CODE):
        known = ", ".join(map(repr, (*HOST, *CODE)))
        raise LaunchError("program.arguments#E2", f"unknown backend {argument!r}; known are {known}")
    return argument


def compiled_for(backend: str) -> str:
    """The backend of a kernel for which ``backend`` was asked: CUDA C++ is what machine code comes from by itself."""
    return "cuda" if backend == AUTO else backend


def executor(backend: str, compiled: str, on_host: bool) -> str:
    """What a kernel compiled for ``compiled`` runs on when ``backend`` was asked of its launch."""
    if backend == AUTO:
        return "interp" if on_host and compiled in CODE else compiled
    return compiled if backend in CODE and compiled in CODE else backend
