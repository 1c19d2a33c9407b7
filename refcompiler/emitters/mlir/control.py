"""Loops, branches and assertions as structured control flow."""

from __future__ import annotations

from collections.abc import Sequence

from refcompiler.dialects.scf import For, If, While
from refcompiler.dialects.simt.roles import WARP, Roles
from refcompiler.emitters.mlir import types as t
from refcompiler.emitters.mlir.writer import Writer, writes
from refcompiler.ir.core import Constant, Op, Value
from refcompiler.ir.types import BOOL, I64, element_of


@writes("for")
def write_for(w: Writer, op: For) -> None:
    """A loop that counts up by a constant to where the index cannot leave its type; else one over its trips."""
    dtype = element_of(op.start.type)
    start, stop, step = (w.value(v) for v in op.operands[:3])
    index, *carried = op.body.args
    by = int(op.step.value) if isinstance(op.step, Constant) else 0
    plain = by > 0 and w.ranges.can_count(op.stop, by)
    wider = not plain and w.ranges.can_count_wider(op)  # no division for the number of trips
    unsigned, counted = " unsigned", dtype
    counter = w.names[index] = w.fresh()
    if plain:
        unsigned = "" if dtype.kind == "int" else unsigned
        low, high, advance = start, stop, step
    elif wider:
        unsigned, counted = "", I64
        extend = "arith.extsi" if dtype.kind == "int" else "arith.extui"
        low, high, advance = (w.let(f"{extend} {v} : {t.type_of(dtype)} to i64") for v in (start, stop, step))
    else:
        element = t.element_type(dtype)
        types = ", ".join([element] * 3)
        high = w.let(f"llvm.call @trip_count_{dtype}({start}, {stop}, {step}) : ({types}) -> {element}")
        low, advance = w.constant(0, dtype), w.constant(1, dtype)
    w.name(carried)
    head = name_results(w, op)
    carries = f" iter_args({_bindings(w, carried, op.inits)}) -> ({_types(carried)})" if carried else ""
    w.line(f"{head}scf.for{unsigned} {counter} = {low} to {high} step {advance}{carries} : {t.type_of(counted)} {{")
    with w.region():
        if wider:
            w.names[index] = w.let(f"arith.trunci {counter} : i64 to {t.type_of(dtype)}")
        elif not plain:
            passed = w.let(f"arith.muli {counter}, {step} : {t.type_of(dtype)}")
            w.names[index] = w.let(f"arith.addi {start}, {passed} : {t.type_of(dtype)}")
        w.block(op.body)
        _give_back(w, op.body.terminator.carried)
    w.line("}")


@writes("if")
def write_if(w: Writer, op: If) -> None:
    condition = w.value(op.condition)
    head = name_results(w, op)
    results = f" -> ({_types(op.results)})" if op.results else ""
    w.line(f"{head}scf.if {condition}{results} {{")
    with w.region():
        w.block(op.then)
        _give_back(w, op.then.terminator.carried)
    if op.results or len(op.orelse.ops) > 1:
        w.line("} else {")
        with w.region():
            w.block(op.orelse)
            _give_back(w, op.orelse.terminator.carried)
    w.line("}")


@writes("roles")
def write_roles(w: Writer, op: Roles) -> None:
    """A chain of branches on the thread, the last role in the innermost else."""
    thread = w.let("nvvm.read.ptx.sreg.tid.x : i32")
    _role(w, op, thread, 0)


def _role(w: Writer, op: Roles, thread: str, number: int) -> None:
    if number == len(op.regions) - 1:
        w.block(op.regions[number])
        return
    _, end = op.ranges(w.func.attrs["num_warps"])[number]
    mine = w.let(f"arith.cmpi ult, {thread}, {w.constant(end * WARP)} : i32")
    w.line(f"scf.if {mine} {{")
    with w.region():
        w.block(op.regions[number])
    w.line("} else {")
    with w.region():
        _role(w, op, thread, number + 1)
    w.line("}")


@writes("while")
def write_while(w: Writer, op: While) -> None:
    w.name([*op.before.args, *op.after.args])
    head = name_results(w, op)
    types = _types(op.results)
    bound = f" ({_bindings(w, op.before.args, op.inits)})" if op.inits else ""
    w.line(f"{head}scf.while{bound} : ({types}) -> ({types}) {{")
    with w.region():
        w.block(op.before)
        end = op.before.terminator
        passed = f" {', '.join(w.value(v) for v in end.carried)} : {types}" if end.carried else ""
        w.line(f"scf.condition({w.value(end.condition)}){passed}")
    w.line("} do {")
    with w.region():
        if op.after.args:
            arguments = ", ".join(f"{w.value(a)}: {t.type_of(a.type)}" for a in op.after.args)
            w.line(f"^bb0({arguments}):")
        w.block(op.after)
        if op.results:
            _give_back(w, op.after.terminator.carried)
        else:
            w.line("scf.yield")  # a region without a line in it would have no block
    w.line("}")


def name_results(w: Writer, op: Op) -> str:
    """Names for the results of an op with regions, and what defines them: ``%5:2 = ``."""
    count = len(op.results)
    if not count:
        return ""
    name = w.fresh()
    for i, result in enumerate(op.results):
        w.names[result] = f"{name}#{i}" if count > 1 else name
    return f"{name}:{count} = " if count > 1 else f"{name} = "


def _bindings(w: Writer, args: Sequence[Value], inits: Sequence[Value]) -> str:
    return ", ".join(f"{w.value(a)} = {w.value(v)}" for a, v in zip(args, inits, strict=True))


def _types(values: Sequence[Value]) -> str:
    return ", ".join(t.type_of(v.type) for v in values)


def _give_back(w: Writer, values: Sequence[Value]) -> None:
    """The end of a region; one without values is implied."""
    if values:
        w.line(f"scf.yield {', '.join(w.value(v) for v in values)} : {_types(values)}")


@writes("assert")
def write_assert(w: Writer, op: Op) -> None:
    for condition in w.registers(op.condition):
        failed = w.let(f"arith.xori {condition}, {w.constant(True, BOOL)} : i1")
        w.guarded(failed, lambda: w.line("llvm.intr.trap"))
