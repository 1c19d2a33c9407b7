"""Recognises boxes in pointer arithmetic: accesses of a rectangle of an array, clipped by their mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from refcompiler.analysis.forms import CARRIED, ONE, WRAPPED, ZERO, Form, Forms, NoForm
from refcompiler.analysis.polynomials import Polynomial
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import DType, PointerType, element_of, shape_of


class NoBox(Exception):
    """An access is no box; the message says why, as a sentence about it, ``advice`` what would make it one."""

    def __init__(self, message: str, advice: str = ""):
        super().__init__(message)
        self.advice = advice


@dataclass(frozen=True)
class Dim:
    """One dimension of a box: indices ``offset`` to ``offset + extent`` of it, ``stride`` elements apart, of which
    those below ``bound`` are accessed; all of them where it is None. ``axis`` is the axis of the accessed block that
    runs along it, None for a dimension in which the box is one element wide."""

    extent: int
    offset: Polynomial
    stride: Polynomial
    bound: Polynomial | None
    axis: int | None


@dataclass(frozen=True)
class Box:
    """What a load or store accesses: elements of the array at ``pointer`` + ``origin``, a parameter of the kernel and a
    number of elements; what the mask leaves out is zero."""

    pointer: Value
    origin: Polynomial
    dims: tuple[Dim, ...]

    @property
    def element(self) -> DType:
        return self.pointer.type.pointee


@dataclass
class Limits:
    """What a mask says of the index along one axis: it is below ``upper``, and not below ``lower``."""

    upper: Polynomial | None = None
    lower: list[Polynomial] = field(default_factory=list)


class Boxes:
    """The boxes that the loads and stores of a function at the tile level access.

    Exact arithmetic stands for that of the kernel: an address or a mask that only wrapping makes legal is not promised
    (memory.pointers#N1). Bounds and strides are polynomials of parameters, offsets of anything.
    """

    def __init__(self, func: Func):
        self.forms = Forms(func)

    def of(self, op: Op) -> Box:
        """The box of a load or store. Raises NoBox with the reason where it is none."""
        try:
            return self._of(op)
        except NoForm as reason:
            raise NoBox(f"{reason}", _ADVICE.get(f"{reason}", "")) from None

    def _of(self, op: Op) -> Box:
        shape = shape_of(op.pointer.type)
        pointer = self.forms.of(op.pointer)
        if not shape:
            raise NoBox("it accesses one element")
        if not isinstance(pointer.root, Value) or not isinstance(pointer.root.type, PointerType):
            raise NoBox("its pointers do not come from one parameter")
        if element_of(op.pointer.type).pointee != pointer.root.type.pointee:
            raise NoBox("its pointers were made by a cast")
        if op.results and shape_of(op.result.type) != shape:
            raise NoBox("its mask is larger than its pointers")
        if op.name == "load" and op.mask is not None and not _is_zero(op.other):
            raise NoBox("its `other` is not zero", "pass other=0, or choose with tl.where after the load")
        limits = self.limits(op.mask, shape)
        return self._assigned(pointer, limits, shape)

    # --- masks
    def limits(self, mask: Value | None, shape: tuple[int, ...]) -> dict[int, Limits]:
        """What the mask of an access of that shape says, by axis. Raises NoBox, NoForm for what is no conjunction of
        bounds on indices."""
        found: dict[int, Limits] = {}
        for below_zero in self._conditions(mask) if mask is not None else ():
            form = below_zero.spread(shape_of(mask.type), shape)
            axes = [axis for axis, stride in enumerate(form.strides) if stride]
            if not axes:
                if (self.forms.interval(form.scalar))[1] < 0:
                    continue
                raise NoBox(
                    "its mask has a condition that is one for the whole program",
                    "leave it out where the bounds of the array imply it; a mask compares indices with bounds",
                )
            if len(axes) > 1:
                raise NoBox(
                    "its mask compares two indices, so it is no box",
                    "mask what was loaded with tl.where, and let the load's mask compare with bounds of the array",
                )
            (axis,) = axes
            limits = found.setdefault(axis, Limits())
            step = form.strides[axis].number
            if step == 1:
                if limits.upper is not None and limits.upper != -form.scalar:
                    raise NoBox(
                        f"its mask has two upper bounds along dimension {axis}",
                        "compare with one bound, the extent of the array, and use tl.where for the other one",
                    )
                limits.upper = -form.scalar
            elif step == -1:
                limits.lower.append(form.scalar + ONE)
            else:
                raise NoBox("its mask compares a multiple of an index")
        return found

    def _conditions(self, mask: Value) -> Iterator[Form]:
        """The forms that are negative exactly where the mask is true."""
        if isinstance(mask, Constant):
            if not mask.value:
                raise NoBox("its mask is False")
            return
        op = mask.owner
        if not isinstance(op, Op):
            raise NoBox("its mask is carried by a loop")
        if op.name == "and":
            for operand in op.operands:
                yield from self._spread(operand, mask)
        elif op.name in _COMPARISONS:
            yield self._difference(op)
        elif op.name in ("full", "broadcast"):
            yield from self._spread(op.operands[0], mask)
        elif op.name == "expand_dims":
            for form in self._conditions(op.x):
                yield Form(form.scalar, (*form.strides[: op.axis], ZERO, *form.strides[op.axis :]))
        elif op.name == "trans":
            for form in self._conditions(op.x):
                yield Form(form.scalar, tuple(form.strides[i] for i in op.order))
        else:
            raise NoBox(f"its mask has a condition that is `{op.name}`, no comparison of an index with a bound")

    def _spread(self, part: Value, mask: Value) -> Iterator[Form]:
        """The conditions of a part of a mask, for the shape of the mask."""
        for form in self._conditions(part):
            yield form.spread(shape_of(part.type), shape_of(mask.type))

    def _difference(self, op: Op) -> Form:
        """What is negative exactly where a comparison holds."""
        x, y = (self.forms.spread(v, shape_of(op.result.type)) for v in op.operands)
        if x.root is not None or y.root is not None:
            raise NoBox("its mask compares pointers")
        swapped, closed = _COMPARISONS[op.name]
        if swapped:
            x, y = y, x
        minus = y.times(Polynomial.constant(-1))
        scalar = x.scalar + minus.scalar - (ONE if closed else ZERO)
        return Form(scalar, tuple(a + b for a, b in zip(x.strides, minus.strides, strict=True)))

    # --- dimensions
    def _assigned(self, pointer: Form, limits: dict[int, Limits], shape: tuple[int, ...]) -> Box:
        """The box whose offsets add up to what the pointers have in common."""
        axes = [axis for axis, extent in enumerate(shape) if extent > 1 or pointer.strides[axis]]
        for axis in axes:
            self._check_stride(pointer.strides[axis], axis)
        rest = _Rest(pointer.scalar, self.forms)
        offsets = dict.fromkeys(axes, ZERO)
        for axis in axes:
            if axis in limits and limits[axis].upper is not None:
                offsets[axis] = rest.take_compared(-limits[axis].upper, pointer.strides[axis])
        free = [axis for axis in axes if axis not in limits or limits[axis].upper is None]
        for axis in sorted(free, key=lambda axis: _size(pointer.strides[axis]), reverse=True):
            offsets[axis] = rest.take_multiples(pointer.strides[axis])
        outer = [Dim(1, offset, stride, None, None) for stride, offset in rest.take_products().items()]
        dims = [self._dim(axis, shape[axis], offsets[axis], pointer, limits.get(axis)) for axis in axes]
        for dim in outer:
            if self.forms.interval(dim.offset)[0] < 0:
                raise NoBox("it may begin before the array")
        if not self.forms.parameters_only(rest.left):
            raise NoBox(
                "it begins at a distance that is made of more than parameters and strides",
                "write each index as its distance from the beginning of the array, times the stride",
            )
        return Box(pointer.root, rest.left, (*outer, *dims))

    def _check_stride(self, stride: Polynomial, axis: int) -> None:
        if not stride:
            raise NoBox(f"it repeats one element along dimension {axis}")
        if len(stride.terms) > 1 or not self.forms.parameters_only(stride):
            raise NoBox(
                f"the stride along dimension {axis} is neither constant nor a product of parameters",
                "pass the stride as a parameter of its own",
            )

    def _dim(self, axis: int, extent: int, offset: Polynomial, pointer: Form, limits: Limits | None) -> Dim:
        upper = limits.upper if limits is not None else None
        bound = None if upper is None else offset + upper
        if bound is not None and not self.forms.parameters_only(bound):
            raise NoBox(
                f"the bound along dimension {axis} is not that of the array: it is not made of parameters only",
                "compare indices from the beginning of the array with a parameter",
            )
        lower = limits.lower if limits is not None else []
        for limit in lower:
            if limit + offset:
                raise NoBox(f"its mask has a lower bound other than 0 along dimension {axis}")
        if not lower and self.forms.interval(offset)[0] < 0:
            raise NoBox(
                f"it may begin before the array along dimension {axis}, and the mask does not say otherwise",
                "add `index >= 0` to the mask",
            )
        return Dim(extent, offset, pointer.strides[axis], bound, axis)


_ADVICE = {
    WRAPPED: "do not wrap indices: mask those beyond the array in the load and in the store",
    CARRIED: "add the same distance to all pointers in each iteration",
}
_COMPARISONS = {"cmp_lt": (False, False), "cmp_le": (False, True), "cmp_gt": (True, False), "cmp_ge": (True, True)}


def _is_zero(other: Value | None) -> bool:
    """Whether masked elements may be zero: they are, or they are unspecified."""
    while other is not None and isinstance(other.owner, Op) and other.owner.name in ("full", "broadcast"):
        other = other.owner.operands[0]
    if other is None:
        return True
    return isinstance(other, Constant) and Constant(0, other.type).key() == other.key()


def _size(stride: Polynomial) -> tuple[int, int]:
    """Strides from which larger ones are told: by their number of factors, then by their constant."""
    ((factors, count),) = stride.terms.items()
    return len(factors), abs(count)


class _Rest:
    """What of the common distance from the parameter belongs to no dimension yet."""

    def __init__(self, polynomial: Polynomial, forms: Forms):
        self.left, self.forms = polynomial, forms

    def take_compared(self, compared: Polynomial, stride: Polynomial) -> Polynomial:
        """The offset along a dimension, from the offset minus the bound that a mask compares: what is there of it.

        Where strides are constants the terms of several dimensions may be one; a bound is made of parameters, so a term
        that is not belongs to the offset, whatever more is there."""
        taken = ZERO
        for monomial, count in compared.terms.items():
            term = Polynomial({monomial: count})
            ((found, number),) = (term * stride).terms.items()
            there = self.left.terms.get(found, 0)
            if there == number or (there and not self.forms.parameters_only(term)):
                taken, self.left = taken + term, self.left - term * stride
        return taken

    def take_multiples(self, stride: Polynomial) -> Polynomial:
        """All terms that are multiples of the stride; of a constant one those with at most one factor, since a product
        of two is rather an index times a stride of its own."""
        taken = ZERO
        for monomial, count in list(self.left.terms.items()):
            term = Polynomial({monomial: count})
            part = term.quotient(stride)
            if part is not None and (stride.number is None or len(monomial) < 2):
                taken, self.left = taken + part, self.left - term
        return taken

    def take_products(self) -> dict[Polynomial, Polynomial]:
        """Offsets by strides: the parameters in a product, or the constant where there are none, are the stride of
        what else is in it."""
        taken: dict[Polynomial, Polynomial] = {}
        for monomial, count in list(self.left.terms.items()):
            known = tuple(f for f in monomial if self.forms.parameters_only(Polynomial.factor(f)))
            index = tuple(f for f in monomial if f not in known)
            if not index:
                continue
            stride = Polynomial({known: 1 if known else count})
            offset = Polynomial({index: count if known else 1})
            taken[stride] = taken.get(stride, ZERO) + offset
            self.left = self.left - Polynomial({monomial: count})
        return taken
