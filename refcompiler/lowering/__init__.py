"""From laid-out blocks to the registers of one thread: one lowering per op, by family, in one table."""

from refcompiler.lowering import atomic, control, dot, elementwise, exchange, memory, reduction, scan, stages
from refcompiler.lowering.state import LOWERINGS, Lowering

__all__ = [
    "LOWERINGS",
    "Lowering",
    "atomic",
    "control",
    "dot",
    "elementwise",
    "exchange",
    "memory",
    "reduction",
    "scan",
    "stages",
]
