"""What a cubin says of its kernels: registers, shared memory, stack, spills, threads; read from the ELF file itself."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

from refcompiler.errors import InternalError
from refcompiler.toolchain.sass import disassemble, local_memory_bytes

# Attributes of the `.nv.info` sections: a format byte, an attribute byte, then 2 bytes of value, or, in the sized
# format, a 16-bit size and that many bytes. The names are cuobjdump's.
_SIZED = 4
_MAX_THREADS = 0x05
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_REGCOUNT = 0x2F
# Since sm_90 the system's share of shared memory is part of the section's size.
_SYSTEM_SHARED_BYTES = 1024
_SYSTEM_SHARED_SYMBOL = ".nv.reservedSmem.offset0"


def resources(cubin: bytes, entry: str) -> dict[str, int | None]:
    """What kernel ``entry`` of ``cubin`` needs.

    - ``regs``: registers a thread.
    - ``smem``: bytes of static shared memory the kernel declares, without the 1024 that the system reserves since
      sm_90 (as ``ptxas -v`` counts; cuobjdump adds the 1024).
    - ``stack``: bytes of stack a thread, its frame and what it calls.
    - ``spill_bytes``: bytes a thread moves to and from local memory if each local load and store of the SASS runs
      once; for a kernel without local arrays, which ours are, ptxas's spill stores plus spill loads. A kernel
      without stack has none; only for the others is the disassembler asked.
    - ``threads``: threads a block by its launch bound; None without one.

    Raises InternalError (toolchain.cubin) where the cubin has no such kernel.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf: Any = ELFFile(io.BytesIO(cubin))
    except ELFError as error:
        raise InternalError("toolchain.cubin", f"not a cubin: {error}") from None
    own = elf.get_section_by_name(f".nv.info.{entry}")
    symbols = [symbol.name for symbol in elf.get_section_by_name(".symtab").iter_symbols()]
    if own is None:
        raise InternalError("toolchain.cubin", f"no kernel {entry!r} in the cubin")
    of_module = _by_symbol(elf.get_section_by_name(".nv.info").data(), symbols.index(entry))
    bounds = [struct.unpack("<3I", value) for attribute, value in _attributes(own.data()) if attribute == _MAX_THREADS]
    stack = max(of_module.get(_FRAME_SIZE, 0), of_module.get(_MIN_STACK_SIZE, 0))
    return {
        "regs": of_module[_REGCOUNT],
        "smem": _shared_bytes(elf, entry, symbols),
        "stack": stack,
        "spill_bytes": local_memory_bytes(disassemble(cubin), entry) if stack else 0,
        "threads": bounds[0][0] * bounds[0][1] * bounds[0][2] if bounds else None,
    }


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    """(attribute, value bytes) for each record of a `.nv.info` section."""
    at = 0
    while at < len(section):
        shape, attribute = section[at], section[at + 1]
        size = int.from_bytes(section[at + 2 : at + 4], "little") if shape == _SIZED else 0
        yield attribute, section[at + 4 : at + 4 + size] if shape == _SIZED else section[at + 2 : at + 4]
        at += 4 + size


def _by_symbol(section: bytes, symbol: int) -> dict[int, int]:
    """Attribute -> number for the records of the module's `.nv.info` section that are about ``symbol``."""
    pairs = [(attribute, value) for attribute, value in _attributes(section) if len(value) == 8]
    numbers = [(attribute, *struct.unpack("<2I", value)) for attribute, value in pairs]
    return {attribute: number for attribute, about, number in numbers if about == symbol}


def _shared_bytes(elf: Any, entry: str, symbols: list[str]) -> int:
    section = elf.get_section_by_name(f".nv.shared.{entry}")
    if section is None:
        return 0
    return section["sh_size"] - (_SYSTEM_SHARED_BYTES if _SYSTEM_SHARED_SYMBOL in symbols else 0)
