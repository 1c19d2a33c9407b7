"""The artifact cache: bytes with JSON metadata, by content key, in memory and on disk.

Safe for concurrent threads and processes: an entry is one file, written to a temporary name and moved into place, and
carries a checksum, so a reader sees a whole entry or none. A damaged entry is removed and counts as absent. A folder
that cannot be written costs speed only: one warning, then compilation goes on without it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refcompiler import config

# An entry file: MAGIC, SHA-256 of the key and the rest, length of the JSON (8 bytes, little-endian), the JSON, data.
_MAGIC = b"tilespec-artifact-2\n"
_DIGEST = 32
_SUFFIX = ".artifact"
_TEMPORARY = ".part-"
_STALE_SECONDS = 3600.0
_PUTS_BETWEEN_EVICTIONS = 256
_SECONDS_BETWEEN_EVICTIONS = 3600.0


class Entry(NamedTuple):
    """What the cache holds under one key."""

    data: bytes
    metadata: Mapping


@functools.cache
def compiler_fingerprint() -> str:
    """Hash of the source text of every module of this compiler, computed once a process.

    It is part of every key, so that an artifact never outlives the compiler that made it.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        _feed(digest, path.relative_to(root).as_posix().encode())
        _feed(digest, path.read_bytes())
    return digest.hexdigest()


def artifact_key(kind: str, *parts: str | bytes, toolchain: str) -> str:
    """The key of an artifact of ``kind`` made from ``parts``, whose order and boundaries count.

    ``toolchain`` is ``refcompiler.toolchain.fingerprint()`` for whatever an external compiler made, ``""`` for our own
    text. The compiler's own fingerprint is always included.
    """
    digest = hashlib.sha256()
    for part in (compiler_fingerprint(), toolchain, kind, *parts):
        _feed(digest, part if isinstance(part, bytes) else part.encode())
    return digest.hexdigest()


def _feed(digest: Any, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "little"))
    digest.update(part)


def shared_cache() -> ArtifactCache:
    """The one cache of this process for the folder that is configured now."""
    root = config.cache_dir()
    with _shared_lock:
        if root not in _shared:
            _shared[root] = ArtifactCache(root / "artifacts")
        return _shared[root]


