"""The ops, by family; importing this package fills the registry."""

from refcompiler.dialects import elementwise, scf
from refcompiler.dialects.tile import memory, program, reduction, shape

__all__ = ["elementwise", "memory", "program", "reduction", "scf", "shape"]
