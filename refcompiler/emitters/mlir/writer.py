"""The text of one kernel in the making: names of values, constants, registers of vectors, regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.simt.registers import count_of
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.names import identifier
from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.types import I32, element_of

WRITERS: dict[str, Callable[[Writer, Op], None]] = {}


def writes(*names: str) -> Callable:
    """Registers the function that writes the ops called ``names``."""

    def register(function: Callable[[Writer, Op], None]) -> Callable:
        WRITERS.update(dict.fromkeys(names, function))
        return function

    return register


class Writer:
    """Writes ops one after the other. Registers are one vector, which is taken apart where single ones are needed."""

    def __init__(self, func: Func):
        self.func = func
        self.ranges = Ranges(func)
        self.lines: list[str] = []
        self.depth = 2
        self.count = 0
        self.names: dict[Value, str] = {}
        self.maps: list[str] = []  # the names of hidden parameters
        self.constants: dict[str, str] = {}  # name -> its definition; all stand at the start of the kernel
        self.allocations: list[str] = []  # of local memory; they stand after the constants
        self.tables: list[str] = []  # numbers in memory
        self.arrays: dict[Value, Any] = {}  # vectors that are too long for registers
        self.parts: dict[Value, list[str]] = {}  # registers of a vector, taken apart in this region or around it

    # --- lines
    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def let(self, text: str) -> str:
        """A new value that ``text`` defines."""
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def define(self, op: Op, text: str) -> None:
        """The result of ``op`` is what ``text`` defines."""
        self.names[op.result] = self.let(text)

    def set(self, op: Op, registers: Sequence[str]) -> None:
        """The result of ``op`` is made of these registers."""
        self.names[op.result] = self.pack(registers, t.element_type(element_of(op.result.type)))
        self.parts.setdefault(op.result, list(registers))

    def name(self, values: Sequence[Value]) -> None:
        """New names for the arguments of a region."""
        for value in values:
            self.names[value] = self.fresh()

    # --- values
    def param(self, value: Value) -> str:
        """The name of a parameter: an identifier, as no name of another value is; `_` and a number tell two apart."""
        name = wanted = "%" + identifier(str(value.name))
        number = 2
        while name in self.names.values():
            name, number = f"{wanted}_{number}", number + 1
        self.names[value] = name
        return name

    def allocate(self, text: str) -> str:
        """Local memory, one place for each time that the thread runs."""
        name = f"%array.{len(self.allocations)}"
        self.allocations.append(f"{name} = {text}")
        return name

    def table(self, text: str) -> str:
        """The symbol of numbers in memory."""
        name = f"table.{len(self.tables)}"
        self.tables.append(f"  llvm.mlir.global internal constant @{name}({text}\n")
        return name

    def value(self, value: Value) -> str:
        """A scalar or a whole vector."""
        if isinstance(value, Constant):
            return self.constant(value.value, value.type)
        if value in self.arrays:
            return self.arrays[value].load(self, self.constant(0), count_of(value.type))
        return self.names[value]

    def constant(self, value: bool | int | float, dtype: Any = I32, count: int = 1) -> str:
        """A number, or ``count`` registers equal to it."""
        type_ = t.vector(t.element_type(dtype), count)
        text = t.literal(value, dtype)
        suffix = f"x{count}" if count > 1 else ""
        name = f"%c{text.replace('+', '')}.{t.element_type(dtype)}{suffix}"
        typed = "" if type_ == "i1" else f" : {type_}"
        self.constants.setdefault(name, f"arith.constant {f'dense<{text}>' if count > 1 else text}{typed}")
        return name

    def whole(self, value: Value, count: int) -> str:
        """``count`` registers as one value; a scalar stands for all of them."""
        if count == 1 or count_of(value.type) == count:
            return self.value(value)
        if isinstance(value, Constant):
            return self.constant(value.value, value.type, count)
        element = t.element_type(element_of(value.type))
        return self.let(f"vector.broadcast {self.value(value)} : {element} to {t.vector(element, count)}")

    def registers(self, value: Value, count: int | None = None) -> list[str]:
        """The registers one by one; a scalar stands for all ``count``."""
        held = count_of(value.type)
        if held == 1:
            return [self.value(value)] * (count or 1)
        if value not in self.parts:
            self.parts[value] = self.unpack(self.value(value), t.element_type(element_of(value.type)), held)
        return self.parts[value]

    def unpack(self, name: str, element: str, count: int) -> list[str]:
        """The elements of the vector called ``name``."""
        if count == 1:
            return [name]
        first = self.fresh()
        self.line(f"{first}:{count} = vector.to_elements {name} : {t.vector(element, count)}")
        return [f"{first}#{i}" for i in range(count)]

    def pack(self, elements: Sequence[str], element: str) -> str:
        """One value of the elements."""
        if len(elements) == 1:
            return elements[0]
        return self.let(f"vector.from_elements {', '.join(elements)} : {t.vector(element, len(elements))}")

    # --- regions
    @contextmanager
    def region(self) -> Iterator[None]:
        """Lines inside a region, whose values end with it."""
        outside = dict(self.parts)
        self.depth += 1
        yield
        self.depth -= 1
        self.parts = outside

    def write(self, op: Op) -> None:
        """One op."""
        WRITERS[op.name](self, op)

    def block(self, block: Block) -> None:
        """The ops of a block; the op around it writes what its terminator gives back."""
        for op in block.ops:
            if not op.terminator:
                self.write(op)

    def guarded(self, mask: str | None, inside: Callable[[], None]) -> None:
        """Statements without results where ``mask`` is true."""
        if mask is None:
            inside()
            return
        self.line(f"scf.if {mask} {{")
        with self.region():
            inside()
        self.line("}")

    def chosen(self, mask: str | None, inside: Callable[[], str], other: str, type_: str) -> str:
        """What ``inside`` gives where ``mask`` is true, elsewhere ``other``."""
        if mask is None:
            return inside()
        name = self.fresh()
        self.line(f"{name} = scf.if {mask} -> ({type_}) {{")
        with self.region():
            self.line(f"scf.yield {inside()} : {type_}")
        self.line("} else {")
        with self.region():
            self.line(f"scf.yield {other} : {type_}")
        self.line("}")
        return name
