"""Numbers with an error bound: run an oracle on them and it yields what a right implementation may compute.

A `Bounded` array holds, for each element, the exact value (in fp64) and an interval that contains every
value a correct implementation can compute under a rounding `Model`: each operation rounds once, its
operands being anything in their intervals. A fused multiply-add, another order of the terms of a sum, and a
wider intermediate format all stay inside. `BoundedNamespace(model)` is the `xp` to call an oracle with.

Two intervals are special: [-inf, inf] allows anything, NaN included; [NaN, NaN] demands a NaN. Where a result
overflows the interval reaches from the real value to infinity; the store rounds its lower end to infinity
too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracles.formats import Format, format_of, round_to, widen
from oracles.reals import REALS
from oracles.registry import OracleError
from oracles.rounding import CORRECT, FAST, PRECISE, Model, Ulp

__all__ = ["FAST", "PRECISE", "Bounded", "BoundedBool", "BoundedNamespace", "Model", "Ulp"]

# fp64 computes the ends of the intervals: one rounding for + - * /, a few units in the last place for its
# functions
SLOP = 8 * 2.0**-53


@dataclass(frozen=True)
class BoundedBool:
    """A condition: its value in exact arithmetic, and where every implementation agrees on it."""

    value: np.ndarray
    sure: np.ndarray

    __array_ufunc__ = None

    def __invert__(self) -> BoundedBool:
        return BoundedBool(~self.value, self.sure)

    def __and__(self, other: Any) -> BoundedBool:
        other = _condition(other)
        no = (self.sure & ~self.value) | (other.sure & ~other.value)
        return BoundedBool(self.value & other.value, no | (self.sure & other.sure))

    def __or__(self, other: Any) -> BoundedBool:
        return ~(~self & ~_condition(other))

    __rand__, __ror__ = __and__, __or__

    def __getitem__(self, index: Any) -> BoundedBool:
        return BoundedBool(self.value[index], self.sure[index])


def _condition(x: Any) -> BoundedBool:
    if isinstance(x, BoundedBool):
        return x
    x = np.asarray(x, bool)
    return BoundedBool(x, np.ones_like(x))


class Bounded:
    """fp64 arrays `value`, `lower`, `upper` of one shape, and the `Model` that made them. Immutable."""

    __array_ufunc__ = None
    __slots__ = ("lower", "model", "upper", "value")

    def __init__(self, model: Model, value: Any, lower: Any, upper: Any) -> None:
        value, lower, upper = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (value, lower, upper)))
        self.model, self.value, self.lower, self.upper = model, value, lower, upper

    # -------------------------------------------------------------------------------------------- facts
    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def bound(self) -> np.ndarray:
        """Largest distance from the value to an end of the interval."""
        same = (self.lower == self.value) & (self.upper == self.value)
        return np.where(same, 0.0, np.maximum(self.upper - self.value, self.value - self.lower))

    @property
    def free(self) -> np.ndarray:
        return np.isneginf(self.lower) & np.isposinf(self.upper)

    def useless(self) -> float:
        """Share of the elements whose bound would accept zero for a normal number."""
        big = np.maximum(np.abs(self.value), self.model.format.min_normal)
        return float(np.mean(self.free | (self.bound > big))) if self.value.size else 0.0

    # -------------------------------------------------------------------------------------------- shape
    def _map(self, function: Callable[[np.ndarray], np.ndarray]) -> Bounded:
        return Bounded(self.model, function(self.value), function(self.lower), function(self.upper))

    def __getitem__(self, index: Any) -> Bounded:
        return self._map(lambda x: x[index])

    def reshape(self, *shape: Any) -> Bounded:
        return self._map(lambda x: x.reshape(*shape))

    def transpose(self, *axes: Any) -> Bounded:
        return self._map(lambda x: x.transpose(*axes))

    @property
    def T(self) -> Bounded:
        return self.transpose()

    # -------------------------------------------------------------------------------------------- arithmetic
    def __neg__(self) -> Bounded:
        return Bounded(self.model, -self.value, -self.upper, -self.lower)

    def __abs__(self) -> Bounded:
        straddles = (self.lower < 0) & (self.upper > 0)
        low = np.where(straddles, 0.0, np.minimum(np.abs(self.lower), np.abs(self.upper)))
        high = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return _finish(self.model, np.abs(self.value), low, high, (self,), exact=True)

    def __add__(self, other: Any) -> Bounded:
        a, b = self, _lift(self.model, other)
        return _finish(a.model, a.value + b.value, a.lower + b.lower, a.upper + b.upper, (a, b), floor=False)

    def __sub__(self, other: Any) -> Bounded:
        return self + -_lift(self.model, other)

    def __rsub__(self, other: Any) -> Bounded:
        return _lift(self.model, other) - self

    def __mul__(self, other: Any) -> Bounded:
        a, b = self, _lift(self.model, other)
        low, high = _corners(np.multiply, a, b)
        if a is b:
            low = np.where((a.lower < 0) & (a.upper > 0), 0.0, low)
        return _finish(a.model, a.value * b.value, low, high, (a, b))

    def __truediv__(self, other: Any) -> Bounded:
        a, b = self, _lift(self.model, other)
        low, high = _corners(np.divide, a, b)
        zero = (b.lower <= 0) & (b.upper >= 0)  # intervals know no sign of zero
        low, high = np.where(zero, -np.inf, low), np.where(zero, np.inf, high)
        return _finish(a.model, a.value / b.value, low, high, (a, b), a.model.row("div"))

    def __rtruediv__(self, other: Any) -> Bounded:
        return _lift(self.model, other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __matmul__(self, other: Any) -> Bounded:
        return _matmul(self, _lift(self.model, other))

    def __rmatmul__(self, other: Any) -> Bounded:
        return _matmul(_lift(self.model, other), self)

    # -------------------------------------------------------------------------------------------- conditions
    def __lt__(self, other: Any) -> BoundedBool:
        b = _lift(self.model, other)
        nan = np.isnan(self.lower) | np.isnan(b.lower)
        return BoundedBool(self.value < b.value, (self.upper < b.lower) | (self.lower >= b.upper) | nan)

    def __le__(self, other: Any) -> BoundedBool:
        b = _lift(self.model, other)
        nan = np.isnan(self.lower) | np.isnan(b.lower)
        return BoundedBool(self.value <= b.value, (self.upper <= b.lower) | (self.lower > b.upper) | nan)

    def __gt__(self, other: Any) -> BoundedBool:
        return _lift(self.model, other) < self

    def __ge__(self, other: Any) -> BoundedBool:
        return _lift(self.model, other) <= self

    def __eq__(self, other: Any) -> BoundedBool:  # type: ignore[override]
        b = _lift(self.model, other)
        same = (self.lower == b.upper) & (self.upper == b.lower)
        apart = (self.upper < b.lower) | (self.lower > b.upper) | np.isnan(self.lower) | np.isnan(b.lower)
        return BoundedBool(self.value == b.value, same | apart)

    def __ne__(self, other: Any) -> BoundedBool:  # type: ignore[override]
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]


def _lift(model: Model, x: Any) -> Bounded:
    """A constant or an input: exact if the format holds it, else rounded once to it."""
    if isinstance(x, Bounded):
        return x
    exact = widen(x)
    stored = round_to(exact, model.fmt)
    return _flushed(Bounded(model, exact, stored, stored))


def _point(x: Bounded) -> np.ndarray:
    return x.lower == x.upper


def _corners(op: Any, a: Bounded, b: Bounded) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest of the four combinations of ends; NaN where one of them is NaN."""
    all4 = [op(p, q) for p in (a.lower, a.upper) for q in (b.lower, b.upper)]
    return np.minimum.reduce(all4), np.maximum.reduce(all4)


