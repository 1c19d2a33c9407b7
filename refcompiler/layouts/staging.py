"""Shared layouts of blocks that are copied a vector at a time and taken by threads of another layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from refcompiler.layouts.linear import LinearLayout
from refcompiler.layouts.shared import BANK_LINE_BYTES, conflict_free, owner_bases, wavefront


@lru_cache(maxsize=1024)
def staging(
    source: LinearLayout, target: LinearLayout, element_bytes: int, vector: Sequence[int]
) -> LinearLayout | None:
    """The shared layout in which the elements that the bases `vector` reach lie side by side, and lanes of neither side
    meet in a bank, as far as that is possible. None where threads of `source` do not hold such vectors.

    >>> from refcompiler.layouts import blocked_for, mma_operand_a
    >>> x = blocked_for((64, 32), 4, 8)
    >>> staging(x, mma_operand_a((64, 32), (4, 1), 2), 2, x.packed_bases("register")[:3])(offset=9)
    (1, 1)
    """
    owned = [basis for name in ("register", "lane", "warp") for basis in owner_bases(source, name) if basis]
    if not set(vector) <= set(owned):
        return None
    access_bytes = element_bytes << len(vector)
    rest = [basis for basis in owned if basis not in vector]
    stored = [basis for basis in owner_bases(source, "lane") if basis not in vector]
    taken = [basis for basis in target.packed_bases("lane") if basis and basis not in vector]
    taken += [basis for basis in target.packed_bases("register") if basis not in vector]
    lines = max(1, BANK_LINE_BYTES // access_bytes).bit_length() - 1
    lanes = [wavefront(stored, access_bytes), taken[:lines]]
    return LinearLayout.packed(source.shape, {"offset": [*vector, *conflict_free(lanes, rest, access_bytes)]})
