"""What a generated kernel means, by walking it: one program after the other, NumPy arrays, the functions of `oracles`.

It shares nothing with the compiler: neither the frontend nor the interpreter nor their tables of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from conformance.dtypes import DTYPES
from conformance.fuzzing.nodes import Assign, Atomic, Branch, Expr, Loop, Program, Return, Statement, Store, While
from conformance.fuzzing.vocabulary import ROWS
from oracles import reduction
from oracles.casts import convert
from oracles.formats import to_format
from oracles.promotion import pair, promote, typed
from oracles.registry import lookup

ROUNDS = 1 << 12  # of one loop: far more than any generated loop makes


class Misgenerated(Exception):
    """The generated kernel does what no generated kernel may do; a mistake of the generator."""


@dataclass(frozen=True)
class Pointer:
    """Addresses as element indices into one array."""

    array: str
    index: np.ndarray


Value = Any  # an array of the value's shape, a Pointer, a Python literal, or a tuple of them


def evaluate(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays after the launch; `arrays` are not changed."""
    memory = {n: a.copy() for n, a in arrays.items()}
    with np.errstate(all="ignore"):
        for number in range(program.programs):
            _Run(program, memory, _place(number, program.grid)).whole()
    return memory


def _place(number: int, grid: Sequence[int]) -> tuple[int, ...]:
    place = []
    for extent in grid:
        place.append(number % extent)
        number //= extent
    return tuple(place)


class _Ended(Exception):
    """The program has returned."""