def _finish(
    model: Model,
    value: np.ndarray,
    low: Any,
    high: Any,
    operands: tuple[Bounded, ...],
    accuracy: Ulp = CORRECT,
    *,
    floor: bool = True,
    exact: bool = False,
    spread: Any = 0.0,
) -> Bounded:
    """The interval of one operation: [low, high] before rounding, widened by the operation's accuracy.

    floor: the result may be rounded to a multiple of the smallest subnormal (sums and differences never are).
    exact: the operation does not round. spread: |x| where the accuracy depends on it.
    """
    fmt = model.format
    nan = np.zeros(np.shape(low), bool)
    free = np.zeros(np.shape(low), bool)
    points = np.ones(np.shape(low), bool)
    for x in operands:
        nan, free, points = nan | np.isnan(x.lower), free | x.free, points & _point(x)
    undefined = np.isnan(low) | np.isnan(high)
    nan |= undefined & points  # both ends came from the same operands: 0 * inf, inf - inf, log(-1)
    free |= undefined & ~points
    if not exact:
        ulps = accuracy.base + accuracy.slope * np.asarray(spread)
        low = low - _allowance(low, fmt, ulps, floor, accuracy.absolute)
        high = high + _allowance(high, fmt, ulps, floor, accuracy.absolute)
        low, high = _overflowed(low, high, fmt)
    low, high = np.where(free, -np.inf, low), np.where(free, np.inf, high)
    low, high = np.where(nan, np.nan, low), np.where(nan, np.nan, high)
    result = Bounded(model, value, low, high)
    return result if exact else _flushed(result)


