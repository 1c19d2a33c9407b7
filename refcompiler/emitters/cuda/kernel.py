"""Statements of a CUDA C++ kernel: one per op that is no expression, registers in unrolled loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from refcompiler.analysis.pointers import Pointers
from refcompiler.analysis.ranges import Ranges
from refcompiler.dialects.atomic import Atomic
from refcompiler.dialects.simt.asynchronous import PtxOp
from refcompiler.dialects.simt.memory import shared_alignment
from refcompiler.dialects.simt.registers import count_of
from refcompiler.dialects.simt.tensor_maps import tensor_maps
from refcompiler.dialects.simt.thread import SHUFFLES
from refcompiler.emitters.cuda.asynchronous import AsynchronousCopies
from refcompiler.emitters.cuda.control import Assign, ControlFlow
from refcompiler.emitters.cuda.expressions import Expr, c_type, memory_type
from refcompiler.emitters.cuda.names import RESERVED, Namer, entry_name
from refcompiler.emitters.cuda.plan import WHOLE, Plan
from refcompiler.emitters.cuda.prelude import prelude_for
from refcompiler.emitters.cuda.tensor_cores import TensorCores
from refcompiler.emitters.cuda.text import Renderer
from refcompiler.ir.core import Block, Func, Op, Value
from refcompiler.ir.types import DType, PointerType, RegType, element_of

MAX_REGISTERS = 256  # a thread has fewer: larger vectors live in local memory, and their loops stay loops
LINE = 110
_MEMORY = frozenset({"ld_global", "st_global", "ld_shared", "st_shared", "atomic_rmw", "atomic_cas", "cp_async"})


def emit(func: Func) -> str:
    """The CUDA C++ translation unit of a SIMT function: the prelude functions it uses and one kernel."""
    return _Kernel(func).text()


@dataclass
class _Group:
    """Statements over the same number of registers, written as one loop."""

    count: int
    steps: list[Op | Assign] = field(default_factory=list)


class _Kernel(ControlFlow, TensorCores, AsynchronousCopies):
    def __init__(self, func: Func):
        self.func = func
        self.plan = Plan(func)
        self.pointers = Pointers(func)
        self.written = self.pointers.reached("write")
        self.namer = Namer(set(RESERVED))
        self.warps = func.attrs["num_warps"]
        self.lines: list[str] = []
        self.tables: list[str] = []
        self.functions: dict[str, str] = {}  # text of functions of this kernel -> name
        self.held: dict[Value, str] = {}
        self.depth = 1
        self.group: _Group | None = None
        self.renderer = Renderer(Ranges(func), self.plan, self.written, self.table)
        for param in func.params:
            self.renderer.names[param] = self.namer.name(param.name)
        self.maps = [self.namer.name(f"{tensor.pointer}_map") for tensor in tensor_maps(func)]
        self.index = self.namer.name("r")
        self.fits = all(count_of(r.type) <= MAX_REGISTERS for op in func.walk() for r in op.results)

    # --- the whole
    def text(self) -> str:
        self.block(self.func.body)
        self.flush()
        body = "\n".join([*self.tables, *self.lines])
        head = self.header()
        functions = [text.replace("NAME", name) for text, name in self.functions.items()]
        prelude = prelude_for("".join(functions) + head + body)
        before = "\n".join([prelude, *functions] if prelude else functions)
        return (before + "\n" if before else "") + f"{head}\n{body}\n}}\n"

    def header(self) -> str:
        items = [f"{self.type_of(p)} {self.renderer.names[p]}" for p in self.func.params]
        items += [f"const __grid_constant__ TensorMap {name}" for name in self.maps]
        bounds = f"{self.func.attrs['threads']}, {self.func.attrs.get('min_blocks', 1)}"
        ctas = self.func.attrs.get("num_ctas", 1)
        cluster = f" __cluster_dims__({ctas}, 1, 1)" if ctas > 1 else ""
        start = f'extern "C" __global__ void __launch_bounds__({bounds}){cluster} {entry_name(self.func)}('
        joined = start + ", ".join(items) + ") {"
        if len(joined) > LINE:
            joined = start + "\n    " + ",\n    ".join(items) + ") {"
        if self.func.attrs.get("shared_bytes"):
            alignment = shared_alignment(self.func)
            joined += f"\n    extern __shared__ __align__({alignment}) unsigned char shared[];"
        return joined

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def table(self, values: tuple[int, ...]) -> str:
        name = self.namer.name("table")
        self.tables.append(f"    constexpr int {name}[{len(values)}] = {{{', '.join(map(str, values))}}};")
        return name

    def type_of(self, value: Value) -> str:
        return c_type(element_of(value.type), const=value not in self.written)

    # --- grouping
    def block(self, block: Block) -> None:
        for op in block.ops:
            if op in self.plan.inlined or op.terminator:
                continue
            self.step(op)

    def step(self, step: Op | Assign) -> None:
        """Add a statement: to the open loop over registers, before it, or after closing it."""
        if isinstance(step, Op) and step.name in ("st_global", "st_shared") and step.width > 1:
            self.flush()
            self.renderer.arrays[step] = self.array_of(step.value, self.plan.trips(step) * step.width)
        elif isinstance(step, Op) and (step.name in WHOLE or step in self.plan.paired):
            self.flush()
        count = step.count if isinstance(step, Assign) else self.plan.trips(step)
        loops = count > 1 and (isinstance(step, Assign) or step.name != "pack")
        if loops:
            if self.group is None or not self.joins(self.group, step, count):
                self.flush()
                self.group = _Group(count)
            self.group.steps.append(step)
        else:
            if self.group is not None and not self.stands_before(self.group, step):
                self.flush()
            self.statement(step)

    def reads(self, step: Op | Assign) -> dict[Value, bool]:
        return self.plan.reads(step.value) if isinstance(step, Assign) else self.plan.reads_of(step)

    @staticmethod
    def writes(step: Op | Assign) -> list[Value]:
        return [step.target] if isinstance(step, Assign) else step.results

    def joins(self, group: _Group, step: Op | Assign, count: int) -> bool:
        """True if each trip of ``step`` may follow the same trip of the group's statements."""
        if group.count != count:
            return False
        made = {v for s in group.steps for v in self.writes(s)}
        if any(v in made and not same for v, same in self.reads(step).items()):
            return False
        if isinstance(step, Assign):
            return all(self.reads(s).get(step.target, True) for s in group.steps)
        memory = [s.name for s in group.steps if not isinstance(s, Assign) and s.name in _MEMORY | {"assert"}]
        if step.name.startswith("ld_"):
            return all(name.startswith("ld_") for name in memory)
        wide = any(isinstance(s, Op) and s.attrs.get("width", 1) > 1 for s in group.steps)
        if wide and any(v in made for v in self.reads(step)):
            return False
        return step.name not in _MEMORY | {"assert"} or not memory

    def stands_before(self, group: _Group, step: Op | Assign) -> bool:
        """True if a scalar statement may be written before the open loop."""
        if isinstance(step, Assign) or not step.pure or step.regions:
            return False
        made = {v for s in group.steps for v in self.writes(s)}
        return not any(v in made for v in self.reads(step))

    def flush(self) -> None:
        """Write the open loop over registers."""
        group, self.group = self.group, None
        if group is None:
            return
        inside = set(map(id, group.steps))
        for step in group.steps:
            if isinstance(step, Op):
                for value in step.results:
                    users = self.plan.statements_using(value)
                    local = all(id(u) in inside for u in users) and step.attrs.get("width", 1) == 1
                    self.declare(value, local)
        self.line("#pragma unroll" if self.fits or group.count <= 16 else "#pragma unroll 4")
        r = self.index
        self.line(f"for (int {r} = 0; {r} < {group.count}; ++{r}) {{")
        self.depth += 1
        for step in group.steps:
            self.statement(step, Expr(r))
        self.depth -= 1
        self.line("}")

    def declare(self, value: Value, local: bool) -> None:
        """Name the result of a statement in a loop; an array where it is used outside."""
        name = self.namer.name(self.hint(value))
        self.renderer.names[value] = name
        if local:
            self.renderer.locals.add(value)
        else:
            self.line(f"{self.type_of(value)} {name}[{count_of(value.type)}];")

    # --- statements
    def statement(self, step: Op | Assign, index: Expr | None = None) -> None:
        if isinstance(step, Assign):
            target = step.into or self.renderer.names[step.target]
            where = f"[{index}]" if index is not None else ""
            self.line(f"{target}{where} = {self.renderer.value(step.value, index)};")
            return
        special = getattr(self, f"write_{step.name}", self.call if isinstance(step, PtxOp) else None)
        if step in self.plan.paired:
            special = self.round_pairs
        if special is not None:
            special(step, index)
        else:
            self.define(step.results[0], self.renderer.op(step, index), index)

    def define(self, value: Value, text: Expr, index: Expr | None) -> None:
        """Give a variable its value: ``const T name = text`` or ``name[index] = text``."""
        if value not in self.renderer.names:
            self.renderer.names[value] = self.namer.name(self.hint(value))
        name = self.renderer.names[value]
        if index is None or value in self.renderer.locals:
            constant = "const " if not isinstance(element_of(value.type), PointerType) else ""
            self.line(f"{constant}{self.type_of(value)} {name} = {text};")
        else:
            self.line(f"{name}[{index}] = {text};")

    def write_pack(self, op: Op, index: Expr | None) -> None:
        self.declare(op.result, local=False)
        position = 0
        for operand in op.operands:
            for i in range(count_of(operand.type)):
                at = Expr(str(i)) if isinstance(operand.type, RegType) else None
                name = self.renderer.names[op.result]
                self.line(f"{name}[{position}] = {self.renderer.value(operand, at)};")
                position += 1

    def write_ld_global(self, op: Op, index: Expr | None) -> None:
        if op.width == 1:
            self.define(op.result, self.renderer.load(op, index), index)
        else:
            if op.result not in self.renderer.names:
                self.declare(op.result, local=False)
            for text in self.renderer.wide_load(op, index):
                self.line(text)

    write_ld_shared = write_ld_global

    def write_st_global(self, op: Op, index: Expr | None) -> None:
        self.line(self.renderer.store(op, index))

    write_st_shared = write_st_global

    def write_atomic_rmw(self, op: Atomic, index: Expr | None) -> None:
        if self.plan.users.get(op.result):
            self.define(op.result, self.renderer.atomic(op, index), index)
        else:
            self.line(f"{self.renderer.guard(op, index)}{self.renderer.atomic_call(op, index)};")

    write_atomic_cas = write_atomic_rmw

    def array_of(self, value: Value, count: int) -> str:
        """The array that holds ``value`` as so many registers; a copy where it is written otherwise."""
        if value in self.renderer.names and isinstance(value.type, RegType):
            return self.renderer.names[value]
        array = Value(RegType(element_of(value.type), count))
        name = self.renderer.names[array] = self.namer.name("packed")
        self.line(f"{self.type_of(array)} {name}[{array.type.count}];")
        self.step(Assign(array, value))
        self.flush()
        return name

    def write_barrier(self, op: Op, index: Expr | None) -> None:
        self.line("__syncthreads();" if self.func.attrs["threads"] > 32 else "__syncwarp();")

    def write_named_barrier(self, op: Op, index: Expr | None) -> None:
        self.line(f'asm volatile("bar.sync {op.id}, {op.threads};" ::: "memory");')

    def write_shared_alloc(self, op: Op, index: Expr | None) -> None:
        element = element_of(op.result.type)
        type_ = memory_type(element) if isinstance(element, DType) else "const void*"
        name = self.renderer.names[op.result] = self.namer.name("buffer")
        place = "shared" if op.offset == 0 else f"(shared + {op.offset})"
        self.line(f"{type_}* const {name} = ({type_}*){place};")

    def write_assert(self, op: Op, index: Expr | None) -> None:
        condition = self.renderer.value(op.condition, index)
        self.line(f"if (!{condition.within(15)}) __trap();")

    # --- names
    def hint(self, value: Value) -> str:
        """A name that says what the value is."""
        if value.name is not None:
            return value.name
        owner = value.owner
        if not isinstance(owner, Op):
            return "ptr" if isinstance(element_of(value.type), PointerType) else "acc"
        if owner.name in ("ld_global", "addptr"):
            roots = self.pointers.parameters(owner.pointer)
            base = self.renderer.names[next(iter(roots))] if len(roots) == 1 else "global"
            return base.rstrip("_") + ("_value" if owner.name == "ld_global" else "_ptr")
        if owner.name == "program_id":
            return ("pid", "pid_y", "pid_z")[owner.axis]
        if owner.name in _NAMES:
            return _NAMES[owner.name]
        element = element_of(value.type)
        if isinstance(element, DType) and element.is_float:
            return _FLOAT_NAMES.get(owner.name, owner.name + "_value")
        return "mask" if isinstance(element, DType) and element.is_bool else "index"


_NAMES = {
    "thread_id": "tid",
    "num_programs": "programs",
    "ld_shared": "gathered",
    **dict.fromkeys(SHUFFLES, "other"),
    "vote_any": "any_lane",
    "select": "selected",
    "atomic_rmw": "old",
    "atomic_cas": "old",
    "if": "chosen",
    "mma_sync": "acc",
    "wgmma": "acc",
    "ldmatrix": "fragment",
    "wgmma_wait": "acc",
}
_FLOAT_NAMES = {
    "add": "sum",
    "sub": "difference",
    "mul": "product",
    "div": "quotient",
    "fma": "sum",
    "maximum": "largest",
    "minimum": "smallest",
    "neg": "negative",
    "pack": "packed",
    "cast": "converted",
}
