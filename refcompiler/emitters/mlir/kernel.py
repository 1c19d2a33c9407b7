"""A gpu.module with one kernel: the walk over the ops, what stands before and around them."""

from __future__ import annotations

from refcompiler.dialects.simt.memory import shared_alignment
from refcompiler.dialects.simt.tensor_maps import tensor_maps
from refcompiler.emitters.mlir import (  # noqa: F401  they fill the table
    asynchronous,
    atomics,
    control,
    elementwise,
    memory,
    tensor_cores,
    thread,
)
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.arrays import is_long, write_long
from refcompiler.emitters.mlir.names import entry_name
from refcompiler.emitters.mlir.prelude import prelude_for
from refcompiler.emitters.mlir.writer import Writer
from refcompiler.ir.core import Func, Op, Value
from refcompiler.ir.types import BOOL, TENSOR_MAP


class _Kernel(Writer):
    """The writer of one kernel, to which long vectors are arrays."""

    def write(self, op: Op) -> None:
        if is_long(op):
            write_long(self, op)
        else:
            super().write(op)


def emit(func: Func) -> str:
    """The MLIR module of a SIMT function: what it needs of the prelude, shared memory, and the kernel."""
    writer = _Kernel(func)
    parameters = []
    for param in func.params:
        writer.param(param)
        type_ = t.memory_type(param.type)  # a bool argument is one byte
        parameters.append(f"{writer.names[param]}: {type_}")
    for tensor in tensor_maps(func):
        writer.maps.append(writer.param(Value(TENSOR_MAP, f"{tensor.pointer}_map")))
        parameters.append(f"{writer.maps[-1]}: {asynchronous.MAP} {asynchronous.MAP_ATTRIBUTES}")
    for param in func.params:
        if param.type is BOOL:
            zero = writer.let("arith.constant 0 : i8")
            writer.names[param] = writer.let(f"arith.cmpi ne, {writer.names[param]}, {zero} : i8")
    writer.block(func.body)
    head, end = _bounds(func, ", ".join(parameters), bool(writer.maps))
    before = [f"    {name} = {text}" for name, text in writer.constants.items()]
    before += [f"    {text}" for text in writer.allocations]
    body = "\n".join([head, *before, *writer.lines, end, "  }"])
    prelude = prelude_for(body)
    shared = (
        f"  llvm.mlir.global external @shared() {{addr_space = 3 : i32, alignment = {shared_alignment(func)} : i64}}"
        " : !llvm.array<0 x i8>\n"
    )
    outside = "".join(writer.tables) + (shared if func.attrs.get("shared_bytes") else "") + prelude
    return f"gpu.module @kernels {{\n{outside}{body}\n}}\n"


def _bounds(func: Func, parameters: str, has_maps: bool) -> tuple[str, str]:
    """The first line of the kernel, and how it returns: MLIR's gpu.func takes no tensor map as an argument."""
    name, threads, blocks = entry_name(func), func.attrs["threads"], func.attrs.get("min_blocks", 1)
    ctas = func.attrs.get("num_ctas", 1)
    cluster = f", nvvm.cluster_dim = array<i32: {ctas}, 1, 1>" if ctas > 1 else ""
    if has_maps:
        bounds = f"gpu.kernel, nvvm.kernel, nvvm.maxntid = array<i32: {threads}, 1, 1>, nvvm.minctasm = {blocks} : i32"
        bounds += cluster
        return f"  llvm.func @{name}({parameters}) attributes {{{bounds}}} {{", "    llvm.return"
    bounds = f"known_block_size = array<i32: {threads}, 1, 1>, nvvm.minctasm = {blocks} : i32{cluster}"
    return f"  gpu.func @{name}({parameters}) kernel attributes {{{bounds}}} {{", "    gpu.return"
