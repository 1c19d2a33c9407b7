"""Symbols and value names of generated MLIR: the user's where possible."""

from __future__ import annotations

import re

from refcompiler.emitters.mlir.prelude import PRELUDE
from refcompiler.ir.core import Func
from refcompiler.ir.types import DTYPES

RESERVED = frozenset({"shared", *PRELUDE, *(f"{name}_{dtype}" for name in PRELUDE for dtype in DTYPES)})
# Names of LLVM's intrinsics and of libdevice, and `_`, which is no PTX symbol.
_RESERVED_START = re.compile(r"__|_\Z|llvm\Z")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def identifier(name: str) -> str:
    """``name``, or an identifier of PTX like it."""
    if _IDENTIFIER.match(name):  # Python identifiers may hold any letter of Unicode
        return name
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name)
    return text if _IDENTIFIER.match(text) else f"u{text}"


def entry_name(func: Func) -> str:
    """The symbol of the kernel in the cubin."""
    text = identifier(func.name)
    if _RESERVED_START.match(text):
        text = "u" + text
    return text + "_" if text in RESERVED else text
