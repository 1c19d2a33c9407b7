"""Words of the IR text and a cursor over them, with located errors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from refcompiler.errors import CompileError
from refcompiler.source import Span

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|//[^\n]*)
      | (?P<newline>\n)
      | (?P<value>%\w+)
      | (?P<layout>\#\w+)
      | (?P<at>@[\w$.]+)
      | (?P<dims>\d+(?:x\d+)+(?=\ x\ ))
      | (?P<number>-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf\b|nan\b))
      | (?P<word>[A-Za-z_]\w*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<sign>->|[-+*=:,(){}<>^\[\]])""",
    re.VERBOSE,
)


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    start: int
    line: int
    col: int


class Cursor:
    """A position among the tokens of ``text``."""

    def __init__(self, text: str, file: str):
        self.text, self.file = text, file
        self.tokens = self._tokenize()
        self.pos = 0

    def _tokenize(self) -> list[Token]:
        tokens: list[Token] = []
        pos, line, line_start = 0, 1, 0
        while pos < len(self.text):
            match = _TOKEN.match(self.text, pos)
            if match is None:
                span = Span(self.file, line, pos - line_start, line, pos - line_start + 1)
                raise CompileError("ir.syntax", f"unexpected character {self.text[pos]!r}", span, phase="parse")
            kind = match.lastgroup
            if kind != "space" and not (kind == "newline" and (not tokens or tokens[-1].kind == "newline")):
                tokens.append(Token(kind, match.group(), pos, line, pos - line_start))
            pos = match.end()
            if kind == "newline":
                line, line_start = line + 1, pos
        tokens.append(Token("end", "", pos, line, pos - line_start))
        return tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.pos]

    def fail(self, message: str, token: Token | None = None, id: str = "ir.syntax") -> CompileError:
        t = token or self.token
        return CompileError(id, message, self.span(t), phase="parse")

    def span(self, t: Token) -> Span:
        return Span(self.file, t.line, t.col, t.line, t.col + max(1, len(t.text)))

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("sign", "word")

    def take(self) -> Token:
        token = self.token
        self.pos += 1
        return token

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.pos += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.fail(f"expected {text!r}, found {self._shown()}")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        if self.token.kind != kind:
            raise self.fail(f"expected {what}, found {self._shown()}")
        return self.take()

    def _shown(self) -> str:
        return {"newline": "the end of the line", "end": "the end of the text"}.get(
            self.token.kind, repr(self.token.text)
        )

    def newline(self) -> None:
        if self.token.kind == "newline":
            self.take()
        elif self.token.kind != "end":
            raise self.fail(f"expected the end of the line, found {self._shown()}")
