"""Which loads of a loop can be copied rounds ahead of what reads them, and what their addresses take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import copysign
from typing import Any

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.disjoint import Pair, disjoint_in_rounds
from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.scf import For
from refcompiler.dialects.tile.dot import STEPWISE
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import I32, BlockType, DType
from refcompiler.layouts import LinearLayout, contiguous_elements, owner_bits, vector_groups
from refcompiler.layouts.matrices import WORD_BYTES, matrix_access
from refcompiler.layouts.staging import staging
from refcompiler.remarks import Refusal, remark

STEP = "copy_ahead"  # the pass that remarks are of
COPY_BYTES = (16, 8, 4)  # of one asynchronous copy, the widest first
OTHER_BYTES = 16 << 10  # left to exchanges in the loop
LEAST_BYTES = 2 << 10  # of a block that is worth copying ahead
EXCHANGES = frozenset({"reduce", "scan", "gather", "butterfly", "convert_layout"})  # threads wait for one another


@dataclass(frozen=True)
class Fetch:
    """A load that becomes copies of ``width`` elements into the ``shared`` layout, and what takes its place: itself, or
    the conversions that read it."""

    load: Op
    takes: tuple[Op, ...]
    shared: LinearLayout
    width: int

    @property
    def bytes(self) -> int:
        """Of one stage."""
        return self.load.result.type.numel * self.load.result.type.element.itemsize


@dataclass(frozen=True)
class Ahead:
    """A loop with ``fetches``. ``addresses``: the ops of a round that their pointers and masks take, in order;
    ``slots``: what these carry from round to round.

    Where stages are ``private``, a thread takes from them what it copied itself, and nobody else does: it copies the
    next block to the place from which it has just taken one, and needs no barrier. ``disjoint``: parameters whose
    arrays must be apart, because the loop stores to one what it may read ahead through the other.
    """

    fetches: tuple[Fetch, ...]
    addresses: tuple[Op, ...]
    slots: tuple[int, ...]
    stages: int
    private: bool = False
    disjoint: frozenset[Pair] = frozenset()

    @property
    def bytes(self) -> int:
        """Of all stages."""
        return self.stages * sum(fetch.bytes for fetch in self.fetches)

    @property
    def rounds(self) -> int:
        """How many rounds before their use copies begin."""
        return self.stages if self.private else self.stages - 1


def rounds_ahead(func: Func, context: Any) -> dict[For, Ahead]:
    """How loops of a laid-out function are served by asynchronous copies."""
    planner = _Planner(func, context)
    planner.block(func.body)
    return planner.plans


class _Planner:
    def __init__(self, func: Func, context: Any):
        self.func, self.context = func, context
        self.axis, self.ranges = AxisAnalysis(func), Ranges(func)
        self.plans: dict[For, Ahead] = {}

    def block(self, block: Block) -> None:
        """Inner loops first. Roles have no barrier of all threads."""
        for op in block.ops:
            for region in () if op.name == "roles" else op.regions:
                self.block(region)
            if isinstance(op, For) and (plan := self.plan(op)) is not None:
                self.plans[op] = plan

    def plan(self, loop: For) -> Ahead | None:
        """None where the loop is served as it is."""
        dots = [op for op in loop.body.ops if op.name == "dot" and op.strategy in STEPWISE]
        if dots:
            return self.for_products(loop, dots[0])
        dots = [op for op in loop.body.walk() if op.name == "dot"]
        return None if dots or self.waits_for_nothing(loop) else self.for_threads(loop)

    # --- operands of products, which threads take from what all of them copied
    def for_products(self, loop: For, dot: Op) -> Ahead | None:
        why = _refused_loop(loop)
        if why is not None:
            remark(self.context, STEP, dot, why.after("nothing is copied ahead of the product"))
            return None
        uses: dict[Value, list[Op]] = {}
        for op in loop.body.walk():
            for operand in op.operands:
                if operand is not None:
                    uses.setdefault(operand, []).append(op)
        slice_ = _Slice(loop)
        fetches = self.fetched(loop, slice_, {op: _converted(op, uses, self.axis) for op in _loads(loop)})
        if not fetches:
            return None
        stages = self.stages(self.context.options.num_stages, fetches, loop)
        if stages < 2:
            message = "shared memory has no room for two stages of what the loop loads"
            remark(self.context, STEP, dot, Refusal(message, "use smaller blocks"))
            return None
        for fetch in fetches:
            message = f"the load is copied ahead, through {stages} stages"
            remark(self.context, STEP, fetch.load, message, applied=True)
        return Ahead(tuple(fetches), tuple(slice_.in_order()), tuple(sorted(slice_.slots)), stages)

    # --- blocks of which each thread takes what it copied
    def waits_for_nothing(self, loop: For) -> bool:
        """Whether loads of later rounds need not wait for this one: nothing is stored, or exchanged by threads."""
        return not any("write" in op.effects or op.name in EXCHANGES for op in loop.body.walk())

    def for_threads(self, loop: For) -> Ahead | None:
        loads = [op for op in _loads(loop) if isinstance(op.result.type, BlockType)]
        slice_ = _Slice(loop)
        why = self.refused_rounds(loop)
        fetches = self.fetched(loop, slice_, {op: why or _own(op, slice_, self.axis) for op in loads})
        if not fetches:
            return None
        pairs = disjoint_in_rounds(self.func, loop, {f.load for f in fetches})
        stages = self.stages(self.context.options.num_stages - 1, fetches, loop)
        for fetch in fetches:
            what: Refusal | str = f"the load is copied {stages} rounds ahead"
            if pairs is None:
                what = Refusal("it may be of what the loop stores").after("the load is not copied ahead")
            elif not stages:
                message = "shared memory has no room for what the loop loads"
                what = Refusal(message, "use smaller blocks").after("the load is not copied ahead")
            remark(self.context, STEP, fetch.load, what, applied=isinstance(what, str))
        if pairs is None or not stages:
            return None
        addresses, slots = tuple(slice_.in_order()), tuple(sorted(slice_.slots))
        return Ahead(tuple(fetches), addresses, slots, stages, private=True, disjoint=frozenset(pairs))

    def refused_rounds(self, loop: For) -> Refusal | None:
        """Why no load of a loop is copied ahead for the threads themselves; None: they may be."""
        step = self.ranges.of(loop.step)
        if loop.start.type is not I32 or step[0] <= 0:
            return Refusal("its loop does not count up in 32 bits")
        if not self.context.options.fetch_boxes:
            return Refusal("arrays may overlap")
        if any(op.effects & {"read", "write"} and op.attrs.get("volatile") for op in loop.body.walk()):
            return Refusal("its loop has a volatile access, which may wait for another program")
        return None

    # --- both
    def fetched(self, loop: For, slice_: _Slice, found: dict[Op, Fetch | Refusal]) -> list[Fetch]:
        """The copies that can be made ahead of those found, whose addresses ``slice_`` has then."""
        fetches: list[Fetch] = []
        for load, fetch in found.items():
            if isinstance(fetch, Fetch):
                fetch = slice_.refused(load) or fetch
            if isinstance(fetch, Fetch):
                fetches.append(fetch)
            else:
                remark(self.context, STEP, load, fetch.after("the load is not copied ahead"))
        return fetches

    def stages(self, wanted: int, fetches: list[Fetch], loop: For) -> int:
        """As many as wanted, and as there is room for beside those of loops inside."""
        room = self.context.shared_room - OTHER_BYTES
        room -= sum(self.plans[op].bytes for op in loop.body.walk() if op in self.plans)
        return max(0, min(wanted, room // sum(f.bytes for f in fetches)))


def _loads(loop: For) -> list[Op]:
    return [op for op in loop.body.ops if op.name == "load"]


def _refused_loop(loop: For) -> Refusal | None:
    """Why a loop of products is not served; None: it may be."""
    if not counts_in_32_bits(loop):
        return Refusal(
            "its loop does not count up from a constant by a constant", "write range(0, n, STEP) with a constexpr STEP"
        )
    writes = next((op for op in loop.body.walk() if "write" in op.effects), None)
    if writes is not None:
        return Refusal(f"its loop has a `{writes.name}`, which may write what it reads later", "store after the loop")
    return None


def counts_in_32_bits(loop: For) -> bool:
    """Whether the index is i32, never negative and steps up by a constant, so that comparing ahead cannot wrap."""
    start, step = loop.start, loop.step
    constant = isinstance(start, Constant) and isinstance(step, Constant)
    return constant and step.type is I32 and start.value >= 0 and 0 < step.value < 1 << 24


def _converted(load: Op, uses: dict[Value, list[Op]], axis: AxisAnalysis) -> Fetch | Refusal:
    """The copies that stand for a load, if nothing but conversions to one layout reads it."""
    users = uses.get(load.result, [])
    if load.other is not None and not is_zero(load.other):
        return Refusal("its `other` is not zero", "pass other=0, or choose with tl.where after the products")
    if not users:
        return Refusal("nobody reads it")
    computing = next((user for user in users if user.name != "convert_layout"), None)
    if computing is not None:
        return Refusal(f"`{computing.name}` reads it before a product does", "compute with the product instead")
    target = users[0].result.type.layout
    if any(user.result.type.layout != target for user in users):
        return Refusal("products read it in several layouts")
    fetch = _copied(load, tuple(users), target, axis)
    if isinstance(fetch, Fetch) and not _is_taken_fast(target, fetch.shared, load.result.type.element):
        return Refusal("threads could read what copies leave only element by element")
    return fetch


def _own(load: Op, slice_: _Slice, axis: AxisAnalysis) -> Fetch | Refusal:
    """The copies that stand for a load whose threads take what they copied, if all of them have some of a block that is
    worth it."""
    type_ = load.result.type
    fetch = (
        _copied(load, (load,), type_.layout, axis) if isinstance(type_, BlockType) else Refusal("it is of one element")
    )
    if isinstance(fetch, Fetch) and not slice_.varies(load):
        return Refusal("it is the same in all rounds")
    if isinstance(fetch, Fetch) and (owner_bits(type_.layout).thread or fetch.bytes < LEAST_BYTES):
        return Refusal("its block is small")
    return fetch


def _copied(load: Op, takes: tuple[Op, ...], target: LinearLayout, axis: AxisAnalysis) -> Fetch | Refusal:
    """The copies that stand for a load, for threads that take its block in the layout ``target``."""
    type_ = load.result.type
    if not isinstance(type_, BlockType) or not isinstance(load.pointer.type, BlockType):
        return Refusal("it is of one element")
    if not isinstance(type_.element, DType) or load.volatile:
        return Refusal("it is volatile" if load.volatile else "it loads pointers")
    source = type_.layout
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
            "let strides and masked extents be multiples of 8 or 16, or promise it with tl.multiple_of",
        )
    members = vector_groups(source, dim, width)[0]
    vector = tuple(source.packed_at(register=members[1 << bit]) for bit in range(width.bit_length() - 1))
    shared = staging(source, target, type_.element.itemsize, vector)
    if shared is None:
        return Refusal("threads could read what copies leave only element by element")
    return Fetch(load, takes, shared, width)


def _is_taken_fast(target: LinearLayout, shared: LinearLayout, element: DType) -> bool:
    """Whether threads read whole words: small elements one by one would take longer than to turn them round first."""
    return element.itemsize >= WORD_BYTES or matrix_access(target, shared, element.itemsize) is not None


def is_zero(value: Value) -> bool:
    """Whether all its bits are 0, in each element of a block."""
    if not isinstance(value, Constant):
        made = value.owner
        return isinstance(made, Op) and made.name == "full" and is_zero(made.value)
    return value.value == 0 and copysign(1, value.value) > 0


class _Slice:
    """The ops of a loop's body, and the slots that it carries, from which addresses are computed."""

    def __init__(self, loop: For):
        self.loop, self.body = loop, loop.body
        self.ops: set[Op] = set()
        self.slots: set[int] = set()
        self.places = {op: place for place, op in enumerate(loop.body.ops)}

    def varies(self, load: Op) -> bool:
        """Whether the address changes from round to round."""
        reached, _, slots = self.reached([load.pointer])
        return bool(slots) or self.body.args[0] in reached

    def refused(self, load: Op) -> Refusal | None:
        """Add what the addresses of a load take. Nothing is added where a round cannot know them ahead, and why is
        given."""
        _, ops, slots = self.reached([v for v in (load.pointer, load.mask) if v is not None])
        for op in ops:
            if not op.pure or op.regions or op.name == "dot":
                return Refusal(
                    f"its addresses depend on `{op.name}`, which is not done ahead",
                    "compute addresses and masks from parameters and counters",
                )
        self.ops |= ops.keys()
        self.slots |= slots
        return None

    def reached(self, values: list[Value]) -> tuple[set[Value], dict[Op, None], set[int]]:
        """What ``values`` are made of: the arguments of the body, its ops, and the slots that carry something."""
        seen: set[Value] = set()
        ops: dict[Op, None] = {}
        slots: set[int] = set()
        open_ = list(values)
        while open_:
            value = open_.pop()
            if isinstance(value, Constant) or value in seen:
                continue
            seen.add(value)
            if value.owner is self.body and value is not self.body.args[0]:
                slot = self.body.args.index(value) - 1
                slots.add(slot)
                open_.append(self.body.terminator.operands[slot])
            elif value.owner in self.places:
                ops[value.owner] = None
                open_ += [o for o in value.owner.operands if o is not None]
        return seen, ops, slots

    def in_order(self) -> Iterator[Op]:
        return (op for op in self.body.ops if op in self.ops)
