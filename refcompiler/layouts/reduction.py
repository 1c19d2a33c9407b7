"""Reduction along an axis of a layout: which registers, lanes and warps to combine, and what remains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from refcompiler.layouts.gf2 import Span, bit_positions, combine
from refcompiler.layouts.linear import LinearLayout, log2
from refcompiler.layouts.shared import SharedExchange, shared_exchange


@dataclass(frozen=True)
class Reduction:
    """A reduction in up to four steps, each empty where the layout needs none.

    1. result register i combines the source registers `register_groups[i]`, ascending along the axis;
    2. for each mask of `lane_masks`, combine with lane ^ mask (`shfl.bfly`), for every result register;
    3. where `crosses_warps`: exchange the partial results by `exchange(element_bytes)`, after which each
       thread holds one register per warp and result;
    4. result register i combines the registers `warp_groups[i]` of step 3.
    Afterwards the result is in layout `result`, in every replica.  Replicas of the source are never combined
    twice.
    """

    result: LinearLayout
    register_groups: tuple[tuple[int, ...], ...]
    lane_masks: tuple[int, ...]
    partial: LinearLayout
    gathered: LinearLayout
    warp_groups: tuple[tuple[int, ...], ...]

    @property
    def elements_per_thread(self) -> int:
        """How many elements each thread combines per result, before any exchange."""
        return len(self.register_groups[0])

    @property
    def crosses_warps(self) -> bool:
        """True if partial results of several warps make one result."""
        return len(self.warp_groups[0]) > 1

    def exchange(self, element_bytes: int) -> SharedExchange:
        """Step 3 for values of `element_bytes`: `partial` to `gathered`, both of shape result x warps."""
        return shared_exchange(self.partial, self.gathered, element_bytes)


def mixes_axis(layout: LinearLayout, axis: int) -> bool:
    """True if a basis moves along `axis` and another dimension at once: convert before reducing."""
    return any(
        index[axis] and any(i for dim, i in enumerate(index) if dim != axis)
        for name, _ in layout.inputs
        for index in layout.bases(name)
    )


@lru_cache(maxsize=1024)
def reduction(layout: LinearLayout, axis: int) -> Reduction:
    """The plan that reduces a tensor in `layout` along `axis`; its result has layout `layout.slice(axis)`.

    Raises ValueError where `mixes_axis(layout, axis)`.

    >>> from refcompiler.layouts import blocked_for
    >>> plan = reduction(blocked_for((256,), num_warps=1, vector=4), axis=0)
    >>> plan.register_groups, plan.lane_masks, plan.crosses_warps
    (((0, 1, 2, 3, 4, 5, 6, 7),), (1, 2, 4, 8, 16), False)
    """
    if mixes_axis(layout, axis):
        raise ValueError(f"a basis of {layout} mixes axis {axis} with another; convert before reducing")
    # A free bit holds replicas; of the bits on the axis only the independent ones are combined.
    on_axis, span = {}, Span()
    for name, bases in layout.inputs:
        on_axis[name] = sum(
            1 << bit for bit, basis in enumerate(bases) if _along(layout, basis, axis) and span.insert(basis, 0)
        )
    result = layout.slice(axis)
    along = on_axis["register"]
    idle = along | layout.free_bits("register")
    kept = [1 << bit for bit in range(len(layout.packed_bases("register"))) if not idle >> bit & 1]
    axis_bits = sorted(bit_positions(along), key=lambda bit: layout.packed_bases("register")[bit])
    members = [combine([1 << bit for bit in axis_bits], step) for step in range(1 << len(axis_bits))]
    groups = tuple(tuple(combine(kept, register) | member for member in members) for register in range(1 << len(kept)))
    masks = sorted((1 << bit for bit in bit_positions(on_axis["lane"])), key=lambda mask: layout.packed_at(lane=mask))
    partial, gathered = _across_warps(layout, result, axis, bit_positions(on_axis["warp"]))
    warps = gathered.shape[-1]
    return Reduction(
        result,
        groups,
        tuple(masks),
        partial,
        gathered,
        tuple(tuple(range(i * warps, (i + 1) * warps)) for i in range(len(groups))),
    )


def _along(layout: LinearLayout, element: int, axis: int) -> int:
    """The index along `axis` of a packed element."""
    return element >> sum(log2(extent) for extent in layout.shape[axis + 1 :]) & layout.shape[axis] - 1


def _across_warps(
    layout: LinearLayout, result: LinearLayout, axis: int, warp_bits: list[int]
) -> tuple[LinearLayout, LinearLayout]:
    """The partial results as a tensor of shape result x warps: where they are and where step 4 wants them."""
    order = sorted(warp_bits, key=lambda bit: layout.packed_bases("warp")[bit])
    shape = (*result.shape, 1 << len(order))
    widened = {name: [basis << len(order) for basis in bases] for name, bases in result.inputs}
    registers = [1 << bit for bit in range(len(order))]
    gathered = LinearLayout.packed(shape, {**widened, "register": registers + widened["register"]})
    warps = [1 << order.index(bit) if bit in order else basis for bit, basis in enumerate(widened["warp"])]
    return LinearLayout.packed(shape, {**widened, "warp": warps}), gathered
