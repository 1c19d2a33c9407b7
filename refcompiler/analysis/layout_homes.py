"""Which layout each block lives in: memory accesses anchor coalesced layouts, everything else follows its operands."""

from __future__ import annotations

from refcompiler.analysis.axis import MAX_ACCESS_BYTES, AxisAnalysis
from refcompiler.analysis.dot_strategy import DotPlans
from refcompiler.dialects.scf import Structured
from refcompiler.dialects.tile.dot import Dot
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BlockType, DType, element_of, shape_of
from refcompiler.layouts import (
    LinearLayout,
    blocked,
    blocked_for,
    contiguous_elements,
    in_every_thread,
    is_scannable,
    mixes_axis,
    scan,
    swizzled,
    wgmma_accumulator,
)

WARP_SIZE = 32
WARPGROUP = 4  # warps
CONVERTED_BYTES = 1 << 16  # a conversion through shared memory holds the block there
SECTOR_BYTES = 32  # what one memory transaction moves at least


class Anchors:
    """One coalesced layout per shape and order of dimensions, shared by all accesses of that kind."""

    def __init__(self, func: Func, axis: AxisAnalysis, num_warps: int):
        self.axis, self.num_warps = axis, num_warps
        self.vectors: dict[tuple, tuple[int, int]] = {}  # (shape, order) -> (widest proven vector, its cap)
        for op in func.walk():
            if op.name in MEMORY and access_shape(op):
                self._record(op)

    def _record(self, op: Op) -> None:
        shape, order = access_shape(op), self.order(op.pointer, access_shape(op))
        width = 1
        if shape_of(op.pointer.type) == shape:
            width = self.axis.vector_width(order[0], op.pointer, op.mask) if op.name in ("load", "store") else 1
        cap = MAX_ACCESS_BYTES // element_of(op.pointer.type).pointee.itemsize
        widest, smallest_cap = self.vectors.get((shape, order), (1, MAX_ACCESS_BYTES))
        self.vectors[shape, order] = (max(widest, width), min(smallest_cap, cap))

    def order(self, value: Value, shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape_of(value.type) == shape:
            return self.axis.order(value)
        return tuple(reversed(range(len(shape))))

    def layout(self, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> LinearLayout:
        """The layout of the accesses of that shape and order; without an order that of the first such access."""
        if order is None:
            order = next((o for s, o in self.vectors if s == shape), tuple(reversed(range(len(shape)))))
        widest, cap = self.vectors.get((shape, order), (1, 1))
        return blocked_for(shape, self.num_warps, min(widest, cap), order)

    def of(self, value: Value) -> LinearLayout:
        """The layout a block is given where nothing else decides: that of accesses with its contiguity."""
        shape, order = shape_of(value.type), self.axis.order(value)
        return self.layout(shape, order if (shape, order) in self.vectors else None)

    def scannable(self, value: Value, axis: int) -> LinearLayout:
        """The default layout, if each bit of the index along the axis is one bit of it."""
        layout = self.of(value)
        return layout if is_scannable(layout, axis) else self.for_reduction(shape_of(value.type), axis)

    def for_reduction(self, shape: tuple[int, ...], axis: int) -> LinearLayout:
        """The reduced axis in registers as far as the other dimensions can occupy the threads."""
        lanes, warps, order = self._spread(shape, axis)
        return blocked(shape, [1] * len(shape), lanes, warps, order)

    def for_scan(self, shape: tuple[int, ...], axis: int) -> LinearLayout:
        """As for a reduction, with the elements of one thread along the axis next to each other."""
        lanes, warps, order = self._spread(shape, axis)
        own = [1] * len(shape)
        own[axis] = max(1, shape[axis] // (lanes[axis] * warps[axis]))
        return blocked(shape, own, lanes, warps, order)

    def _spread(self, shape: tuple[int, ...], axis: int) -> tuple[list[int], list[int], list[int]]:
        """Lanes and warps along each dimension, along the axis last, and the order in which they were dealt out."""
        threads = self.num_warps * WARP_SIZE
        lanes, warps, rest = [1] * len(shape), [1] * len(shape), list(shape)
        order = [d for d in reversed(range(len(shape))) if d != axis] + [axis]
        for counts, budget in ((lanes, WARP_SIZE), (warps, threads // WARP_SIZE)):
            for dim in order:
                counts[dim] = min(budget, rest[dim])
                rest[dim] //= counts[dim]
                budget //= counts[dim]
            counts[order[0]] *= budget
        return lanes, warps, order


MEMORY = frozenset({"load", "store", "atomic_rmw", "atomic_cas"})


def access_shape(op: Op) -> tuple[int, ...]:
    """The shape of an access to memory at the tile level; () for a scalar access."""
    return shape_of(op.result.type) if op.results else shape_of(op.pointer.type)


STRUCTURAL = frozenset({"expand_dims", "broadcast", "trans", "reshape"})


class Homes:
    """The layout in which each block value is computed; None where it is cheap to compute in any layout asked for.

    Cheap are blocks made from indices and scalars alone, and ops that only change the shape: asking for their result
    in a layout asks for their operand in the layout before the change, where blocks are smaller.
    """

    def __init__(self, func: Func, anchors: Anchors, dots: DotPlans):
        self.anchors, self.dots = anchors, dots
        self.homes: dict[Value, LinearLayout | None] = {}
        self._block(func.body)

    def of(self, value: Value | None) -> LinearLayout | None:
        return None if value is None or isinstance(value, Constant) else self.homes.get(value)

    def access(self, op: Op) -> LinearLayout:
        """Where a load or store happens: in the coalesced layout, or where its pointers are if that is as good."""
        shape = access_shape(op)
        home = self.of(op.pointer)
        anchor = self.anchors.layout(shape, self.anchors.order(op.pointer, shape))
        if home is not None and home.shape == shape and self._as_good(home, op):
            return home
        value = self.of(op.value) if op.name == "store" else None
        if value is not None and value.shape == shape and self._as_good(value, op):
            return value
        return anchor

    def _as_good(self, layout: LinearLayout, op: Op) -> bool:
        """True if neighbouring lanes of ``layout`` touch whole sectors, or if the block is too small to matter."""
        shape = access_shape(op)
        numel, itemsize = 1 << sum(e.bit_length() - 1 for e in shape), element_of(op.pointer.type).pointee.itemsize
        if shape_of(op.pointer.type) != shape or numel <= self.anchors.num_warps * WARP_SIZE:
            return True
        dim = self.anchors.order(op.pointer, shape)[0]
        contiguity = self.anchors.axis.of(op.pointer).contiguity[dim]
        run = min(contiguous_elements(layout, dim), MAX_ACCESS_BYTES // itemsize)
        below = 1
        for extent in shape[dim + 1 :]:
            below *= extent
        while run < contiguity and run * below in layout.packed_bases("lane"):
            run *= 2
        return run * itemsize >= min(2 * SECTOR_BYTES, contiguity * itemsize)

    # --- the walk
    def _block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, Structured):
                self._structured(op)
                continue
            for result in op.results:
                if isinstance(result.type, BlockType):
                    self.homes[result] = self._home(op, result)

    def _home(self, op: Op, result: Value) -> LinearLayout | None:
        if op.name in MEMORY:
            return self.access(op)
        if isinstance(op, Dot):
            return self.dots.of(op).result
        if op.name == "ring_take":
            swizzle = op.ring.owner.swizzles[op.results.index(result)]
            shape = result.type.shape
            return swizzled(shape[-2:], result.type.element.itemsize, swizzle).reshape(shape)
        if op.name == "warpgroup_dot":
            return wgmma_accumulator(result.type.shape, self.anchors.num_warps // WARPGROUP)
        if op.name == "warpgroup_wait":
            return self.of(op.products[op.results.index(result)])
        if op.name == "reduce":
            return self.combined(op).slice(op.axis)
        if op.name == "scan":
            return self.combined(op)
        if op.name == "all_gather":
            return self.gathered(op)
        if op.name == "butterfly":
            return self.exchanged(op)
        if op.name == "gather":  # not cheap, whatever it is made of
            return self.of(op.index) or self.anchors.of(result)
        if op.name in STRUCTURAL:
            home = self.of(op.x)
            if home is None or op.name == "broadcast":
                return None
            if op.name == "expand_dims":
                return home.expand_dims(op.axis)
            return home.transpose(op.order) if op.name == "trans" else home.reshape(result.type.shape)
        homes = (self.of(o) for o in op.operands)
        return next((h for h in homes if h is not None and h.shape == result.type.shape), None)

    def gathered(self, op: Op) -> LinearLayout:
        """Every thread has of all CTAs what it has of its own."""
        if not shape_of(op.x.type):
            return in_every_thread(op.result.type.shape, self.anchors.num_warps)
        own = self.of(op.x) or self.anchors.of(op.x)
        return own.expand_dims(0).broadcast(op.result.type.shape)

    def combined(self, op: Op) -> LinearLayout:
        """The layout in which the operands of a reduction or a scan are combined."""
        shape = shape_of(op.blocks[0].type)
        for block in op.blocks:
            home = self.of(block)
            if home is None or home.shape != shape or mixes_axis(home, op.axis):
                continue
            if op.name == "reduce" or (is_scannable(home, op.axis) and self._as_cheap(home, op)):
                return home
        return (
            self.anchors.for_scan(shape, op.axis) if op.name == "scan" else self.anchors.for_reduction(shape, op.axis)
        )

    def _as_cheap(self, layout: LinearLayout, op: Op) -> bool:
        """True if a scan in ``layout`` exchanges no more than one that has neighbours in registers, conversions there
        and back included, or if the block is too large to be converted."""
        shape = shape_of(op.blocks[0].type)
        best = scan(self.anchors.for_scan(shape, op.axis), op.axis)
        there_and_back = 2 * layout.num_registers
        if scan(layout, op.axis).exchanged <= best.exchanged + there_and_back:
            return True
        bits = max(b.type.element.bits if isinstance(b.type.element, DType) else 64 for b in op.blocks)
        return op.blocks[0].type.numel * bits // 8 > CONVERTED_BYTES

    def exchanged(self, op: Op) -> LinearLayout:
        """A layout in which the bits of the index along the axis can be told apart: the operand's, if it is one."""
        home = self.of(op.x)
        return home if home is not None and is_scannable(home, op.axis) else self.anchors.scannable(op.x, op.axis)

    def _structured(self, op: Structured) -> None:
        """A carried block lives where a region computes it, else where it starts, else in its default layout."""
        slots = [s for s in op.slots() if isinstance(s.values[-1].type, BlockType)]
        for slot in slots:  # the last source is where it starts, which is known; what regions compute is not yet
            self.homes.update(dict.fromkeys(slot.values, self.of(slot.sources[-1]) if op.starts else None))
        for region in op.regions:
            self._block(region)
        for slot in slots:
            homes = (self.of(source) for source in slot.sources)
            home = next((h for h in homes if h is not None), None) or self.anchors.of(slot.values[-1])
            self.homes.update(dict.fromkeys(slot.values, home))
        if op.starts:
            for region in op.regions:
                self._block(region)
