"""Branches on run-time conditions: one `if` op with what its regions change, and functions that return early."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from refcompiler.frontend.assigned import assigned_names
from refcompiler.frontend.context import is_runtime
from refcompiler.frontend.displays import Displays
from refcompiler.frontend.scope import Lost
from refcompiler.frontend.semantics import to_value
from refcompiler.frontend.structures import leaves, mapped, rebuild, shape_of_tree, type_name
from refcompiler.ir import Block, Constant, Value
from refcompiler.ir.types import BOOL, DType, Type, element_of, shape_of

ABSENT = object()  # what a function gives where it ends without a value
_CHOSEN = "a conditional expression"  # the name that its value has while it is compiled; no Python name has spaces


class Return(Exception):
    """Carries the value of a return statement to the call being compiled."""

    def __init__(self, value: Any):
        self.value = value
        super().__init__()


@dataclass
class Pending:
    """Some programs have returned, with ``value``: those for which ``flag`` is true. ``rest_done`` says that the
    statements after the branch have been compiled for the others."""

    flag: Value
    value: Any
    rest_done: bool = False


Body = Callable[[], "Pending | None"]  # compiles statements


class Side:
    """One region of a branch while it is being compiled: its ops, the names it sees, and how it ended."""

    def __init__(self, names: dict[str, Any], lost: dict[str, Lost], deleted: set[str]):
        self.block = Block()
        self.names, self.lost, self.deleted = dict(names), dict(lost), set(deleted)
        self.outcome: Return | Pending | None = None

    @property
    def returned(self) -> bool:
        """Whether every program that comes here returns."""
        return isinstance(self.outcome, Return)

    @property
    def value(self) -> Any:
        """What programs that return here give."""
        return ABSENT if self.outcome is None else self.outcome.value


class Branches(Displays):
    """The part of the compiler of one function that chooses at run time."""

    statements: Callable[[Sequence[ast.stmt]], Pending | None]
    stored: Callable[[Any, ast.AST], Any]
    settle: Callable[[dict[str, Any], Iterable[str], ast.AST], None]

    def condition(self, node: ast.expr, what: str) -> Any:
        """The truth of a condition: compile-time, or a bool scalar at run time."""
        value = self.expr(node)
        if not isinstance(value, Value):
            return self.known_truth(node, value)
        element = element_of(value.type)
        if shape_of(value.type):
            message = f"the condition of {what} is one bool for the program, found {value.type}; "
            advice = "choose by element with tl.where, or reduce the block first"
            raise self.error("control.if#E1", message + advice, node)
        if not isinstance(element, DType):
            raise self.error("control.if#E1", f"the condition of {what} is a bool, found {value.type}", node)
        if element is BOOL:
            return value
        return self.at(node, x=node).emit("cmp_ne", value, Constant(0, element))

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.condition(node.test, "a conditional expression")
        if not isinstance(condition, Value):
            return self.raw(node.body if condition else node.orelse)

        def choose(operand: ast.expr) -> Body:
            return lambda: self.frame.bind(_CHOSEN, self.stored(self.raw(operand), operand), operand)

        self.branch(node, condition, choose(node.body), choose(node.orelse), [node])
        return self.frame.names.pop(_CHOSEN)

    def run_time_if(self, node: ast.If, condition: Value, rest: Sequence[ast.stmt]) -> Pending | None:
        """An `if` with ``rest``, the statements that follow it: where one side returns, they go into the other."""

        def part(statements: Sequence[ast.stmt]) -> Body:
            return lambda: self.statements(statements)

        ends = [ends_in_return(node.body), ends_in_return(node.orelse)]
        text = [node, *rest]
        if ends == [True, False]:
            return self.branch(node, condition, part(node.body), part([*node.orelse, *rest]), text, done=True)
        if ends == [False, True]:
            return self.branch(node, condition, part([*node.body, *rest]), part(node.orelse), text, done=True)
        return self.branch(node, condition, part(node.body), part(node.orelse), text, follow=part(rest))

    def branch(
        self,
        node: ast.AST,
        condition: Value,
        then: Body,
        orelse: Body,
        text: Sequence[ast.AST],
        follow: Body | None = None,
        done: bool = False,
    ) -> Pending | None:
        """Compile both sides and join them. Where one of them returns, ``follow`` is compiled into the other, unless
        that was ``done``; raises Return where both return. ``text`` is what may bind names."""
        self.settle(self.frame.names, assigned_names(text), node)
        sides = [self.side(then), self.side(orelse)]
        returned = [side.returned for side in sides]
        if follow is not None and any(returned):
            done = True
            if not all(returned):
                side = sides[returned.index(False)]
                pending = side.outcome
                if isinstance(pending, Pending):
                    self.within(side, partial(self.unless_returned, node, pending, follow))
                else:
                    self.within(side, follow)
        return self.join(node, condition, sides, text, done)

    def unless_returned(
        self, node: ast.AST, pending: Pending, follow: Body, text: Sequence[ast.AST] = ()
    ) -> Pending | None:
        """Compile what follows for the programs that have not returned."""

        def leave() -> None:
            raise Return(pending.value)

        return self.branch(node, pending.flag, leave, follow, text, done=True)

    def side(self, body: Body) -> Side:
        side = Side(self.frame.names, self.frame.lost, self.frame.deleted)
        self.within(side, body)
        return side

    def within(self, side: Side, body: Body) -> None:
        """Compile into a side, after what it has already."""
        c, frame = self.context, self.frame
        outer = c.block, frame.names, frame.lost, frame.deleted
        c.block, frame.names, frame.lost, frame.deleted = side.block, side.names, side.lost, side.deleted
        frame.loops.append("branch")
        try:
            side.outcome = body()
            if side.outcome is not None:
                side.outcome.rest_done = False  # of what followed inside the side
        except Return as result:
            side.outcome = result
        finally:
            side.names, side.lost, side.deleted = frame.names, frame.lost, frame.deleted
            c.block, frame.names, frame.lost, frame.deleted = outer
            frame.loops.pop()

    # --- joining
    def join(
        self, node: ast.AST, condition: Value, sides: list[Side], text: Sequence[ast.AST], done: bool
    ) -> Pending | None:
        """Emit the op; bind the names that it changes. The results: names in the order of their first assignment in
        the text, then whether the program has returned, then what it returned."""
        self.at(node)
        columns: list[list[Value]] = []  # for each result what the sides give
        bound: dict[str, Any] = {}
        live = [side for side in sides if not side.returned]
        for side in live:
            self.settle(side.names, [*assigned_names(text), _CHOSEN], node)
        if live:
            bound = self.join_names(sides, live, text, columns)
        flag_at = len(columns)
        mixed = bool(live) and any(side.outcome is not None for side in sides)
        if mixed:
            columns.append([self.has_returned(side) for side in sides])
        value = self.join_returns(node, sides, columns)
        for side, yielded in zip(sides, zip(*columns, strict=True) if columns else ((), ()), strict=True):
            self.inside(side, "yield", yielded)
        types = [column[0].type for column in columns]
        op = self.context.op("if", condition, types=types, regions=[side.block for side in sides])
        results = iter(op.results[:flag_at])
        for name, tree in bound.items():
            self.frame.names[name] = rebuild(tree, results)
            self.frame.lost.pop(name, None)
            self.frame.deleted.discard(name)
        value = rebuild(value, iter(op.results[flag_at + mixed :]))
        if not live:
            raise Return(value)
        return Pending(op.results[flag_at], value, done) if mixed else None

    def inside(self, side: Side, name: str, operands: Sequence[Value] = (), types: list[Type] | None = None) -> Any:
        """Emit an op into a side."""
        outer, self.context.block = self.context.block, side.block
        op = self.context.op(name, *operands, types=types)
        self.context.block = outer
        return op

    def unset(self, side: Side, type_: Type) -> Value:
        """A value that nobody looks at: of programs that have returned, or have not."""
        return self.inside(side, "empty", types=[type_]).result

    @staticmethod
    def has_returned(side: Side) -> Value:
        return side.outcome.flag if isinstance(side.outcome, Pending) else Constant(side.returned, BOOL)

    def join_names(
        self, sides: list[Side], live: list[Side], text: Sequence[ast.AST], columns: list[list[Value]]
    ) -> dict[str, Any]:
        """What names are bound to after the branch, as trees whose run-time leaves are the results of ``columns``."""
        frame, before = self.frame, dict(self.frame.names)
        bound: dict[str, Any] = {}
        for name in dict.fromkeys([*assigned_names(text), *before, *(n for side in live for n in side.names)]):
            found = [side.names[name] for side in live if name in side.names]
            if len(found) < len(live):
                if found or name in before:
                    frame.names.pop(name, None)
                    frame.lost[name] = self.lost_name(name, live)
            elif any(value is not before.get(name, ABSENT) for value in found):
                tree = self.agreed(name, found, name in before)
                if tree is not ABSENT:
                    bound[name] = tree
                    columns += self.name_columns(sides, tree, before.get(name), name)
        for side in live:
            frame.lost.update({n: why for n, why in side.lost.items() if n not in frame.names and n not in frame.lost})
            frame.deleted |= {n for n in side.deleted if n not in frame.names}
        return bound

    def lost_name(self, name: str, live: list[Side]) -> Lost:
        """Why a name that one side binds, or unbinds, has no value after the branch."""
        for side in live:
            if name not in side.names and name in side.lost:
                return side.lost[name]
        node = self.frame.bound_at[name]
        message = (
            f"`{name}` has a value on one side of a run-time `if` only; give it one before the `if`, or on both sides"
        )
        return Lost("control.if#E4", message, [f"`{name}` is bound at {self.frame.span(node)}"])

    def agreed(self, name: str, found: list[Any], known: bool) -> Any:
        """The tree of a name that the sides bind alike; ABSENT where it has no value after the branch."""
        trees = [shape_of_tree(value) for value in found]
        if all(tree == trees[0] for tree in trees):
            return found[0]
        if not known and name != _CHOSEN and not all(map(is_runtime, found)):
            note = "its values on the two sides of a run-time `if` are known while compiling, and differ"
            self.frame.lost[name] = Lost("control.if#E3", f"`{name}` has no value here: {note}")
            self.frame.names.pop(name, None)
            return ABSENT
        what = _CHOSEN if name == _CHOSEN else f"`{name}`"
        message = (
            f"{what} is {type_name(found[0])} where the condition is true and {type_name(found[-1])} where it is "
            "false; both sides must give one type: cast one of them"
        )
        raise self.error("control.if#E3", message, self.frame.bound_at.get(name))

    def name_columns(self, sides: list[Side], tree: Any, before: Any, name: str) -> list[list[Value]]:
        """For each leaf what the sides yield; a side that has returned yields what was there before, or anything."""
        old = leaves(before) if shape_of_tree(before) == shape_of_tree(tree) else []
        columns = []
        for i, leaf in enumerate(leaves(tree)):
            columns.append(
                [
                    leaves(side.names[name])[i] if not side.returned else old[i] if old else self.unset(side, leaf.type)
                    for side in sides
                ]
            )
        return columns

    def join_returns(self, node: ast.AST, sides: list[Side], columns: list[list[Value]]) -> Any:
        """What programs that return here give, as a tree whose run-time leaves are the results of ``columns``."""
        given = [side.value for side in sides]
        present = [value for value in given if value is not ABSENT]
        if not present:
            return ABSENT
        if any(shape_of_tree(value) != shape_of_tree(present[0]) for value in present):
            given = [value if value is ABSENT else self.run_time(node, value) for value in given]
            present = [value for value in given if value is not ABSENT]
        if any(shape_of_tree(value) != shape_of_tree(present[0]) for value in present):
            message = f"a function returns {' here, and '.join(map(type_name, present))} there; cast to one type"
            raise self.error("control.if#E5", message, getattr(node, "test", node))
        for i, leaf in enumerate(leaves(present[0])):
            columns.append(
                [
                    self.unset(side, leaf.type) if value is ABSENT else leaves(value)[i]
                    for side, value in zip(sides, given, strict=True)
                ]
            )
        return present[0]

    def run_time(self, node: ast.AST, value: Any) -> Any:
        """The numbers of a tree as run-time scalars."""
        c = self.at(node)
        return mapped(value, lambda leaf: to_value(c, leaf) if isinstance(leaf, bool | int | float) else leaf)


def ends_in_return(statements: Sequence[ast.stmt]) -> bool:
    """Whether every path through statements visibly returns."""
    return any(
        isinstance(s, ast.Return) or (isinstance(s, ast.If) and ends_in_return(s.body) and ends_in_return(s.orelse))
        for s in statements
    )
