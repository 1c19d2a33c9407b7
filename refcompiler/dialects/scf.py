"""Structured control flow at every level: the counted loop and the end of a region."""

from __future__ import annotations

from refcompiler.ir.core import Block, Op, Value, literal_dtype
from refcompiler.ir.opdef import operand
from refcompiler.ir.types import DType, Type, element_of


class Yield(Op, name="yield", terminator=True):
    """Ends a region with the values it gives back, all taken at once.  Spec: control.for_range"""

    values = operand(variadic=True)


class For(Op, name="for"):
    """Counts an index from ``start`` up to, not including, ``stop``; carries values from one iteration to the next.

    The region's arguments are the index and the carried values; its yield gives the next carried values; the results
    are the last ones. A positive step counts up, a negative one down.  Spec: control.for_range
    """

    start = operand()
    stop = operand()
    step = operand()
    inits = operand(variadic=True)

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
        element = element_of(types[index - 3])
        return element if isinstance(element, DType) else None
