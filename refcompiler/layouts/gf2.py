"""Vector spaces over GF(2) by incremental elimination: vectors are ints, addition is xor."""

from __future__ import annotations

from collections.abc import Iterable


class Span:
    """The span of inserted vectors, able to say which inserted columns add up to a given vector.

    A dependent vector is not kept, so `solve` uses the independent columns only and its answer is unique.
    """

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._rows: dict[int, tuple[int, int]] = {}  # leading bit -> (vector, columns that add up to it)
        for column, vector in enumerate(vectors):
            self.insert(vector, column)

    @property
    def rank(self) -> int:
        """The number of independent vectors."""
        return len(self._rows)

    def _reduce(self, vector: int) -> tuple[int, int]:
        columns = 0
        while vector:
            row = self._rows.get(vector.bit_length())
            if row is None:
                break
            vector ^= row[0]
            columns ^= row[1]
        return vector, columns

    def insert(self, vector: int, column: int) -> bool:
        """Add `vector` under the number `column`; False, and not kept, if it was in the span already."""
        rest, columns = self._reduce(vector)
        if rest:
            self._rows[rest.bit_length()] = (rest, columns ^ 1 << column)
        return rest != 0

    def __contains__(self, vector: int) -> bool:
        return self._reduce(vector)[0] == 0

    def solve(self, vector: int) -> int | None:
        """The mask of column numbers whose vectors add up to `vector`, or None if it is outside the span."""
        rest, columns = self._reduce(vector)
        return None if rest else columns


def bit_positions(mask: int) -> list[int]:
    """The positions of the set bits of `mask`, ascending."""
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions


def combine(bit_values: Iterable[int], mask: int) -> int:
    """The xor of the values whose position is set in `mask`: a linear map applied to `mask`."""
    result = 0
    for value in bit_values:
        if mask & 1:
            result ^= value
        mask >>= 1
    return result
