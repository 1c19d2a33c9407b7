"""Text to IR: the inverse of the printer, with located errors for text that people write by hand."""

from __future__ import annotations

import ast
from typing import Any

from refcompiler.ir.core import Block, Constant, Func, Op, Value
from refcompiler.ir.opdef import OPS
from refcompiler.ir.printer import LEVEL_KEYWORD, default_dtype
from refcompiler.ir.tokens import Cursor, Token
from refcompiler.ir.types import (
    DTYPES,
    I32,
    OPAQUE,
    BlockType,
    DescriptorType,
    DType,
    PointerType,
    RegType,
    SharedType,
    Type,
    element_of,
)
from refcompiler.layouts import LinearLayout
from refcompiler.source import register_text

_KEYWORD_LEVEL = {keyword: level for level, keyword in LEVEL_KEYWORD.items()}


def parse_func(text: str, file: str = "<ir>") -> Func:
    """The function that ``text`` describes. Raises CompileError with the place in the text."""
    register_text(file, text)
    return _Parser(text, file).func()


class _Parser(Cursor):
    def __init__(self, text: str, file: str):
        super().__init__(text, file)
        self.values: dict[str, Value] = {}
        self.layouts: dict[str, Any] = {}
        self.yields: list[list[Type]] = []

    # --- functions
    def func(self) -> Func:
        if self.token.kind == "newline":
            self.take()
        while self.token.kind == "layout":
            name = self.take().text
            self.expect("=")
            self.layouts[name] = self.layout_text()
            self.newline()
        level = self.level()
        name = self.expect_kind("at", "@name").text[1:]
        func = Func(name, [], level=level)
        self.expect("(")
        while not self.at(")"):
            self.header_item(func)
            if not self.accept(","):
                break
        self.expect(")")
        if self.at("{") and self.tokens[self.pos + 1].kind != "newline":
            func.attrs = self.attrs()
        self.expect("{")
        self.newline()
        self.block(func.body)
        self.expect("}")
        self.newline()
        if self.token.kind != "end":
            raise self.fail(f"expected the end of the text after the function, found {self._shown()}")
        return func

    def level(self) -> str:
        words = [self.expect_kind("word", "'func'").text]
        if words != ["func"]:
            words.append(self.expect("func").text)
        keyword = " ".join(words)
        if keyword not in _KEYWORD_LEVEL:
            raise self.fail(f"unknown level {words[0]!r}; expected one of {', '.join(sorted(_KEYWORD_LEVEL))}")
        return _KEYWORD_LEVEL[keyword]

    def header_item(self, func: Func) -> None:
        token = self.take()
        if token.kind not in ("word", "string"):
            raise self.fail("expected a parameter name", token)
        name = ast.literal_eval(token.text) if token.kind == "string" else token.text
        if self.accept("="):
            func.constexprs[name] = self.literal()
            return
        self.expect(":")
        param = Value(self.type(), name, func.body)
        if f'"{name}"' in self.values:
            raise self.fail(f"parameter {name} is declared twice", token)
        self.values[f'"{name}"'] = param
        func.params.append(param)
        if self.at("{"):
            func.hints[name] = self.attrs().get("divisible", 1)

    # --- types
    def type(self) -> Any:
        word = self.expect_kind("word", "a type")
        if word.text in DTYPES or word.text in OPAQUE:
            return DTYPES.get(word.text) or OPAQUE[word.text]
        if word.text == "ptr":
            self.expect("<")
            const = self.accept("const")
            pointee = self.type()
            self.expect(">")
            return PointerType(pointee, const)
        if word.text in ("vector", "block", "reg", "shared"):
            return self.block_type(word.text)
        if word.text == "desc":
            return self.descriptor_type()
        raise self.fail(
            f"unknown type {word.text!r}; expected a dtype ({', '.join(DTYPES)}), ptr, vector, block, "
            "reg, shared or desc",
            word,
        )

    def extents(self) -> tuple[int, ...]:
        """``16x32 x``: the shape before an element type."""
        if self.token.kind == "dims":
            shape = tuple(map(int, self.take().text.split("x")))
        else:
            shape = (int(self.expect_kind("number", "an extent").text),)
        self.expect("x")
        return shape

    def descriptor_type(self) -> Type:
        self.expect("<")
        shape = self.extents()
        const = self.accept("const")
        element = self.type()
        padding = self.take().text if self.accept(",") else "zero"
        self.expect(">")
        return DescriptorType(element, shape, padding, const)

    def block_type(self, word: str) -> Type:
        self.expect("<")
        shape = self.extents()
        element = self.type()
        layout = None
        if self.accept(","):
            name = self.expect_kind("layout", "a layout such as #0")
            if name.text not in self.layouts:
                raise self.fail(f"layout {name.text} is not defined", name)
            layout = self.layouts[name.text]
        self.expect(">")
        if word in ("reg", "shared"):
            return (RegType if word == "reg" else SharedType)(element, shape[0])
        return BlockType(element, shape, layout)

    def layout_text(self) -> Any:
        start = self.token
        while self.token.kind not in ("newline", "end"):
            self.take()
        text = self.text[start.start : self.token.start].strip()
        try:
            return LinearLayout.parse(text)
        except ValueError as error:
            raise self.fail(f"bad layout: {error}", start) from None

    # --- literals and attributes
    def attrs(self) -> dict[str, Any]:
        attrs = {}
        self.expect("{")
        while not self.at("}"):
            name = self.expect_kind("word", "an attribute name").text
            self.expect("=")
            attrs[name] = self.literal()
            if not self.accept(","):
                break
        self.expect("}")
        return attrs

    def literal(self) -> Any:
        """A Python literal: consumed token by token up to a comma or closing bracket at depth 0."""
        start, depth = self.token, 0
        while self.token.kind not in ("newline", "end"):
            if depth == 0 and self.token.text in (",", "}", ")", "]"):
                break
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.token.text, 0)
            self.take()
        text = self.text[start.start : self.token.start].strip()
        if text in ("nan", "inf", "-inf"):
            return float(text)
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise self.fail(f"expected a Python literal, found {text!r}", start) from None

    # --- ops
    def block(self, block: Block) -> None:
        while not self.at("}"):
            if self.token.kind == "end":
                raise self.fail("expected '}' before the end of the text")
            block.append(self.op())

    def op(self) -> Op:
        names = []
        start = self.token
        while self.token.kind == "value":
            names.append(self.take())
            if not self.accept(","):
                break
        if names:
            self.expect("=")
        word = self.expect_kind("word", "an op name")
        special = {"for": self.for_op, "if": self.if_op, "while": self.while_op}.get(word.text)
        op = special(word) if special else self.generic_op(word, bool(names))
        if len(names) != len(op.results):
            raise self.fail(f"{op.name} has {len(op.results)} results, {len(names)} are named", start)
        for token, result in zip(names, op.results, strict=True):
            self.define(token, result)
        self.newline()
        return op

    def define(self, token: Token, value: Value) -> None:
        if token.text in self.values:
            raise self.fail(f"{token.text} is defined twice", token, "ir.redefined")
        self.values[token.text] = value

    def generic_op(self, word: Token, has_results: bool) -> Op:
        cls = OPS.get(word.text)
        if cls is None:
            raise self.fail(f"unknown op {word.text!r}", word, "ir.unknown_op")
        operands: list[Value | None] = []
        bare: dict[int, bool | int | float] = {}
        while self.token.kind not in ("newline", "end") and self.token.text not in ("{", ":", "}", "("):
            self.operand(operands, bare)
            if not self.accept(","):
                break
        attrs = self.attrs() if self.at("{") else {}
        types = self.type_list() if self.accept(":") else []
        self.resolve(cls, operands, bare, types)
        regions = [self.region(types)] if self.at("(") else []
        while self.at("{"):
            regions.append(self.body([], types))
        return self.make(cls, word, operands, attrs, types, regions, has_results)

    def make(self, cls, word, operands, attrs, types, regions, has_results) -> Op:
        fields = cls.operand_fields
        variadic = bool(fields) and fields[-1].variadic
        if len(operands) > len(fields) and not variadic:
            raise self.fail(f"{cls.name} takes at most {len(fields)} operands, got {len(operands)}", word, "ir.arity")
        needed = sum(not f.optional and not f.variadic for f in fields)
        if len(operands) < needed:
            raise self.fail(f"{cls.name} takes at least {needed} operands, got {len(operands)}", word, "ir.arity")
        try:
            op = cls(
                *operands,
                span=self.span(word),
                types=types if types or not has_results else None,
                regions=regions,
                **attrs,
            )
        except TypeError as error:
            raise self.fail(str(error), word, "ir.attribute") from None
        return op

    def type_list(self) -> list[Type]:
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        return types

    def operand(self, operands: list[Value | None], bare: dict[int, bool | int | float]) -> None:
        token = self.take()
        if token.kind == "word" and token.text == "none":
            operands.append(None)
        elif (
            token.kind == "value"
            or token.kind == "string"
            or (token.kind == "word" and token.text not in ("True", "False", "nan", "inf"))
        ):
            operands.append(self.lookup(token))
        elif token.kind in ("number", "word"):
            value = _number(token.text)
            if self.at(":") and self.token.start == token.start + len(token.text):  # 0.1:f16, no space before the colon
                self.take()
                dtype = self.type()
                if not isinstance(dtype, DType):
                    raise self.fail("a literal's type must be a dtype", token)
                operands.append(Constant(value, dtype))
            else:
                bare[len(operands)] = value
                operands.append(Constant(value, default_dtype(value)))
        else:
            raise self.fail(f"expected an operand, found {token.text!r}", token)

    def lookup(self, token: Token) -> Value:
        key = token.text
        if token.kind == "word":
            key = f'"{key}"'
        elif token.kind == "string":
            key = f'"{ast.literal_eval(key)}"'
        if key not in self.values:
            raise self.fail(f"{token.text} is not defined", token, "ir.undefined")
        return self.values[key]

    def resolve(
        self, cls, operands: list[Value | None], bare: dict[int, bool | int | float], types: list[Type]
    ) -> None:
        """Give each bare literal the dtype that its op's rule fixes, before it is rounded to any other."""
        for index, value in bare.items():
            if cls.terminator and index >= cls.leading:
                slot = index - cls.leading
                expected = element_of(self.yields[-1][slot]) if self.yields and slot < len(self.yields[-1]) else None
            else:
                expected = cls.literal_type(index, operands, types)
            if isinstance(expected, DType):
                operands[index] = Constant(value, expected)

    def region(self, types: list[Type]) -> Block:
        self.expect("(")
        args = []
        while not self.at(")"):
            token = self.expect_kind("value", "a region argument such as %3")
            self.expect(":")
            value = Value(self.type())
            self.define(token, value)
            args.append(value)
            if not self.accept(","):
                break
        self.expect(")")
        return self.body(args, types)

    def body(self, args: list[Value], yields: list[Type], names: bool = False) -> Block:
        """A region in braces; with ``names`` its first line may name the arguments: ``^(%7, %8)``."""
        body = Block(args)
        self.expect("{")
        self.newline()
        if names and self.accept("^"):
            self.expect("(")
            for number, arg in enumerate(args):
                if number:
                    self.expect(",")
                self.define(self.expect_kind("value", "a region argument such as %3"), arg)
            self.expect(")")
            self.newline()
        self.yields.append([element_of(t) for t in yields])
        self.block(body)
        self.yields.pop()
        self.expect("}")
        return body

    def for_op(self, word: Token) -> Op:
        index = self.expect_kind("value", "the loop index")
        self.expect("in")
        self.expect("range")
        self.expect("(")
        operands: list[Value | None] = []
        bare: dict[int, bool | int | float] = {}
        for i in range(3):
            self.operand(operands, bare)
            self.expect("," if i < 2 else ")")
        carried, types = self.iter_args(word, operands, bare)
        cls = OPS["for"]
        self.resolve(cls, operands, bare, types)
        bound = next((o.type for o in operands[:3] if o is not None), I32)
        args = [Value(bound), *(Value(t) for t in types)]
        for token, arg in zip([index, *carried], args, strict=True):
            self.define(token, arg)
        body = self.body(args, types)
        return cls(*operands, span=self.span(word), types=types, body=body)

    def iter_args(
        self, word: Token, operands: list[Value | None], bare: dict[int, bool | int | float]
    ) -> tuple[list[Token], list[Type]]:
        """``iter_args(%4 = 0) : i32``: names and types of carried values; what they start from joins ``operands``."""
        carried: list[Token] = []
        types: list[Type] = []
        if self.accept("iter_args"):
            self.expect("(")
            while not self.at(")"):
                carried.append(self.expect_kind("value", "a carried value"))
                self.expect("=")
                self.operand(operands, bare)
                if not self.accept(","):
                    break
            self.expect(")")
            self.expect(":")
            types = self.type_list()
            if len(types) != len(carried):
                raise self.fail(f"{len(carried)} carried values but {len(types)} types", word)
        return carried, types

    def if_op(self, word: Token) -> Op:
        operands: list[Value | None] = []
        bare: dict[int, bool | int | float] = {}
        self.operand(operands, bare)
        types = self.type_list() if self.accept(":") else []
        cls = OPS["if"]
        self.resolve(cls, operands, bare, types)
        then = self.body([], types)
        if self.accept("else"):
            orelse = self.body([], types)
        elif types:
            raise self.fail("an if with results needs `else`")
        else:
            orelse = Block((), [OPS["yield"]()])
        return cls(*operands, span=self.span(word), types=types, regions=[then, orelse])

    def while_op(self, word: Token) -> Op:
        operands: list[Value | None] = []
        bare: dict[int, bool | int | float] = {}
        carried, types = self.iter_args(word, operands, bare)
        cls = OPS["while"]
        self.resolve(cls, operands, bare, types)
        before = [Value(t) for t in types]
        for token, arg in zip(carried, before, strict=True):
            self.define(token, arg)
        regions = [self.body(before, types)]
        self.expect("do")
        after = [Value(t) for t in types]
        regions.append(self.body(after, types, names=True))
        return cls(*operands, span=self.span(word), types=types, regions=regions)


def _number(text: str) -> bool | int | float:
    if text in ("True", "False"):
        return text == "True"
    if any(c in text for c in ".en") and not text.lstrip("-").isdigit():
        return float(text)
    return int(text)
