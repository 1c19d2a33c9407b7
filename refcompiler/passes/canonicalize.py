"""Folding and algebraic rules that leave fewer shapes for later passes to match."""

from __future__ import annotations

from typing import Any

from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.scf import Slot
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.rewriter import Rewriter, rewrite
from refcompiler.ir.types import BlockType, DType, element_of, shape_of

_MAX_ROUNDS = 8  # each round needs a change of the one before; kernels settle in two


def canonicalize(func: Func, context: Any = None) -> None:
    """Apply all rules until none fires."""
    for _ in range(_MAX_ROUNDS):
        if not Rewriter(RULES).run(func):
            return


def _is(value: Value | None, number: bool | int | float) -> bool:
    """The constant ``number``, by value and sign: 0.0 is not -0.0."""
    return isinstance(value, Constant) and Constant(number, value.type).key() == value.key()


def _same_type(op: Op, value: Value) -> Value | None:
    """``value`` where it can stand for the result: same shape and element."""
    return value if value.type == op.result.type else None


def _producer(value: Value | None, name: str) -> Op | None:
    owner = value.owner if value is not None else None
    return owner if isinstance(owner, Op) and owner.name == name else None


@rewrite(*(name for name, cls in OPS.items() if cls.commutative))
def constant_right(op: Op, rw: Rewriter) -> Value | None:
    """c op x -> x op c for commutative ops: one place to look for a constant."""
    if isinstance(op.x, Constant) and not isinstance(op.y, Constant):
        return rw.op(op.name, op.y, op.x)
    return None


@rewrite("add")
def add_zero(op: Op, rw: Rewriter) -> Value | None:
    """x + 0 -> x for integers; x + -0.0 -> x for floats, where +0.0 would turn -0.0 into +0.0."""
    zero = -0.0 if element_of(op.result.type).is_float else 0
    return _same_type(op, op.x) if _is(op.y, zero) else None


@rewrite("sub")
def sub_zero(op: Op, rw: Rewriter) -> Value | None:
    """x - 0 -> x; for floats +0.0 only, since -0.0 - -0.0 is +0.0."""
    return _same_type(op, op.x) if _is(op.y, 0) else None


@rewrite("mul", "div", "div_rn")
def times_one(op: Op, rw: Rewriter) -> Value | None:
    """x * 1 -> x and x / 1 -> x, exact for every value; NaN payloads do not matter."""
    return _same_type(op, op.x) if _is(op.y, 1) else None


@rewrite("or", "xor", "shl", "shr")
def bits_zero(op: Op, rw: Rewriter) -> Value | None:
    """x | 0, x ^ 0, x << 0, x >> 0 -> x."""
    return _same_type(op, op.x) if _is(op.y, 0) else None


@rewrite("and")
def and_ones(op: Op, rw: Rewriter) -> Value | None:
    """x & ~0 -> x, for bool x & True -> x."""
    ones = True if element_of(op.result.type).is_bool else -1
    return _same_type(op, op.x) if _is(op.y, ones) else None


@rewrite("neg", "not")
def twice(op: Op, rw: Rewriter) -> Value | None:
    """-(-x) -> x and ~~x -> x, exact: the sign flips twice, the least integer stays."""
    inner = _producer(op.x, op.name)
    return inner.x if inner else None


@rewrite("addptr")
def pointer_plus_zero(op: Op, rw: Rewriter) -> Value | None:
    """p + 0 -> p."""
    return _same_type(op, op.pointer) if _is(op.offset, 0) else None


@rewrite("broadcast", "reshape", "trans")
def shape_identity(op: Op, rw: Rewriter) -> Value | None:
    """A change to the same shape -> x; a permutation only where it is the identity."""
    if op.name == "trans" and list(op.order) != sorted(op.order):
        return None
    return _same_type(op, op.x)


@rewrite("expand_dims", "broadcast", "reshape", "trans", "cast")
def uniform_block(op: Op, rw: Rewriter) -> Value | None:
    """f(full v) -> full f(v): a block of one value stays one under any change of shape."""
    full = _producer(op.x, "full")
    if full is None:
        return None
    value = full.value
    if op.name == "cast":
        value = rw.op("cast", value, types=[element_of(op.result.type)])
    return rw.op("full", value, types=[op.result.type])


@rewrite("broadcast")
def broadcast_scalar(op: Op, rw: Rewriter) -> Value | None:
    """broadcast of a scalar -> full."""
    if isinstance(op.x.type, BlockType) or not isinstance(op.x.type, DType):
        return None
    return rw.op("full", op.x, types=[op.result.type])


def _narrow(value: Value | None, others: list[Value | None], shape: tuple[int, ...]) -> Value | None:
    """The scalar behind ``full`` or the operand of ``broadcast``, where another operand already has the full shape."""
    if value is None or not any(o is not None and o is not value and shape_of(o.type) == shape for o in others):
        return None
    full, broadcast = _producer(value, "full"), _producer(value, "broadcast")
    if full is not None:
        return full.value
    return broadcast.x if broadcast is not None else None


