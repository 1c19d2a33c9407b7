"""Loops and branches in CUDA C++: carried values are variables, assigned all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from refcompiler.dialects.scf import For, If, While
from refcompiler.dialects.simt.registers import count_of
from refcompiler.dialects.simt.roles import WARP, Roles
from refcompiler.emitters.cuda.expressions import Expr
from refcompiler.emitters.cuda.names import Namer
from refcompiler.emitters.cuda.plan import Plan
from refcompiler.emitters.cuda.text import Renderer
from refcompiler.ir.core import Block, Constant, Op, Value
from refcompiler.ir.types import RegType, element_of


@dataclass(eq=False)
class Assign:
    """``target = value`` for a carried variable, at its start or at the end of a region."""

    target: Value
    value: Value
    into: str = ""  # the variable, where it is not the target's own

    @property
    def count(self) -> int:
        return count_of(self.target.type)


class ControlFlow:
    """The part of the writer of a kernel that writes ops with regions."""

    plan: Plan
    namer: Namer
    renderer: Renderer
    depth: int
    warps: int
    index: str
    block: Callable[[Block], None]
    step: Callable[[Op | Assign], None]
    flush: Callable[[], None]
    line: Callable[[str], None]
    type_of: Callable[[Value], str]
    hint: Callable[[Value], str]

    def variable(self, values: Sequence[Value], init: Value | None = None) -> None:
        """One mutable variable for all ``values`` of a slot, with its first value where there is one."""
        name = self.namer.name(self.hint(values[0]))
        self.renderer.names.update(dict.fromkeys(values, name))
        type_ = self.type_of(values[0])
        if isinstance(values[0].type, RegType):
            self.line(f"{type_} {name}[{values[0].type.count}];")
            if init is not None:
                self.step(Assign(values[0], init))
        else:
            start = "" if init is None else f" = {self.renderer.value(init, None)}"
            self.line(f"{type_} {name}{start};")

    def region(self, block: Block, targets: Sequence[Value]) -> None:
        """The statements of a region, one level deeper; ``targets`` take what its yield gives."""
        self.depth += 1
        self.block(block)
        self.assign(targets, block.terminator.carried)
        self.flush()
        self.depth -= 1

    def write_if(self, op: If, index: Expr | None) -> None:
        condition = self.renderer.value(op.condition, None)
        for result in op.results:
            self.variable([result])
        self.flush()
        first, second = op.then, op.orelse
        if not op.results and len(first.ops) == 1:  # nothing to do where the condition is true
            condition, first, second = Expr(f"!{condition.within(15)}", 15), second, first
        self.line(f"if ({condition}) {{")
        self.region(first, op.results)
        if op.results or len(second.ops) > 1:
            self.line("} else {")
            self.region(second, op.results)
        self.line("}")

    def write_roles(self, op: Roles, index: Expr | None) -> None:
        self.flush()
        for number, (region, (_, end)) in enumerate(zip(op.regions, op.ranges(self.warps), strict=True)):
            last = number == len(op.regions) - 1
            condition = "" if last else f"if (threadIdx.x < {end * WARP}) "
            self.line(f"{'} else ' if number else ''}{condition}{{")
            self.region(region, [])
        self.line("}")

    def write_while(self, op: While, index: Expr | None) -> None:
        for slot, init in zip(op.slots(), op.inits, strict=True):
            self.variable(slot.values, init)
        self.flush()
        end = op.before.terminator
        if all(o.terminator or o in self.plan.inlined for o in op.before.ops) and end.carried == op.before.args:
            self.line(f"while ({self.renderer.value(end.condition, None)}) {{")
        else:
            self.line("while (true) {")
            self.depth += 1
            self.block(op.before)
            self.flush()
            condition = self.renderer.value(end.condition, None)
            if end.carried != op.before.args:
                name = self.namer.name("again")
                self.line(f"const bool {name} = {condition};")
                self.assign(op.before.args, end.carried)
                self.flush()
                condition = Expr(name)
            self.line(f"if (!{condition.within(15)}) break;")
            self.depth -= 1
        self.region(op.after, op.after.args)
        self.line("}")

    def write_for(self, op: For, index: Expr | None) -> None:
        for slot, init in zip(op.slots(), op.inits, strict=True):
            self.variable(slot.values, init)
        self.flush()
        counter, *carried = op.body.args
        self.renderer.names[counter] = self.namer.name(counter.name or "i")
        after = self.open_loop(op)
        self.region(op.body, carried)
        if after:
            self.line("    " + after)
        self.line("}")

    def open_loop(self, op: For) -> str:
        """Write the head of a loop; returns what must end its body."""
        start, stop, step = (self.renderer.value(v, None) for v in op.operands[:3])
        type_ = self.type_of(op.start)
        name = self.renderer.names[op.body.args[0]]
        by = int(op.step.value) if isinstance(op.step, Constant) else 0
        # what waits for tensor cores gains nothing from copies of it, and ptxas loses sight of what is on its way
        pragma = ["#pragma unroll 1"] if any(inner.deferred for inner in op.body.walk()) else []
        if by and self.renderer.ranges.can_count(op.stop, by):
            compare = "<" if by > 0 else ">"
            advance = {1: f"++{name}", -1: f"--{name}"}.get(by, f"{name} {'+' if by > 0 else '-'}= {abs(by)}")
            for line in pragma:
                self.line(line)
            self.line(f"for ({type_} {name} = {start}; {name} {compare} {stop.within(11)}; {advance}) {{")
            return ""
        if self.renderer.ranges.can_count_wider(op):  # no division for the number of trips
            wide = self.namer.name("wide_" + name)
            for line in pragma:
                self.line(line)
            self.line(f"for (long long {wide} = {start}; {wide} < {stop.within(11)}; {wide} += {step.within(15)}) {{")
            self.line(f"    const {type_} {name} = ({type_}){wide};")
            return ""
        unsigned = "unsigned long long" if element_of(op.start.type).bits == 64 else "unsigned"
        self.line(f"{type_} {name} = {start};")
        trips_name = self.namer.name("trips")
        count = f"trip_count<{type_}, {unsigned}>({start}, {stop}, {step})"
        for line in pragma:
            self.line(line)
        self.line(f"for ({unsigned} {trips_name} = {count}; {trips_name} > 0; --{trips_name}) {{")
        return f"{name} = ({type_})({name} + ({unsigned}){step.within(15)});"

    def assign(self, carried: Sequence[Value], values: Sequence[Value]) -> None:
        """All carried variables take their next values at once; ``carried`` are the values that ``values`` may read."""
        pairs = [(t, v) for t, v in zip(carried, values, strict=True) if t is not v]
        reads = [self.plan.reads(v) for _, v in pairs]
        # a later value reads what is overwritten before, or a value its own variable in another order of registers
        clash = any(
            target in reads[j] and (i < j or (isinstance(target.type, RegType) and not reads[j][target]))
            for i, (target, _) in enumerate(pairs)
            for j in range(i, len(pairs))
        )
        if not clash:
            for target, value in pairs:
                self.step(Assign(target, value))
            return
        later = []
        for target, value in pairs:
            name = self.namer.name("next_" + self.renderer.names[target])
            if isinstance(target.type, RegType):
                self.line(f"{self.type_of(target)} {name}[{target.type.count}];")
                self.step(Assign(target, value, name))
            else:
                self.flush()
                self.line(f"{self.type_of(target)} {name} = {self.renderer.value(value, None)};")
            later.append((target, name))
        self.flush()
        for target, name in later:
            if isinstance(target.type, RegType):
                r = self.index
                self.line("#pragma unroll")
                self.line(f"for (int {r} = 0; {r} < {target.type.count}; ++{r}) "
                          f"{self.renderer.names[target]}[{r}] = {name}[{r}];")  # fmt: skip
            else:
                self.line(f"{self.renderer.names[target]} = {name};")
