"""CUDA streams of the array libraries: whose current stream a kernel is queued on.

Libraries are asked only if the program has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from refcompiler.errors import LaunchError

# The number by which CUDA means the legacy default stream where 0 would be ambiguous.
LEGACY_DEFAULT = 1


def cupy_stream() -> int:
    """The handle of CuPy's current stream in this thread; 0, the default stream, without CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy.cuda.get_current_stream().ptr if cupy is not None else 0


def torch_stream(device: int) -> int:
    """The handle of torch's current stream on ``device`` in this thread; 0 without torch."""
    torch = sys.modules.get("torch")
    if torch is None:  # an object with torch's methods, of another library
        return 0
    try:
        return torch._C._cuda_getCurrentRawStream(device)  # a tenth of the cost of the public way
    except AttributeError:
        return torch.cuda.current_stream(device).cuda_stream


def current() -> int:
    """The handle of the stream that work is queued on now: torch's where torch has used the GPU, else CuPy's."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return torch_stream(torch.cuda.current_device())
    return cupy_stream()


def reader(library: str) -> tuple[str, Callable]:
    """How to read the handle of the current stream of CuPy or torch on the first GPU, as fast as can be: an expression
    in which {0} stands for the function that comes with it."""
    module = sys.modules.get(library)
    if library == "cupy" and module is not None:
        return "{0}().ptr", module.cuda.get_current_stream
    raw = getattr(getattr(module, "_C", None), "_cuda_getCurrentRawStream", None)
    return "{0}(0)", raw if raw is not None else torch_stream


def handle_of(stream: Any) -> int:
    """The handle of a stream given by its number, by ``__cuda_stream__``, or as an object of CuPy or torch."""
    if isinstance(stream, int) and not isinstance(stream, bool) and 0 <= stream < 2**64:
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("ptr", "cuda_stream"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    raise LaunchError(
        "launch.stream",
        f"expected a CUDA stream, found {stream if isinstance(stream, int) else type(stream).__name__}",
        notes=["a stream of CuPy or torch, an object with __cuda_stream__, or the handle as an int"],
    )
