"""SASS: the machine code of a cubin as text, and how often each instruction occurs in it."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from refcompiler.errors import InternalError
from refcompiler.toolchain.installed import nvdisasm

# Descriptors are pairs of uniform registers. What ptxas writes otherwise is refused when it runs, as illegal.
_MISALIGNED = re.compile(r"^.*\bdesc\[UR\d*[13579]\].*$", re.MULTILINE)
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^\s,]+)")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?PT?\d*\s+)?([A-Z][A-Za-z0-9_.]*)")
# Instructions that move 32 bits unless a modifier says another width.
_MEMORY = frozenset({"LD", "ST", "LDG", "STG", "LDS", "STS", "LDL", "STL", "LDGSTS"})
_WIDTHS = frozenset({"U8", "S8", "U16", "S16", "64", "128", "256"})


@functools.lru_cache(maxsize=64)
def disassemble(cubin: bytes) -> str:
    """The SASS text of every function of ``cubin``, by nvdisasm; about 0.3 s, most of it the program's start.

    Raises InternalError for an instruction that the assembler should not have made, as the GPU refuses it.
    """
    with tempfile.TemporaryDirectory(prefix="tilespec-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        # Without dataflow analysis, which only annotates indirect branches, and fails on some cubins.
        done = subprocess.run([nvdisasm(), "-c", "-ndf", path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InternalError("toolchain.nvdisasm", f"nvdisasm rejects the cubin: {done.stderr.strip()}")
    check_descriptors(done.stdout)
    return done.stdout


def check_descriptors(sass: str) -> None:
    """Raise InternalError (toolchain.descriptor) for an access whose descriptor does not begin at an even register."""
    if wrong := _MISALIGNED.search(sass):
        raise InternalError("toolchain.descriptor", f"the assembler made what the GPU refuses: {wrong[0].strip()}")


def instructions(sass: str, entry: str | None = None) -> list[str]:
    """The opcodes with their modifiers (``LDG.E.128``) in order, of function ``entry`` or of all functions.

    The NOPs that pad the end of a function are left out.
    """
    found: list[str] = []
    inside, function = entry is None, 0
    for line in sass.splitlines():
        section = _SECTION.match(line)
        if section:
            _drop_padding(found, function)
            inside, function = entry is None or section[1] == entry, len(found)
            continue
        instruction = _INSTRUCTION.match(line) if inside else None
        if instruction:
            found.append(instruction[1])
    _drop_padding(found, function)
    return found


def instruction_mix(sass: str, entry: str | None = None) -> Counter[str]:
    """How often each opcode occurs, alone and with each of its modifiers: ``LDG.E.128`` counts as
    ``LDG``, ``LDG.E`` and ``LDG.128``; a memory instruction without a width counts as ``LDG.32`` too.
    """
    mix: Counter[str] = Counter()
    for name in instructions(sass, entry):
        opcode, *modifiers = name.split(".")
        mix[opcode] += 1
        if opcode in _MEMORY and not _WIDTHS & set(modifiers):
            modifiers.append("32")
        mix.update(f"{opcode}.{modifier}" for modifier in set(modifiers))
    return mix


def local_memory_bytes(sass: str, entry: str) -> int:
    """Bytes a thread moves to and from local memory if each instruction of ``entry`` runs once."""
    mix = instruction_mix(sass, entry)
    size = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16, "256": 32}
    return sum(mix[f"{opcode}.{width}"] * size[width] for opcode in ("LDL", "STL") for width in size)


def _drop_padding(found: list[str], function: int) -> None:
    while len(found) > function and found[-1] == "NOP":
        found.pop()
