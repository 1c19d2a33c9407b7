"""Text of values and memory accesses, given the names of the variables."""

from __future__ import annotations

from collections.abc import Callable

from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.atomic import Atomic
from refcompiler.dialects.elementwise import Elementwise
from refcompiler.dialects.simt.thread import ALL_LANES, SHUFFLES
from refcompiler.emitters.cuda import expressions as e
from refcompiler.emitters.cuda.atomics import atomic_function
from refcompiler.emitters.cuda.cached import access_function
from refcompiler.emitters.cuda.expressions import C_TYPES, Expr, binary, call, cast_to
from refcompiler.emitters.cuda.indexing import entry
from refcompiler.emitters.cuda.plan import VIEWS, Plan
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.types import BOOL, DType, PointerType, RegType, element_of

_GRID = ("x", "y", "z")
_VOTES = {"vote_any": "__any_sync"}
_SHUFFLES = {
    "shfl_xor": "__shfl_xor_sync",
    "shfl_idx": "__shfl_sync",
    "shfl_up": "__shfl_up_sync",
    "shfl_down": "__shfl_down_sync",
}


class Renderer:
    """Writes values as expressions. ``names`` has the variables; ``locals`` those that are one register of a loop."""

    def __init__(self, ranges: Ranges, plan: Plan, written: set[Value], table: Callable[[tuple[int, ...]], str]):
        self.ranges, self.plan, self.written, self.table = ranges, plan, written, table
        self.names: dict[Value, str] = {}
        self.locals: set[Value] = set()
        self.arrays: dict[Op, str] = {}  # what a wide store reads

    def value(self, value: Value, index: Expr | None) -> Expr:
        """The scalar, or the register ``index`` of a vector."""
        if isinstance(value, Constant):
            return e.literal(value)
        name = self.names.get(value)
        if name is not None:
            is_vector = isinstance(value.type, RegType) and value not in self.locals
            return Expr(f"{name}[{index}]" if is_vector else name)
        return self.op(value.owner, index)

    def op(self, op: Op, index: Expr | None) -> Expr:
        """An op that is an expression."""
        if op.name in VIEWS:
            return self.view(op, index)
        if op.name == "thread_id":
            return Expr("(int)threadIdx.x", e.UNARY, Expr("threadIdx.x"))
        if op.name in ("program_id", "num_programs"):
            word = f"{'blockIdx' if op.name == 'program_id' else 'gridDim'}.{_GRID[op.axis]}"
            return Expr(f"(int){word}", e.UNARY, Expr(word))
        operands = [self.value(o, index) for o in op.operands]
        source, target = element_of(op.operands[0].type), element_of(op.results[0].type)
        if op.name == "addptr":
            return binary(operands[0], "+", operands[1])
        if op.name == "select":
            return e.conditional(*operands)
        if op.name == "cast":
            return e.cast(operands[0], source, target)
        if op.name == "bitcast":
            return e.bitcast(operands[0], source, target, op.results[0] not in self.written)
        if op.name in _VOTES:
            return call(_VOTES[op.name], hex(ALL_LANES), operands[0])
        if op.name in SHUFFLES:
            return self.shuffle(op, operands, source)
        assert isinstance(op, Elementwise) and isinstance(source, DType)
        return self.integer(op, operands, source) or e.scalar_function(
            op.name, source, operands, op in self.ranges.exact
        )

    def view(self, op: Op, index: Expr | None) -> Expr:
        if op.name == "splat":
            return self.value(op.x, None)
        values = op.values if op.name == "constants" else op.indices
        if op.name == "extract" and len(values) == 1:
            return self.value(op.x, Expr(str(values[0])))
        place = entry(values, index) or Expr(f"{self.table(values)}[{index}]")
        if op.name == "extract":
            return self.value(op.x, place)
        if not place.text.isdigit():  # arithmetic on a small loop variable: cannot wrap
            return place
        return e.literal(Constant(int(place.text), element_of(op.result.type)))

    def integer(self, op: Op, operands: list[Expr], dtype: DType) -> Expr | None:
        """Division and shifts in plain operators where the second operand allows them."""
        if not dtype.is_int or op.name not in ("div", "rem", "shl", "shr"):
            return None
        if not self.ranges.defined(op):
            return None
        type_ = C_TYPES[dtype.name]
        x, y = operands
        if op.name in ("div", "rem"):
            result = binary(x, "/" if op.name == "div" else "%", y)
        elif op.name == "shr":
            result = binary(x, ">>", y)
        elif dtype.kind == "uint" and dtype.bits >= 32:
            result = binary(x, "<<", y)
        else:
            unsigned = "unsigned" if dtype.bits <= 32 else "unsigned long long"
            modulo = binary(x.modulo or cast_to(unsigned, x), "<<", y)
            return Expr(f"({type_})({modulo})", e.UNARY, modulo if dtype.bits >= 32 else None)
        return result if dtype.bits >= 32 else cast_to(type_, result)

    @staticmethod
    def shuffle(op: Op, operands: list[Expr], element) -> Expr:
        function = _SHUFFLES[op.name]
        lane = operands[1] if op.name == "shfl_idx" else Expr(str(op.mask if op.name == "shfl_xor" else op.delta))
        moved = operands[0]
        type_ = e.c_type(element)
        if isinstance(element, PointerType):
            moved = cast_to("unsigned long long", moved)
        result = call(function, hex(op.members), moved, lane)
        narrow = isinstance(element, PointerType) or element is BOOL or element.bits < 32
        return cast_to(type_, result) if narrow else result

    # --- memory
    def place(self, op: Op, index: Expr | None) -> tuple[Expr, Expr | None]:
        """Base and element offset of an access; no offset where the pointer stands for itself."""
        if op.name.endswith("_shared"):
            return Expr(self.names[op.buffer]), self.value(op.index, index)
        pointer = op.pointer
        if pointer in self.names:
            return self.value(pointer, index), None
        owner = pointer.owner
        while owner.name == "splat":
            pointer = owner.x
            if pointer in self.names:
                return self.value(pointer, None), None
            owner = pointer.owner
        if owner.name == "addptr":
            return self.value(owner.pointer, index), self.value(owner.offset, index)
        return self.value(pointer, index), None

    def element(self, op: Op, index: Expr | None) -> Expr:
        base, offset = self.place(op, index)
        if offset is None:
            return Expr(f"*{base.within(e.UNARY)}", e.UNARY)
        return Expr(f"{base.within(e.PRIMARY)}[{offset}]")

    def address(self, op: Op, index: Expr | None) -> Expr:
        base, offset = self.place(op, index)
        return base if offset is None or offset.text == "0" else binary(base, "+", offset)

    def load(self, op: Op, index: Expr | None) -> Expr:
        """One element, under its mask."""
        function = access_function(op) if op.name == "ld_global" else None
        element = element_of(op.result.type)
        if function and op.mask is not None and element is not BOOL and isinstance(element, DType):
            other = cast_to(e.memory_type(element), self.other(op, index))
            return call(f"{function}_if", self.value(op.mask, index), self.address(op, index), other)
        loaded = call(function, self.address(op, index)) if function else self.element(op, index)
        if element is BOOL:
            loaded = binary(loaded, "!=", Expr("0"))
        if op.name == "ld_shared" or op.mask is None:
            return loaded
        return e.conditional(self.value(op.mask, index), loaded, self.other(op, index))

    def other(self, op: Op, index: Expr | None) -> Expr:
        """What masked-off lanes get: anything, so zero, where the program does not say."""
        if op.other is not None:
            return self.value(op.other, index)
        return e.literal(Constant(0, element_of(op.result.type)))

    def wide_load(self, op: Op, index: Expr | None) -> list[str]:
        """Statements that fill ``width`` registers by one access."""
        width, name, address = op.width, self.names[op.result], self.address(op, index)
        to = binary(Expr(name), "+", binary(Expr(str(width)), "*", index)) if index is not None else Expr(name)
        function = access_function(op) if op.name == "ld_global" else None
        load = f"load<{width}>({to}, {address});"
        if function:
            load = f"unpack({to}, {function}(as_vector<{width}>({address})));"
        if op.name == "ld_shared" or op.mask is None:
            return [load]
        mask = self.value(op.mask, index)
        if function is None and (op.other is None or not isinstance(op.other.type, RegType)):
            return [f"load_or<{width}>({to}, {mask}, {address}, {self.other(op, index)});"]
        lines = []
        for i in range(width):
            at = Expr(str(i)) if index is None else binary(binary(Expr(str(width)), "*", index), "+", Expr(str(i)))
            lines.append(f"{name}[{at}] = {self.other(op, at)};")
        whole = f"{function or 'load_whole'}_if"
        type_ = e.memory_type(element_of(op.result.type))
        return [*lines, f"unpack({to}, {whole}({mask}, as_vector<{width}>({address}), pack<{width}, {type_}>({to})));"]

    def guard(self, op: Op, index: Expr | None) -> str:
        """The condition of a statement under a mask."""
        return f"if ({self.value(op.mask, index)}) " if op.mask is not None else ""

    def atomic_call(self, op: Atomic, index: Expr | None) -> Expr:
        operands = [self.value(v, index) for name, v in op.named_operands() if name not in ("pointer", "mask")]
        return call(atomic_function(op), self.address(op, index), *operands)

    def atomic(self, op: Atomic, index: Expr | None) -> Expr:
        """What an atomic finds; zero where its mask is false."""
        found = self.atomic_call(op, index)
        if op.mask is None:
            return found
        zero = e.literal(Constant(0, element_of(op.result.type)))
        return e.conditional(self.value(op.mask, index), found, zero)

    def store(self, op: Op, index: Expr | None) -> str:
        guard, mask = self.guard(op, index), ""
        function = access_function(op) if op.name == "st_global" else None
        if function and op.mask is not None:
            guard, function, mask = "", f"{function}_if", f"{self.value(op.mask, index)}, "
        address = self.address(op, index)
        element = element_of(op.value.type)
        type_ = e.memory_type(element) if isinstance(element, DType) else ""
        if op.width == 1:
            value = self.value(op.value, index)
            if function:
                return f"{guard}{function}({mask}{address}, ({type_}){value.within(e.UNARY)});"
            return f"{guard}{self.element(op, index)} = {value};"
        source = Expr(self.arrays[op])
        if index is not None:
            source = binary(source, "+", binary(Expr(str(op.width)), "*", index))
        if function:
            return f"{guard}{function}({mask}as_vector<{op.width}>({address}), pack<{op.width}, {type_}>({source}));"
        return f"{guard}store<{op.width}>({address}, {source});"