class ArtifactCache:
    """Bytes by key (from :func:`artifact_key`), recent ones in memory, all of them under ``root`` on disk.

    ``limit_bytes`` bounds the disk: when it is passed, the entries used longest ago go first. ``memory_bytes`` bounds
    the copies in memory. ``root=None`` is the folder of ``config.cache_dir()``.
    """

    def __init__(self, root: Path | str | None = None, *, limit_bytes: int | None = None, memory_bytes: int = 1 << 26):
        self.root = Path(root) if root is not None else config.cache_dir() / "artifacts"
        self.limit_bytes = config.CACHE_MEGABYTES() * 1_000_000 if limit_bytes is None else limit_bytes
        self.memory_bytes = memory_bytes
        self._recent: OrderedDict[str, Entry] = OrderedDict()
        self._recent_bytes = 0
        self._lock = threading.Lock()
        self._puts = 0
        self._warned = False

    def get(self, key: str) -> bytes | None:
        """The data stored under ``key``, or None."""
        entry = self.entry(key)
        return None if entry is None else entry.data

    def entry(self, key: str) -> Entry | None:
        """The data and metadata stored under ``key``, or None."""
        with self._lock:
            entry = self._recent.get(key)
            if entry is not None:
                self._recent.move_to_end(key)
                return entry
        entry = self._read(key)
        if entry is not None:
            self._remember(key, entry)
        return entry

    def put(self, key: str, data: bytes, metadata: Mapping | None = None) -> None:
        """Store ``data`` and JSON-able ``metadata`` under ``key``; replaces what was there."""
        text = json.dumps(dict(metadata or {}), sort_keys=True)
        # From the text, so that a hit in memory and a hit on disk give the same thing (tuples become lists).
        self._remember(key, Entry(bytes(data), json.loads(text)))
        self._write(key, text.encode(), data)
        with self._lock:
            self._puts += 1
            due = self._puts % _PUTS_BETWEEN_EVICTIONS == 0
        if due or self._seconds_since_eviction() > _SECONDS_BETWEEN_EVICTIONS:
            self.evict()

    def remove(self, key: str) -> None:
        """Forget the entry under ``key``, in memory and on disk."""
        with self._lock:
            entry = self._recent.pop(key, None)
            self._recent_bytes -= len(entry.data) if entry is not None else 0
        _remove(self._path(key))

    def size(self) -> tuple[int, int]:
        """Entries and bytes on disk."""
        sizes = [stat.st_size for path, stat in self._files() if path.suffix == _SUFFIX]
        return len(sizes), sum(sizes)

    def clear(self) -> None:
        """Forget every entry, in memory and on disk; other files under the folder stay."""
        with self._lock:
            self._recent.clear()
            self._recent_bytes = 0
        for path, _ in self._files():
            _remove(path)

    def evict(self) -> None:
        """Remove the entries used longest ago until the disk holds at most ``limit_bytes``, and abandoned writes."""
        import filelock

        try:
            with filelock.FileLock(self.root / "evict.lock", blocking=False):
                self._evict_locked()
        except filelock.Timeout:
            pass  # another process is at it
        except OSError as error:
            self._warn(error)

    def _evict_locked(self) -> None:
        now = time.time()
        (self.root / "evicted").touch()
        entries = []
        for path, stat in self._files():
            if path.name.startswith(_TEMPORARY):
                if now - stat.st_mtime > _STALE_SECONDS:
                    _remove(path)
            else:
                entries.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(entries):
            _remove(path)
            total -= size
            if total <= self.limit_bytes * 0.8:  # some room, so that the next write does not evict again
                break

    def _seconds_since_eviction(self) -> float:
        try:
            return time.time() - (self.root / "evicted").stat().st_mtime
        except OSError:
            return float("inf")

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for folder in sorted(self.root.glob("??")):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if path.suffix == _SUFFIX or path.name.startswith(_TEMPORARY):
                    with contextlib.suppress(OSError):  # another process removed it meanwhile
                        yield path, path.stat()

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / (key[2:] + _SUFFIX)

    def _read(self, key: str) -> Entry | None:
        path = self._path(key)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        entry = _decode(key, raw)
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink()
            else:
                os.utime(path)  # eviction goes by the time of last use
        return entry

    def _write(self, key: str, metadata: bytes, data: bytes) -> None:
        path = self._path(key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_encode(key, metadata, data))
            os.replace(temporary, path)
        except OSError as error:
            if temporary is not None:
                _remove(Path(temporary))
            self._warn(error)

    def _remember(self, key: str, entry: Entry) -> None:
        with self._lock:
            previous = self._recent.pop(key, None)
            if previous is not None:
                self._recent_bytes -= len(previous.data)
            self._recent[key] = entry
            self._recent_bytes += len(entry.data)
            while self._recent_bytes > self.memory_bytes:
                _, dropped = self._recent.popitem(last=False)
                self._recent_bytes -= len(dropped.data)

    def _warn(self, error: OSError) -> None:
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            warnings.warn(
                f"the artifact cache at {self.root} cannot be used ({error}); compiling without it. "
                f"Set {config.CACHE_DIR.name} to a writable folder.",
                RuntimeWarning,
                stacklevel=4,
            )


_shared: dict[Path, ArtifactCache] = {}
_shared_lock = threading.Lock()


def _encode(key: str, metadata: bytes, data: bytes) -> bytes:
    body = len(metadata).to_bytes(8, "little") + metadata + data
    return _MAGIC + hashlib.sha256(key.encode() + body).digest() + body


def _decode(key: str, raw: bytes) -> Entry | None:
    """What a file holds; None where it is damaged, or was written for another key."""
    start = len(_MAGIC) + _DIGEST
    body = raw[start:]
    if not raw.startswith(_MAGIC) or hashlib.sha256(key.encode() + body).digest() != raw[len(_MAGIC) : start]:
        return None
    end = 8 + int.from_bytes(body[:8], "little")
    return Entry(body[end:], json.loads(body[8:end]))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
