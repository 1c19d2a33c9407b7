"""Where a thread is in a tensor: shifts and masks of the thread index, constants per register."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from refcompiler.layouts.gf2 import bit_positions, combine
from refcompiler.layouts.linear import LANE_BITS, LinearLayout, log2


class Piece(NamedTuple):
    """The term ((thread >> shift) & mask) * multiplier; mask is 2^k - 1, multiplier a power of two."""

    shift: int
    mask: int
    multiplier: int


def pieces_of(bit_values: Sequence[int]) -> tuple[Piece, ...]:
    """A linear function of the thread index, given its value for each bit of that index, as an xor of pieces.

    Bits whose values double from one to the next share a piece.

    >>> pieces_of([4, 8, 16, 0, 1])
    (Piece(shift=0, mask=7, multiplier=4), Piece(shift=4, mask=1, multiplier=1))
    """
    runs: dict[int, list[tuple[int, int]]] = {}  # (target bit - thread bit) -> [(first thread bit, length)]
    for bit, value in enumerate(bit_values):
        for target in bit_positions(value):
            diagonal = runs.setdefault(target - bit, [])
            if diagonal and sum(diagonal[-1]) == bit:
                diagonal[-1] = (diagonal[-1][0], diagonal[-1][1] + 1)
            else:
                diagonal.append((bit, 1))
    pieces = [
        Piece(first, (1 << length) - 1, 1 << first + delta)
        for delta, diagonal in runs.items()
        for first, length in diagonal
    ]
    return tuple(sorted(pieces))


def evaluate(pieces: Iterable[Piece], thread: int) -> int:
    """The xor of the pieces at one thread index."""
    result = 0
    for shift, mask, multiplier in pieces:
        result ^= (thread >> shift & mask) * multiplier
    return result


def are_disjoint(pieces: Iterable[Piece], constants: Iterable[int] = ()) -> bool:
    """True if no two pieces, and no piece and constant, share a bit: then the xor of them is their sum."""
    taken = 0
    for _, mask, multiplier in pieces:
        if taken & mask * multiplier:
            return False
        taken |= mask * multiplier
    return not any(taken & constant for constant in constants)


@lru_cache(maxsize=4096)
def index_pieces(layout: LinearLayout, dim: int) -> tuple[Piece, ...]:
    """The part of the index along `dim` that depends on the thread, warp * 32 + lane, as an xor of pieces.

    The index of register r is this xor `register_offsets(layout)[r][dim]`.

    >>> from refcompiler.layouts import blocked_for
    >>> index_pieces(blocked_for((8, 32), num_warps=1, vector=4), dim=1)
    (Piece(shift=0, mask=7, multiplier=4),)
    """
    low = sum(log2(extent) for extent in layout.shape[dim + 1 :])
    return pieces_of([basis >> low & layout.shape[dim] - 1 for basis in layout.thread_bases])


@lru_cache(maxsize=4096)
def register_offsets(layout: LinearLayout) -> tuple[tuple[int, ...], ...]:
    """The tensor index of each register in thread 0, which is xor-ed to the index of every other thread."""
    return tuple(layout(register=register) for register in range(layout.num_registers))


def is_additive(layout: LinearLayout, dim: int) -> bool:
    """True if along `dim` the pieces and the register offsets may be added instead of xor-ed."""
    return are_disjoint(index_pieces(layout, dim), (offset[dim] for offset in register_offsets(layout)))


class OwnerBits(NamedTuple):
    """The bits that must be zero at the one owner of each element among its replicas."""

    register: int
    lane: int
    warp: int

    @property
    def thread(self) -> int:
        """The mask over the thread index, warp * 32 + lane."""
        return self.warp << LANE_BITS | self.lane


def owner_bits(layout: LinearLayout) -> OwnerBits:
    """The free bits of a layout; an owner has `register & .register == 0` and `thread & .thread == 0`.

    >>> from refcompiler.layouts import blocked_for
    >>> owner_bits(blocked_for((64,), num_warps=4))
    OwnerBits(register=0, lane=0, warp=2)
    """
    return OwnerBits(layout.free_bits("register"), layout.free_bits("lane"), layout.free_bits("warp"))


def owner_registers(layout: LinearLayout) -> tuple[int, ...]:
    """The registers whose free bits are zero: each element a thread holds, once."""
    free = layout.free_bits("register")
    return tuple(register for register in range(layout.num_registers) if not register & free)


def _contiguous_bits(layout: LinearLayout, dim: int) -> list[int]:
    """The register bits that step along `dim` by 1, 2, 4 and so on, where no other bit makes those steps."""
    low = sum(log2(extent) for extent in layout.shape[dim + 1 :])
    registers = layout.packed_bases("register")
    everything = [basis for _, bases in layout.inputs for basis in bases]
    bits: list[int] = []
    for step in range(log2(layout.shape[dim])):
        unit = 1 << low + step
        if unit not in registers or [basis for basis in everything if basis & unit] != [unit]:
            break
        bits.append(registers.index(unit))
    return bits


def contiguous_elements(layout: LinearLayout, dim: int) -> int:
    """How many elements, aligned and contiguous along `dim`, each thread holds: the widest vector access."""
    return 1 << len(_contiguous_bits(layout, dim))


def vector_groups(layout: LinearLayout, dim: int, width: int) -> tuple[tuple[int, ...], ...]:
    """All registers in groups of `width`, each group contiguous along `dim` in ascending order and aligned.

    >>> from refcompiler.layouts import blocked_for
    >>> vector_groups(blocked_for((256,), num_warps=1, vector=4), dim=0, width=4)
    ((0, 1, 2, 3), (4, 5, 6, 7))
    """
    bits = _contiguous_bits(layout, dim)[: log2(width)]
    if width > 1 << len(bits):
        raise ValueError(
            f"each thread holds {contiguous_elements(layout, dim)} contiguous elements "
            f"along dimension {dim}, not {width}"
        )
    members = [combine([1 << bit for bit in bits], element) for element in range(width)]
    mask = members[-1]
    return tuple(
        tuple(first | member for member in members) for first in range(layout.num_registers) if not first & mask
    )
