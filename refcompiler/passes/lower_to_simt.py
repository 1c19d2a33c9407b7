"""Lower laid-out blocks to one thread's registers, memory accesses and exchanges."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Func
from refcompiler.lowering import Lowering
from refcompiler.lowering.clusters import meet_before_exchanges
from refcompiler.target import Target


def lower_to_simt(func: Func, context: Any) -> Func:
    """The SIMT form of a laid-out function; ``func.attrs`` gains ``threads``. Barriers come later.

    Of a limit on registers remains how many programs an SM has registers for at that limit, ``min_blocks``: PTX lets a
    kernel ask for that beside its number of threads.
    """
    simt = Lowering(func, func.attrs["num_warps"], context.options.debug, context.target, context.options.maxnreg).run()
    meet_before_exchanges(simt)
    if context.options.maxnreg is not None:
        registers = context.target.registers_per_sm if context.target is not None else Target.registers_per_sm
        simt.attrs["min_blocks"] = max(1, registers // (simt.attrs["threads"] * context.options.maxnreg))
    return simt
