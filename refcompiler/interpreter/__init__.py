"""Runs tile-level IR on NumPy arrays, and reports whatever the language leaves undefined."""

from refcompiler.interpreter import access, atomic, control, descriptor, dot, elementwise, reduction, scan, shape
from refcompiler.interpreter.dispatch import HANDLERS
from refcompiler.interpreter.launch import run

__all__ = [
    "HANDLERS",
    "access",
    "atomic",
    "control",
    "descriptor",
    "dot",
    "elementwise",
    "reduction",
    "run",
    "scan",
    "shape",
]
