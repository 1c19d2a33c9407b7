"""A generated kernel as data: typed expressions, statements, arrays, scalars, and everything that a launch needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Type:
    """A scalar (shape ()) or a block of a dtype, or of pointers to it."""

    dtype: str
    shape: Shape = ()
    pointer: bool = False

    @property
    def numel(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class Expr:
    """One operation of the vocabulary on its operands, or a `name`, `literal`, `array` (its pointer), `load`, `call`.

    `ulps`: 0 where every target must give the same bits, else how far the value of an inexact function may lie from
    the true one. `whole`: the value is an integer of at most this magnitude, whatever its dtype. `under`: the mask
    outside of which the value is unspecified.
    """

    op: str
    type: Type
    operands: tuple[Expr, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    ulps: int = 0
    whole: int | None = None
    under: Expr | None = None

    def walk(self) -> Iterator[Expr]:
        """This expression and all below it."""
        yield self
        for operand in self.operands:
            yield from operand.walk()


@dataclass(frozen=True, eq=False)
class Assign:
    """`names = values`, in parallel; with `operator` the augmented form of one name, whose value is the whole sum."""

    names: tuple[str, ...]
    values: tuple[Expr, ...]
    augmented: str = ""


@dataclass(frozen=True, eq=False)
class Store:
    """`tl.store(pointer, value, mask)`."""

    pointer: Expr
    value: Expr
    mask: Expr | None = None
    options: str = ""


@dataclass(frozen=True, eq=False)
class Atomic(Store):
    """`tl.atomic_FUNCTION(pointer, value, mask)`, whose result nobody uses: in which order elements meet is open."""

    function: str = "add"


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop over `range(start, stop, step)`; `form` is its spelling: range, tl.range or tl.static_range."""

    index: str
    dtype: str
    bounds: tuple[Expr, Expr, Expr]
    body: tuple[Statement, ...]
    form: str = "range"


@dataclass(frozen=True, eq=False)
class Branch:
    """`if condition:` of a run-time scalar, with or without `else`."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, eq=False)
class While:
    """`while condition:`; the body makes the condition false in the end."""

    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class Remark:
    """A statement that changes no value: a barrier, an assertion that holds, an assumption that is true."""

    text: str


@dataclass(frozen=True, eq=False)
class Return:
    """The end of this program."""


Statement = Assign | Store | Loop | Branch | While | Return | Remark


@dataclass(frozen=True, eq=False)
class Helper:
    """A function of the language beside the kernel. `source` is its text where it is one of a fixed stock."""

    name: str
    parameters: tuple[str, ...] = ()
    results: tuple[Expr, ...] = ()
    source: str = ""


@dataclass(frozen=True, eq=False)
class Array:
    """An array argument: `region` elements for each program. `contents` seeds and chooses what it holds before the run.

    Roles: `in`, `inout`, or `out`, which the kernel writes once; `ulps` is the largest error of what is stored there.
    """

    name: str
    dtype: str
    region: int
    role: str
    contents: tuple[str, int] = ("zeros", 0)
    ulps: int = 0
    aligned: bool = False


@dataclass(frozen=True, eq=False)
class Scalar:
    """A scalar argument with its value; `hint` is part of the signature (`16`: divisible by 16)."""

    name: str
    dtype: str
    value: Any
    hint: str = ""


@dataclass(frozen=True, eq=False)
class Program:
    """One generated kernel with its launch."""

    arrays: tuple[Array, ...]
    scalars: tuple[Scalar, ...]
    grid: tuple[int, ...]
    options: Mapping[str, Any]
    helpers: tuple[Helper, ...]
    body: tuple[Statement, ...]

    @property
    def programs(self) -> int:
        return prod(self.grid)

    def statements(self) -> Iterator[Statement]:
        """Every statement, those inside loops and branches too."""
        return _inside(self.body)

    def expressions(self) -> Iterator[Expr]:
        """Every expression of every statement and helper."""
        for helper in self.helpers:
            for result in helper.results:
                yield from result.walk()
        for statement in self.statements():
            for root in _roots(statement):
                yield from root.walk()


def _inside(body: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in body:
        yield statement
        if isinstance(statement, Loop | While):
            yield from _inside(statement.body)
        elif isinstance(statement, Branch):
            yield from _inside(statement.then)
            yield from _inside(statement.otherwise)


def _roots(statement: Statement) -> tuple[Expr, ...]:
    match statement:
        case Assign():
            return statement.values
        case Store():
            return tuple(e for e in (statement.pointer, statement.value, statement.mask) if e is not None)
        case Loop():
            return statement.bounds
        case Branch() | While():
            return (statement.condition,)
    return ()


def name(text: str, type_: Type, **facts: Any) -> Expr:
    """A variable."""
    return Expr("name", type_, attributes={"name": text}, **facts)


def literal(value: bool | int | float, dtype: str) -> Expr:
    """A number in the source; `dtype` is the one that it takes beside its operand."""
    whole = (
        int(abs(value))
        if isinstance(value, int) or (value == value and abs(value) < 2**20 and value == int(value))
        else None
    )
    return Expr("literal", Type(dtype), attributes={"value": value}, whole=whole)
