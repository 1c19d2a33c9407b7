"""YAML text to plain data with the position of every key and value; YAML 1.2 core scalars, nothing implicit beyond.

Rejected with a located error: duplicate keys, tags, anchors and aliases, merge keys, non-text keys, several documents.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from conformance.errors import Mark, SpecError

Path = tuple[str | int, ...]

INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
WORDS = {
    "null": None,
    "Null": None,
    "NULL": None,
    "~": None,
    "": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


class Places:
    """Marks by path. ``marks`` holds them as JSON can: [line, column, width] by the steps of a path in one text."""

    def __init__(self, marks: dict[str, list[int]] | None = None):
        self.marks = {} if marks is None else marks

    def __setitem__(self, path: Path, mark: Mark) -> None:
        self.marks[_joined(path)] = [mark.line, mark.col, mark.width]

    def __getitem__(self, path: Path) -> Mark:
        return Mark(*self.marks[_joined(path)])

    def __contains__(self, path: Path) -> bool:
        return _joined(path) in self.marks

    def get(self, path: Path) -> Mark | None:
        return self[path] if path in self else None


def _joined(path: Path) -> str:
    return "\x1f".join(map(str, path))  # no key of the schema holds this character


@dataclass
class Document:
    """Plain data of one file and where each part of it stands in the text; ``blocks`` are the block scalars."""

    file: str
    text: str
    data: Any = None
    values: Places = field(default_factory=Places)
    keys: Places = field(default_factory=Places)
    blocks: Places = field(default_factory=Places)
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.text.splitlines()

    def error(
        self,
        id: str,
        message: str,
        path: Path,
        *,
        key: bool = False,
        hint: str = "",
        offset: tuple[int, int] | None = None,
    ) -> SpecError:
        """An error at the value (or key) under `path`; `offset` = (column, width) inside a one-line scalar."""
        table = self.keys if key and path in self.keys else self.values
        exact = path in self.values and path not in self.blocks
        while path and path not in table:
            path = path[:-1]
        mark = table.get(path) or Mark(1, 1)
        if offset is not None and exact:
            mark = Mark(mark.line, mark.col + offset[0] + self._quote(mark), offset[1])
        return SpecError(id, message, self.file, mark, self.text, hint)

    def error_in_block(self, id: str, message: str, path: Path, line: int, text: str, col: int) -> SpecError:
        """An error in a line (from 1) of a block scalar, where that line is still this text; else at the scalar."""
        block = self.blocks.get(path)
        there = block.line + line if block else 0
        if not 0 < there <= len(self.lines) or not text.strip() or self.lines[there - 1].strip() != text.strip():
            return self.error(id, message, path)
        indent = self.lines[there - 1].index(text.strip()) - text.index(text.strip())
        return SpecError(id, message, self.file, Mark(there, indent + col), self.text)

    def at(self, path: Path) -> Any:
        """The data under a path, None where there is none."""
        found = self.data
        for step in path:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def _quote(self, mark: Mark) -> int:
        line = self.lines[mark.line - 1]
        return 1 if line[mark.col - 1 : mark.col] in ("'", '"') else 0


def decoded(file: str, content: bytes) -> str:
    """The text of a file; SpecError at the first byte that is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as e:
        message = f"the file is not UTF-8: found byte 0x{content[e.start]:02x}"
        place = _place(content[: e.start].decode("utf-8"))
        shown = content.decode("utf-8", "replace")
        raise SpecError("spec.yaml", message, file, place, shown, hint="save it as UTF-8") from None


def _place(before: str) -> Mark:
    """Where a text goes on that begins like this."""
    lines = f"{before}x".splitlines()
    return Mark(len(lines), len(lines[-1]))


def load(path: pathlib.Path, file: str) -> Document:
    """The document of a file, which errors call ``file``."""
    return read(file, decoded(file, path.read_bytes()))


def read(file: str, text: str) -> Document:
    """Parse one YAML document; every mistake is a SpecError with its place."""
    document = Document(file, text)
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        place = Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)
        raise SpecError("spec.yaml", f"not readable as YAML: {e.problem or e.context}", file, place, text) from None
    except ReaderError as e:
        message = f"not readable as YAML: found the character U+{ord(text[e.position]):04X}"
        place = _place(text[: e.position])
        raise SpecError(
            "spec.yaml", message, file, place, text, hint="remove it, or write its escape in quotes"
        ) from None
    except YAMLError as e:
        raise SpecError("spec.yaml", f"not readable as YAML: {e}", file, Mark(1, 1), text) from None
    except RecursionError:
        raise SpecError("spec.yaml", "nested too deeply to be read", file, Mark(1, 1), text) from None
    if node is None:
        raise SpecError("spec.yaml", "the file is empty", file, Mark(1, 1), text)
    document.data = _convert(node, (), document)
    return document


def _mark(node: Any) -> Mark:
    start, end = node.start_mark, node.end_mark
    width = end.column - start.column if end.line == start.line else 1
    return Mark(start.line + 1, start.column + 1, max(1, width))


def _convert(node: Any, path: Path, document: Document) -> Any:
    mark = _mark(node)
    document.values[path] = mark
    if _starts_with_tag(document.lines, mark):
        raise document.error("spec.tag", "tags are not used here", path, hint="remove it; quote text instead")
    if node.anchor is not None:
        raise document.error("spec.anchor", "anchors and aliases are not used here", path, hint="write the value out")
    if isinstance(node, ScalarNode):
        if node.style in ("|", ">"):
            document.blocks[path] = mark
        return _scalar(node, path, document)
    if isinstance(node, SequenceNode):
        return [_convert(child, (*path, i), document) for i, child in enumerate(node.value)]
    assert isinstance(node, MappingNode)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(key_node, path, document)
        if key in result:
            first = document.keys[(*path, key)]
            document.keys[(*path, key)] = _mark(key_node)
            raise document.error(
                "spec.duplicate_key", f"key {key!r} appears twice; first on line {first.line}", (*path, key), key=True
            )
        document.keys[(*path, key)] = _mark(key_node)
        result[key] = _convert(value_node, (*path, key), document)
    return result


def _starts_with_tag(lines: list[str], mark: Mark) -> bool:
    return mark.line <= len(lines) and lines[mark.line - 1][mark.col - 1 : mark.col] == "!"


def _key(node: Any, path: Path, document: Document) -> str:
    merge = isinstance(node, ScalarNode) and node.value == "<<" and node.style is None
    if merge or not isinstance(node, ScalarNode):
        document.values[(*path, "<<")] = _mark(node)
        message, hint = (
            ("merge keys are not used here", "write the entries out") if merge else ("a key must be plain text", "")
        )
        raise document.error("spec.key", message, (*path, "<<"), hint=hint)
    return str(node.value)


def _scalar(node: Any, path: Path, document: Document) -> Any:
    if node.style is not None:  # quoted and block scalars are text
        return node.value
    text = node.value
    if text in WORDS:
        return WORDS[text]
    if INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if FLOAT.fullmatch(text):
        low = text.lower()
        if low.endswith(".inf"):
            return float("-inf" if low.startswith("-") else "inf")
        return float("nan" if low.endswith(".nan") else text)
    return text
