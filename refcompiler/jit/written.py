"""Which pointer parameters a tile function may store through."""

from __future__ import annotations

from refcompiler.analysis.pointers import Pointers
from refcompiler.ir import Func


def written_params(func: Func) -> frozenset[str]:
    """Names of the pointer parameters from which the address of a store derives."""
    written = Pointers(func).reached("write")
    return frozenset(str(p.name) for p in func.params if p in written)
