"""The variables that a generated statement may use, and the arrays, scalars and helpers that it has asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from conformance.fuzzing.choices import Choices
from conformance.fuzzing.nodes import Array, Expr, Helper, Scalar, Shape, Type, name

BLOCK_LIMITS = (16, 64, 256, 1024)  # elements of the largest block of a program


def joined(*shapes: Shape) -> Shape | None:
    """The common shape by NumPy's rule, None if there is none."""
    rank = max(map(len, shapes))
    result = []
    for axis in range(-rank, 0):
        extents = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(extents) > 1:
            return None
        result.append(extents.pop() if extents else 1)
    return tuple(result)


class Scope(Choices):
    """What has been declared so far. `assignable` are the names that a statement in a loop or branch may replace."""

    def __init__(self, draw: Callable) -> None:
        super().__init__(draw)
        self.names: dict[str, Expr] = {}
        self.assignable: set[str] | None = None
        self.arrays: list[Array] = []
        self.scalars: list[Scalar] = []
        self.helpers: list[Helper] = []
        self.places: list[tuple[Array, Expr, bool]] = []
        self.count = 0
        self.grid = self.pick(((1,), (2,), (3,), (2, 2), (1, 3), (2, 1, 3)))
        self.limit = self.pick(BLOCK_LIMITS)

    # --- names
    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def bind(self, text: str, value: Expr) -> Expr:
        """Let a name stand for a value from here on; facts of the value hold for the name."""
        variable = name(text, value.type, whole=value.whole, under=value.under, ulps=value.ulps)
        self.names[text] = variable
        return variable

    def forget_facts(self, names: Iterable[str]) -> None:
        """Names that a loop or branch may replace are of a known type only."""
        for n in names:
            self.names[n] = name(n, self.names[n].type)

    @contextmanager
    def inside(self, replaceable: set[str]) -> Iterator[None]:
        """A body of its own: what it binds ends with it, and of what was there it may replace only these."""
        outer_names, outer_assignable = dict(self.names), self.assignable
        self.assignable = replaceable
        self.forget_facts(replaceable)
        try:
            yield
        finally:
            self.names, self.assignable = outer_names, outer_assignable
            self.forget_facts(replaceable)

    def variables(self, accept: Callable[[Expr], bool] = lambda e: True) -> list[Expr]:
        """Names with a specified value, latest first."""
        return [e for e in reversed(self.names.values()) if e.under is None and not e.type.pointer and accept(e)]

    def replaceable(self, accept: Callable[[Expr], bool] = lambda e: True) -> list[Expr]:
        """Variables that may be assigned here; those of the kernel's own making, not its parameters."""
        found = self.variables(lambda e: e.attributes["name"].startswith("v") and accept(e))
        return [e for e in found if self.assignable is None or e.attributes["name"] in self.assignable]

    # --- shapes
    def shape(self) -> Shape:
        """A shape of rank 1 to 3 within the program's limit."""
        rank = self.pick((1, 1, 1, 2, 2, 3))
        left = self.limit.bit_length() - 1
        extents = []
        for _ in range(rank):
            bits = self.integer(0, left)
            left -= bits
            extents.append(1 << bits)
        return tuple(extents)

    def fits(self, *shapes: Shape) -> bool:
        """Whether the shapes broadcast to a block within the limit."""
        common = joined(*shapes)
        return common is not None and Type("i32", common).numel <= self.limit

    # --- parameters
    def array(
        self, dtype: str, region: int, role: str, contents: tuple[str, int] = ("zeros", 0), **more: object
    ) -> Array:
        prefix = {"in": "x", "inout": "m", "out": "o"}[role]
        made = Array(self.fresh(prefix), dtype, region, role, contents, **more)  # type: ignore[arg-type]
        self.arrays.append(made)
        return made

    def scalar(self, dtype: str, value: object, hint: str = "") -> Expr:
        made = Scalar(self.fresh("n"), dtype, value, hint)
        self.scalars.append(made)
        whole = abs(value) if isinstance(value, int) and abs(value) < 64 else None
        self.names[made.name] = name(made.name, Type(dtype), whole=whole)
        return self.names[made.name]
