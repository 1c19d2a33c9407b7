"""Checks a function against the rules of SSA, of its level and of each op; every message carries a clause id."""

from __future__ import annotations

from collections.abc import Callable

from refcompiler.errors import CompileError
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import BlockType
from refcompiler.target import Target, with_feature

MAX_NUMEL = 1 << 20  # elements of one block, as upstream's TRITON_MAX_TENSOR_NUMEL


def too_many(type_: BlockType) -> str:
    """The size of a block in words; where extents are rounded up, the size that counts."""
    words = f"a block of {type_.numel} elements"
    if type_.padded_numel == type_.numel:
        return words
    return f"{words} ({type_.padded_numel} with extents rounded up to powers of 2)"


def verify(func: Func) -> None:
    """Raise CompileError at the first broken rule."""
    names = [p.name for p in func.params] + list(func.constexprs)
    if len(set(names)) != len(names):
        raise CompileError("ir.parameter", f"@{func.name} has two parameters of one name", func.span)
    _Verifier(func).run()
    _check_deferred(func)
    _check_held(func)


def check_target(func: Func, target: Target) -> None:
    """Raise CompileError (target.instruction) at the first op that ``target`` has no instruction for."""
    for op in func.walk():
        needed = op.feature()
        if needed and not getattr(target, needed):
            feature = needed.removeprefix("has_").replace("_", " ")
            raise CompileError(
                "target.instruction",
                f"{op.name} needs an architecture with {feature}, {target} has none",
                op.span or func.span,
                phase="codegen",
                notes=[f"compile for {', '.join(with_feature(needed))}"],
            )


def _check_deferred(func: Func) -> None:
    """Raise CompileError where the result of a deferred op is read without a wait."""
    ops = list(func.walk())
    found = {value: op.deferred for op in ops if op.deferred for value in op.results}
    slots = [slot for op in ops if found and hasattr(op, "slots") for slot in op.slots()]
    more = True
    while more:  # what a region carries is deferred if any value put in may be
        more = False
        for slot in slots:
            clause = next((found[v] for v in slot.sources if v in found), None)
            if clause is not None and slot.values[-1] not in found:
                found.update(dict.fromkeys(slot.values, clause))
                more = True
    for op in ops if found else ():
        for index, value in enumerate(op.operands):
            if value in found and not (op.accepts_deferred(index) or op.terminator or _carries(op, index)):
                source = "a loop carries" if not isinstance(value.owner, Op) else f"{value.owner.name} gives"
                raise CompileError(
                    found[value],
                    f"{op.name} reads what {source} before it is there",
                    op.span,
                    notes=["wait for it, and read what the wait gives back"],
                )


def _check_held(func: Func) -> None:
    """Raise CompileError where an iteration of a loop computes registers that a deferred op of the one before holds."""
    for loop in (op for op in func.walk() if op.name in ("for", "while")):
        body = loop.regions[-1]
        places = {op: place for place, op in enumerate(body.ops)}
        for op in body.ops:
            made = op.operands[op.kept[0]].owner if op.kept is not None else None
            if made not in places or not (later := _deferred_until(op, body)):
                continue
            carried = {body.args[-len(loop.results) + slot] for slot in later}
            before = body.ops[: places[made]]
            if not any(_waits(each, carried) for each in before):
                raise CompileError(
                    op.kept[1],
                    f"{made.name} writes registers that {op.name} of the iteration before may still read",
                    made.span,
                    notes=["wait for it before"],
                )


def _deferred_until(op: Op, body: Block) -> list[int]:
    """The slots of a loop in which results of a deferred op leave an iteration, as such or added to by others."""
    given = set(op.results)
    for other in body.ops:
        if other.deferred and any(v in given and other.accepts_deferred(i) for i, v in enumerate(other.operands)):
            given.update(other.results)
    return [slot for slot, value in enumerate(body.terminator.carried) if value in given]


def _waits(op: Op, carried: set[Value]) -> bool:
    """Whether an op waits for one of the values, or for all that is deferred."""
    waits = not op.deferred and not op.regions and "pending" in op.attrs
    return waits and (any(v in carried for v in op.operands) or (op.accepts_deferred(0) and not op.attrs["pending"]))


def _carries(op: Op, index: int) -> bool:
    """True if the operand is the initial value of something that a region carries."""
    return bool(op.regions) and index >= getattr(op, "leading", 0)


