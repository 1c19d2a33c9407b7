"""Lower laid-out blocks to one thread's registers, memory accesses and exchanges."""

from __future__ import annotations

from typing import Any

from refcompiler.ir.core import Func
from refcompiler.lowering import Lowering


def lower_to_simt(func: Func, context: Any) -> Func:
    """The SIMT form of a laid-out function; ``func.attrs`` gains ``threads``. Barriers come later."""
    return Lowering(func, func.attrs["num_warps"], context.options.debug).run()
