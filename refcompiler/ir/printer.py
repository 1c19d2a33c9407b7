"""IR to text; the format is described in docs/ir-text.md and parses back to an equal function."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value, normalise_literal
from refcompiler.ir.types import BOOL, F32, I32, BlockType, DType, Type, element_of, format_type

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
RESERVED = frozenset(
    {"none", "True", "False", "nan", "inf", "for", "in", "range", "iter_args", "yield", "func", "layout"}
)
LEVEL_KEYWORD = {"tile": "func", "laid_out": "laid_out func", "simt": "simt func"}
_INDENT = "  "


def print_func(func: Func) -> str:
    """The whole function as text, ending with a newline. Values are numbered in program order."""
    return _Printer(func).text()


def print_ops(ops: Iterable[Op]) -> str:
    """Some ops of a function as its text has them, one a line; parameters print by name."""
    block = Block(ops=list(ops))
    printer = _Printer(Func("", []))
    printer.names = {v: name_of(v.name) for op in block.walk() for v in op.operands if v is not None and v.name}
    lines: list[str] = []
    printer.block(block, lines, 0)
    return "".join(f"{line}\n" for line in lines)


def format_literal(value: bool | int | float, dtype: DType) -> str:
    """The shortest text that reads back as ``value`` in ``dtype``."""
    if not dtype.is_float or isinstance(value, bool):
        return repr(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    digits = next(d for d in range(1, 18) if normalise_literal(f"{value:.{d}g}", dtype) == value)
    return repr(float(f"{value:.{digits}g}"))


def default_dtype(value: bool | int | float) -> DType:
    """The dtype of a bare literal where no other operand decides."""
    if isinstance(value, bool):
        return BOOL
    return I32 if isinstance(value, int) else F32


def name_of(param: str) -> str:
    """A parameter's name as it prints: quoted where it would read as something else."""
    return param if IDENTIFIER.match(param) and param not in RESERVED else f'"{param}"'


