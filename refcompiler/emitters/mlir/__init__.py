"""MLIR in upstream dialects from SIMT IR; text only, so that no bindings are needed."""

from refcompiler.emitters.mlir.kernel import emit
from refcompiler.emitters.mlir.names import entry_name

__all__ = ["emit", "entry_name"]
