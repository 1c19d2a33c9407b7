"""Feature files as read and checked by an earlier command: kept by their text and by the source that read them."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path

from conformance import yaml_text
from conformance.adapters import storage
from conformance.yaml_text import Document, Places

_HERE = Path(__file__).resolve().parent


def read(file: str, text: str) -> Document:
    """Like ``yaml_text.read``; a text that was read before is not parsed again."""
    key = _digest("document", _reader(), text)
    kept = storage.load(key)
    if kept is None:
        document = yaml_text.read(file, text)
        tables = [table.marks for table in (document.values, document.keys, document.blocks)]
        storage.save(key, json.dumps([document.data, *tables]).encode())
        return document
    data, *tables = json.loads(kept)
    return Document(file, text, data, *map(Places, tables))


def passed(text: str, schema: Path) -> bool:
    """Whether this harness, with these oracles and the file ``schema``, has accepted ``text`` before."""
    return storage.load(_verdict_key(text, schema)) is not None


def note_passed(text: str, schema: Path) -> None:
    """Remember that all checks accepted ``text``."""
    storage.save(_verdict_key(text, schema), b"")


def _verdict_key(text: str, schema: Path) -> str:
    return _digest("accepted", _rules(schema), text)


@functools.cache
def _rules(schema: Path) -> str:
    """A hash of all that decides whether a feature file is accepted."""
    files = [schema, *sorted(_HERE.glob("*.py")), *sorted((_HERE.parent / "oracles").glob("*.py"))]
    return _digest(*(path.read_text(encoding="utf-8") for path in files))


@functools.cache
def _reader() -> str:
    """A hash of the source that makes documents of text."""
    return _digest(*((_HERE / name).read_text(encoding="utf-8") for name in ("yaml_text.py", "parsed.py")))


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