ATOMICS: dict[str, np.ufunc] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class _Run:
    """One program of the grid: its variables, and the memory that all programs share."""

    def __init__(self, program: Program, memory: dict[str, np.ndarray], place: tuple[int, ...]) -> None:
        self.program, self.memory, self.place = program, memory, place
        self.names: dict[str, Value] = {}
        for s in program.scalars:
            self.names[s.name] = scalar(s.value, s.dtype)

    # --- statements
    def whole(self) -> None:
        """The program from its start to its end or first return."""
        try:
            self.block(self.program.body)
        except _Ended:
            pass

    def block(self, body: Sequence[Statement]) -> None:
        for s in body:
            match s:
                case Assign():
                    self.assign(s)
                case Store():
                    self.store(s)
                case Loop():
                    self.loop(s)
                case While():
                    self.repeat(s)
                case Branch():
                    self.block(s.then if bool(self.value(s.condition)) else s.otherwise)
                case Return():
                    raise _Ended

    def assign(self, s: Assign) -> None:
        values = [self.value(v) for v in s.values]
        if len(s.values) == 1 and len(s.names) > 1:
            (values,) = values
        for n, expr, value in zip(s.names, s.values * len(s.names), values, strict=False):
            if isinstance(value, bool | int | float):
                value = scalar(value, expr.type.dtype)
            self.names[n] = value

    def loop(self, s: Loop) -> None:
        start, stop, step = (int(_number(self.value(b))) for b in s.bounds)
        rounds = range(start, stop, step)
        if len(rounds) > ROUNDS:
            raise Misgenerated(f"a loop of {len(rounds)} rounds")
        for i in rounds:
            self.names[s.index] = scalar(i, s.dtype)
            self.block(s.body)

    def repeat(self, s: While) -> None:
        for _ in range(ROUNDS):
            if not bool(self.value(s.condition)):
                return
            self.block(s.body)
        raise Misgenerated("a while loop that does not end")

    def store(self, s: Store) -> None:
        pointer = self.value(s.pointer)
        array = self.memory[pointer.array]
        value = self.value(s.value)
        value = convert(_alone(value), array.dtype)
        shape = pointer.index.shape
        mask = np.broadcast_to(True if s.mask is None else self.value(s.mask), shape)
        index = pointer.index[mask]
        self._check(pointer.array, index)
        if isinstance(s, Atomic):
            with np.errstate(over="ignore"):
                ATOMICS[s.function].at(array, index, np.broadcast_to(value, shape)[mask])
            return
        if len(np.unique(index)) != len(index):
            raise Misgenerated(f"one store writes an element of {pointer.array} twice")
        array[index] = np.broadcast_to(value, shape)[mask]

    def _check(self, name: str, index: np.ndarray) -> None:
        if index.size and not (0 <= index.min() and index.max() < self.memory[name].size):
            raise Misgenerated(f"an access outside of {name}: {index.min()} to {index.max()}")

    # --- expressions
    def value(self, e: Expr) -> Value:
        operands = [self.value(o) for o in e.operands]
        if e.op in ROWS:
            value = meaning(e.op)(operands)
        else:
            value = getattr(self, f"_{e.op}")(e, *operands)
        if isinstance(value, np.ndarray | np.generic):
            value = np.asarray(value)
            if value.shape != e.type.shape or value.dtype != DTYPES[e.type.dtype].numpy:
                raise Misgenerated(f"{e.op} gives {value.dtype}{value.shape}, declared {e.type.dtype}{e.type.shape}")
        return value

    def _name(self, e: Expr) -> Value:
        return self.names[e.attributes["name"]]

    def _array(self, e: Expr) -> Value:
        return Pointer(e.attributes["name"], np.zeros((), np.int64))

    def _literal(self, e: Expr) -> Value:
        return e.attributes["value"]

    def _program_id(self, e: Expr) -> Value:
        axis = e.attributes["axis"]
        return np.asarray(self.place[axis] if axis < len(self.place) else 0, np.int32)

    def _num_programs(self, e: Expr) -> Value:
        axis, grid = e.attributes["axis"], self.program.grid
        return np.asarray(grid[axis] if axis < len(grid) else 1, np.int32)

    def _arange(self, e: Expr) -> Value:
        start = e.attributes["start"]
        return np.arange(start, start + e.type.shape[0], dtype=np.int32)

    def _full(self, e: Expr, x: Value) -> Value:
        value = scalar(x, e.type.dtype) if isinstance(x, bool | int | float) else convert(x, e.type.dtype)
        return np.broadcast_to(value, e.type.shape)

    def _cast(self, e: Expr, x: Value) -> Value:
        return convert(x, e.type.dtype)

    def _bitcast(self, e: Expr, x: Value) -> Value:
        return np.ascontiguousarray(x).view(DTYPES[e.type.dtype].numpy).reshape(e.type.shape)

    def _where(self, e: Expr, condition: Value, x: Value, y: Value) -> Value:
        if isinstance(x, Pointer):
            return Pointer(x.array, np.where(condition, x.index, y.index))
        x, y = pair(x, y)
        fmt = promote(x, y)
        return np.where(condition, convert(x, fmt), convert(y, fmt))

    def _clamp(self, e: Expr, x: Value, low: Value, high: Value) -> Value:
        suffix = "_nan" if e.attributes["keywords"] else ""
        return meaning(f"minimum{suffix}")([meaning(f"maximum{suffix}")([x, low]), high])

    def _addptr(self, e: Expr, pointer: Value, offset: Value) -> Value:
        offset = np.asarray(offset).astype(np.int64)
        return Pointer(pointer.array, pointer.index + (-offset if e.attributes.get("sign") == "-" else offset))

    def _load(self, e: Expr, pointer: Value, mask: Value = True, other: Value = 0) -> Value:
        array = self.memory[pointer.array]
        shape = e.type.shape
        index, mask = np.broadcast_to(pointer.index, shape), np.broadcast_to(mask, shape)
        self._check(pointer.array, index[mask])
        return np.where(mask, array[np.where(mask, index, 0)], convert(_alone(other), array.dtype))

    def _expand_dims(self, e: Expr, x: Value) -> Value:
        return _moved(x, lambda a: a.reshape(e.type.shape))

    def _broadcast_to(self, e: Expr, x: Value) -> Value:
        return _moved(x, lambda a: np.broadcast_to(a, e.type.shape))

    _reshape = _ravel = _expand_dims

    def _trans(self, e: Expr, x: Value) -> Value:
        return _moved(x, lambda a: a.transpose(e.attributes["order"]))

    def _flip(self, e: Expr, x: Value) -> Value:
        return np.flip(x, e.attributes["axis"])

    def _sort(self, e: Expr, x: Value) -> Value:
        axis = e.attributes["axis"]
        return np.flip(np.sort(x, axis), axis) if e.attributes["descending"] else np.sort(x, axis)

    def _hint(self, e: Expr, x: Value) -> Value:
        return x

    def _call(self, e: Expr, *operands: Value) -> Value:
        helper, outer = e.attributes["helper"], self.names
        self.names = dict(zip(helper.parameters, operands, strict=True))
        try:
            results = tuple(self.value(r) for r in helper.results)
        finally:
            self.names = outer
        return results if len(results) > 1 else results[0]

    def _reduce(self, e: Expr, *operands: Value) -> Value:
        return REDUCTIONS[e.attributes["meaning"]](e, *operands)

    def _gather(self, e: Expr, x: Value, index: Value) -> Value:
        return np.take_along_axis(x, index.astype(np.int64), e.attributes["axis"])

    def _conditional(self, e: Expr, condition: Value, x: Value, y: Value) -> Value:
        return x if bool(condition) else y

    def _scan(self, e: Expr, *operands: Value) -> Value:
        combine = SCANS[e.attributes["meaning"]]
        found = running(e, [convert(o, t) for o, t in zip(operands, _types(e), strict=True)], combine)
        return found if len(found) > 1 else found[0]


