"""External compilers from wheels: CUDA C++ and PTX to cubin, SASS text, resources; no GPU and no driver needed."""

from refcompiler.toolchain.cubin import resources
from refcompiler.toolchain.installed import ToolUnavailable, fingerprint, versions
from refcompiler.toolchain.nvrtc import CudaArtifacts, compile_cuda, cuda_to_cubin, cuda_to_ptx, ptx_to_cubin
from refcompiler.toolchain.sass import disassemble, instruction_mix, instructions

__all__ = [
    "CudaArtifacts",
    "ToolUnavailable",
    "compile_cuda",
    "cuda_to_cubin",
    "cuda_to_ptx",
    "disassemble",
    "fingerprint",
    "instruction_mix",
    "instructions",
    "ptx_to_cubin",
    "resources",
    "versions",
]