class _Printer:
    def __init__(self, func: Func):
        self.func = func
        self.names: dict[Value, str] = {p: name_of(p.name) for p in func.params}
        self.layouts: dict[Any, str] = {}
        self.next_id = 0
        self.yields: list[list[Type]] = []  # what the yield of each enclosing region must have

    def text(self) -> str:
        lines: list[str] = []
        self.block(self.func.body, lines, 1)
        return "\n".join([*self.layout_lines(), self.header(), *lines, "}"]) + "\n"

    def layout_lines(self) -> list[str]:
        return [f"{name} = {layout}" for layout, name in self.layouts.items()]

    def header(self) -> str:
        func = self.func
        items = []
        for param in func.params:
            hint = f" {{divisible={func.hints[param.name]}}}" if param.name in func.hints else ""
            items.append(f"{name_of(param.name)}: {self.type(param.type)}{hint}")
        items += [f"{name_of(k)}={v!r}" for k, v in func.constexprs.items()]
        attrs = f" {_format_attrs(func.attrs)}" if func.attrs else ""
        return f"{LEVEL_KEYWORD[func.level]} @{func.name}({', '.join(items)}){attrs} {{"

    def type(self, type_) -> str:
        if isinstance(type_, BlockType) and type_.layout is not None:
            self.layouts.setdefault(type_.layout, f"#{len(self.layouts)}")
            return format_type(type_, self.layouts)
        return format_type(type_)

    def region(self, op: Op, depth: int, number: int = 0) -> list[str]:
        lines: list[str] = []
        self.yields.append(op.yield_types())
        self.block(op.regions[number], lines, depth)
        self.yields.pop()
        return lines

    def block(self, block: Block, lines: list[str], depth: int) -> None:
        for op in block.ops:
            self.op(op, lines, depth)

    def op(self, op: Op, lines: list[str], depth: int) -> None:
        indent = _INDENT * depth
        special = {"for": self.for_op, "if": self.if_op, "while": self.while_op}.get(op.name)
        if special is not None:
            special(op, lines, depth)
            return
        parts = [op.name]
        if op.operands:
            parts.append(", ".join(self.operand(op, i) for i in range(len(op.operands))))
        attrs = {f.name: op.attrs[f.name] for f in op.attr_fields if f.required or op.attrs[f.name] != f.default}
        if attrs:
            parts.append(_format_attrs(attrs))
        if op.results:
            parts.append(": " + ", ".join(self.type(r.type) for r in op.results))
        if op.body is None:
            lines.append(f"{indent}{self.results(op)}{' '.join(parts)}")
            return
        if not any(region.args for region in op.regions):
            lines.append(f"{indent}{' '.join(parts)} {{")
            for number in range(len(op.regions)):
                lines += [*([f"{indent}}} {{"] if number else []), *self.region(op, depth + 1, number)]
            lines.append(f"{indent}}}")
            return
        args = ", ".join(f"{self.fresh(a)}: {self.type(a.type)}" for a in op.body.args)
        inner = self.region(op, depth + 1)
        lines.append(f"{indent}{self.results(op)}{' '.join(parts)} ({args}) {{")
        lines += [*inner, f"{indent}}}"]

    def for_op(self, op: Op, lines: list[str], depth: int) -> None:
        """``%4 = for %0 in range(0, n, 1) iter_args(%1 = 0.0) : f32 {``; results are numbered after the body."""
        indent = _INDENT * depth
        index, *carried = op.body.args
        bounds = ", ".join(self.operand(op, i) for i in range(3))
        inits = [self.operand(op, i) for i in range(3, len(op.operands))]
        self.fresh(index)
        args = [f"{self.fresh(a)} = {init}" for a, init in zip(carried, inits, strict=True)]
        inner = self.region(op, depth + 1)
        head = f"for {self.names[index]} in range({bounds})"
        if carried:
            head += f" iter_args({', '.join(args)}) : {', '.join(self.type(a.type) for a in carried)}"
        lines.append(f"{indent}{self.results(op)}{head} {{")
        lines += [*inner, f"{indent}}}"]

    def if_op(self, op: Op, lines: list[str], depth: int) -> None:
        """``%5 = if %c : f32 {``; without results an `else` that does nothing is left out."""
        indent = _INDENT * depth
        head = f"if {self.operand(op, 0)}"
        if op.results:
            head += f" : {', '.join(self.type(r.type) for r in op.results)}"
        inner = self.region(op, depth + 1)
        if op.results or len(op.orelse.ops) > 1:
            inner += [f"{indent}}} else {{", *self.region(op, depth + 1, 1)]
        lines.append(f"{indent}{self.results(op)}{head} {{")
        lines += [*inner, f"{indent}}}"]

    def while_op(self, op: Op, lines: list[str], depth: int) -> None:
        """``%9 = while iter_args(%4 = 0) : i32 {``; the second region names its arguments in a line of its own."""
        indent = _INDENT * depth
        inits = [self.operand(op, i) for i in range(len(op.operands))]
        args = [f"{self.fresh(a)} = {init}" for a, init in zip(op.before.args, inits, strict=True)]
        head = "while"
        if args:
            head += f" iter_args({', '.join(args)}) : {', '.join(self.type(a.type) for a in op.before.args)}"
        inner = [*self.region(op, depth + 1), f"{indent}}} do {{"]
        if args:
            inner.append(f"{indent}{_INDENT}^({', '.join(self.fresh(a) for a in op.after.args)})")
        inner += self.region(op, depth + 1, 1)
        lines.append(f"{indent}{self.results(op)}{head} {{")
        lines += [*inner, f"{indent}}}"]

    def results(self, op: Op) -> str:
        return ", ".join(self.fresh(r) for r in op.results) + " = " if op.results else ""

    def fresh(self, value: Value) -> str:
        self.names[value] = f"%{self.next_id}"
        self.next_id += 1
        return self.names[value]

    def operand(self, op: Op, index: int) -> str:
        value = op.operands[index]
        if value is None:
            return "none"
        if not isinstance(value, Constant):
            # An operand that is not defined yet is a broken function; it still prints, so that the fault can be read.
            return self.names.get(value, "%undefined")
        text = format_literal(value.value, value.type)
        expected = self.expected(op, index) or default_dtype(value.value)
        return text if expected is value.type else f"{text}:{value.type}"

    def expected(self, op: Op, index: int) -> DType | None:
        if op.terminator and index >= op.leading:
            element = element_of(self.yields[-1][index - op.leading])
            return element if isinstance(element, DType) else None
        return op.literal_type(index, op.operands, [r.type for r in op.results])


def _format_attrs(attrs: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{k}={v!r}" for k, v in attrs.items()) + "}"
