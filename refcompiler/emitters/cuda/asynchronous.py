"""Asynchronous copies, their barriers and tensor maps in CUDA C++: calls of functions around inline PTX."""

from __future__ import annotations

from collections.abc import Callable

from refcompiler.dialects.simt.asynchronous import Argument, CpAsync, MbarrierAlloc, TensorMapOp
from refcompiler.emitters.cuda import expressions as e
from refcompiler.emitters.cuda.expressions import Expr, binary
from refcompiler.emitters.cuda.names import Namer
from refcompiler.emitters.cuda.text import Renderer
from refcompiler.ir.core import Op
from refcompiler.ir.types import MBARRIER


class AsynchronousCopies:
    """The part of the writer of a kernel that writes ops of asynchronous copies."""

    renderer: Renderer
    namer: Namer
    maps: list[str]
    line: Callable[[str], None]

    def write_tensor_map(self, op: TensorMapOp, index: Expr | None) -> None:
        self.renderer.names[op.result] = f"&{self.maps[op.descriptor]}"

    def write_mbarrier_alloc(self, op: MbarrierAlloc, index: Expr | None) -> None:
        type_ = e.memory_type(MBARRIER)
        name = self.renderer.names[op.result] = self.namer.name("barriers")
        self.line(f"{type_}* const {name} = ({type_}*)(shared + {op.offset});")

    def call(self, op: Op, index: Expr | None) -> None:
        """A call; an instruction that has no operands stands for itself."""
        instruction = op.instruction
        if not instruction.operands:
            self.line(f'asm volatile("{instruction.text}" ::: "memory");')
            return
        words = [str(self.argument(argument, index)) for argument in op.arguments]
        predicate = getattr(op, "predicate", None)
        if predicate is not None:
            words.append(str(self.renderer.value(predicate, index)))
        self.line(f"{instruction.name}({', '.join(words)});")

    def argument(self, argument: Argument, index: Expr | None) -> Expr:
        if isinstance(argument, int):
            return Expr(str(argument))
        if not isinstance(argument, tuple):
            return self.renderer.value(argument, index)
        buffer, place = argument
        base, offset = Expr(self.renderer.names[buffer]), self.renderer.value(place, index)
        return base if offset.text == "0" else binary(base, "+", offset)

    def write_cp_async(self, op: CpAsync, index: Expr | None) -> None:
        to, address = self.argument((op.buffer, op.index), index), self.renderer.address(op, index)
        size = Expr(str(op.bytes))
        if op.mask is not None:
            size = e.conditional(self.renderer.value(op.mask, index), size, Expr("0"))
        self.line(f"{op.instruction.name}({to}, {address}, {size});")
