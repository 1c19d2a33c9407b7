"""Exchange through shared memory that is read by ldmatrix: rows of 16 bytes, one address from each lane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from refcompiler.layouts.addressing import Piece, are_disjoint, pieces_of
from refcompiler.layouts.gf2 import Span, combine
from refcompiler.layouts.linear import LinearLayout
from refcompiler.layouts.shared import SharedAccess, conflict_free, owner_bases, shared_access, wavefront

ELEMENT_BYTES = 2  # of what ldmatrix moves
ROW_BYTES = 16
ROW_BITS = 3  # of the index of an element in its row, and of a row in its matrix


@dataclass(frozen=True)
class MatrixLoad:
    """One side of an exchange: each access gives 2 ``count`` registers of each thread, from ``count`` 8 x 8 matrices.

    The offset, in elements, of the row that a lane addresses is the xor of pieces and the access's constant: lane l
    gives row l % 8 of matrix l / 8. ``vectors`` lists (constant, registers in the order of the result). ``trans``:
    thread and register pairs get columns of the matrices (PTX ldmatrix.trans).
    """

    count: int
    trans: bool
    pieces: tuple[Piece, ...]
    vectors: tuple[tuple[int, tuple[int, ...]], ...]
    additive: bool


@dataclass(frozen=True)
class MatrixExchange:
    """Store the source registers, barrier, load the destination's by matrices. ``layout`` maps offsets to elements."""

    layout: LinearLayout
    store: SharedAccess
    load: MatrixLoad


@lru_cache(maxsize=1024)
def matrix_exchange(source: LinearLayout, target: LinearLayout) -> MatrixExchange | None:
    """The exchange of 16-bit elements that ends with ldmatrix, or None where threads of ``target`` do not hold what
    that gives: pairs of neighbours, four threads beside each other and eight below.

    >>> from refcompiler.layouts import blocked_for, mma_operand_a
    >>> plan = matrix_exchange(blocked_for((64, 64), 4, 8), mma_operand_a((64, 64), (4, 1), 2))
    >>> plan.load.count, plan.load.trans, plan.store.vector
    (4, False, 8)
    """
    registers, lanes = target.packed_bases("register"), target.packed_bases("lane")
    owned = [basis for name in ("register", "lane", "warp") for basis in owner_bases(source, name) if basis]
    if not registers or target.free_bits("register"):
        return None
    along, down = [registers[0], *lanes[:2]], list(lanes[2:])
    found = []
    for trans, row, rows in ((False, along, down), (True, down, along)):
        if all(basis in owned for basis in [*row, *rows]) and len({*row, *rows}) == 2 * ROW_BITS:
            layout = _shared(source, owned, row, rows)
            store = shared_access(source, layout, ELEMENT_BYTES, store=True)
            found.append(MatrixExchange(layout, store, _load(target, layout, rows, trans)))
    return max(found, key=lambda plan: plan.store.vector, default=None)


def _shared(source: LinearLayout, owned: list[int], row: list[int], rows: list[int]) -> LinearLayout:
    """Rows of matrices in one piece, in places where neither eight of them nor eight stores meet in a bank."""
    rest = [basis for basis in owned if basis not in row]
    stored = [basis for basis in owner_bases(source, "lane") if basis not in row]
    lanes = [wavefront(stored, ROW_BYTES), rows]
    return LinearLayout.packed(source.shape, {"offset": row + conflict_free(lanes, rest, ROW_BYTES)})


def _load(target: LinearLayout, layout: LinearLayout, rows: list[int], trans: bool) -> MatrixLoad:
    inverse = Span(layout.packed_bases("offset"))

    def offset(element: int) -> int:
        columns = inverse.solve(element)
        assert columns is not None, "a shared layout reaches every element"
        return columns

    registers = target.packed_bases("register")
    matrices = min(2, len(registers) - 1)  # register bits that tell apart the matrices of one access
    selected = [offset(basis) for basis in [*rows, *registers[1 : 1 + matrices]]]
    lanes = selected + [0] * (5 - len(selected))
    pieces = pieces_of([*lanes, *(offset(basis) for basis in target.packed_bases("warp"))])
    own = 2 << matrices
    higher = [offset(basis) for basis in registers[1 + matrices :]]
    vectors = tuple(
        (combine(higher, number), tuple(range(own * number, own * (number + 1)))) for number in range(1 << len(higher))
    )
    additive = are_disjoint(pieces, (constant for constant, _ in vectors))
    return MatrixLoad(1 << matrices, trans, pieces, vectors, additive)