def _allowance(end: np.ndarray, fmt: Format, ulps: Any, floor: bool, absolute: float) -> np.ndarray:
    """How far beyond `end` a rounded result may lie. 2 u |x| is at least an ULP and, unlike it, monotone."""
    size = np.abs(end)
    error = np.maximum(2 * ulps * fmt.u * size, absolute)
    if floor:
        # correct rounding keeps zero and signs, so the smallest subnormal is a step only away from zero
        step = ulps * fmt.min_subnormal
        error = np.maximum(error, np.where((end == 0) & (np.asarray(ulps) <= 0.5), 0.0, step))
    return np.where(np.isfinite(end), error + SLOP * size, 0.0)


def _overflowed(low: np.ndarray, high: np.ndarray, fmt: Format) -> tuple[np.ndarray, np.ndarray]:
    """Ends beyond the format reach infinity outward only: a fused operation uses the value before overflow."""
    return np.where(low <= -fmt.overflow, -np.inf, low), np.where(high >= fmt.overflow, np.inf, high)


def _flushed(x: Bounded) -> Bounded:
    if not x.model.flush:
        return x
    tiny = x.model.format.min_normal
    low = np.where((x.lower > 0) & (x.lower < tiny), 0.0, x.lower)
    high = np.where((x.upper < 0) & (x.upper > -tiny), 0.0, x.upper)
    return Bounded(x.model, x.value, low, high)


def _matmul(a: Bounded, b: Bounded) -> Bounded:
    """Sum of products: |error| <= |A| Eb + Ea |B| + Ea Eb + (gamma(K) + u) (|A| + Ea) (|B| + Eb)."""
    value = np.matmul(a.value, b.value)
    ea, eb = a.bound, b.bound
    wide_a, wide_b = np.abs(a.value) + ea, np.abs(b.value) + eb
    inherited = np.matmul(np.abs(a.value), eb) + np.matmul(ea, wide_b)
    k, fmt = a.shape[-1], a.model.format
    rounding = (a.model.sum_error(k + 1) + SLOP) * np.matmul(wide_a, wide_b) + k * fmt.min_subnormal
    rounding = np.where(np.matmul(wide_a, wide_b) == 0, 0.0, rounding)
    error = inherited + rounding
    low, high = _overflowed(value - error, value + error, fmt)
    # partial sums may overflow where the result does not
    possible = np.matmul(wide_a, wide_b) >= fmt.overflow
    certain = ~np.isfinite(value) & (np.matmul((ea != 0).astype(float), np.ones_like(b.value)) == 0)
    certain &= np.matmul(np.ones_like(a.value), (eb != 0).astype(float)) == 0
    undefined = (possible | np.isnan(low) | np.isnan(high)) & ~certain
    low, high = np.where(undefined, -np.inf, low), np.where(undefined, np.inf, high)
    low, high = np.where(certain, value, low), np.where(certain, value, high)
    return _flushed(Bounded(a.model, value, low, high))


