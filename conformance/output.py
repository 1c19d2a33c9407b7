"""Writes files whole: readers, and runs that are interrupted or meet a full disk, see the old content or the new."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Replace a file, its folder made if need be; text is UTF-8 with line feeds. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", errors="replace"))
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
