"""`for` loops: unrolled over compile-time ranges, or one `for` op with the values it carries."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.context import describe, elements, is_runtime
from refcompiler.frontend.language import control
from refcompiler.frontend.promotion import promote
from refcompiler.frontend.statements import Break, Continue, Statements
from refcompiler.frontend.structures import leaves, rebuild, shape_of_tree, type_name
from refcompiler.ir import Block, Constant, Op, Value
from refcompiler.ir.types import I32, DType

_UNROLL_LIMIT = 10_000


class Loops(Statements):
    """The loop part of the compiler of one function."""

    def visit_For(self, node: ast.For) -> None:
        callee = self.callee(node.iter)
        if callee is control.static_range:
            self.static_loop(node)
        elif callee is range or callee is control.range:
            if node.orelse:
                raise self.error(
                    "control.for_range#E5", "`else` after a run-time loop is not supported", node.orelse[0]
                )
            self.runtime_loop(node)
        else:
            self.unroll(node, self.iterated(node.iter))

    def iterated(self, node: ast.expr) -> tuple:
        """The elements of a compile-time sequence that a loop is unrolled over."""
        value = self.expr(node)
        found = elements(value)
        if found is None:
            message = (
                "a for loop runs over range(...), tl.range(...), tl.static_range(...) or a compile-time sequence such "
                "as a tuple"
            )
            raise self.no_sequence(node, value, message, "control.for_range#E7")
        return found

    def callee(self, node: ast.expr) -> Any:
        return self.expr(node.func) if isinstance(node, ast.Call) else None

    def bounds(self, node: Any) -> tuple[dict[str, Any], dict[str, ast.expr]]:
        """The values and the nodes of start, stop and step."""
        names = ("arg1", "arg2", "step")
        values: dict[str, Any] = {}
        nodes: dict[str, ast.expr] = {}
        if len(node.args) > 3 or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.error("control.calls#E3", "a range takes start, stop and step", node)
        for name, argument in zip(names, node.args, strict=False):
            values[name], nodes[name] = self.expr(argument), argument
        hints = set(control.range.__tile_builtin__.signature.parameters) - set(names)
        known = {*names, *(hints if self.expr(node.func) is control.range else ())}
        aliases = {"start": "arg1", "stop": "arg2"}
        for keyword in node.keywords:
            name = aliases.get(keyword.arg, keyword.arg) if len(node.args) < 2 or keyword.arg == "step" else keyword.arg
            if name not in known or name in values:
                message = f"unexpected argument `{keyword.arg}`; a range takes start, stop and step"
                raise self.error("control.calls#E3", message, keyword)
            values[name], nodes[name] = self.expr(keyword.value), keyword.value
            if name in hints and is_runtime(values[name]):
                raise self.error("control.constexpr#E2", f"{name} must be constexpr", keyword.value)
        if "arg1" not in values and "arg2" not in values:
            raise self.error("control.calls#E3", "a range needs a bound", node)
        if "arg2" not in values or values["arg2"] is None:
            values["arg2"], nodes["arg2"] = values["arg1"], nodes["arg1"]
            values["arg1"], nodes["arg1"] = 0, nodes["arg1"]
        if "arg1" not in values:
            values["arg1"], nodes["arg1"] = 0, nodes["arg2"]
        if values.get("step") is None:
            values["step"], nodes["step"] = 1, node
        return {n: values[n] for n in names}, {n: nodes[n] for n in names}

    # --- unrolled
    def static_loop(self, node: ast.For) -> None:
        values, nodes = self.bounds(node.iter)
        for name, value in values.items():
            if is_runtime(value) or isinstance(value, bool) or not isinstance(value, int):
                message = (
                    f"the bounds of static_range must be constexpr integers, found {describe(value)}; "
                    "use tl.range for a loop at run time"
                )
                raise self.error("control.static_range#E1", message, nodes[name])
        start, stop, step = values.values()
        if step == 0:
            raise self.error("control.static_range#E2", "the step of a range cannot be 0", nodes["step"])
        self.unroll(node, range(start, stop, step))

    def unroll(self, node: ast.For, rounds: Sequence[Any]) -> None:
        if len(rounds) > _UNROLL_LIMIT:
            message = f"unrolling {len(rounds)} rounds; at most {_UNROLL_LIMIT}, use tl.range"
            raise self.error("control.static_range#E3", message, node.iter)
        self.frame.loops.append("static")
        try:
            for index in rounds:
                self.bind_static(node.target, index)
                try:
                    self.statements(node.body)
                except Continue:
                    continue
        except Break:
            return
        finally:
            self.frame.loops.pop()
        self.statements(node.orelse)

    # --- at run time
    def runtime_loop(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node.target, "a run-time loop counts in one name")
        target = node.target.id
        start, stop, step = self.loop_bounds(node)
        frame, c = self.frame, self.context
        assigned = [n for n in assigned_names(node.body) if n != target]
        self.settle(assigned, node)
        before, lost = dict(frame.names), dict(frame.lost)
        index = Value(start.type)
        names = [n for n in assigned if is_runtime(before.get(n))]
        flat = [leaf for n in names for leaf in leaves(before[n])]
        body = Block([index, *(Value(leaf.type) for leaf in flat)])
        fresh = iter(body.args[1:])
        entry = {n: rebuild(before[n], fresh) for n in names}
        frame.names.update(entry)
        frame.bind(target, index, node.target)
        outer, c.block = c.block, body
        frame.loops.append("runtime")
        was_frozen = target in frame.frozen
        frame.frozen.add(target)
        try:
            self.statements(node.body)
            self.settle(names, node)
        finally:
            c.block = outer
            frame.loops.pop()
            if not was_frozen:
                frame.frozen.discard(target)
        self.close_loop(node, target, (start, stop, step), body, before, entry)
        frame.lost = lost | frame.lost

    def close_loop(
        self,
        node: ast.For,
        target: str,
        bounds: tuple[Value, ...],
        body: Block,
        before: dict[str, Any],
        entry: dict[str, Any],
    ) -> None:
        """Check what the body left in the carried names, end the region and emit the op."""
        frame = self.frame
        carried: list[str] = []
        replaced: dict[Value, Value] = {}
        kept, inits, yields = [body.args[0]], [], []
        for name, inside in entry.items():
            arguments, initial = leaves(inside), leaves(before[name])
            if name not in frame.names:  # an inner loop counted in it
                self.check_unused(name, arguments, body)
                continue
            now = frame.names[name]
            if now is inside:  # not assigned in what was compiled: no need to carry it
                replaced.update(zip(arguments, initial, strict=True))
                continue
            self.check_carried(name, before[name], now)
            carried.append(name)
            kept += arguments
            inits += initial
            yields += leaves(now)
        for name, value in before.items():
            if name not in entry and name != target and frame.names.get(name) is not value:
                self.check_carried(name, value, frame.names.get(name))
        self.at(node.iter)
        if replaced:
            substitute(body, replaced)
            yields = [replaced.get(v, v) for v in yields]
        body.args = kept
        outer, self.context.block = self.context.block, body
        self.context.op("yield", *yields)
        self.context.block = outer
        op = self.context.op("for", *bounds, *inits, body=body)
        self.after_loop(target, before, carried, op)

    def check_carried(self, name: str, before: Any, now: Any) -> None:
        """A name that the loop assigns must keep its type."""
        same = is_runtime(before) and shape_of_tree(before) == shape_of_tree(now)
        if not same:
            message = (
                f"`{name}` is {type_name(before)} before the loop and {type_name(now)} after an iteration; what a "
                "run-time loop carries keeps its type: cast it, or start with the other type"
            )
            raise self.error("control.for_range#E2", message, self.frame.bound_at.get(name))

    def check_unused(self, name: str, arguments: list[Value], body: Block) -> None:
        """A name that an inner loop takes as its index has no value for the next round."""
        if any(operand in arguments for op in body.walk() for operand in op.operands):
            message = f"`{name}` counts an inner loop and has no value for the next round; use another name there"
            raise self.error("control.for_range#E6", message, self.frame.bound_at.get(name))

    def after_loop(self, target: str, before: dict[str, Any], carried: list[str], op: Op) -> None:
        frame = self.frame
        for name in [n for n in frame.names if n not in before]:
            del frame.names[name]
            frame.lost[name] = (
                f"`{name}` is bound only inside the loop; give it a value before the loop to use it after"
            )
        taken = [n for n in before if n not in frame.names]  # by inner loops, as their index
        frame.names.update(before)
        for name in taken:
            del frame.names[name]
        results = iter(op.results)
        for name in carried:
            frame.names[name] = rebuild(before[name], results)
        frame.names.pop(target, None)
        frame.lost[target] = f"`{target}` counts the loop and has no value after it; carry another name to keep one"

    def loop_bounds(self, node: ast.For) -> list[Value]:
        """Start, stop and step as scalars of one integer type."""
        values, nodes = self.bounds(node.iter)
        c = self.at(node.iter, **nodes)
        dtype: DType = I32
        scalars = []
        for name, value in values.items():
            scalar = semantics.to_value(c, value, name) if isinstance(value, Value | bool | int | float) else None
            if scalar is None or not (isinstance(scalar.type, DType) and scalar.type.is_int):
                message = f"the bounds and the step of a loop are integers, found {describe(value)}"
                raise self.error("control.for_range#E1", message, nodes[name])
            scalars.append(scalar)
        if isinstance(scalars[2], Constant) and scalars[2].value == 0:
            raise self.error("control.for_range#E3", "the step of a loop cannot be 0", nodes["step"])
        dtype = promote(promote(scalars[0].type, scalars[1].type), scalars[2].type)
        for name, scalar in zip(values, scalars, strict=True):
            if dtype.kind == "uint" and isinstance(scalar, Constant) and scalar.value < 0:
                message = (
                    f"a loop over {dtype} cannot reach or step by {scalar.value}; cast the bounds to a signed type"
                )
                raise self.error("control.for_range#E9", message, nodes[name])
        return [semantics.cast(c, scalar, dtype) for scalar in scalars]


def assigned_names(body: list[ast.stmt]) -> list[str]:
    """Names that statements may bind, in the order of their first binding in the text; not inside nested functions."""
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef):
            names.setdefault(node.name)
            return
        if isinstance(node, ast.Lambda):
            return
        if isinstance(
            node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
        ):  # has names of its own; only `:=` binds outside
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    names.setdefault(inner.target.id)
            return
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
            visit(node.value)  # a walrus in the value binds first
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in body:
        visit(statement)
    return list(names)


def substitute(block: Block, replaced: dict[Value, Value]) -> None:
    """Replace operands throughout a region."""
    for op in block.walk():
        op.operands = [replaced.get(o, o) if o is not None else None for o in op.operands]