class BoundedNamespace:
    """The array namespace of `Bounded` numbers under one `Model`: NumPy names, erf, rsqrt, fma, cast."""

    def __init__(self, model: Model | None = None) -> None:
        self.model = model or Model()

    def asarray(self, x: Any) -> Bounded:
        """An input or constant; rounded once if the model's format does not hold it."""
        return _lift(self.model, x)

    def cast(self, x: Any, fmt: Any) -> Bounded:
        """`x` rounded to a narrower format (rounding is monotone, so the ends are rounded)."""
        x = self.asarray(x)
        if format_of(fmt).p > self.model.format.p:
            raise OracleError(f"a {self.model.fmt} model has no values of the wider format {format_of(fmt).name}")
        return Bounded(self.model, x.value, round_to(x.lower, fmt), round_to(x.upper, fmt))

    def scaled_cast(self, x: Any, fmt: Any) -> Bounded:
        """`x` stored in `fmt` as a multiple of an unknown factor of at least 1, and divided by it again.

        One rounding of `fmt` then errs by its unit roundoff, or by half its smallest subnormal, wherever `x` lies.
        """
        x, fmt = self.asarray(x), format_of(fmt)
        low = x.lower - np.maximum(fmt.u * np.abs(x.lower), fmt.min_subnormal / 2)
        high = x.upper + np.maximum(fmt.u * np.abs(x.upper), fmt.min_subnormal / 2)
        zero = (x.lower == 0) & (x.upper == 0)
        return Bounded(self.model, x.value, np.where(zero, 0.0, low), np.where(zero, 0.0, high))

    # -------------------------------------------------------------------------------------------- functions
    # whatever their accuracy, no implementation of exp, exp2 or sqrt returns a negative number
    def _rising(
        self, name: str, function: Any, x: Any, least: float = -np.inf, exact_at: float | None = None
    ) -> Bounded:
        x = self.asarray(x)
        wide = np.maximum(np.abs(x.lower), np.abs(x.upper))
        args = (function(x.value), function(x.lower), function(x.upper), (x,), self.model.row(name))
        y = _finish(self.model, *args, spread=np.where(np.isfinite(wide), wide, 0.0))
        low = np.where(y.free, y.lower, np.maximum(y.lower, least))
        low = np.where(np.isnan(y.lower), np.nan, low)
        if exact_at is None:
            return Bounded(self.model, y.value, low, y.upper)
        sharp = (x.lower == exact_at) & (x.upper == exact_at)
        return Bounded(self.model, y.value, np.where(sharp, y.value, low), np.where(sharp, y.value, y.upper))

    def exp(self, x: Any) -> Bounded:
        return self._rising("exp", np.exp, x, least=0.0, exact_at=-np.inf)

    def exp2(self, x: Any) -> Bounded:
        return self._rising("exp2", np.exp2, x, least=0.0, exact_at=-np.inf)

    def log(self, x: Any) -> Bounded:
        return self._rising("log", np.log, x)

    def log2(self, x: Any) -> Bounded:
        return self._rising("log2", np.log2, x)

    def sqrt(self, x: Any) -> Bounded:
        return self._rising("sqrt", np.sqrt, x, least=0.0)

    def erf(self, x: Any) -> Bounded:
        return self._rising("erf", REALS.erf, x)

    def tanh(self, x: Any) -> Bounded:
        return self._rising("tanh", np.tanh, x)

    def rsqrt(self, x: Any) -> Bounded:
        x = self.asarray(x)
        low, high = REALS.rsqrt(x.upper), REALS.rsqrt(x.lower)
        zero = (x.lower <= 0) & (x.upper >= 0)
        low, high = np.where(zero, -np.inf, low), np.where(zero, np.inf, high)
        return _finish(self.model, REALS.rsqrt(x.value), low, high, (x,), self.model.row("rsqrt"))

    def sin(self, x: Any) -> Bounded:
        return self._periodic("sin", np.sin, x)

    def cos(self, x: Any) -> Bounded:
        return self._periodic("cos", np.cos, x)

    def _periodic(self, name: str, function: Any, x: Any) -> Bounded:
        x = self.asarray(x)
        middle = np.where(_point(x), x.lower, x.value)
        reach = np.maximum(x.upper - middle, middle - x.lower)  # slopes of sin and cos are at most 1
        reach = np.where(_point(x), 0.0, reach)
        wild = (np.isinf(x.lower) | np.isinf(x.upper)) & ~_point(x)  # infinity among others: NaN is possible
        low = np.where(wild, -np.inf, np.maximum(function(middle) - reach, -1.0))
        high = np.where(wild, np.inf, np.minimum(function(middle) + reach, 1.0))
        return _finish(self.model, function(x.value), low, high, (x,), self.model.row(name))

    def square(self, x: Any) -> Bounded:
        x = self.asarray(x)
        return x * x

    def fma(self, x: Any, y: Any, z: Any) -> Bounded:
        """x y + z with one rounding."""
        a, b, c = self.asarray(x), self.asarray(y), self.asarray(z)
        low, high = _corners(np.multiply, a, b)
        ends = (low - SLOP * np.abs(low) + c.lower, high + SLOP * np.abs(high) + c.upper)
        return _finish(self.model, a.value * b.value + c.value, *ends, (a, b, c))

    def abs(self, x: Any) -> Bounded:
        return abs(self.asarray(x))

    def floor(self, x: Any) -> Bounded:
        x = self.asarray(x)
        ends = (np.floor(x.value), np.floor(x.lower), np.floor(x.upper))
        return _finish(self.model, *ends, (x,), exact=True)

    def ceil(self, x: Any) -> Bounded:
        return -self.floor(-self.asarray(x))

    # -------------------------------------------------------------------------------------------- selection
    def maximum(self, x: Any, y: Any) -> Bounded:
        """NaN if either is NaN."""
        a, b = self.asarray(x), self.asarray(y)
        low, high = np.maximum(a.lower, b.lower), np.maximum(a.upper, b.upper)
        return _finish(self.model, np.maximum(a.value, b.value), low, high, (a, b), exact=True)

    def minimum(self, x: Any, y: Any) -> Bounded:
        return -self.maximum(-self.asarray(x), -self.asarray(y))

    def fmax(self, x: Any, y: Any) -> Bounded:
        """The other operand if one is NaN."""
        a, b = self.asarray(x), self.asarray(y)
        low, high = np.fmax(a.lower, b.lower), np.fmax(a.upper, b.upper)
        # an operand that may be NaN leaves the other one as it is
        low = np.where(a.free, np.fmin(low, b.lower), np.where(b.free, np.fmin(low, a.lower), low))
        low, high = np.where(a.free & b.free, -np.inf, low), np.where(a.free & b.free, np.inf, high)
        return Bounded(self.model, np.fmax(a.value, b.value), low, high)

    def fmin(self, x: Any, y: Any) -> Bounded:
        return -self.fmax(-self.asarray(x), -self.asarray(y))

    def where(self, condition: Any, x: Any, y: Any) -> Bounded:
        """`x` or `y`; both, where implementations may disagree on the condition."""
        c, a, b = _condition(condition), self.asarray(x), self.asarray(y)
        value = np.where(c.value, a.value, b.value)
        low = np.where(c.sure, np.where(c.value, a.lower, b.lower), np.minimum(a.lower, b.lower))
        high = np.where(c.sure, np.where(c.value, a.upper, b.upper), np.maximum(a.upper, b.upper))
        mixed = ~c.sure & (np.isnan(low) | np.isnan(high)) & ~(np.isnan(a.lower) & np.isnan(b.lower))
        return Bounded(self.model, value, np.where(mixed, -np.inf, low), np.where(mixed, np.inf, high))

    # -------------------------------------------------------------------------------------------- reductions
    def sum(self, x: Any, axis: Any = None, keepdims: bool = False) -> Bounded:
        """In any order that meets the model's depth."""
        x, how = self.asarray(x), {"axis": axis, "keepdims": keepdims}
        value, low, high = (np.sum(part, **how) for part in (x.value, x.lower, x.upper))
        n = x.value.size // max(value.size, 1)
        g = self.model.sum_error(n) + SLOP * n
        largest = np.maximum(np.abs(x.lower), np.abs(x.upper))
        terms = np.sum(np.where(np.isfinite(largest), largest, 0.0), **how)
        # terms of one sign only shrink or grow by the relative error, even if some of them may be infinite
        positive, negative = np.all(x.lower >= 0, **how), np.all(x.upper <= 0, **how)
        low = np.where(positive, low * (1 - g), low - g * terms)
        high = np.where(negative, high * (1 - g), high + g * terms)
        if n <= 1:
            low, high = (np.sum(part, **how) for part in (x.lower, x.upper))
        nan = np.any(np.isnan(x.lower), **how)
        opposite = np.any(np.isposinf(x.upper), **how) & np.any(np.isneginf(x.lower), **how)
        sure = np.any(np.isposinf(x.lower), **how) & np.any(np.isneginf(x.upper), **how)
        mixed = ~positive & ~negative & (terms >= self.model.format.overflow)  # a partial sum may overflow
        free = (opposite & ~sure) | np.any(x.free, **how) | mixed
        low, high = _overflowed(low, high, self.model.format)
        low, high = np.where(free, -np.inf, low), np.where(free, np.inf, high)
        low, high = np.where(nan | sure, np.nan, low), np.where(nan | sure, np.nan, high)
        return _flushed(Bounded(self.model, value, low, high))

    def mean(self, x: Any, axis: Any = None, keepdims: bool = False) -> Bounded:
        total = self.sum(x, axis, keepdims)
        n = self.asarray(x).value.size // max(total.value.size, 1)
        return total * (self.asarray(1.0) / n)  # covers division by n as well

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Bounded:
        """NaN if one element is NaN, as NumPy's."""
        x, how = self.asarray(x), {"axis": axis, "keepdims": keepdims}
        value, low, high = (np.max(part, **how) for part in (x.value, x.lower, x.upper))
        free = np.any(x.free, **how) & ~np.any(np.isnan(x.lower), **how)
        return Bounded(self.model, value, np.where(free, -np.inf, low), np.where(free, np.inf, high))

    def min(self, x: Any, axis: Any = None, keepdims: bool = False) -> Bounded:
        return -self.max(-self.asarray(x), axis, keepdims)

    def matmul(self, x: Any, y: Any) -> Bounded:
        return self.asarray(x) @ self.asarray(y)

    # -------------------------------------------------------------------------------------------- shape
    def expand_dims(self, x: Any, axis: Any) -> Bounded:
        return self.asarray(x)._map(lambda part: np.expand_dims(part, axis))

    def broadcast_to(self, x: Any, shape: tuple[int, ...]) -> Bounded:
        return self.asarray(x)._map(lambda part: np.broadcast_to(part, shape))

    def swapaxes(self, x: Any, first: int, second: int) -> Bounded:
        return self.asarray(x)._map(lambda part: np.swapaxes(part, first, second))
