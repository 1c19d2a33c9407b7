"""The error for generated text that an external compiler rejects, with a file that reproduces it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from refcompiler import config
from refcompiler.errors import InternalError


def rejected(tool: str, source: str, suffix: str, flags: Sequence[str], log: str) -> InternalError:
    """The error for generated text that ``tool`` rejects, with a file that reproduces it where one can be written."""
    head = f"// {tool} {' '.join(flags)}\n" + "".join(f"// {line}\n" for line in log.rstrip().splitlines())
    name = hashlib.sha256((head + source).encode()).hexdigest()[:16] + suffix
    path = config.cache_dir() / "reproducers" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + source)
        note = f"reproducer: {path}"
    except OSError as error:
        note = f"no reproducer was written: {error}"
    return InternalError(f"toolchain.{tool}", f"{tool} rejects the generated code\n{log.rstrip()}", notes=[note])