def _types(e: Expr) -> tuple[str, ...]:
    """The dtypes of the results of an expression that has several."""
    return tuple(t.dtype for t in e.attributes.get("types", (e.type,)))


def _moved(x: Value, move: Callable[[np.ndarray], np.ndarray]) -> Value:
    return Pointer(x.array, move(x.index)) if isinstance(x, Pointer) else move(np.asarray(x))


def _number(value: Value) -> Any:
    return value.item() if isinstance(value, np.ndarray) else value


def _alone(value: Value) -> Value:
    """A literal that no operand stands beside, in the dtype that it has by itself; other values as they are."""
    return typed(value, np.False_) if isinstance(value, bool | int | float) else value


def scalar(value: Any, dtype: str) -> np.ndarray:
    """A number as a scalar of a dtype: floats rounded once, integers as they are."""
    kind = DTYPES[dtype]
    if isinstance(value, int) and not isinstance(value, bool) and kind.is_float:
        return convert(np.asarray(value, np.int64 if value < 2**63 else np.uint64), dtype)
    return to_format(float(value), dtype) if kind.is_float else np.asarray(value, kind.numpy)


# ------------------------------------------------------------------------------------- rows
@cache
def meaning(row: str) -> Callable[[Sequence[Value]], np.ndarray]:
    """The function of a row: from `oracles` by its address, or one of this module where no oracle is bit-exact."""
    address = ROWS[row].oracle
    if ":" not in address:
        return OWN[address]
    oracle = lookup(address)
    names = ("x", "y", "z")

    def apply(operands: Sequence[Value]) -> np.ndarray:
        given = dict(zip(names, operands, strict=False))
        literals = {n: v for n, v in given.items() if isinstance(v, bool | int | float)}
        arrays = {n: v for n, v in given.items() if n not in literals}
        return np.asarray(oracle.function(arrays, literals)["out"])

    return apply


def _extremum(larger: bool, propagate: bool) -> Callable[[Sequence[Value]], np.ndarray]:
    """select.extrema: NaN gives way or wins, and -0 counts as below +0."""

    def apply(operands: Sequence[Value]) -> np.ndarray:
        x, y = pair(*operands)
        fmt = promote(x, y)
        a, b = np.broadcast_arrays(convert(x, fmt), convert(y, fmt))
        first = (a > b) | ((a == b) & _below(b, a)) if larger else (a < b) | ((a == b) & _below(a, b))
        found = np.where(first, a, b)
        if not fmt.is_float:
            return found
        nan_a, nan_b = a != a, b != b
        if propagate:
            return np.where(nan_a, a, np.where(nan_b, b, found))
        return np.where(nan_a, b, np.where(nan_b, a, found))

    return apply


