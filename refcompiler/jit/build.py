"""From the optimised tile function to a cubin and what launching it needs, through the artifact cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refcompiler import config
from refcompiler.cache import artifact_key, shared_cache
from refcompiler.dialects.simt.tensor_maps import TensorMap, tensor_maps
from refcompiler.ir import Func, print_func
from refcompiler.ir.types import DType, PointerType
from refcompiler.jit.written import written_params
from refcompiler.runtime.abi import KernelABI, Param


@dataclass(frozen=True)
class Build:
    """Machine code of one kernel: cubin and PTX, the entry's name, its ABI, threads a block, dynamic shared bytes, how
    many blocks a program is, and what it takes for granted of its arrays."""

    cubin: bytes
    ptx: str
    entry: str
    abi: KernelABI
    threads: int
    shared_bytes: int
    num_ctas: int = 1  # blocks of the grid that are one program
    disjoint: tuple[tuple[str, str], ...] = ()  # parameters whose arrays must share no byte

    def metadata(self) -> dict[str, Any]:
        """All but the code, as JSON."""
        return {
            "entry": self.entry,
            "abi": self.abi.to_json(),
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "num_ctas": self.num_ctas,
            "disjoint": [list(pair) for pair in self.disjoint],
        }


def cache_key(func: Func, arch: str, backend: str, options: Any) -> str:
    """The identity of machine code: the tile IR, the options, the architecture, the backend, our source and the tools.

    The tile IR holds all that the kernel's source, its helpers, types, hints, compile-time values and captured values
    come to. What does not change it (a comment, another function, where the file lies) needs no other machine code.
    """
    from refcompiler import toolchain

    chosen = f"{options!r} {config.WITHOUT_PASSES()}"
    return artifact_key("cubin", print_func(func), chosen, arch, backend, toolchain=toolchain.fingerprint())


def forget(key: str) -> None:
    """Remove the build under ``key`` from the cache."""
    shared_cache().remove(key)
    shared_cache().remove(_ptx_key(key))


def stored(key: str) -> Build | None:
    """The build kept under ``key``, or None."""
    cubin, ptx = shared_cache().entry(key), shared_cache().get(_ptx_key(key))
    if cubin is None or ptx is None:
        return None
    meta = cubin.metadata
    abi = KernelABI.from_json(meta["abi"])
    return Build(
        cubin.data,
        ptx.decode(),
        meta["entry"],
        abi,
        meta["threads"],
        meta["shared_bytes"],
        meta["num_ctas"],
        tuple(map(tuple, meta["disjoint"])),
    )


def build(text: str, simt: Func, tile: Func, arch: str, backend: str, options: Any, key: str) -> Build:
    """Compile the text of ``backend`` and keep the result under ``key``."""
    from refcompiler import pipeline, toolchain

    artifacts = toolchain.COMPILERS[backend](text, arch)
    entry = pipeline.EMITTERS[backend].entry_name(simt)
    threads = int(simt.attrs["threads"])
    shared = int(simt.attrs.get("shared_bytes", 0))
    abi = kernel_abi(tile, tensor_maps(simt), any(op.name == "griddep_wait" for op in simt.walk()))
    ctas = int(simt.attrs.get("num_ctas", 1))
    made = Build(artifacts.cubin, artifacts.ptx, entry, abi, threads, shared, ctas, simt.attrs.get("disjoint", ()))
    shared_cache().put(key, made.cubin, made.metadata())
    shared_cache().put(_ptx_key(key), made.ptx.encode())
    return made


def _ptx_key(key: str) -> str:
    return artifact_key("ptx", key, toolchain="")


def kernel_abi(func: Func, maps: Sequence[TensorMap] = (), waits: bool = False) -> KernelABI:
    """The parameters of a tile function as the launcher passes them, the tensor maps that its code takes, and whether
    the code waits for what was queued before."""
    written = written_params(func)
    params = []
    for p in func.params:
        name = str(p.name)
        if isinstance(p.type, PointerType):
            hint = func.hints.get(name, 1)
            params.append(Param(name, "pointer", p.type.pointee.name, name in written, hint))
        else:
            assert isinstance(p.type, DType)
            params.append(Param(name, "scalar", p.type.name, False, func.hints.get(name, 1)))
    params += [Param(f"{m.pointer}_map{i}", "tensor_map", tensor_map=m) for i, m in enumerate(maps)]
    return KernelABI(tuple(params), waits)
