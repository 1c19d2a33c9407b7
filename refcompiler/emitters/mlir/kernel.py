"""A gpu.module with one kernel: the walk over the ops, what stands before and around them."""

from __future__ import annotations

from refcompiler.emitters.mlir import (  # noqa: F401  they fill the table
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
from refcompiler.ir.core import Func, Op
from refcompiler.ir.types import BOOL


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
    for param in func.params:
        if param.type is BOOL:
            zero = writer.let("arith.constant 0 : i8")
            writer.names[param] = writer.let(f"arith.cmpi ne, {writer.names[param]}, {zero} : i8")
    writer.block(func.body)
    head = f"  gpu.func @{entry_name(func)}({', '.join(parameters)}) kernel attributes {{"
    bounds = f"known_block_size = array<i32: {func.attrs['threads']}, 1, 1>, nvvm.minctasm = 1 : i32}} {{"
    before = [f"    {name} = {text}" for name, text in writer.constants.items()]
    before += [f"    {text}" for text in writer.allocations]
    body = "\n".join([head + bounds, *before, *writer.lines, "    gpu.return", "  }"])
    prelude = prelude_for(body)
    shared = (
        "  llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>\n"
    )
    outside = "".join(writer.tables) + (shared if func.attrs.get("shared_bytes") else "") + prelude
    return f"gpu.module @kernels {{\n{outside}{body}\n}}\n"
