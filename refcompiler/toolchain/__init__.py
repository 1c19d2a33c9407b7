"""External compilers from wheels: CUDA C++, MLIR and PTX to cubin, SASS text, resources; no GPU, no driver needed."""

from refcompiler.toolchain.cubin import resources
from refcompiler.toolchain.installed import ToolUnavailable, fingerprint, versions
from refcompiler.toolchain.mlir import compile_mlir, mlir_to_ptx, require_mlir, verify_mlir
from refcompiler.toolchain.nvrtc import Artifacts, compile_cuda, cuda_to_cubin, cuda_to_ptx, ptx_to_cubin
from refcompiler.toolchain.sass import disassemble, instruction_mix, instructions

__all__ = [
    "COMPILERS",
    "Artifacts",
    "ToolUnavailable",
    "compile_cuda",
    "compile_mlir",
    "cuda_to_cubin",
    "cuda_to_ptx",
    "disassemble",
    "fingerprint",
    "instruction_mix",
    "instructions",
    "mlir_to_ptx",
    "ptx_to_cubin",
    "require_mlir",
    "resources",
    "verify_mlir",
    "versions",
]

# What makes machine code of the text of each backend.
COMPILERS = {"cuda": compile_cuda, "mlir": compile_mlir}
