"""CUDA C++ from SIMT IR, in the way a person would write it."""

from refcompiler.emitters.cuda.kernel import emit
from refcompiler.emitters.cuda.names import entry_name

__all__ = ["emit", "entry_name"]