@rewrite(*(name for name, cls in OPS.items() if issubclass(cls, Elementwise)), "select")
def implicit_broadcast(op: Op, rw: Rewriter) -> Value | None:
    """x op full(v) -> x op v: elementwise operands broadcast by themselves, and a scalar needs no registers."""
    shape = shape_of(op.result.type)
    operands = list(op.operands)
    for index, value in enumerate(operands):
        narrow = _narrow(value, [o for i, o in enumerate(operands) if i != index], shape)
        if narrow is not None:
            operands[index] = narrow
    if operands == op.operands:
        return None
    return rw.op(op.name, *operands)


@rewrite(*(name for name, cls in OPS.items() if issubclass(cls, Elementwise)))
def uniform_elementwise(op: Op, rw: Rewriter) -> Value | None:
    """op(full a, full b) -> full(op(a, b)): computed once, as a scalar."""
    if not isinstance(op.result.type, BlockType):
        return None
    scalars = []
    for value in op.operands:
        full = _producer(value, "full")
        if full is None and isinstance(value.type, BlockType):
            return None
        scalars.append(full.value if full else value)
    return rw.op("full", rw.op(op.name, *scalars), types=[op.result.type])


def _mask_value(mask: Value | None) -> bool | None:
    """What a mask is known to be everywhere; None where it is not known."""
    full = _producer(mask, "full")
    value = full.value if full else mask
    return bool(value.value) if isinstance(value, Constant) else None


@rewrite("load")
def load_unmasked(op: Op, rw: Rewriter) -> Value | None:
    """load p, True, other -> load p; load p, False, other -> other."""
    known = _mask_value(op.mask)
    attrs = dict(op.attrs)
    if known is True and shape_of(op.mask.type) in ((), shape_of(op.pointer.type)):
        return _same_type(op, rw.op("load", op.pointer, None, None, **attrs))
    if known is False and op.other is not None:
        return op.other if op.other.type == op.result.type else rw.op("broadcast", op.other, types=[op.result.type])
    return None


@rewrite("store")
def store_unmasked(op: Op, rw: Rewriter) -> list[Value] | None:
    """store p, v, True -> store p, v; store p, v, False -> nothing."""
    known = _mask_value(op.mask)
    if known is None:
        return None
    if known:
        new = OPS["store"](op.pointer, op.value, None, span=op.span, **op.attrs)
        new.spans = op.spans
        rw.out.append(new)
    return []


@rewrite("for", "while", "if")
def unchanging_carry(op: Op, rw: Rewriter) -> list[Value] | None:
    """A value that every iteration gives back unchanged, or that both branches yield -> that value."""
    slots = op.slots()
    fixed = {i: value for i, slot in enumerate(slots) if (value := _only_source(slot, op.starts, rw)) is not None}
    if not fixed:
        return None
    for i, value in fixed.items():
        rw.values.update(dict.fromkeys(slots[i].values, value))
    op.keep([i for i in range(len(slots)) if i not in fixed])
    for region in op.regions:
        rw.block(region)
    rw.out.append(op)
    return list(op.results)


def _only_source(slot: Slot, starts: bool, rw: Rewriter) -> Value | None:
    """What is put into the slot where nothing else ever is; for a loop that is what it starts from. The regions have
    not been rewritten yet: what they name of outside may have become something else."""
    sources = [rw.values.get(s, s) for s in slot.sources]
    value = sources[-1]
    same = all(s is value or s in slot.values or _equal(s, value) for s in sources)
    return value if same and (starts or value not in slot.values) else None


def _equal(x: Value, y: Value) -> bool:
    return isinstance(x, Constant) and isinstance(y, Constant) and x.key() == y.key()


def _inline(region: Block, rw: Rewriter) -> list[Value]:
    """Put the ops of ``region`` before the current op; what its terminator gives."""
    rw.block(region)
    end = region.ops.pop()
    rw.out += region.ops
    return end.operands


@rewrite("if")
def known_branch(op: Op, rw: Rewriter) -> list[Value] | None:
    """if True -> the first region; if False -> the second."""
    if not isinstance(op.condition, Constant):
        return None
    return _inline(op.then if op.condition.value else op.orelse, rw)


@rewrite("while")
def while_false(op: Op, rw: Rewriter) -> list[Value] | None:
    """A loop whose condition is False -> its first region, once."""
    condition = op.before.terminator.condition
    if not isinstance(condition, Constant) or condition.value:
        return None
    rw.values.update(zip(op.before.args, op.inits, strict=True))
    return _inline(op.before, rw)[1:]


@rewrite("for")
def loop_never_entered(op: Op, rw: Rewriter) -> list[Value] | None:
    """A loop whose constant bounds hold no index -> the initial values."""
    bounds = (op.start, op.stop, op.step)
    if all(isinstance(b, Constant) for b in bounds) and op.step.value:
        if not len(range(op.start.value, op.stop.value, op.step.value)):
            return list(op.inits)
    return None


RULES = (
    constant_right,
    add_zero,
    sub_zero,
    times_one,
    bits_zero,
    and_ones,
    twice,
    pointer_plus_zero,
    shape_identity,
    uniform_block,
    broadcast_scalar,
    implicit_broadcast,
    uniform_elementwise,
    load_unmasked,
    store_unmasked,
    loop_never_entered,
    known_branch,
    while_false,
    unchanging_carry,
)