class _Verifier:
    def __init__(self, func: Func):
        self.func = func
        self.defined: set[Value] = set(func.params)

    def run(self) -> None:
        self.block(self.func.body, None)

    def block(self, block: Block, parent: Op | None) -> None:
        scoped: list[Value] = list(block.args)
        self.defined.update(block.args)
        for position, op in enumerate(block.ops):
            self.op(op, parent, last=position == len(block.ops) - 1)
            self.defined.update(op.results)
            scoped += op.results
        if parent is not None and block.terminator is None:
            raise self.error(parent, "ir.terminator", f"a region of {parent.name} does not end with yield")
        self.defined.difference_update(scoped)  # what a region defines is not visible outside

    def op(self, op: Op, parent: Op | None, last: bool) -> None:
        if self.func.level not in op.levels:
            raise self.error(op, "ir.level", f"{op.name} does not occur at level {self.func.level}")
        if op.terminator and not (last and parent is not None):
            raise self.error(op, "ir.terminator", f"{op.name} must end the region of an op")
        self.operands(op)
        self.attrs(op)
        self.types(op)
        if op.terminator:
            self.yields(op, parent)
        if not op.regions:
            op.verify(self.requirement(op))
            return
        if any(region.terminator is None for region in op.regions):
            raise self.error(op, "ir.terminator", f"a region of {op.name} does not end with yield")
        op.verify(self.requirement(op))
        for region in op.regions:
            self.block(region, op)

    def operands(self, op: Op) -> None:
        fields = op.operand_fields
        variadic = bool(fields) and fields[-1].variadic
        if len(op.operands) > len(fields) and not variadic:
            raise self.error(op, "ir.arity", f"{op.name} takes {len(fields)} operands, got {len(op.operands)}")
        for index, value in enumerate(op.operands):
            field = fields[min(index, len(fields) - 1)]
            if value is None:
                if not field.optional:
                    raise self.error(op, "ir.arity", f"{op.name} needs its operand {field.name}")
            elif not isinstance(value, Constant) and value not in self.defined:
                raise self.error(op, "ir.dominance", f"operand {field.name} of {op.name} is used before it is defined")

    def attrs(self, op: Op) -> None:
        for field in op.attr_fields:
            value = op.attrs[field.name]
            if field.required and value is None:
                raise self.error(op, "ir.attribute", f"{op.name} needs its attribute {field.name}")
            if value is not None and (
                not isinstance(value, field.type) or (field.type is int and isinstance(value, bool))
            ):
                raise self.error(op, "ir.attribute", f"{field.name}={value!r} of {op.name} is no {field.type.__name__}")

    def types(self, op: Op) -> None:
        for result in op.results:
            if isinstance(result.type, BlockType):
                self.block_type(op, result.type)
        if op.explicit_type or op.terminator:
            return
        inferred = op.infer()
        stated = [r.type for r in op.results]
        if inferred != stated:
            shown = ", ".join(map(str, stated)) or "nothing"
            wanted = ", ".join(map(str, inferred)) or "nothing"
            raise self.error(op, "ir.type", f"{op.name} gives {wanted}, its result says {shown}")

    def block_type(self, op: Op, type_: BlockType) -> None:
        if any(e < 1 for e in type_.shape):
            raise self.error(op, "ir.extent", f"extents are positive, got {type_.shape}")
        if type_.padded_numel > MAX_NUMEL:
            raise self.error(
                op, "ir.numel", f"{too_many(type_)} exceeds the maximum of {MAX_NUMEL}; use a smaller block"
            )
        if (type_.layout is not None) != (self.func.level == "laid_out"):
            raise self.error(op, "ir.layout", f"a block has a layout exactly at the laid-out level, here {type_}")

    def yields(self, op: Op, parent: Op) -> None:
        wanted = parent.yield_types()
        got = [v.type if v is not None else None for v in op.carried]
        if wanted != got:
            shown = ", ".join(map(str, got)) or "nothing"
            raise self.error(
                op,
                "ir.yield",
                f"yield gives {shown}, {parent.name} needs {', '.join(map(str, wanted)) or 'nothing'}",
            )

    def requirement(self, op: Op):
        def require(condition: bool, id: str, message: str | Callable[[], str], at: str | None = None) -> None:
            if not condition:  # a message that costs something to make is given as a function
                text = message if isinstance(message, str) else message()
                raise CompileError(id, text, op.spans.get(at, op.span) if at else op.span)

        return require

    def error(self, op: Op, id: str, message: str) -> CompileError:
        return CompileError(id, message, op.span)
