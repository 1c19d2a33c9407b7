"""Ops on register vectors: made of constants and scalars, joined, and picked apart; no data leaves the thread."""

from __future__ import annotations

from refcompiler.ir.core import Op, Value
from refcompiler.ir.opdef import attr, operand
from refcompiler.ir.types import DType, Element, RegType, Type, element_of

SIMT = ("simt",)


def count_of(type_: Type) -> int:
    """How many registers a value of that type takes; a scalar takes one."""
    return type_.count if isinstance(type_, RegType) else 1


def registers(element: Element, count: int) -> Type:
    """The type of ``count`` registers; a single one is a scalar."""
    return RegType(element, count) if count > 1 else element


class Constants(Op, name="constants", explicit_type=True, levels=SIMT):
    """A register vector of integers known at compile time, the same in every thread."""

    values = attr(tuple)

    def verify(self, require) -> None:
        type_ = self.result.type
        fits = isinstance(type_, RegType) and isinstance(type_.element, DType) and type_.element.is_int
        require(
            fits and type_.count == len(self.values),
            "ir.type",
            lambda: f"constants give integer registers, not {type_}",
        )


class Splat(Op, name="splat", explicit_type=True, levels=SIMT):
    """Every register equal to one scalar."""

    x = operand()

    def verify(self, require) -> None:
        type_ = self.result.type
        fits = isinstance(type_, RegType) and type_.element == self.x.type
        require(fits, "ir.type", lambda: f"splat of {self.x.type} cannot give {type_}")

    @classmethod
    def literal_type(cls, index: int, operands: list[Value | None], types: list[Type]) -> DType | None:
        element = element_of(types[0])
        return element if isinstance(element, DType) else None


class Pack(Op, name="pack", levels=SIMT):
    """The registers of all operands, one after the other."""

    values = operand(variadic=True)

    def infer(self) -> list[Type]:
        return [registers(element_of(self.values[0].type), sum(count_of(v.type) for v in self.values))]

    def verify(self, require) -> None:
        elements = {element_of(v.type) for v in self.values}
        require(len(elements) == 1, "ir.type", "pack needs one element type")


class Extract(Op, name="extract", levels=SIMT):
    """Register i of the result is register ``indices[i]`` of ``x``; a single one is a scalar."""

    x = operand()
    indices = attr(tuple)

    def infer(self) -> list[Type]:
        return [registers(element_of(self.x.type), len(self.indices))]

    def verify(self, require) -> None:
        count = count_of(self.x.type)
        require(bool(self.indices), "ir.attribute", "extract needs an index")
        inside = all(isinstance(i, int) and 0 <= i < count for i in self.indices)
        require(inside, "ir.attribute", lambda: f"indices {self.indices} reach outside {self.x.type}", "indices")
