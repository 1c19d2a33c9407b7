"""The errors for generated text that an external compiler rejects or finds slow, with a file that reproduces it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from refcompiler import config
from refcompiler.errors import InternalError


def rejected(tool: str, source: str, suffix: str, flags: Sequence[str], log: str) -> InternalError:
    """The error for generated text that ``tool`` rejects, with a file that reproduces it where one can be written;
    toolchain.registers where threads have too few of them for one instruction."""
    note = _reproducer(tool, source, suffix, flags, log)
    few = [line for line in log.rstrip("\0").splitlines() if "Insufficient registers" in line]
    if few:
        text = "\n".join(["threads have too few registers for wgmma instructions", *few])
        return InternalError("toolchain.registers", text, notes=[note])
    return InternalError(f"toolchain.{tool}", f"{tool} rejects the generated code\n{log.rstrip()}", notes=[note])


def check_remarks(tool: str, source: str, suffix: str, flags: Sequence[str], log: str) -> None:
    """Raise InternalError (toolchain.serialized) where ptxas says that it serialized wgmma instructions: the code is
    right, and slow by a factor that no other measure makes up for."""
    said = [line for line in log.rstrip("\0").splitlines() if "serialized" in line]
    if said:
        note = _reproducer(tool, source, suffix, flags, log)
        text = "\n".join(["wgmma instructions of the generated code do not overlap", *said])
        raise InternalError("toolchain.serialized", text, notes=[note])


def _reproducer(tool: str, source: str, suffix: str, flags: Sequence[str], log: str) -> str:
    """Writes the file; a note that says where."""
    head = f"// {tool} {' '.join(flags)}\n" + "".join(f"// {line}\n" for line in log.rstrip().splitlines())
    name = hashlib.sha256((head + source).encode()).hexdigest()[:16] + suffix
    path = config.cache_dir() / "reproducers" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + source)
        return f"reproducer: {path}"
    except OSError as error:
        return f"no reproducer was written: {error}"
