"""Exchange through shared memory: a swizzle free of bank conflicts, vector accesses and their addresses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from refcompiler.layouts.addressing import Piece, are_disjoint, owner_bits, owner_registers, pieces_of
from refcompiler.layouts.gf2 import Span, combine
from refcompiler.layouts.linear import LANE_BITS, LinearLayout, log2

VECTOR_BYTES = 16  # the widest ld.shared and st.shared
WORD_BYTES = 4  # what one bank delivers
BANK_LINE_BYTES = 128  # 32 banks of 4 bytes: what one wavefront moves


@dataclass(frozen=True)
class SharedAccess:
    """One side of an exchange.  The offset of a vector, in elements, is the xor of pieces and its constant.

    Each access moves `vector` elements to or from an offset that is a multiple of it; `vectors` lists their
    (constant, registers in ascending offset order).  Threads with `thread & idle_threads != 0` hold replicas
    only and must not store.  Where `additive`, pieces and constants may be added instead of xor-ed.
    """

    vector: int
    pieces: tuple[Piece, ...]
    vectors: tuple[tuple[int, tuple[int, ...]], ...]
    idle_threads: int
    additive: bool

    def narrowed(self, vector: int) -> SharedAccess:
        """The same by accesses of only `vector` elements."""
        parts = [
            (constant + at, registers[at : at + vector])
            for constant, registers in self.vectors
            for at in range(0, self.vector, vector)
        ]
        return replace(self, vector=vector, vectors=tuple(parts))


@dataclass(frozen=True)
class SharedExchange:
    """Store the source registers, barrier, load the destination registers.

    `layout` maps offsets, in elements of `element_bytes`, to tensor elements.
    """

    layout: LinearLayout
    element_bytes: int
    store: SharedAccess
    load: SharedAccess

    @property
    def accesses(self) -> int:
        """The instructions of a thread."""
        return len(self.store.vectors) + len(self.load.vectors)

    @property
    def num_bytes(self) -> int:
        """The size of the buffer."""
        return self.layout.size("offset") * self.element_bytes

    @property
    def alignment_bytes(self) -> int:
        """The alignment of the buffer: the widest access to it."""
        return max(self.store.vector, self.load.vector) * self.element_bytes


@lru_cache(maxsize=1024)
def shared_exchange(source: LinearLayout, target: LinearLayout, element_bytes: int) -> SharedExchange:
    """The exchange that moves a tensor from the registers of `source` to those of `target`.

    >>> from refcompiler.layouts import blocked_for
    >>> x = blocked_for((32, 32), num_warps=4)
    >>> plan = shared_exchange(x, x.transpose((1, 0)), element_bytes=4)
    >>> plan.num_bytes, plan.store.vector, plan.load.vector
    (4096, 1, 1)
    """
    owned = [basis for name in ("register", "lane", "warp") for basis in owner_bases(source, name) if basis]
    vector = _vector_bases(source, target, owned, element_bytes)
    access_bytes = element_bytes << len(vector)
    rest = [basis for basis in owned if basis not in vector]
    lanes = [
        wavefront(owner_bases(source, "lane"), access_bytes),
        wavefront(target.packed_bases("lane"), access_bytes),
    ]
    layout = LinearLayout.packed(source.shape, {"offset": vector + conflict_free(lanes, rest, access_bytes)})
    return SharedExchange(
        layout,
        element_bytes,
        shared_access(source, layout, element_bytes, store=True),
        shared_access(target, layout, element_bytes, store=False),
    )


def owner_bases(layout: LinearLayout, name: str) -> list[int]:
    """The bases of one input with those of free bits set to zero: independent, as owners alone use them."""
    free = layout.free_bits(name)
    return [0 if free >> bit & 1 else basis for bit, basis in enumerate(layout.packed_bases(name))]


def _vector_bases(source: LinearLayout, target: LinearLayout, owned: Sequence[int], element_bytes: int) -> list[int]:
    """The register bases of both sides, up to one vector access; they need not be adjacent in the tensor.

    A basis qualifies if no other basis of the target, written in those of the source's owners, needs it:
    only then does every access start at a whole vector.
    """
    span = Span(owned)
    others = {basis for _, bases in target.inputs for basis in bases}
    registers = target.packed_bases("register")
    common = [basis for basis in owner_bases(source, "register") if basis and basis in registers]

    def separate(basis: int) -> bool:
        column = 1 << owned.index(basis)
        uses = [columns for other in others if (columns := span.solve(other)) and columns & column]
        return uses == [column] and sum(bases.count(basis) for _, bases in target.inputs) == 1

    return list(filter(separate, common))[: log2(max(1, VECTOR_BYTES // element_bytes))]


def wavefront(lanes: Sequence[int], access_bytes: int) -> list[int]:
    """The bases of the lanes of one wavefront: 32 lanes of up to 4 bytes each, 16 of 8 bytes, 8 of 16."""
    return [basis for basis in lanes[: LANE_BITS - max(0, log2(access_bytes) - 2)] if basis]


def conflict_free(lanes: Sequence[Sequence[int]], rest: Sequence[int], access_bytes: int) -> list[int]:
    """The bases of the offset bits above the vector, with which the lanes of neither side meet in a bank.

    `rest` is a basis of the space to lay out.  The low offset bits choose the word part of an access below 4
    bytes, then the bank, the high ones the line of 128 bytes.  A side is free of conflicts if the span of the
    line bases meets the span of its lanes and of the word part only in zero, for then two lanes that differ
    in the line also differ in the bank.  So line bases are sought outside both: unit vectors, else the sum of
    a lane of one side and a lane of the other.  Where there are no more, conflicts are accepted.
    """
    space, whole = Span(rest), Span()
    top = max(rest, default=0).bit_length()
    units = [1 << bit for bit in range(top) if 1 << bit in space] + list(rest)

    def take(candidates: Iterable[int], count: int, *avoided: Span) -> list[int]:
        taken: list[int] = []
        for candidate in candidates:
            if len(taken) < count and all(candidate not in span for span in (whole, *avoided)):
                for span in (whole, *avoided):
                    span.insert(candidate, 0)
                taken.append(candidate)
        return taken

    first, second = lanes
    word_bits = min(max(0, log2(WORD_BYTES) - log2(access_bytes)), len(rest))
    bank_bits = min(log2(BANK_LINE_BYTES // access_bytes) - word_bits, len(rest) - word_bits)
    line_bits = len(rest) - word_bits - bank_bits
    words = take([*(basis for basis in second if basis in first), *second, *first, *units], word_bits)
    sums = [a ^ b for a in first for b in second]
    lines = take([*reversed(units), *sums], line_bits, Span([*words, *first]), Span([*words, *second]))
    lines += take(reversed(units), line_bits - len(lines))
    banks = take([*second, *first, *units], bank_bits)
    return [*words, *sorted(banks), *sorted(lines)]  # in order, neighbouring thread bits share a piece


def shared_access(
    side: LinearLayout, layout: LinearLayout, element_bytes: int, *, store: bool, widest: int = VECTOR_BYTES
) -> SharedAccess:
    """How the registers of `side` reach the shared `layout`, by the widest possible vectors of up to `widest` elements.

    A store visits each element once: free registers are left out and `idle_threads` masks the threads that
    hold replicas.
    """
    inverse = Span(layout.packed_bases("offset"))

    def offset(element: int) -> int:
        columns = inverse.solve(element)
        assert columns is not None, "a shared layout reaches every element"
        return columns

    idle = owner_bits(side).thread if store else 0
    thread = [0 if idle >> bit & 1 else offset(basis) for bit, basis in enumerate(side.thread_bases)]
    register = [offset(basis) for basis in side.packed_bases("register")]
    width = min(_vector_bits(register, thread, element_bytes), log2(widest))
    members = [
        combine([1 << register.index(1 << bit) for bit in range(width)], element) for element in range(1 << width)
    ]
    owned = owner_registers(side) if store else range(side.num_registers)
    vectors = tuple(
        (combine(register, first), tuple(first | member for member in members))
        for first in owned
        if not first & members[-1]
    )
    pieces = pieces_of(thread)
    additive = are_disjoint(pieces, (constant for constant, _ in vectors))
    return SharedAccess(1 << width, pieces, vectors, idle, additive)


def _vector_bits(register: Sequence[int], thread: Sequence[int], element_bytes: int) -> int:
    """How many of the lowest offset bits belong to one register bit each and may form one access.

    The widest is best: a wavefront of wider accesses serves fewer lanes, so it has no more conflicts.
    """
    for bit in range(log2(max(1, VECTOR_BYTES // element_bytes))):
        unit = 1 << bit
        if unit not in register or sum(offset & unit for offset in [*register, *thread]) != unit:
            return bit
    return log2(max(1, VECTOR_BYTES // element_bytes))
