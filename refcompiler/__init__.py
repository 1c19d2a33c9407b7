"""The reference compiler: `import refcompiler as triton`, `@triton.jit`, `import refcompiler.language as tl`."""

from refcompiler import language
from refcompiler.frontend.types import constexpr
from refcompiler.jit import JitFunction, ShapeDtype, cdiv, clear_cache, constexpr_function, jit, next_power_of_2

__all__ = [
    "JitFunction",
    "ShapeDtype",
    "cdiv",
    "clear_cache",
    "constexpr",
    "constexpr_function",
    "jit",
    "language",
    "next_power_of_2",
]

language.kernel = jit  # type: ignore[attr-defined]  # a second name; `language` stands below `jit` and cannot import it
