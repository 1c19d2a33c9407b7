"""Where things come from: spans in source text and the text itself, including inlining chains."""

from __future__ import annotations

import ast
import linecache
import threading
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text: lines 1-based, columns 0-based characters; ``caller`` is the call that inlined it."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    caller: Span | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col + 1}"

    def called_from(self, caller: Span | None) -> Span:
        return replace(self, caller=caller)


# CPython counts the depth of the syntax tree that it makes in one place for all threads, and fails where two meet.
_PARSING = threading.RLock()


def parse_python(text: str, mode: str = "exec") -> Any:
    """The syntax tree of ``text``, as ``ast.parse`` gives it, also while other threads parse."""
    with _PARSING:
        return ast.parse(text, mode=mode)


# Text of files that do not exist on disk under that name (YAML kernels, IR text), by file name.
_TEXTS: dict[str, list[str]] = {}


def register_text(file: str, text: str) -> None:
    """Make ``text`` the content of ``file`` for error rendering."""
    _TEXTS[file] = text.splitlines()


def source_line(file: str, line: int) -> str | None:
    """The 1-based ``line`` of ``file``, or None where the text is not known."""
    lines = _TEXTS.get(file)
    if lines is not None:
        return lines[line - 1] if 0 < line <= len(lines) else None
    text = linecache.getline(file, line)
    return text.rstrip("\n") if text else None


def span_of(node: Any, file: str, line_offset: int = 0, col_offset: int = 0, caller: Span | None = None) -> Span:
    """The span of a Python AST node parsed from text that starts at ``line_offset``/``col_offset`` of ``file``.

    ``ast`` counts columns in UTF-8 bytes; they are converted to characters where the line is known.
    """
    line, end_line = node.lineno + line_offset, node.end_lineno + line_offset
    text = source_line(file, line)
    end_text = text if end_line == line else source_line(file, end_line)
    col = _characters(text, node.col_offset + col_offset)
    return Span(file, line, col, end_line, _characters(end_text, node.end_col_offset + col_offset), caller)


def _characters(text: str | None, byte_col: int) -> int:
    if text is None or text.isascii():
        return byte_col
    return len(text.encode()[:byte_col].decode(errors="ignore"))
