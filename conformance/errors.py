"""Errors of the harness: one class, one rendering, `file:line:col: error[spec.xxx]: message` with line and caret."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 600  # characters of a message that are shown
WINDOW = 160  # characters of a line of text that are shown


@dataclass(frozen=True)
class Mark:
    """A place in a text file: 1-based line and column; `width` characters get carets."""

    line: int
    col: int
    width: int = 1


class SpecError(Exception):
    """A mistake in a specification file, a selection or a deviation file (never a failing test)."""

    def __init__(
        self, id: str, message: str, file: str = "", mark: Mark | None = None, text: str = "", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.id, self.message, self.file, self.mark, self.hint = id, message, file, mark, hint
        self.line_text = ""
        if mark is not None:
            lines = text.splitlines()
            if 0 < mark.line <= len(lines):
                self.line_text = lines[mark.line - 1]

    def render(self) -> str:
        """The error as shown to people; the first line is what editors jump to."""
        where = self.file
        if self.mark is not None:
            where = f"{self.file}:{self.mark.line}:{self.mark.col}"
        head = f"{where}: " if where else ""
        parts = [f"{head}error[{self.id}]: {_shortened(self.message)}"]
        if self.mark is not None and self.line_text:
            first = max(0, self.mark.col - 1 - WINDOW // 2) if len(self.line_text) > WINDOW else 0
            shown, col = self.line_text[first : first + WINDOW], self.mark.col - first
            room = max(1, min(self.mark.width, len(shown) - col + 1))
            pad = "".join(c if c == "\t" else " " for c in shown[: col - 1])
            parts += [f"   {shown}", f"   {pad}{'^' * room}"]
        if self.hint:
            parts.append(f"   help: {self.hint}")
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.render()


def _shortened(message: str) -> str:
    """Both ends of a message that quotes a long text."""
    half = LONGEST // 2
    return message if len(message) <= LONGEST else f"{message[:half]} ... {message[-half:]}"
