"""Shared memory by ldmatrix and stmatrix: matrices of 8 rows of 16 bytes, one row's address from each lane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from refcompiler.layouts.addressing import Piece, are_disjoint, pieces_of
from refcompiler.layouts.gf2 import Span, combine
from refcompiler.layouts.linear import LANE_BITS, LinearLayout, log2
from refcompiler.layouts.shared import SharedAccess, conflict_free, owner_bases, shared_access, wavefront

WORD_BYTES, ROW_BYTES = 4, 16
ROW_BITS = 3  # of the number of a row in its matrix
STEP_BYTES = 32  # of a row of an operand that one instruction of the tensor cores takes


@dataclass(frozen=True)
class MatrixAccess:
    """One side of an exchange: each access moves ``count`` 32-bit words of each thread, of ``count`` matrices.

    The offset, in elements, of the row that a lane addresses is the xor of pieces and the access's constant: lane l
    gives row l % 8 of matrix l / 8. ``vectors`` lists (constant, registers in the order of the words). ``trans``:
    pairs of 16-bit elements are columns of the matrices (PTX ldmatrix.trans and stmatrix.trans).
    """

    count: int
    trans: bool
    pieces: tuple[Piece, ...]
    vectors: tuple[tuple[int, tuple[int, ...]], ...]
    additive: bool


@dataclass(frozen=True)
class MatrixExchange:
    """Store the source registers, barrier, load the destination's; at least one of the two by matrices. ``layout`` maps
    offsets to elements."""

    layout: LinearLayout
    store: SharedAccess | MatrixAccess
    load: SharedAccess | MatrixAccess

    @property
    def accesses(self) -> int:
        """The instructions of a thread."""
        return len(self.store.vectors) + len(self.load.vectors)


@lru_cache(maxsize=1024)
def matrix_exchange(
    source: LinearLayout, target: LinearLayout, element_bytes: int, *, loads: bool = True, stores: bool = False
) -> MatrixExchange | None:
    """The exchange of fewest accesses that ends with ldmatrix, and with ``stores`` begins with stmatrix where it can;
    without ``loads`` one that begins with stmatrix.

    None where threads do not hold what that moves: words of neighbours, four threads beside each other and eight below.

    >>> from refcompiler.layouts import blocked_for, mma_accumulator, mma_operand_a
    >>> plan = matrix_exchange(blocked_for((64, 64), 4, 8), mma_operand_a((64, 64), (4, 1), 2), 2)
    >>> plan.load.count, plan.load.trans, plan.store.vector
    (4, False, 8)
    >>> plan = matrix_exchange(mma_accumulator((64, 64), (4, 1)), blocked_for((64, 64), 4, 8), 2, stores=True)
    >>> plan.store.count, plan.store.trans, plan.load.vector
    (4, False, 8)
    """
    owned = [basis for name in ("register", "lane", "warp") for basis in owner_bases(source, name) if basis]
    given = _orientations(source, element_bytes) if stores else []
    taken = _orientations(target, element_bytes) if loads else []
    found = []
    for row in dict.fromkeys(tuple(row) for row, _ in (*given, *taken)):
        if not set(row) <= set(owned):
            continue
        sides = []
        for side, known in ((source, given), (target, taken)):
            rows = [rows for other, rows in known if tuple(other) == row]
            lanes = [basis for basis in owner_bases(side, "lane") if basis not in row]
            sides.append(rows[0] if rows else wavefront(lanes, ROW_BYTES))
        rest = [basis for basis in owned if basis not in row]
        layout = LinearLayout.packed(source.shape, {"offset": [*row, *conflict_free(sides, rest, ROW_BYTES)]})
        store = store_access(source, layout, element_bytes, matrices=stores)
        plan = MatrixExchange(layout, store, load_access(target, layout, element_bytes, matrices=loads))
        if isinstance(plan.load if loads else plan.store, MatrixAccess):
            found.append(plan)
    return min(found, key=lambda plan: plan.accesses, default=None)


def load_access(
    target: LinearLayout, layout: LinearLayout, element_bytes: int, *, matrices: bool = True
) -> SharedAccess | MatrixAccess:
    """How the threads of ``target`` read the shared ``layout``: by matrices if they may, and that takes less."""
    plain = shared_access(target, layout, element_bytes, store=False)
    return _less(plain, matrix_access(target, layout, element_bytes) if matrices else None)


def store_access(
    source: LinearLayout, layout: LinearLayout, element_bytes: int, *, matrices: bool
) -> SharedAccess | MatrixAccess:
    """How the threads of ``source`` write it; matrices by those that have no replicas, for all of a warp write."""
    plain = shared_access(source, layout, element_bytes, store=True)
    return _less(plain, matrix_access(source, layout, element_bytes) if matrices and not plain.idle_threads else None)


def _less(plain: SharedAccess, by_matrices: MatrixAccess | None) -> SharedAccess | MatrixAccess:
    return plain if by_matrices is None or len(by_matrices.vectors) >= len(plain.vectors) else by_matrices


@lru_cache(maxsize=1024)
def matrix_access(side: LinearLayout, layout: LinearLayout, element_bytes: int) -> MatrixAccess | None:
    """How threads of ``side`` move the shared ``layout`` by matrices; None where its rows do not lie in one piece.

    No access reaches beyond one step of the tensor cores along K.
    """
    inverse = Span(layout.packed_bases("offset"))

    def offset(element: int) -> int:
        columns = inverse.solve(element)
        assert columns is not None, "a shared layout reaches every element"
        return columns

    for trans, (row, rows) in enumerate(_orientations(side, element_bytes)):
        others = [basis for _, bases in side.inputs for basis in bases if basis not in row]
        length = 1 << len(row)
        in_one_piece = [offset(basis) for basis in row] == [1 << bit for bit in range(len(row))]
        if not in_one_piece or any(offset(basis) % length for basis in others):
            continue
        registers = side.packed_bases("register")
        inner = log2(WORD_BYTES // element_bytes)
        steps = [bit for bit in steps_along_k(side, element_bytes) if bit >= inner]
        outer = [bit for bit in range(inner, len(registers)) if bit not in steps]
        matrices, higher = outer[:2], sorted([*outer[2:], *steps])
        selected = [offset(basis) for basis in [*rows, *(registers[bit] for bit in matrices)]]
        lanes = selected + [0] * (LANE_BITS - len(selected))
        pieces = pieces_of([*lanes, *(offset(basis) for basis in side.packed_bases("warp"))])
        members = [combine([1 << b for b in [*range(inner), *matrices]], n) for n in range(1 << inner + len(matrices))]
        vectors = []
        for number in range(1 << len(higher)):
            first = combine([1 << bit for bit in higher], number)
            constant = combine([offset(registers[bit]) for bit in higher], number)
            vectors.append((constant, tuple(first | member for member in members)))
        additive = are_disjoint(pieces, (constant for constant, _ in vectors))
        return MatrixAccess(1 << len(matrices), bool(trans), pieces, tuple(vectors), additive)
    return None


def steps_along_k(target: LinearLayout, element_bytes: int) -> list[int]:
    """The register bits of an operand of tensor cores that tell apart its steps along K, which is where lanes begin."""
    lanes = target.bases("lane")
    if not any(lanes[0]):
        return []
    axis = next(dim for dim, index in enumerate(lanes[0]) if index)
    bases = target.bases("register")
    return [bit for bit, basis in enumerate(bases) if basis[axis] >= STEP_BYTES // element_bytes]


def _orientations(target: LinearLayout, element_bytes: int) -> list[tuple[list[int], list[int]]]:
    """The bases within a row of a matrix, and of its rows: as it is, and for 16 bits transposed."""
    registers, lanes = target.packed_bases("register"), target.packed_bases("lane")
    inner = log2(max(1, WORD_BYTES // element_bytes))
    along, down = [*registers[:inner], *lanes[:2]], list(lanes[2:])
    fits = element_bytes <= WORD_BYTES and len(registers) >= inner and not target.free_bits("register")
    if not fits or len({*along, *down} - {0}) < inner + LANE_BITS:
        return []
    return [(along, down), (down, along)] if element_bytes == 2 else [(along, down)]
