"""The named input sets of `inputs:`, each deterministic: its random bits come from sha256 of the instance id.

A set is written `name` or `name(arguments)`; arguments are expressions over the case's parameters, the special
values of the array's dtype (`nan`, `inf`, `min_sub`, `max_sub`, `min_norm`, `max`, `min`, `eps`) or pattern words.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from conformance import expressions
from conformance.dtypes import DTYPES, DType
from oracles.formats import to_format

VERSION = 1  # raise it when any set's values change: every input changes with it
PATTERNS = ("sweep", "all", "none", "alternating", "first_half", "single", "prefix", "random")
VALUES = ("nan", "inf", "min_sub", "max_sub", "min_norm", "max", "min", "eps")


class InputError(ValueError):
    """An input set that does not exist or does not fit the array's dtype."""


@dataclass(frozen=True)
class Target:
    """The array to fill: `index` is its place among the input arrays (pairs of sets differ by it)."""

    dtype: DType
    shape: tuple[int, ...]
    index: int
    bits: np.random.Philox

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def raw(self, per_element: int = 1) -> np.ndarray:
        return self.bits.random_raw(self.size * per_element).reshape((*self.shape, per_element))

    def uniform(self) -> np.ndarray:
        """float64 in [0, 1)."""
        return (self.raw()[..., 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, lo: int, hi: int) -> np.ndarray:
        """int64 in [lo, hi]."""
        span = np.uint64(hi - lo + 1)
        return (self.raw()[..., 0] % span).astype(np.int64) + lo

    def normal(self) -> np.ndarray:
        """Nearly normal, mean 0, deviation 1: the sum of twelve uniforms less six (the same bits on every machine)."""
        return ((self.raw(12) >> np.uint64(11)).astype(np.float64) * 2.0**-53).sum(axis=-1) - 6.0

    def last_index(self) -> np.ndarray:
        """Index along the last axis, broadcast to the shape."""
        return np.broadcast_to(np.arange(self.shape[-1] if self.shape else 1), self.shape)

    def row_index(self) -> np.ndarray:
        """Number of the row (all axes but the last), broadcast to the shape."""
        n = self.shape[-1] if self.shape else 1
        return (np.arange(self.size) // max(1, n)).reshape(self.shape)

    def flat_index(self) -> np.ndarray:
        return np.arange(self.size).reshape(self.shape)


def fill(
    text: str, dtype: str, shape: tuple[int, ...], *, instance: str, array: str, index: int, params: Mapping[str, Any]
) -> np.ndarray:
    """The contents of one input array.

    Arguments: set text, dtype name, shape, instance id and array name (the seed), the array's index among the inputs.
    Returns a C-contiguous array of that dtype and shape. Raises InputError when the set cannot be had in the dtype.
    """
    name, args = _call(text)
    kind = DTYPES[dtype]
    digest = hashlib.sha256(f"{VERSION}|{instance}|{array}".encode()).digest()
    target = Target(kind, shape, index, np.random.Philox(key=int.from_bytes(digest[:16], "little")))
    env = {**{w: w for w in PATTERNS}, **special_values(kind), **params}
    values = [expressions.evaluate(a, env) for a in args]
    result = SETS[name](target, *values)
    if result.dtype != kind.numpy:
        with np.errstate(over="ignore", invalid="ignore"):
            result = to_format(result, dtype) if kind.is_float else result.astype(kind.numpy)
    return np.ascontiguousarray(np.broadcast_to(result, shape))


def check_inputs(text: str) -> set[str]:
    """Names of parameters a set uses; raises InputError when it is not a set."""
    name, args = _call(text)
    try:
        inspect.signature(SETS[name]).bind(None, *args)
    except TypeError as e:
        raise InputError(f"in {text!r}: {e}") from None
    try:
        used = {n for a in args for n in expressions.names(a)}
    except expressions.ExpressionError as e:
        raise InputError(f"in {text!r}: {e.message}") from None
    return used - set(PATTERNS) - set(VALUES)


def _call(text: str) -> tuple[str, list[str]]:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise InputError(f"{text!r} is not an input set; write name or name(arguments)") from None
    name = node.func if isinstance(node, ast.Call) else node
    if not isinstance(name, ast.Name) or (isinstance(node, ast.Call) and node.keywords):
        raise InputError(f"{text!r} is not an input set; write name or name(arguments)")
    if name.id not in SETS:
        raise InputError(f"unknown input set {name.id!r}; known: {', '.join(sorted(SETS))}")
    return name.id, [ast.unparse(a) for a in node.args] if isinstance(node, ast.Call) else []


def special_values(kind: DType) -> dict[str, Any]:
    """The words usable in `special(...)` for one dtype."""
    if not kind.is_float:
        if kind.name == "bool":
            return {"min": 0, "max": 1}
        limits = np.iinfo(kind.numpy)
        return {"min": int(limits.min), "max": int(limits.max)}
    info = ml_dtypes.finfo(kind.numpy)
    normal, sub = float(info.smallest_normal), float(info.smallest_subnormal)
    return {
        "nan": math.nan,
        "inf": math.inf,
        "max": float(info.max),
        "min": float(info.min),
        "eps": float(info.eps),
        "min_norm": normal,
        "min_sub": sub,
        "max_sub": normal - sub,
    }


SETS: dict[str, Callable[..., np.ndarray]] = {}


def input_set(fn: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    SETS[fn.__name__.removesuffix("_")] = fn
    return fn


@input_set
def ints(t: Target, lo: int, hi: int) -> np.ndarray:
    """Integers in [lo, hi], exact in the dtype: sums of them are exact in every order while they stay below 2^p."""
    if t.dtype.is_float and max(abs(lo), abs(hi)) > 2**t.dtype.precision:
        raise InputError(f"ints({lo}, {hi}): not every integer of the range is exact in {t.dtype.name}")
    if not t.dtype.is_float:
        limits = special_values(t.dtype)
        if lo < limits["min"] or hi > limits["max"]:
            lo, hi = max(lo, limits["min"]), min(hi, limits["max"])
    if lo > hi:
        raise InputError(f"ints: no integer of the range fits into {t.dtype.name}")
    return t.integers(lo, hi)


@input_set
def onehot(t: Target, position: Any = "sweep", value: float = 3) -> np.ndarray:
    """One non-zero (3) in each row; `sweep`: row r has it at r modulo the row length."""
    n = t.shape[-1]
    at = t.row_index() % max(1, n) if position == "sweep" else np.full(t.shape, int(position))
    return np.where(t.last_index() == at, float(value), 0.0)


@input_set
def const(t: Target, value: float) -> np.ndarray:
    """The same value everywhere."""
    return np.full(t.shape, value)


@input_set
def arange(t: Target, start: float = 0, step: float = 1) -> np.ndarray:
    """start, start + step, ... in memory order."""
    return start + step * t.flat_index()


@input_set
def values(t: Target, *listed: Any) -> np.ndarray:
    """The listed values in memory order, repeated."""
    table = np.array(listed, dtype=np.float64 if t.dtype.is_float else np.int64 if min(listed) < 0 else np.uint64)
    return table[t.flat_index() % len(listed)]


@input_set
def bits(t: Target, *patterns: int) -> np.ndarray:
    """The listed bit patterns in memory order, repeated."""
    table = np.array(patterns, dtype=np.uint64).astype(f"u{t.dtype.numpy.itemsize}")
    return table[t.flat_index() % len(patterns)].view(t.dtype.numpy)


@input_set
def special(t: Target, *listed: Any) -> np.ndarray:
    """Special values; the k-th input array repeats each one len^k times, so len^2 elements hold every pair."""
    every: list[Any] = list(listed)
    if not every:
        v = special_values(t.dtype)
        every = (
            [
                0.0,
                -0.0,
                1.0,
                -1.0,
                v["nan"],
                v["inf"],
                -v["inf"],
                v["max"],
                v["min"],
                v["min_norm"],
                -v["min_norm"],
                v["min_sub"],
                -v["min_sub"],
                v["max_sub"],
                v["eps"],
                1.5,
            ]
            if t.dtype.is_float
            else [v["min"], v["max"], 0, 1] + ([v["min"] + 1, -1] if v["min"] < 0 else [v["max"] - 1])
        )
    table = np.array(every, dtype=np.float64) if t.dtype.is_float else np.array(every, dtype=object)
    picked = table[(t.flat_index() // len(every) ** t.index) % len(every)]
    return picked if t.dtype.is_float else picked.astype(t.dtype.numpy)


@input_set
def all16(t: Target) -> np.ndarray:
    """Every bit pattern of a 16- or 8-bit dtype in order; each further array turns slower, so pairs meet."""
    width = 8 * t.dtype.numpy.itemsize
    if width > 16:
        raise InputError(f"all16 is for 8- and 16-bit dtypes, not {t.dtype.name}")
    if t.dtype.name == "bool":
        width = 1
    pattern = (t.flat_index() // (1 << width) ** t.index) % (1 << width)
    return pattern.astype(f"u{t.dtype.numpy.itemsize}").view(t.dtype.numpy)


@input_set
def random(t: Target) -> np.ndarray:
    """Nearly normal floats, or integers with every bit random."""
    if t.dtype.is_float:
        return t.normal()
    if t.dtype.name == "bool":
        return t.integers(0, 1).astype(bool)
    return t.raw()[..., 0].astype(f"u{t.dtype.numpy.itemsize}").view(t.dtype.numpy)


@input_set
def uniform(t: Target, lo: float, hi: float) -> np.ndarray:
    """Uniform in [lo, hi)."""
    if not lo <= hi:
        raise InputError(f"uniform({lo}, {hi}): the first limit is above the second one")
    return lo + (hi - lo) * t.uniform()


@input_set
def positive(t: Target) -> np.ndarray:
    """Uniform in [0.5, 1): no cancellation, so a biased accumulator shows."""
    return 0.5 + 0.5 * t.uniform()


@input_set
def zeros_products(t: Target) -> np.ndarray:
    """Zeros alternate with large values, at even places in even arrays and odd in odd ones: every product is 0."""
    large = (1.0 + t.uniform()) * 2.0 ** (t.dtype.precision // 2 or 4)
    return np.where(t.last_index() % 2 == t.index % 2, 0.0, large)


@input_set
def big_then_small(t: Target) -> np.ndarray:
    """Rows of one large value followed by equal small ones that a narrow accumulator loses."""
    half = t.dtype.precision // 2
    return np.where(t.last_index() == 0, 2.0**half, 1.5 * 2.0**-half)


@input_set
def varying(t: Target) -> np.ndarray:
    """Magnitudes spread over 2^-8 to 2^8 with random signs (2^-4 to 2^4 for f16)."""
    reach = 4 if t.dtype.name == "f16" else 8
    raw = t.raw(2)
    exponent = (raw[..., 0] % np.uint64(2 * reach + 1)).astype(np.int64) - reach
    sign = 1.0 - 2.0 * (raw[..., 1] & np.uint64(1)).astype(np.float64)
    return (
        sign
        * np.exp2(exponent.astype(np.float64))
        * (1.0 + (raw[..., 1] >> np.uint64(12)).astype(np.float64) * 2.0**-52)
    )


@input_set
def range_(t: Target, bound: float | None = None) -> np.ndarray:
    """Uniform in [-B, B]; B is left out for the largest whose square, times 4096, is finite (at most 2^60)."""
    top = min(math.sqrt(special_values(t.dtype)["max"] / 4096), 2.0**60)
    return (2.0 * t.uniform() - 1.0) * (top if bound is None else bound)


@input_set
def small_out(t: Target) -> np.ndarray:
    """Neighbours of opposite sign that nearly cancel: results are small beside their terms."""
    pair = t.last_index() // 2
    base = 1.0 + ((pair * 37 + t.row_index() * 11) % 64) / 64.0
    sign = np.where(t.last_index() % 2 == 0, 1.0, -1.0)
    nudge = np.where(t.integers(0, 7) == 0, 2.0 ** (1 - t.dtype.precision), 0.0)
    return sign * base * (1.0 + nudge)


@input_set
def indices(t: Target, n: int) -> np.ndarray:
    """Random places in [0, n)."""
    return t.integers(0, n - 1)


@input_set
def permutation(t: Target) -> np.ndarray:
    """0 .. size-1 in a random order: a scatter through it writes each place once."""
    return np.argsort(t.raw()[..., 0].ravel(), kind="stable").reshape(t.shape)


@input_set
def mask(t: Target, pattern: str = "random", k: int | None = None) -> np.ndarray:
    """Booleans along the last axis: all, none, alternating, first_half, prefix k, single k, random."""
    i, n = t.last_index(), t.shape[-1]
    table: dict[str, Callable[[], np.ndarray]] = {
        "all": lambda: i >= 0,
        "none": lambda: i < 0,
        "alternating": lambda: i % 2 == 0,
        "first_half": lambda: i < n // 2,
        "prefix": lambda: i < (n // 2 if k is None else k),
        "single": lambda: i == (n - 1 if k is None else k),
        "random": lambda: t.integers(0, 1) == 1,
    }
    if pattern not in table:
        raise InputError(f"unknown mask pattern {pattern!r}; known: {', '.join(table)}")
    return table[pattern]()
