"""Statements: assignment in all its forms, branches, assertions, nested functions, return."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from refcompiler.frontend.branches import ABSENT, Branches, Pending, Return
from refcompiler.frontend.context import describe, elements, is_runtime
from refcompiler.frontend.kernel_source import annotations_of
from refcompiler.frontend.language.control import as_condition
from refcompiler.frontend.nested import NestedFunction
from refcompiler.frontend.semantics import to_value
from refcompiler.frontend.structures import mapped
from refcompiler.frontend.types import constexpr
from refcompiler.ir import Value

_ADVICE = {
    "With": "`with` is not supported; kernels have no contexts to enter",
    "Try": "`try` is not supported; kernels have no exceptions",
    "TryStar": "`try` is not supported; kernels have no exceptions",
    "Raise": "`raise` is not supported; use tl.static_assert or assert",
    "ClassDef": "`class` is not supported in a kernel; define it outside of the kernel",
    "Import": "`import` is not supported in a kernel; import at the top of the file",
    "ImportFrom": "`import` is not supported in a kernel; import at the top of the file",
    "Global": "`global` is not supported; kernels cannot change names outside of them",
    "Nonlocal": "`nonlocal` is not supported; kernels cannot change names outside of them",
    "Match": "`match` is not supported; use if/elif on constexpr values",
    "AsyncFor": "`async` is not supported",
    "AsyncWith": "`async` is not supported",
    "AsyncFunctionDef": "`async` is not supported",
}


END = ast.Return()  # the end of a function's body


class Break(Exception):
    """Leaves an unrolled loop."""


class Continue(Exception):
    """Goes to the next round of an unrolled loop."""


class Statements(Branches):
    """The statement half of the compiler of one function."""

    def function(self) -> Any:
        """Compile the body of the function; what its caller gets."""
        try:
            self.statements([*self.frame.source.tree.body, END])
        except Return as result:
            return None if result.value is ABSENT else result.value

    def statements(self, body: Sequence[ast.stmt]) -> Pending | None:
        """Compile one after the other. Raises Return where all programs return; gives how far they have where some may
        have returned: what follows is for the others."""
        position = 0
        while position < len(body):
            node = body[position]
            position += 1
            if isinstance(node, ast.If):
                condition = self.condition(node.test, "`if`")
                if not isinstance(condition, Value):  # only the branch taken is compiled
                    body, position = [*(node.body if condition else node.orelse), *body[position:]], 0
                    continue
                pending = self.run_time_if(node, condition, body[position:])
            else:
                pending = self.statement(node)
            if pending is not None:
                if pending.rest_done:
                    return pending
                rest = body[position:]
                return self.unless_returned(node, pending, partial(self.statements, rest), rest)
        return None

    def statement(self, node: ast.stmt) -> Pending | None:
        name = type(node).__name__
        visit = getattr(self, "visit_" + name, None)
        if visit is None:
            raise self.unsupported(node, _ADVICE.get(name, f"the statement {name} is not supported"))
        return visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_Expr(self, node: ast.Expr) -> None:
        self.expr(node.value)

    # --- assignment
    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.raw(node.value)
        for target in node.targets:
            self.assign(target, value, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node, "only a name can be annotated")
        if not self.is_constexpr(node.annotation):
            if node.value is not None:
                self.assign(node.target, self.raw(node.value), node)
            return
        name = node.target.id
        if node.value is None:
            self.frame.constexprs[name] = None  # the next assignment gives a constexpr
            return
        value = self.expr(node.value)
        if is_runtime(value):
            message = f"`{name}` is annotated constexpr and gets {describe(value)}; remove the annotation"
            raise self.error("control.constexpr#E2", message, node.value)
        if name in self.frame.names and self.frame.constexprs.get(name) is not node:
            message = f"`{name}` is already defined; a constexpr cannot be reassigned"
            raise self.error("control.constexpr#E3", message, node)
        self.frame.constexprs[name] = node
        self.frame.bind(name, value, node)

    def is_constexpr(self, annotation: ast.expr) -> bool:
        return any(a is constexpr for a in annotations_of(self.frame.source, annotation))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node.target, "only names can be assigned to; blocks do not change in place")
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        x, y = self.expr(name), self.expr(node.value)
        value = self.binary(node, type(node.op).__name__, x, y, node.target, node.value)
        self.assign(node.target, value, node)

    def assign(self, target: ast.expr, value: Any, node: ast.AST) -> None:
        """Bind the target; literals become run-time scalars unless marked or annotated constexpr."""
        if isinstance(target, ast.Name):
            self.assign_name(target, value, node)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value, node)
        elif isinstance(target, ast.Subscript):
            raise self.unsupported(target, "blocks and tuples do not change in place; use tl.where or tl.store")
        else:
            raise self.unsupported(target, "only names can be assigned to")

    def assign_name(self, target: ast.Name, value: Any, node: ast.AST) -> None:
        name = target.id
        if name in self.frame.frozen:
            message = f"`{name}` counts the loop and cannot be assigned in its body; use another name"
            raise self.error("control.for_range#E4", message, target)
        if self.frame.constexprs.get(name, node) is None:
            self.frame.constexprs[name] = node  # announced by `name: tl.constexpr`
            if is_runtime(value):
                message = f"`{name}` is annotated constexpr and gets {describe(value)}; remove the annotation"
                raise self.error("control.constexpr#E2", message, target)
            self.frame.bind(name, value.value if type(value) is constexpr else value, node)
            return
        self.frame.constexprs.pop(name, None)
        self.frame.bind(name, self.stored(value, node), node)

    def stored(self, value: Any, node: ast.AST) -> Any:
        """What a plain assignment binds: numbers become run-time scalars, everything else stays."""
        if type(value) is constexpr:
            return value.value
        if isinstance(value, tuple | dict):
            return mapped(value, lambda leaf: self.stored(leaf, node))
        if isinstance(value, bool | int | float) and not self.frame.source.rules.plain_numbers:
            assigned = getattr(node, "value", None)
            return to_value(self.at(node, x=assigned if isinstance(assigned, ast.AST) else node), value, "x")
        return value

    def settle(self, held: dict[str, Any], names: Iterable[str], node: ast.AST) -> None:
        """Make run-time scalars of the numbers that ``names`` are bound to in ``held``, before and after a region that
        assigns them; for faces in which an assignment alone does not."""
        if not self.frame.source.rules.plain_numbers:
            return
        c = self.at(node)
        for name in names:
            if name in held and name not in self.frame.constexprs:
                held[name] = mapped(held[name], lambda v: to_value(c, v) if isinstance(v, bool | int | float) else v)

    def unpack(self, target: ast.Tuple | ast.List, value: Any, node: ast.AST) -> None:
        for element, item in self.pairs(target, value):
            self.assign(element, item, node)

    def pairs(self, target: ast.Tuple | ast.List, value: Any) -> list[tuple[ast.expr, Any]]:
        """Each target with what it gets; a starred one gets the tuple of what the others leave."""
        items, targets = elements(value), target.elts
        if items is None:
            raise self.no_sequence(target, value, f"cannot unpack into {len(targets)} names")
        starred = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        wanted, least = f"expected {len(targets)}", len(targets)
        if starred is not None:
            wanted, least = f"expected at least {len(targets) - 1}", len(targets) - 1
        if len(items) < least or (starred is None and len(items) > least):
            few = "not enough" if len(items) < least else "too many"
            message = f"{few} values to unpack ({wanted}, got {len(items)})"
            raise self.error("language.syntax#E1", message, target)
        if starred is None:
            return list(zip(targets, items, strict=True))
        rest = len(items) - least
        rest_target = targets[starred]
        assert isinstance(rest_target, ast.Starred)
        grouped = (*items[:starred], items[starred : starred + rest], *items[starred + rest :])
        return list(zip((*targets[:starred], rest_target.value, *targets[starred + 1 :]), grouped, strict=True))

    def bind_static(self, target: ast.expr, value: Any) -> None:
        """Bind a compile-time loop's target; numbers stay constexpr."""
        if isinstance(target, ast.Name):
            self.frame.bind(target.id, value, target)
        elif isinstance(target, ast.Tuple | ast.List):
            for element, item in self.pairs(target, value):
                self.bind_static(element, item)
        else:
            raise self.unsupported(target, "only names can be assigned to")

    def visit_Delete(self, node: ast.Delete) -> None:
        """The names have no value from here on."""
        for target in node.targets:
            for name in [target] if isinstance(target, ast.Name) else getattr(target, "elts", [target]):
                if not isinstance(name, ast.Name):
                    raise self.unsupported(name, "only names can be deleted; blocks and tuples do not change in place")
                if name.id not in self.frame.names:
                    self.visit_Name(name)  # an error where the name is nowhere; else it is not this function's
                    message = f"`{name.id}` is not a name of this function and cannot be deleted"
                    raise self.unsupported(name, message)
                del self.frame.names[name.id]
                self.frame.deleted.add(name.id)

    # --- control
    def visit_Assert(self, node: ast.Assert) -> None:
        condition = self.expr(node.test)
        message = self.expr(node.msg) if node.msg else ""
        if not isinstance(message, str):
            found = describe(message)
            raise self.error("control.assert#E1", f"the message of assert must be a string, found {found}", node.msg)
        if isinstance(condition, Value):
            c = self.at(node, cond=node.test)
            c.op("assert", as_condition(c, condition, "cond"), message=message, at={"condition": "cond"})
        elif not condition:
            shown = f": {message}" if message else ""
            raise self.error("control.assert#E2", f"assertion failed at compile time{shown}", node.test)

    def visit_Return(self, node: ast.Return) -> None:
        if "runtime" in self.frame.loops:
            raise self.error("control.calls#E4", "`return` inside a run-time loop is not supported", node)
        value = None if node.value is None else self.expr(node.value)
        is_kernel = self.frame.caller is None  # what a kernel returns is not used
        raise Return(ABSENT if node is END or is_kernel else value)

    def visit_Break(self, node: ast.Break) -> None:
        self.leave(node, "break")
        raise Break

    def visit_Continue(self, node: ast.Continue) -> None:
        self.leave(node, "continue")
        raise Continue

    def leave(self, node: ast.stmt, word: str) -> None:
        if self.frame.loops[-1:] != ["static"]:
            message = f"`{word}` works in unrolled loops (tl.static_range) only; mask with tl.where instead"
            if [kind for kind in self.frame.loops if kind != "branch"][-1:] == ["static"]:
                message = f"`{word}` under a run-time condition is not supported; test the opposite instead"
            raise self.unsupported(node, message)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            made = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(self.expr(made), "__name__", None) != "jit":
                raise self.unsupported(decorator, "functions inside a kernel take no decorator but @jit")
        self.frame.bind(node.name, NestedFunction(self.frame, node, self.defaults(node.args)), node)