def _below(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of equal numbers: x is -0 and y is +0."""
    if x.dtype.kind in "biu":
        return np.zeros(x.shape, bool)
    return np.signbit(x.astype(np.float64)) & ~np.signbit(y.astype(np.float64))


def _negated(operands: Sequence[Value]) -> np.ndarray:
    return np.negative(operands[0])


OWN: dict[str, Callable[[Sequence[Value]], np.ndarray]] = {
    "maximum": _extremum(True, False),
    "minimum": _extremum(False, False),
    "maximum_nan": _extremum(True, True),
    "minimum_nan": _extremum(False, True),
    "neg": _negated,
}


# ------------------------------------------------------------------------------------- reductions
def _params(e: Expr) -> dict[str, Any]:
    return {"axis": e.attributes["axis"], "keep_dims": e.attributes.get("keywords", {}).get("keep_dims", False)}


def _by_oracle(oracle: Any) -> Callable[..., Value]:
    def apply(e: Expr, x: np.ndarray) -> np.ndarray:
        return np.asarray(oracle.function({"x": x}, _params(e))["out"]).astype(DTYPES[e.type.dtype].numpy)

    return apply


def _extreme(function: str) -> Callable[..., Value]:
    """max and min: by pairs, since the sign of a zero counts; the dtype of the result is in the expression."""

    def apply(e: Expr, x: np.ndarray) -> np.ndarray:
        return _pairwise(e, convert(x, e.type.dtype), lambda a, b: OWN[function]([a, b]))

    return apply


def _pairwise(e: Expr, x: np.ndarray, combine: Callable[[Any, Any], Any]) -> np.ndarray:
    """The elements along the axis combined one after the other."""
    rows = x.reshape(-1) if e.attributes["axis"] is None else np.moveaxis(x, e.attributes["axis"], 0)
    total = rows[0]
    for row in rows[1:]:
        total = combine(total, row)
    return np.asarray(total).reshape(e.type.shape)


def _custom(function: Callable[[Any, Any], Any]) -> Callable[..., Value]:
    return lambda e, x: _pairwise(e, x, function)


def _with_places(oracle: Any) -> Callable[..., Value]:
    def apply(e: Expr, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = np.asarray(oracle.function({"x": x}, {"axis": e.attributes["axis"]})["out"]).astype(np.int32)
        value = np.take_along_axis(x, np.expand_dims(place, e.attributes["axis"]), e.attributes["axis"])
        shape = e.type.shape
        return value.reshape(shape), place.reshape(shape)

    return apply


REDUCTIONS: dict[str, Callable[..., Value]] = {
    "sum": _by_oracle(reduction.sum_),
    "xor_sum": _by_oracle(reduction.xor_sum),
    "reduce_or": _by_oracle(reduction.reduce_or),
    "argmax": _by_oracle(reduction.argmax),
    "argmin": _by_oracle(reduction.argmin),
    "max": _extreme("maximum"),
    "min": _extreme("minimum"),
    "max_places": _with_places(reduction.argmax),
    "min_places": _with_places(reduction.argmin),
    "product": _custom(np.multiply),
    "and": _custom(np.bitwise_and),
    "exclusive": _custom(np.bitwise_xor),
}


# ------------------------------------------------------------------------------------- scans
def running(e: Expr, operands: Sequence[np.ndarray], combine: Callable[..., tuple[Any, ...]]) -> tuple[np.ndarray, ...]:
    """The running combinations of one or several blocks along an axis, what was met before on the left."""
    axis, step = e.attributes["axis"], -1 if e.attributes["keywords"].get("reverse") else 1
    lines = [np.moveaxis(o, axis, 0)[::step] for o in operands]
    met = [tuple(line[0] for line in lines)]
    for i in range(1, len(lines[0])):
        met.append(tuple(combine(*met[-1], *(line[i] for line in lines))))
    ordered = [np.stack([m[k] for m in met])[::step] for k in range(len(lines))]
    return tuple(np.ascontiguousarray(np.moveaxis(o, 0, axis)) for o in ordered)


SCANS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "cumsum": lambda a, b: (np.add(a, b),),
    "cumprod": lambda a, b: (np.multiply(a, b),),
    "latest": lambda a, b: (b,),
    "affine": lambda a, b, c, d: (np.multiply(a, c), np.add(np.multiply(b, c), d)),
}
