"""Which loads of a loop can be copied rounds ahead of the products that read them, and what their addresses take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.dialects.scf import For
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.types import I32, BlockType, DType
from refcompiler.layouts import LinearLayout, contiguous_elements, vector_groups
from refcompiler.layouts.matrices import WORD_BYTES, matrix_access
from refcompiler.layouts.staging import staging
from refcompiler.remarks import Refusal, remark

STEP = "copy_ahead"  # the pass that remarks are of
COPY_BYTES = (16, 8, 4)  # of one asynchronous copy, the widest first
LEAST_SHARED_BYTES = 99 << 10  # what every target has
OTHER_BYTES = 16 << 10  # left to exchanges in the loop


@dataclass(frozen=True)
class Fetch:
    """A load that becomes copies of ``width`` elements into the ``shared`` layout, and the conversions that read it."""

    load: Op
    converts: tuple[Op, ...]
    shared: LinearLayout
    width: int


@dataclass(frozen=True)
class Ahead:
    """A loop with ``fetches``. ``addresses``: the ops of a round that their pointers and masks take, in order;
    ``slots``: what these carry from round to round."""

    fetches: tuple[Fetch, ...]
    addresses: tuple[Op, ...]
    slots: tuple[int, ...]
    stages: int


def rounds_ahead(loop: For, axis: AxisAnalysis, context: Any) -> Ahead | None:
    """How a laid-out loop is served by asynchronous copies; None where it is not."""
    dots = [op for op in loop.body.ops if op.name == "dot" and op.strategy == "mma"]
    if not dots:
        return None
    why = _refused_loop(loop)
    if why is not None:
        remark(context, STEP, dots[0], why.after("nothing is copied ahead of the product"))
        return None
    uses: dict[Value, list[Op]] = {}
    for op in loop.body.walk():
        for operand in op.operands:
            if operand is not None:
                uses.setdefault(operand, []).append(op)
    fetches, slice_ = [], _Slice(loop)
    for op in loop.body.ops:
        if op.name == "load":
            fetch = _fetch(op, uses.get(op.result, []), axis)
            if isinstance(fetch, Fetch):
                fetch = slice_.refused(op) or fetch
            if isinstance(fetch, Fetch):
                fetches.append(fetch)
            else:
                remark(context, STEP, op, fetch.after("the load is not copied ahead"))
    if not fetches:
        return None
    stages = _stages(fetches, context)
    if stages < 2:
        remark(
            context,
            STEP,
            dots[0],
            Refusal("shared memory has no room for two stages of what the loop loads", "use smaller blocks"),
        )
        return None
    for fetch in fetches:
        remark(context, STEP, fetch.load, f"the load is copied ahead, through {stages} stages", applied=True)
    return Ahead(tuple(fetches), tuple(slice_.in_order()), tuple(sorted(slice_.slots)), stages)


def _refused_loop(loop: For) -> Refusal | None:
    """Why a loop of products is not served; None: it may be."""
    if not _counts_up(loop):
        return Refusal(
            "its loop does not count up from a constant by a constant", "write range(0, n, STEP) with a constexpr STEP"
        )
    writes = next((op for op in loop.body.walk() if "write" in op.effects), None)
    if writes is not None:
        return Refusal(f"its loop has a `{writes.name}`, which may write what it reads later", "store after the loop")
    return None


def _counts_up(loop: For) -> bool:
    """Whether the index is i32, never negative and steps up by a constant, so that comparing ahead cannot wrap."""
    start, step = loop.start, loop.step
    constant = isinstance(start, Constant) and isinstance(step, Constant)
    return constant and step.type is I32 and start.value >= 0 and 0 < step.value < 1 << 24


def _stages(fetches: list[Fetch], context: Any) -> int:
    """As many as asked for, and as there is room for."""
    room = (context.target.shared_bytes_per_block if context.target else LEAST_SHARED_BYTES) - OTHER_BYTES
    each = sum(f.load.result.type.numel * f.load.result.type.element.itemsize for f in fetches)
    return min(context.options.num_stages, room // each) if each else 0


def _fetch(load: Op, users: list[Op], axis: AxisAnalysis) -> Fetch | Refusal:
    """The copies that stand for a load, if nothing but conversions to one layout reads it."""
    type_ = load.result.type
    if not isinstance(type_, BlockType) or not isinstance(load.pointer.type, BlockType):
        return Refusal("it is of one element")
    if not isinstance(type_.element, DType) or load.volatile:
        return Refusal("it is volatile" if load.volatile else "it loads pointers")
    zero = load.other is None or (isinstance(load.other, Constant) and load.other.value == 0)
    if not zero and not _is_zero(load.other):
        return Refusal("its `other` is not zero", "pass other=0, or choose with tl.where after the products")
    if not users:
        return Refusal("nobody reads it")
    computing = next((user for user in users if user.name != "convert_layout"), None)
    if computing is not None:
        return Refusal(f"`{computing.name}` reads it before a product does", "compute with the product instead")
    source, target = type_.layout, users[0].result.type.layout
    if any(user.result.type.layout != target for user in users):
        return Refusal("products read it in several layouts")
    proven = [
        min(axis.vector_width(dim, load.pointer, load.mask), contiguous_elements(source, dim))
        for dim in range(type_.rank)
    ]
    dim = proven.index(max(proven))
    width = min(proven[dim], COPY_BYTES[0] // type_.element.itemsize)
    if width * type_.element.itemsize not in COPY_BYTES:
        return Refusal(
            f"accesses of {width * type_.element.itemsize} bytes are all that is proven to be aligned, and copies have "
            f"{COPY_BYTES[-1]} to {COPY_BYTES[0]}",
            "let strides and masked extents be multiples of 16, or promise it with tl.multiple_of",
        )
    members = vector_groups(source, dim, width)[0]
    vector = tuple(source.packed_at(register=members[1 << bit]) for bit in range(width.bit_length() - 1))
    shared = staging(source, target, type_.element.itemsize, vector)
    if shared is None or not _is_taken_fast(target, shared, type_.element):
        return Refusal("threads could read what copies leave only element by element")
    return Fetch(load, tuple(users), shared, width)


def _is_taken_fast(target: LinearLayout, shared: LinearLayout, element: DType) -> bool:
    """Whether threads read whole words: small elements one by one would take longer than to turn them round first."""
    return element.itemsize >= WORD_BYTES or matrix_access(target, shared, element.itemsize) is not None


def _is_zero(value: Value | None) -> bool:
    """A block of zeros."""
    made = value.owner if value is not None else None
    return isinstance(made, Op) and made.name == "full" and isinstance(made.value, Constant) and made.value.value == 0


class _Slice:
    """The ops of a loop's body, and the slots that it carries, from which addresses are computed."""

    def __init__(self, loop: For):
        self.loop, self.body = loop, loop.body
        self.ops: set[Op] = set()
        self.slots: set[int] = set()
        self.places = {op: place for place, op in enumerate(loop.body.ops)}

    def refused(self, load: Op) -> Refusal | None:
        """Add what the addresses of a load take. Nothing is added where a round cannot know them ahead, and why is
        given."""
        ops: set[Op] = set()
        slots: set[int] = set()
        open_ = [v for v in (load.pointer, load.mask) if v is not None]
        while open_:
            value = open_.pop()
            if isinstance(value, Constant) or value is self.body.args[0]:
                continue
            if value.owner is self.body:
                slot = self.body.args.index(value) - 1
                if slot not in slots:
                    slots.add(slot)
                    open_.append(self.body.terminator.operands[slot])
            elif value.owner in self.places and value.owner not in ops:
                if not value.owner.pure or value.owner.regions or value.owner.name == "dot":
                    return Refusal(
                        f"its addresses depend on `{value.owner.name}`, which is not done ahead",
                        "compute addresses and masks from parameters and counters",
                    )
                ops.add(value.owner)
                open_ += [o for o in value.owner.operands if o is not None]
        self.ops |= ops
        self.slots |= slots
        return None

    def in_order(self) -> Iterator[Op]:
        return (op for op in self.body.ops if op in self.ops)
