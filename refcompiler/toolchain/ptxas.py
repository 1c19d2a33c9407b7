"""PTX to cubin by the program ptxas, which knows that a kernel is a whole program."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from refcompiler.toolchain.installed import ptxas
from refcompiler.toolchain.reproducer import check_remarks, rejected


def assemble(ptx: str, arch: str) -> bytes:
    """The cubin of ``ptx`` for ``arch``; about 50 ms.

    Raises ToolUnavailable without the program, InternalError (toolchain.ptxas) with the log when the PTX is not
    accepted, InternalError (toolchain.serialized) when wgmma instructions would not overlap.
    """
    program = ptxas()
    flags = [f"-arch={arch}", "--fmad=false"]
    with tempfile.TemporaryDirectory(prefix="tilespec-") as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [str(program), *flags, "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = done.stdout + done.stderr
        if done.returncode:
            raise rejected("ptxas", ptx, ".ptx", flags, log)
        check_remarks("ptxas", ptx, ".ptx", flags, log)
        return cubin.read_bytes()
