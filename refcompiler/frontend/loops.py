"""Loops: unrolled over compile-time ranges, or one `for` or `while` op with the values it carries."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from refcompiler.frontend import semantics
from refcompiler.frontend.assigned import assigned_names
from refcompiler.frontend.branches import Pending
from refcompiler.frontend.carrying import CarryingLoops, Stage
from refcompiler.frontend.context import describe, elements, is_runtime
from refcompiler.frontend.language import control
from refcompiler.frontend.promotion import promote
from refcompiler.frontend.scope import Lost
from refcompiler.frontend.statements import Break, Continue
from refcompiler.frontend.structures import leaves, rebuild
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import I32, DType

_UNROLL_LIMIT = 10_000


class Loops(CarryingLoops):
    """The loop part of the compiler of one function."""

    def visit_For(self, node: ast.For) -> Pending | None:
        callee = self.callee(node.iter)
        if callee is control.static_range:
            return self.static_loop(node)
        if callee is not range and callee is not control.range:
            return self.unroll(node, self.iterated(node.iter))
        if node.orelse:
            raise self.error("control.for_range#E5", "`else` after a run-time loop is not supported", node.orelse[0])
        self.counted_loop(node)
        return None

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
            if name in hints:
                self.check_hint(name, values[name], keyword.value)
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

    def check_hint(self, name: str, value: Any, node: ast.expr) -> None:
        if is_runtime(value):
            raise self.error("control.constexpr#E2", f"{name} must be constexpr", node)

    # --- unrolled
    def static_loop(self, node: ast.For) -> Pending | None:
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
        return self.unroll(node, range(start, stop, step))

    def unroll(self, node: ast.For, rounds: Sequence[Any]) -> Pending | None:
        if len(rounds) > _UNROLL_LIMIT:
            message = f"unrolling {len(rounds)} rounds; at most {_UNROLL_LIMIT}, use tl.range"
            raise self.error("control.static_range#E3", message, node.iter)
        self.frame.loops.append("static")
        try:
            for number, index in enumerate(rounds):
                self.bind_static(node.target, index)
                try:
                    pending = self.statements(node.body)
                except Continue:
                    continue
                if pending is not None:  # the next rounds are for the programs that have not returned
                    return self.unless_returned(node, pending, partial(self.unroll, node, rounds[number + 1 :]))
        except Break:
            return None
        finally:
            self.frame.loops.pop()
        return self.statements(node.orelse)

    # --- at run time
    def counted_loop(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node.target, "a run-time loop counts in one name")
        target = node.target.id
        bounds = self.loop_bounds(node)
        frame = self.frame
        assigned = [n for n in assigned_names(node.body) if n != target]
        self.settle(frame.names, assigned, node)
        before, lost = dict(frame.names), dict(frame.lost)
        names = [n for n in assigned if is_runtime(before.get(n))]
        stage = self.stage(names, before, [Value(bounds[0].type)])
        frame.bind(target, stage.block.args[0], node.target)
        was_frozen = target in frame.frozen
        frame.frozen.add(target)
        try:
            self.loop_region(stage, lambda: self.statements(node.body))
        finally:
            if not was_frozen:
                frame.frozen.discard(target)
        self.settle(stage.left, names, node)
        self.at(node.iter)
        carried, inits = self.close([stage], names, before, "control.for_range", [target])
        self.end_region(stage, "yield")
        op = self.context.op("for", *bounds, *inits, body=stage.block)
        self.after_loop(before, carried, op, "control.for_range")
        frame.names.pop(target, None)
        why = f"`{target}` counts the loop and has no value after it; carry another name to keep one"
        frame.lost = lost | frame.lost | {target: Lost("control.for_range#E6", why)}

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self.error("control.while#E5", "`else` after `while` is not supported", node.orelse[0])
        frame = self.frame
        assigned = assigned_names([node])
        self.settle(frame.names, assigned, node)
        before, lost = dict(frame.names), dict(frame.lost)
        names = [n for n in assigned if is_runtime(before.get(n))]
        first = self.stage(names, before)
        condition: Any = None

        def decide() -> None:
            nonlocal condition
            condition = self.condition(self.loop_test(node.test), "`while`")

        self.loop_region(first, decide)
        if not isinstance(condition, Value):
            frame.names = before
            if condition:
                message = "the condition is constexpr and true, so the loop never ends; write one that changes"
                raise self.error("control.while#E4", message, node.test)
            return
        self.at(node.test)
        initial = before | self.bound_in_condition(first, before)
        names += [n for n in initial if n not in before]
        second = self.stage(names, first.left)
        self.loop_region(second, lambda: self.statements(node.body))
        for stage in (first, second):
            self.settle(stage.left, names, node)
        self.at(node.test)
        carried, inits = self.close([first, second], names, initial, "control.while", [])
        self.end_region(first, "condition", condition)
        self.end_region(second, "yield")
        op = self.context.op("while", *inits, regions=[first.block, second.block])
        self.after_loop(initial, carried, op, "control.while")
        frame.lost = lost | frame.lost

    def loop_test(self, node: ast.expr) -> ast.expr:
        """The condition inside of ``tl.condition(...)``, whose options are hints."""
        if not isinstance(node, ast.Call) or self.callee(node) is not control.condition:
            return node
        signature = control.condition.__tile_builtin__.signature
        given = self.bind(node, "tl.condition", signature, node.args, {str(k.arg): k.value for k in node.keywords})
        for name, value in given.arguments.items():
            if name != "arg1":
                self.check_hint(name, self.expr(value), value)
        return given.arguments["arg1"]

    bind: Callable[..., inspect.BoundArguments]

    def bound_in_condition(self, first: Stage, before: dict[str, Any]) -> dict[str, Any]:
        """Names that only the condition binds, with what the loop starts from: nothing."""
        found = {n: v for n, v in first.left.items() if n not in before and is_runtime(v)}
        for name, value in found.items():
            first.entry[name] = rebuild(value, iter([Value(leaf.type) for leaf in leaves(value)]))
        return {
            name: rebuild(value, iter([self.context.emit("empty", types=[leaf.type]) for leaf in leaves(value)]))
            for name, value in found.items()
        }

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
