"""Comparison of tile SSA as text: equal up to the numbering of `%N`, white space and `//` comments.

Works on text alone, so it judges any implementation and does not trust the reference compiler's parser.
"""

from __future__ import annotations

import difflib
import re

VALUE = re.compile(r"%[A-Za-z0-9_.]+")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def normalise(text: str) -> list[str]:
    """Lines with comments and indentation removed, blanks collapsed, and values renamed in order of appearance."""
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"%{len(names)}")

    lines = []
    for raw in text.splitlines():
        line = " ".join(_without_comment(raw).split())
        if line:
            lines.append(_outside_strings(line, rename))
    return lines


def _without_comment(line: str) -> str:
    start = 0
    while (at := line.find("//", start)) >= 0:
        if line[:at].count('"') % 2 == 0:
            return line[:at]
        start = at + 2
    return line


def _outside_strings(line: str, rename) -> str:
    pieces, last = [], 0
    for m in STRING.finditer(line):
        pieces += [VALUE.sub(rename, line[last : m.start()]), m[0]]
        last = m.end()
    return "".join([*pieces, VALUE.sub(rename, line[last:])])


def same(expected: str, found: str) -> bool:
    return normalise(expected) == normalise(found)


def difference(expected: str, found: str) -> str:
    """A unified diff of the normalised texts; empty when they are the same."""
    return diff_lines(normalise(expected), normalise(found))


def diff_lines(expected: list[str], found: list[str]) -> str:
    return "\n".join(difflib.unified_diff(expected, found, "expected", "found", lineterm="", n=2))


def count_word(word: str, text: str) -> int:
    """Occurrences of a whole word (letters, digits, `_` and `.` belong to words)."""
    return len(re.findall(rf"(?<![\w.]){re.escape(word)}(?![\w])", text))
