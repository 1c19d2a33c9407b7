"""Turn loads and stores whose pointers and masks describe a box of an array into accesses through a descriptor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refcompiler.analysis.axis import AxisAnalysis
from refcompiler.analysis.boxes import Box, Boxes, Dim, NoBox
from refcompiler.analysis.polynomials import Polynomial
from refcompiler.dialects.tile.descriptor import ALIGNMENT, MAX_RANK
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import I32, I64, BlockType, element_of, shape_of
from refcompiler.remarks import Refusal, remark

MOVES = frozenset({"trans", "reshape", "hint"})  # a dot operand may pass through these


def form_boxes(func: Func, context: Any) -> None:
    """Where the target copies boxes: form those that feed a dot, and those that a kernel with a dot stores."""
    target = getattr(context, "target", None)
    if target is not None and target.has_tma and target.has_wgmma:
        fed = operands_of_dots(func)
        if fed:
            form(func, lambda op: op.name == "store" or op.result in fed, context)


def operands_of_dots(func: Func) -> set[Value]:
    """The blocks that dots multiply, followed through what only moves elements."""
    found: set[Value] = set()
    for op in func.walk():
        if op.name == "dot":
            for value in (op.x, op.y):
                while value not in found:
                    found.add(value)
                    if isinstance(value.owner, Op) and value.owner.name in MOVES:
                        value = value.owner.operands[0]
    return found


def promised_divisors(func: Func) -> dict[Value, int]:
    """By what parameters are divisible as the kernel promises for all of its run: powers of two."""
    found: dict[Value, int] = {}
    for op in func.body.ops:
        if op.name == "hint" and not shape_of(op.x.type) and op.divisible:
            value = op.x
            while isinstance(value.owner, Op) and value.owner.name in ("cast", "hint"):
                value = value.owner.operands[0]
            found[value] = max(found.get(value, 1), op.divisible[0] & -op.divisible[0])
    return found


def form(func: Func, wanted: Callable[[Op], bool], context: Any = None) -> None:
    """Rewrite the accesses that are ``wanted`` and are boxes that a descriptor may describe."""
    _Former(func, wanted, context).run()


class _Former:
    def __init__(self, func: Func, wanted: Callable[[Op], bool], context: Any):
        self.func = func
        self.boxes, self.axis = Boxes(func), AxisAnalysis(func)
        self.promised = promised_divisors(func)
        self.found: dict[Op, tuple[Box, list[Dim]]] = {}
        for op in func.walk():
            if op.name in ("load", "store") and wanted(op):
                try:
                    box = self.boxes.of(op)
                    self.found[op] = box, self.described(op, box)
                    extents = " x ".join(str(dim.extent) for dim in self.found[op][1])
                    remark(context, "form_boxes", op, f"the {op.name} is a box of {extents} elements", applied=True)
                except NoBox as no:  # it stays what it is
                    remark(context, "form_boxes", op, Refusal(f"the {op.name} is no box to copy: {no}", no.advice))
        self.build = Builder(func.body)
        self.top = Builder(Block(), func.span)  # descriptors are made of parameters, before all else

    def run(self) -> None:
        self.block(self.func.body)
        self.func.body.ops[:0] = self.top.block.ops

    def block(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        for op in ops:
            for region in op.regions:
                self.block(region)
            if op in self.found:
                with self.build.inside(block), self.build.at(op.span):
                    self.access(op, *self.found[op])
            else:
                block.append(op)

    # --- what a descriptor may describe
    def described(self, op: Op, box: Box) -> list[Dim]:
        """The dimensions in the order of a descriptor: the last one has stride 1. Raises NoBox where none fits."""
        if op.name == "load" and op.volatile:
            raise NoBox("it is volatile")
        unit = [dim for dim in box.dims if dim.stride.number == 1]
        if len(unit) != 1:
            raise NoBox(
                f"{len(unit) or 'none'} of its dimensions {'have' if unit else 'has'} a stride that is known to be 1",
                "write that stride as 1, or pass 1 for it, and no other one",
            )
        if len(box.dims) > MAX_RANK:
            raise NoBox(f"it has {len(box.dims)} dimensions, and boxes have {MAX_RANK} at most")
        size = box.element.itemsize
        if unit[0].extent * size < ALIGNMENT:
            raise NoBox(f"its rows have {unit[0].extent * size} bytes, and boxes at least {ALIGNMENT}")
        rest = [dim for dim in box.dims if dim is not unit[0]]
        self.check_distances(box, rest)
        for polynomial in (p for dim in box.dims for p in (dim.offset, dim.bound) if p is not None):
            if any(factor.type.bits > 32 for factor in self.factors(polynomial) if isinstance(factor, Value)):
                raise NoBox("its indices have 64 bits", "make them of int32: a box has 32-bit indices")
        return [*rest, *unit]

    def check_distances(self, box: Box, rest: list[Dim]) -> None:
        """Whether rows and the array begin at multiples of 16 bytes. Raises NoBox where that is not known."""
        size = box.element.itemsize
        wanted = ALIGNMENT // size
        axes = {dim.axis: "" if dim.axis is None else f" along dimension {dim.axis}" for dim in rest}
        named = [(f"the stride{axes[dim.axis]}", dim.stride) for dim in rest] + [("its first element", box.origin)]
        for what, distance in named:
            known = self.divisor(distance) * size
            if known % ALIGNMENT == 0:
                continue
            text = self.text(distance)
            found = f"it is {known} bytes" if distance.number is not None else f"known is a multiple of {known}"
            advice = f"pass a multiple of {max(wanted, 8)} for {text}, or promise one: tl.multiple_of(..., {wanted})"
            if distance.number is not None:
                advice = f"pad rows to multiples of {wanted} elements"
            raise NoBox(
                f"{what}, {text} elements of {size} bytes, is not known to be a multiple of {ALIGNMENT} bytes; {found}",
                advice,
            )
        if self.axis.of(box.pointer).divisor % ALIGNMENT:
            raise NoBox(
                f"its array `{box.pointer.name}` is not known to begin at a multiple of {ALIGNMENT} bytes",
                f"pass an array that does, or compile for *{box.element}:{ALIGNMENT}",
            )

    def text(self, polynomial: Polynomial) -> str:
        """A polynomial of parameters as a person writes it."""
        terms = []
        for monomial, count in polynomial.terms.items():
            names = [str(self.boxes.forms.factors[number].name) for number in monomial]
            terms.append(" * ".join([*([str(count)] if count != 1 or not names else []), *names]))
        return " + ".join(terms) or "0"

    def factors(self, polynomial: Polynomial) -> list[Any]:
        return [self.boxes.forms.factors[number] for number in polynomial.factors]

    def divisor(self, polynomial: Polynomial) -> int:
        """A power of two that divides a polynomial of parameters; ALIGNMENT where it is 0."""
        divisors = [ALIGNMENT]
        for monomial, count in polynomial.terms.items():
            known = count & -count
            for number in monomial:
                factor = self.boxes.forms.factors[number]
                known *= (
                    max(self.axis.of(factor).divisor, self.promised.get(factor, 1)) if isinstance(factor, Value) else 1
                )
            divisors.append(min(known, ALIGNMENT))
        return min(divisors)

    # --- the access
    def access(self, op: Op, box: Box, dims: list[Dim]) -> None:
        shape = shape_of(op.pointer.type)
        descriptor = self.descriptor(box, dims)
        offsets = [self.boxes.forms.value(dim.offset, I32, self.build) for dim in dims]
        axes = [dim.axis for dim in dims if dim.axis is not None]  # of the accessed block, in the order of the box
        inner = tuple(shape[axis] for axis in axes)
        plain = tuple(shape[axis] for axis in sorted(axes))
        if op.name == "load":
            value = self.build.value("descriptor_load", descriptor, *offsets, types=[BlockType(box.element, inner)])
            value = self.moved(value, [axes.index(axis) for axis in sorted(axes)])
            self.hand_over(op, self.reshaped(value, shape))
        else:
            value = op.value
            if shape_of(value.type) != shape:
                value = self.build.value("broadcast", value, types=[BlockType(element_of(value.type), shape)])
            value = self.moved(self.reshaped(value, plain), [sorted(axes).index(axis) for axis in axes])
            self.build.op("descriptor_store", descriptor, *offsets, value)
        self.build.block.ops[-1].spans = op.spans

    def descriptor(self, box: Box, dims: list[Dim]) -> Value:
        with self.top.at(self.build.span):
            base = box.pointer
            if box.origin:
                base = self.top.value("addptr", base, self.boxes.forms.value(box.origin, I64, self.top))
            extents = [
                Constant(I32.max_int, I32) if dim.bound is None else self.boxes.forms.value(dim.bound, I32, self.top)
                for dim in dims
            ]
            strides = [self.boxes.forms.value(dim.stride, I64, self.top) for dim in dims]
            shape = tuple(dim.extent for dim in dims)
            return self.top.value("make_descriptor", base, *extents, *strides, block_shape=shape)

    def hand_over(self, op: Op, value: Value) -> None:
        """What the load gave is now ``value``: its users see no difference."""
        made = value.owner
        made.results = [op.result if r is value else r for r in made.results]
        op.result.owner = made

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        if shape_of(value.type) == shape:
            return value
        return self.build.value("reshape", value, types=[BlockType(element_of(value.type), shape)])

    def moved(self, value: Value, order: list[int]) -> Value:
        return value if order == sorted(order) else self.build.value("trans", value, order=tuple(order))
