"""Scans: which hardware bits step along the axis, from neighbours outwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from refcompiler.layouts.addressing import Piece, pieces_of
from refcompiler.layouts.linear import LANE_BITS, LinearLayout, log2
from refcompiler.layouts.reduction import mixes_axis


@dataclass(frozen=True)
class Step:
    """One or several neighbouring bits of the index along the axis, the lowest first.

    `kind` is "register", "lane" or "warp"; `bits` are masks over the register, the lane or the warp. Only warps come
    several at a time: one exchange serves them all.
    """

    kind: str
    bits: tuple[int, ...]


@dataclass(frozen=True)
class WarpExchange:
    """Where each thread puts the totals of its warp, and reads those of all `warps` of its group, in axis order.

    A thread with `thread & idle == 0` writes element `member + warps * (segment + segments * rest)` of a buffer of
    `size` elements; `member` and `rest` are the pieces' xor at that thread.
    """

    warps: int
    member: tuple[Piece, ...]
    rest: tuple[Piece, ...]
    idle: int
    size: int


@dataclass(frozen=True)
class Scan:
    """A scan in steps. Registers that differ in bits of earlier steps only are one segment: they hold parts of one run
    of elements that is scanned already."""

    steps: tuple[Step, ...]
    registers: int

    @property
    def exchanged(self) -> int:
        """How many registers each thread gives to or takes from others."""
        found, segments = 0, self.registers
        for step in self.steps:
            if step.kind == "register":
                segments //= 2
            else:
                found += segments << (len(step.bits) if step.kind == "warp" else 0)
        return found

    def segment_of(self, step: int) -> tuple[int, ...]:
        """The segment that each register belongs to before a step."""
        done = 0
        for earlier in self.steps[:step]:
            done |= sum(earlier.bits) if earlier.kind == "register" else 0
        kept = [register & ~done for register in range(self.registers)]
        order = {register: position for position, register in enumerate(sorted(set(kept)))}
        return tuple(order[register] for register in kept)


def is_scannable(layout: LinearLayout, axis: int) -> bool:
    """True if each bit of the index along `axis` is one bit of the register, the lane or the warp, and of no other."""
    if mixes_axis(layout, axis):
        return False
    steps = [index[axis] for name, _ in layout.inputs for index in layout.bases(name) if index[axis]]
    return sorted(steps) == [1 << bit for bit in range(log2(layout.shape[axis]))]


@lru_cache(maxsize=1024)
def scan(layout: LinearLayout, axis: int) -> Scan:
    """The steps that scan a tensor in `layout` along `axis`.

    >>> from refcompiler.layouts import blocked_for
    >>> [step.kind for step in scan(blocked_for((256,), num_warps=2, vector=4), axis=0).steps]
    ['register', 'register', 'lane', 'lane', 'lane', 'lane', 'lane', 'warp']
    """
    if not is_scannable(layout, axis):
        raise ValueError(f"{layout} spreads a bit of axis {axis} over several; convert before scanning")
    found = {}
    for name, _ in layout.inputs:
        for bit, index in enumerate(layout.bases(name)):
            if index[axis]:
                found[index[axis]] = (name, 1 << bit)
    steps: list[Step] = []
    for kind, group in groupby((found[place] for place in sorted(found)), key=lambda entry: entry[0]):
        bits = tuple(bit for _, bit in group)
        steps += [Step(kind, bits)] if kind == "warp" else [Step(kind, (bit,)) for bit in bits]
    return Scan(tuple(steps), layout.num_registers)


@lru_cache(maxsize=1024)
def warp_exchange(layout: LinearLayout, axis: int, step: int, segments: int) -> WarpExchange:
    """The exchange of the totals before a step over warps; lanes and warps of earlier steps all hold the same ones."""
    steps = scan(layout, axis).steps
    members = steps[step].bits
    idle = sum(1 << bit for bit, basis in enumerate(layout.thread_bases) if not basis)  # replicas
    for earlier in steps[:step]:
        idle |= _thread_mask(earlier)
    threads = len(layout.thread_bases)
    member, rest, size = [0] * threads, [0] * threads, segments << len(members)
    for position, bit in enumerate(members):
        member[LANE_BITS + bit.bit_length() - 1] = 1 << position
    for bit in range(threads):
        if not member[bit] and not idle >> bit & 1:
            rest[bit] = size
            size *= 2
    return WarpExchange(1 << len(members), pieces_of(member), pieces_of(rest), idle, size)


def _thread_mask(step: Step) -> int:
    """The bits of the thread index that a step is about."""
    if step.kind == "register":
        return 0
    mask = sum(step.bits)
    return mask << LANE_BITS if step.kind == "warp" else mask
