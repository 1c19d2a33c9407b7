"""Structured control flow at every level: counted loops, branches, loops on a condition, and the ends of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from refcompiler.ir.core import Block, Op, Value, literal_dtype
from refcompiler.ir.opdef import operand
from refcompiler.ir.types import BOOL, DType, Type, element_of


@dataclass(frozen=True)
class Slot:
    """One position in which an op carries a value: what it may be read as, and what may be put in.

    ``values`` are region arguments and the result, of one type; ``sources`` are what the op starts from and what the
    regions give back.
    """

    values: tuple[Value, ...]
    sources: tuple[Value, ...]


class Terminator(Op):
    """The end of a region: after ``leading`` operands of its own, one value for each slot of the op around it."""

    leading: ClassVar[int] = 0

    @property
    def carried(self) -> list[Value]:
        return self.operands[self.leading :]


class Structured(Op):
    """An op whose regions carry values: after ``leading`` operands of its own come the initial values, after
    ``leading_args`` arguments of its own the carried ones of each region that has any."""

    leading: ClassVar[int] = 0
    leading_args: ClassVar[int] = 0
    starts: ClassVar[bool] = True  # has initial values

    def slots(self) -> list[Slot]:
        """The carried positions, one for each result."""
        found = []
        for i, result in enumerate(self.results):
            args = [r.args[self.leading_args + i] for r in self.regions if r.args]
            sources = [r.terminator.carried[i] for r in reversed(self.regions)]
            if self.starts:
                sources.append(self.operands[self.leading + i])
            found.append(Slot((*args, result), tuple(sources)))
        return found

    def controls(self) -> list[Value]:
        """What decides which region runs and how often."""
        return [
            *self.operands[: self.leading],
            *(v for r in self.regions for v in r.terminator.operands[: r.terminator.leading]),
        ]

    def keep(self, indices: Sequence[int]) -> None:
        """Drop all slots but those at ``indices``."""

        def kept(values: list, leading: int) -> list:
            return [*values[:leading], *(values[leading + i] for i in indices)]

        if self.starts:
            self.operands = kept(self.operands, self.leading)
        self.results = kept(self.results, 0)
        for region in self.regions:
            if region.args:
                region.args = kept(region.args, self.leading_args)
            end = region.terminator
            end.operands = kept(end.operands, end.leading)


class Yield(Terminator, name="yield", terminator=True):
    """Ends a region with the values it gives back, all taken at once.  Spec: control.for_range"""

    values = operand(variadic=True)


class Condition(Terminator, name="condition", terminator=True):
    """Ends the first region of ``while``: where ``condition`` is true the loop goes on with ``values``, else they are
    its results.  Spec: control.while"""

    condition = operand()
    values = operand(variadic=True)
    leading = 1

    def verify(self, require) -> None:
        require(
            self.condition.type is BOOL,
            "control.while#E1",
            lambda: f"a loop goes on by a bool scalar, got {self.condition.type}",
        )


class For(Structured, name="for"):
    """Counts an index from ``start`` up to, not including, ``stop``; carries values from one iteration to the next.

    The region's arguments are the index and the carried values; its yield gives the next carried values; the results
    are the last ones. A positive step counts up, a negative one down.  Spec: control.for_range
    """

    start = operand()
    stop = operand()
    step = operand()
    inits = operand(variadic=True)
    leading = 3
    leading_args = 1

    body: Block

    def infer(self) -> list[Type]:
        return [v.type for v in self.inits]

    def yield_types(self) -> list[Type]:
        return [v.type for v in self.inits]

    def verify(self, require) -> None:
        bounds = [self.start.type, self.stop.type, self.step.type]
        integer = all(isinstance(t, DType) and t.is_int and t == bounds[0] for t in bounds)
        require(
            integer,
            "control.for_range#E1",
            lambda: f"range needs integer scalars of one type, got {', '.join(map(str, bounds))}",
        )
        args = [a.type for a in self.body.args]
        require(
            args == [bounds[0], *self.infer()],
            "ir.type",
            "the loop's region takes the index and the carried values",
        )

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        if index < 3:
            return literal_dtype(operands[:3])
        return _carried_literal(types[index - 3])


class If(Structured, name="if", explicit_type=True):
    """Runs the first region where ``condition`` is true, else the second; the results are what that region yields.

    The condition is one for the whole program, so for all its threads.  Spec: control.if
    """

    condition = operand()
    leading = 1
    starts = False

    @property
    def then(self) -> Block:
        return self.regions[0]

    @property
    def orelse(self) -> Block:
        return self.regions[1]

    def verify(self, require) -> None:
        require(
            self.condition.type is BOOL,
            "control.if#E1",
            lambda: f"the condition of if is a bool scalar, got {self.condition.type}",
        )
        plain = len(self.regions) == 2 and not any(r.args for r in self.regions)
        require(plain, "ir.type", "if has two regions without arguments")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return BOOL


class While(Structured, name="while"):
    """Repeats: the first region decides from the carried values whether to go on, the second gives the next ones.

    Both regions take the carried values; the first ends with ``condition``, the second with ``yield``. The results are
    what the first region passed when it ended the loop.  Spec: control.while
    """

    inits = operand(variadic=True)

    @property
    def before(self) -> Block:
        return self.regions[0]

    @property
    def after(self) -> Block:
        return self.regions[1]

    def infer(self) -> list[Type]:
        return [v.type for v in self.inits]

    def yield_types(self) -> list[Type]:
        return [v.type for v in self.inits]

    def verify(self, require) -> None:
        require(len(self.regions) == 2, "ir.type", "while has two regions")
        same = all([a.type for a in r.args] == self.infer() for r in self.regions)
        require(same, "ir.type", "both regions of while take the carried values")
        ends = [r.terminator.name for r in self.regions]
        require(ends == ["condition", "yield"], "ir.terminator", "the regions of while end with condition and yield")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        return _carried_literal(types[index])


def _carried_literal(type_: Type) -> DType | None:
    element = element_of(type_)
    return element if isinstance(element, DType) else None
