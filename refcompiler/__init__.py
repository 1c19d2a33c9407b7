"""The reference compiler: `import refcompiler as triton`, `@triton.jit`, `import refcompiler.language as tl`."""

from refcompiler import language, testing
from refcompiler.autotune import Config, autotune, heuristics
from refcompiler.frontend.types import constexpr
from refcompiler.jit import JitFunction, ShapeDtype, cdiv, clear_cache, constexpr_function, jit, next_power_of_2

__all__ = [
    "Config",
    "JitFunction",
    "ShapeDtype",
    "autotune",
    "cdiv",
    "clear_cache",
    "constexpr",
    "constexpr_function",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
    "set_allocator",
    "testing",
]


def set_allocator(allocator: object) -> None:
    """Accepted for source compatibility: upstream's kernels that make tensor descriptors need memory, these do not."""


language.kernel = jit  # type: ignore[attr-defined]  # a second name; `language` stands below `jit` and cannot import it
