"""From laid-out blocks to the registers of one thread: one lowering per op, by family, in one table."""

from refcompiler.lowering import (
    atomic,
    clusters,
    control,
    dot,
    elementwise,
    exchange,
    memory,
    reduction,
    rings,
    scan,
    stages,
    warpgroup_dot,
)
from refcompiler.lowering.state import LOWERINGS, Lowering

__all__ = [
    "LOWERINGS",
    "Lowering",
    "atomic",
    "clusters",
    "control",
    "dot",
    "elementwise",
    "exchange",
    "memory",
    "reduction",
    "rings",
    "scan",
    "stages",
    "warpgroup_dot",
]
