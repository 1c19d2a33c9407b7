"""Blocks of integers and pointers as base + sum over dimensions of index times stride, with polynomials of scalars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from refcompiler.analysis.polynomials import INFINITE, Interval, Polynomial
from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.scf import For
from refcompiler.ir.builder import Builder
from refcompiler.ir.core import Constant, Func, Op, Value
from refcompiler.ir.types import DType, PointerType, element_of, shape_of

ZERO, ONE = Polynomial.constant(0), Polynomial.constant(1)
WRAPPED = "its indices are wrapped by `%`, so it is no box"
CARRIED = "the loop does not advance it by one distance for all elements"


class NoForm(Exception):
    """A value is not of the form; the message says why, as a sentence about it."""


@dataclass(frozen=True)
class Form:
    """The element with indices i is ``root`` + ``scalar`` + sum of ``strides[d] * i[d]``, in elements for pointers.

    ``root`` is a pointer parameter, or None for integers. The arithmetic is exact, not modulo the width of a type.
    """

    scalar: Polynomial
    strides: tuple[Polynomial, ...] = ()
    root: Value | None = None

    def spread(self, source: tuple[int, ...], shape: tuple[int, ...]) -> Form:
        """The form of a block of shape ``source`` broadcast to ``shape``: nothing varies along an axis that grows."""
        new = len(shape) - len(source)
        kept = (ZERO if n == 1 < shape[new + axis] else self.strides[axis] for axis, n in enumerate(source))
        return Form(self.scalar, ((ZERO,) * new + tuple(kept)), self.root)

    def times(self, factor: Polynomial) -> Form:
        return Form(self.scalar * factor, tuple(s * factor for s in self.strides))


@dataclass(frozen=True)
class Iteration:
    """How many iterations of a loop have ended: what counters and carried values are polynomials of."""

    loop: For


class Forms:
    """The forms of the values of a function at the tile level, through loops that advance values by invariant steps."""

    def __init__(self, func: Func):
        self.func, self.ranges = func, Ranges(func)
        self.factors: list[Value | Iteration] = []
        self.numbers: dict[Value | Iteration, int] = {}
        self.known: dict[Value, Form | NoForm] = {}
        self.roots: dict[Value, Form] = {}  # carried values whose step is being found
        self.inside: dict[For, set[Value]] = {}
        self.intervals: dict[Value, Interval] = {}

    def of(self, value: Value) -> Form:
        """The form of a block or scalar of integers or pointers. Raises NoForm."""
        if isinstance(value, Constant):
            if value.type.is_float:
                raise NoForm("it is a float")
            return Form(Polynomial.constant(int(value.value)))
        if value in self.roots:
            return self.roots[value]
        found = self.known.get(value)
        if found is None:
            try:
                found = self._of(value)
            except NoForm as reason:
                found = reason
            self.known[value] = found
        if isinstance(found, NoForm):
            raise found
        return found

    def factor(self, key: Value | Iteration) -> Polynomial:
        """A value that is opaque, as a polynomial."""
        if key not in self.numbers:
            self.numbers[key] = len(self.factors)
            self.factors.append(key)
        return Polynomial.factor(self.numbers[key])

    def _of(self, value: Value) -> Form:
        """A scalar that has no better form is opaque."""
        known = self.ranges.constant(value) if isinstance(value.type, DType) else None
        if known is not None:
            return Form(Polynomial.constant(known))
        try:
            if isinstance(value.owner, Op):
                return self._of_op(value.owner, value)
            return self._of_argument(value)
        except NoForm:
            if isinstance(value.type, DType) and value.type.is_int:
                return Form(self.factor(value))
            raise

    def _of_op(self, op: Op, value: Value) -> Form:
        rule = _RULES.get(op.name)
        if rule is None:
            raise NoForm(_REASONS.get(op.name, f"it comes from `{op.name}`"))
        return rule(self, op)

    def spread(self, value: Value, shape: tuple[int, ...]) -> Form:
        """The form of a value broadcast to ``shape``."""
        return self.of(value).spread(shape_of(value.type), shape)

    # --- what loops carry
    def _of_argument(self, value: Value) -> Form:
        block = value.owner
        if block is self.func.body:
            return self._of_parameter(value)
        loop = block.owner
        if not isinstance(loop, For):
            raise NoForm("a loop without a count carries it")
        if value is block.args[0]:
            return Form(self.of(loop.start).scalar + self.of(loop.step).scalar * self.factor(Iteration(loop)))
        at = block.args.index(value) - loop.leading_args
        init = self.of(loop.inits[at])
        step = self._step(value, loop, block.terminator.operands[at])
        return Form(init.scalar + step * self.factor(Iteration(loop)), init.strides, init.root)

    def _of_parameter(self, value: Value) -> Form:
        if isinstance(value.type, PointerType):
            return Form(ZERO, (), value)
        raise NoForm("it is a parameter")

    def _step(self, value: Value, loop: For, given: Value) -> Polynomial:
        """What each iteration adds to a carried value. Raises NoForm where that is not one invariant number."""
        outer, self.known = self.known, {}
        self.roots[value] = Form(ZERO, (ZERO,) * len(shape_of(value.type)), value)
        try:
            form = self.of(given)
        finally:
            del self.roots[value]
            self.known = outer
        if form.root is not value or any(form.strides):
            raise NoForm(CARRIED)
        if not self.invariant(form.scalar, loop):
            raise NoForm("the distance by which the loop advances it changes")
        return form.scalar

    def invariant(self, polynomial: Polynomial, loop: For) -> bool:
        """Whether a polynomial has one value in all iterations of a loop."""
        if loop not in self.inside:
            ops = list(loop.body.walk())
            args = [a for region in (loop.body, *(r for o in ops for r in o.regions)) for a in region.args]
            self.inside[loop] = {*args, *(r for o in ops for r in o.results)}
        for number in polynomial.factors:
            factor = self.factors[number]
            if isinstance(factor, Iteration):
                if factor.loop is loop or factor.loop.body.args[0] in self.inside[loop]:
                    return False
            elif factor in self.inside[loop]:
                return False
        return True

    # --- signs
    def interval(self, polynomial: Polynomial) -> Interval:
        """Bounds of a polynomial, by exact arithmetic; quotients and remainders of what is not negative are not."""
        return polynomial.interval(lambda number: self._interval(self.factors[number]))

    def _interval(self, factor: Value | Iteration) -> Interval:
        if isinstance(factor, Iteration):
            return 0, INFINITE
        if factor not in self.intervals:
            self.intervals[factor] = self._interval_of_op(factor)
        return self.intervals[factor]

    def _interval_of_op(self, value: Value) -> Interval:
        low, high = self.ranges.of(value)
        op = value.owner
        if not isinstance(op, Op) or op.name not in ("div", "rem", "minimum", "maximum"):
            return low, high
        x, y = (self.interval(self.of(o).scalar) for o in op.operands)
        if op.name in ("div", "rem"):
            return (max(low, 0), min(high, x[1])) if x[0] >= 0 else (low, high)
        pick = min if op.name == "minimum" else max
        return max(low, pick(x[0], y[0])), min(high, pick(x[1], y[1]))

    # --- back to values
    def parameters_only(self, polynomial: Polynomial) -> bool:
        """Whether it is made of constants and parameters of the kernel."""
        return all(self.factors[n] in self.func.params for n in polynomial.factors)

    def value(self, polynomial: Polynomial, dtype: DType, build: Builder) -> Value:
        """Emit what computes a polynomial, in ``dtype``."""
        total: Value | None = None
        for monomial, count in polynomial.terms.items():
            term: Value | None = None
            for number in monomial:
                factor, count = self._factor_value(self.factors[number], count, build)
                if element_of(factor.type) is not dtype:
                    factor = build.value("cast", factor, types=[dtype])
                term = factor if term is None else build.value("mul", term, factor)
            if term is None:
                term = Constant(count, dtype)
            elif count != 1:
                term = build.value("mul", term, Constant(count, dtype))
            total = term if total is None else build.value("add", total, term)
        return Constant(0, dtype) if total is None else total

    def _factor_value(self, factor: Value | Iteration, count: int, build: Builder) -> tuple[Value, int]:
        """A value for a factor, and what remains of the number that it is multiplied by: the counter of a loop stands
        for some of it."""
        if isinstance(factor, Value):
            return factor, count
        loop = factor.loop
        counter, start, step = loop.body.args[0], loop.start, loop.step
        if not (isinstance(start, Constant) and start.value == 0):
            counter = build.value("sub", counter, start)
        known = int(step.value) if isinstance(step, Constant) else 0
        if known and count % known == 0:
            return counter, count // known
        return build.value("div", counter, step), count


# --- ops
def _exact(forms: Forms, op: Op) -> None:
    """Signed arithmetic of 32 bits and more counts as exact: an address that is reached by wrapping is not promised."""
    dtype = element_of(op.results[0].type)
    if (dtype.kind != "int" or dtype.bits < 32) and op not in forms.ranges.exact:
        raise NoForm(f"arithmetic in {dtype} may wrap")


def _both(forms: Forms, op: Op) -> tuple[Form, Form]:
    _exact(forms, op)
    shape = shape_of(op.results[0].type)
    x, y = (forms.spread(o, shape) for o in op.operands)
    return x, y


def _sum(x: Form, y: Form) -> Form:
    if x.root is not None and y.root is not None:
        raise NoForm("two carried values are added")
    strides = tuple(a + b for a, b in zip(x.strides, y.strides, strict=True))
    return Form(x.scalar + y.scalar, strides, x.root or y.root)


def _without_root(form: Form) -> Form:
    if form.root is not None:
        raise NoForm(CARRIED)
    return form


def _add(forms: Forms, op: Op) -> Form:
    return _sum(*_both(forms, op))


def _sub(forms: Forms, op: Op) -> Form:
    x, y = _both(forms, op)
    return _sum(x, _without_root(y).times(Polynomial.constant(-1)))


def _mul(forms: Forms, op: Op) -> Form:
    x, y = map(_without_root, _both(forms, op))
    if any(x.strides) and any(y.strides):
        raise NoForm("two indices are multiplied")
    return x.times(y.scalar) if any(x.strides) or not any(y.strides) else y.times(x.scalar)


def _shl(forms: Forms, op: Op) -> Form:
    x, y = _both(forms, op)
    if y.scalar.number is None or any(y.strides) or not 0 <= y.scalar.number < 63:
        raise NoForm("it is shifted by what is not constant")
    return _without_root(x).times(Polynomial.constant(1 << y.scalar.number))


def _neg(forms: Forms, op: Op) -> Form:
    _exact(forms, op)
    return _without_root(forms.of(op.operands[0])).times(Polynomial.constant(-1))


def _cast(forms: Forms, op: Op) -> Form:
    source, target = element_of(op.x.type), element_of(op.result.type)
    if not (source.is_int and target.is_int):
        raise NoForm(f"it is a {source} made an integer" if target.is_int else "it is no integer")
    low, high = forms.ranges.of(op.x)
    if low < target.min_int or high > target.max_int:
        raise NoForm(f"the cast from {source} to {target} may change it")
    return forms.of(op.x)


def _rem(forms: Forms, op: Op) -> Form:
    x, y = forms.ranges.of(op.x), forms.ranges.of(op.y)
    if x[0] >= 0 and x[1] < y[0]:
        return forms.spread(op.x, shape_of(op.result.type))
    raise NoForm(WRAPPED)


def _addptr(forms: Forms, op: Op) -> Form:
    shape = shape_of(op.result.type)
    return _sum(forms.spread(op.pointer, shape), _without_root(forms.spread(op.offset, shape)))


def _arange(forms: Forms, op: Op) -> Form:
    return Form(Polynomial.constant(op.start), (ONE,))


def _same(forms: Forms, op: Op) -> Form:
    return forms.spread(op.operands[0], shape_of(op.results[0].type))


def _expand_dims(forms: Forms, op: Op) -> Form:
    form = forms.of(op.x)
    return Form(form.scalar, (*form.strides[: op.axis], ZERO, *form.strides[op.axis :]), form.root)


def _trans(forms: Forms, op: Op) -> Form:
    form = forms.of(op.x)
    return Form(form.scalar, tuple(form.strides[i] for i in op.order), form.root)


_RULES: dict[str, Callable[[Forms, Op], Form]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "shl": _shl,
    "neg": _neg,
    "cast": _cast,
    "rem": _rem,
    "addptr": _addptr,
    "arange": _arange,
    "full": _same,
    "broadcast": _same,
    "hint": _same,
    "expand_dims": _expand_dims,
    "trans": _trans,
}
_REASONS = {
    "load": "its indices are loaded from memory",
    "select": "its indices are chosen by a condition",
    "div": "its indices are divided",
    "for": "a loop that has ended computed it",
    "if": "a branch computed it",
    "while": "a loop that has ended computed it",
    "reshape": "it is reshaped",
    "bitcast": "its pointers were made by a cast",
}
