"""Conversion between two layouts of one tensor by the cheapest means: registers, shuffles, shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from refcompiler.layouts.addressing import Piece, pieces_of
from refcompiler.layouts.gf2 import Span, combine
from refcompiler.layouts.linear import LANE_BITS, LinearLayout
from refcompiler.layouts.shared import SharedExchange, shared_exchange

# A shuffle moves 4 bytes per lane in about the time of a shared store or load of as much, which come in pairs
# and with a barrier; each swap costs one select per register.  Beyond these bounds vector accesses to shared
# memory win.
SHUFFLE_WORDS_MAX = 16
SHUFFLE_SWAPS_MAX = 4


@dataclass(frozen=True)
class Swap:
    """Where bit `thread_bit` of warp * 32 + lane is set, registers r and r ^ registers change places."""

    thread_bit: int
    registers: int


@dataclass(frozen=True)
class ShuffleRound:
    """Every lane offers `register` and receives that of lane (the plan's lane pieces) ^ `lane_constant`."""

    register: int
    lane_constant: int


@dataclass(frozen=True)
class Shuffle:
    """Swaps before, one round per destination register, swaps after.

    1. apply `before` to the source registers; 2. round c yields register c; 3. apply `after` to those.
    Where `is_xor`, the source lane of a round is lane ^ lane_constant (`shfl.bfly`), and none is needed for
    0.
    """

    before: tuple[Swap, ...]
    lane_pieces: tuple[Piece, ...]
    rounds: tuple[ShuffleRound, ...]
    after: tuple[Swap, ...]
    is_xor: bool

    @property
    def num_shuffles(self) -> int:
        """The number of rounds that exchange data between lanes."""
        return sum(1 for step in self.rounds if not self.is_xor or step.lane_constant)


@dataclass(frozen=True)
class Conversion:
    """How the registers of one layout become those of another.

    kind "none":      destination register r is source register r.
    kind "registers": destination register r is source register `registers[r]`.
    kind "shuffle":   see `shuffle`; within a warp.
    kind "shared":    see `shared`; store, barrier, load.
    """

    kind: Literal["none", "registers", "shuffle", "shared"]
    registers: tuple[int, ...] = ()
    shuffle: Shuffle | None = None
    shared: SharedExchange | None = None


@lru_cache(maxsize=4096)
def conversion(source: LinearLayout, target: LinearLayout, element_bytes: int = 4) -> Conversion:
    """The plan that turns a tensor in layout `source` into the same tensor in layout `target`.

    Replicas on either side are allowed: a source replica close to the destination is preferred, and every
    destination replica receives the value.  Raises ValueError where shapes or numbers of warps differ.

    >>> from refcompiler.layouts import blocked
    >>> a = blocked((64,), (2,), (32,), (1,))
    >>> conversion(a, a).kind, conversion(a, blocked((64,), (1,), (32,), (1,))).kind
    ('none', 'shuffle')
    """
    if source.shape != target.shape:
        raise ValueError(f"a conversion keeps the shape; found {source.shape} and {target.shape}")
    if source.size("lane") != target.size("lane") or source.num_warps != target.num_warps:
        raise ValueError(f"a conversion keeps the threads; found {source.num_warps} and {target.num_warps} warps")
    if source == target:
        return Conversion("none", tuple(range(source.num_registers)))
    origin = _origin(source, target)
    if origin is not None:
        if origin.stays_in_thread:
            registers = tuple(combine(origin.register_of_register, r) for r in range(target.num_registers))
            same = registers == tuple(range(source.num_registers))
            return Conversion("none" if same else "registers", registers)
        shuffle = _shuffle(origin, len(target.packed_bases("register")))
        if shuffle is not None and _is_cheap(shuffle, element_bytes):
            return Conversion("shuffle", shuffle=shuffle)
    return Conversion("shared", shared=shared_exchange(source, target, element_bytes))


def broadcast(source: LinearLayout, target: LinearLayout, element_bytes: int = 4) -> Conversion:
    """The plan that turns a tensor with extents of 1 in `source` into its broadcast in `target`.

    >>> from refcompiler.layouts import blocked_for
    >>> x = blocked_for((8, 128), num_warps=4)
    >>> broadcast(x.slice(1).expand_dims(1), x).registers
    (0, 0, 0, 0, 1, 1, 1, 1)
    """
    if source.rank != target.rank or any(a not in (1, b) for a, b in zip(source.shape, target.shape, strict=True)):
        raise ValueError(f"cannot broadcast {source.shape} to {target.shape}")
    for dim in range(target.rank):
        if source.shape[dim] != target.shape[dim]:
            target = target.project(dim)
    return conversion(source, target, element_bytes)


@dataclass(frozen=True)
class _Origin:
    """For each destination point the source point of the same warp that it reads: values per bit."""

    register_of_register: tuple[int, ...]
    register_of_thread: tuple[int, ...]
    lane_of_register: tuple[int, ...]
    lane_of_thread: tuple[int, ...]

    @property
    def stays_in_thread(self) -> bool:
        """True if every thread reads its own registers, the same ones in every thread."""
        lanes = [1 << bit if bit < LANE_BITS else 0 for bit in range(len(self.lane_of_thread))]
        return (
            not any(self.register_of_thread) and not any(self.lane_of_register) and list(self.lane_of_thread) == lanes
        )


def _origin(source: LinearLayout, target: LinearLayout) -> _Origin | None:
    """A linear choice of source point for each destination point, or None where data crosses warps.

    Of the replicas of the source the one in the own thread is chosen where there is one, bit by bit.
    """
    registers = len(source.packed_bases("register"))
    in_thread = Span(source.packed_bases("register"))
    in_warp = Span(source.packed_bases("register") + source.packed_bases("lane"))

    def solve(element: int, own: int, own_lane: int) -> tuple[int, int] | None:
        """(register, lane) of `element`, given the source element `own` at the thread bit in question."""
        columns = in_thread.solve(element ^ own)
        if columns is not None:
            return columns, own_lane
        columns = in_warp.solve(element ^ (0 if own_lane else own))
        return None if columns is None else (columns & (1 << registers) - 1, columns >> registers)

    of_register = [solve(basis, 0, 0) for basis in target.packed_bases("register")]
    of_thread = [
        solve(element, own, 1 << bit if bit < LANE_BITS else 0)
        for bit, (element, own) in enumerate(zip(target.thread_bases, source.thread_bases, strict=True))
    ]
    if None in of_register or None in of_thread:
        return None
    register_of_register, lane_of_register = zip(*of_register, strict=True) if of_register else ((), ())
    register_of_thread, lane_of_thread = zip(*of_thread, strict=True)
    return _Origin(register_of_register, register_of_thread, lane_of_register, lane_of_thread)


def _shuffle(origin: _Origin, register_bits: int) -> Shuffle | None:
    """Shuffle rounds for an origin map, or None where a lane would have to offer two registers in one round.

    In round c, lane l receives destination register c ^ F(l), from lane M(l) ^ (part of c), with M(l) =
    lane_of_thread(l) ^ lane_of_register(F(l)).  F is chosen so that lanes which read one lane want the same
    register of it: then that register is a linear function S of the source lane, which that lane selects
    beforehand.
    """
    lane_map, wanted, placed = [0] * LANE_BITS, [0] * LANE_BITS, [0] * LANE_BITS
    sources = Span()  # the columns of M so far
    deferred = []
    for bit in range(LANE_BITS):
        lane_map[bit], wanted[bit] = origin.lane_of_thread[bit], origin.register_of_thread[bit]
        if not sources.insert(lane_map[bit], bit):
            deferred.append(bit)
    for bit in deferred:
        for choice in [0, *(1 << register for register in range(register_bits))]:
            lane = lane_map[bit] ^ combine(origin.lane_of_register, choice)
            register = wanted[bit] ^ combine(origin.register_of_register, choice)
            columns = sources.solve(lane)
            if columns is None:
                sources.insert(lane, bit)
            elif combine(wanted, columns) != register:
                continue
            lane_map[bit], wanted[bit], placed[bit] = lane, register, choice
            break
        else:
            return None
    return _assemble(origin, register_bits, lane_map, wanted, placed)


def _assemble(
    origin: _Origin, register_bits: int, lane_map: list[int], wanted: list[int], placed: list[int]
) -> Shuffle:
    """Write the rounds: S is given on the columns of M and zero on the lanes these do not reach."""
    offered: list[int] = []  # the register that each vector of a basis of the source lanes offers
    span = Span()
    for lane, register in [*zip(lane_map, wanted, strict=True), *((1 << bit, 0) for bit in range(LANE_BITS))]:
        if span.insert(lane, len(offered)):
            offered.append(register)

    def select(lane: int) -> int:
        columns = span.solve(lane)
        assert columns is not None, "the basis of the lanes is complete"
        return combine(offered, columns)

    lanes = [select(1 << bit) for bit in range(LANE_BITS)]
    lane_of_warp, register_of_warp = origin.lane_of_thread[LANE_BITS:], origin.register_of_thread[LANE_BITS:]
    warps = [register ^ select(lane) for lane, register in zip(lane_of_warp, register_of_warp, strict=True)]
    rounds = []
    for step in range(1 << register_bits):
        lane = combine(origin.lane_of_register, step)
        rounds.append(ShuffleRound(combine(origin.register_of_register, step) ^ select(lane), lane))
    return Shuffle(
        before=tuple(Swap(bit, value) for bit, value in enumerate([*lanes, *warps]) if value),
        lane_pieces=pieces_of([*lane_map, *lane_of_warp]),
        rounds=tuple(rounds),
        after=tuple(Swap(bit, value) for bit, value in enumerate(placed) if value),
        is_xor=lane_map == [1 << bit for bit in range(LANE_BITS)] and not any(lane_of_warp),
    )


def _is_cheap(shuffle: Shuffle, element_bytes: int) -> bool:
    words = shuffle.num_shuffles * max(1, element_bytes // 4)
    return words <= SHUFFLE_WORDS_MAX and len(shuffle.before) + len(shuffle.after) <= SHUFFLE_SWAPS_MAX
