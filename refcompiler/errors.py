"""Every error a user or maintainer can meet, by blame, and the one renderer of located messages."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from refcompiler.source import Span, source_line


class TileSpecError(Exception):
    """Base of all our errors: a stable id, a message, where it is, notes; ``str`` gives the rendered text.

    ``phase`` is the stage that found it: parse, type, lower, codegen, launch or run.
    """

    default_phase = "type"

    def __init__(
        self,
        id: str,
        message: str,
        span: Span | None = None,
        *,
        notes: Sequence[str] = (),
        phase: str | None = None,
    ):
        self.id, self.message, self.span = id, message, span
        self.notes = tuple(notes)
        self.phase = phase or self.default_phase
        super().__init__(id, message)

    def __str__(self) -> str:
        return render(self)

    def __reduce__(self):
        return (_rebuild, (type(self), self.id, self.message, self.span, self.notes, self.phase))


def _rebuild(cls, id, message, span, notes, phase):
    return cls(id, message, span, notes=notes, phase=phase)


class CompileError(TileSpecError):
    """The kernel breaks a rule of the language; found before anything ran."""


class LaunchError(TileSpecError):
    """The arguments, the grid or the device do not fit the kernel; found before anything ran."""

    default_phase = "launch"


class RunError(TileSpecError):
    """The interpreter saw the kernel do something undefined: out of bounds, poison, a conflict between programs."""

    default_phase = "run"


class InternalError(TileSpecError):
    """Our fault: the compiler broke one of its own rules. Notes name the reproducer."""

    default_phase = "internal"


def render(error: TileSpecError) -> str:
    """``file:line:col: error[id]: message``, the source line with carets, one line per note and per inlining step."""
    head = f"error[{error.id}]: {error.message}"
    if isinstance(error, InternalError):
        head += " (this is a fault of the compiler, not of your kernel)"
    return located(head, error.span, error.notes)


def located(head: str, span: Span | None, notes: Sequence[str]) -> str:
    """``head`` after its place, the source line with carets, one line per note and per inlining step."""
    lines = [f"{span}: {head}" if span else head]
    if span:
        lines += excerpt(span)
    lines += [f"   note: {note}" for note in notes]
    caller = span.caller if span else None
    while caller:
        lines += [f"   note: in the call at {caller}", *excerpt(caller)]
        caller = caller.caller
    return "\n".join(lines)


def excerpt(span: Span) -> list[str]:
    """The first source line of ``span`` and a line of carets under it; empty where the text is not known."""
    text = source_line(span.file, span.line)
    if text is None:
        return []
    end = span.end_col if span.end_line == span.line else len(text.rstrip())
    before = "".join("\t" if c == "\t" else " " * _width(c) for c in text[: span.col])
    carets = "^" * max(1, sum(_width(c) for c in text[span.col : end]))
    return [f"{span.line:>5} | {text}", f"      | {before}{carets}"]


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
