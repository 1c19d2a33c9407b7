"""Python source of a kernel to tile IR, in program order, with a source span on every op."""

from refcompiler.frontend.compile import Compiled, compile_source, compile_to_tile
from refcompiler.frontend.kernel_source import KernelSource

__all__ = ["Compiled", "KernelSource", "compile_source", "compile_to_tile"]
