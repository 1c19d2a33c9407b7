"""Names: what a function being compiled has bound, what it finds outside."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refcompiler.errors import CompileError
from refcompiler.frontend.captures import captured
from refcompiler.frontend.context import Context
from refcompiler.frontend.kernel_source import EMPTY, KernelSource
from refcompiler.source import Span

# Python's own functions that kernels may call on compile-time values.
PYTHON_FUNCTIONS = frozenset(
    "abs all any ascii bin bool chr dict divmod enumerate float format frozenset getattr hasattr hex int isinstance "
    "len list map max min oct ord pow print range repr reversed round set sorted str sum tuple zip".split()
)


@dataclass(frozen=True)
class Lost:
    """Why a name has no value any more: the clause, and what to say where it is used."""

    id: str
    message: str
    notes: Sequence[str] = ()


class Frame:
    """One function being compiled: its source, its names, and where it was called from.

    ``pinned`` replaces every span where the function belongs to the language; ``enclosing`` is the frame in which a
    nested function was defined.
    """

    def __init__(
        self,
        source: KernelSource,
        caller: Span | None = None,
        pinned: Span | None = None,
        enclosing: Frame | None = None,
    ):
        self.source, self.caller, self.pinned, self.enclosing = source, caller, pinned, enclosing
        self.spans: dict[ast.AST, Span] = {}
        self.names: dict[str, Any] = {}
        self.bound_at: dict[str, ast.AST] = {}
        self.lost: dict[str, Lost] = {}  # names without a value any more
        self.deleted: set[str] = set()
        self.constexprs: dict[str, ast.AST | None] = {}  # names annotated constexpr -> the statement
        self.frozen: set[str] = set()  # induction variables of run-time loops
        self.loops: list[str] = []  # "static", "runtime" or "branch", outermost first

    def span(self, node: ast.AST) -> Span:
        if self.pinned is not None:
            return self.pinned
        span = self.spans.get(node)  # unrolled loops come by often
        if span is None:
            span = self.spans[node] = self.source.span(node, self.caller)
        return span

    def bind(self, name: str, value: Any, node: ast.AST) -> None:
        self.names[name] = value
        self.bound_at[name] = node
        self.lost.pop(name, None)
        self.deleted.discard(name)


def resolve(context: Context, frame: Frame, node: ast.Name) -> Any:
    """What a name refers to: a local, a name of an enclosing function, a captured object, a Python function."""
    name = node.id
    at: Frame | None = frame
    locals_: set[str] = set()
    while at is not None:
        locals_.update(at.names)
        if name in at.names:
            return at.names[name]
        if name in at.lost:
            why = at.lost[name]
            raise CompileError(why.id, why.message, frame.span(node), notes=why.notes)
        if name in at.deleted:
            raise CompileError("language.syntax#E2", f"`{name}` was deleted", frame.span(node))
        at = at.enclosing
    found = frame.source.lookup(name)
    if found is not EMPTY:
        return captured(context, frame.source, name, found, frame.span(node))
    if name in PYTHON_FUNCTIONS:
        return getattr(builtins, name)
    known = {*locals_, *frame.source.scope, *frame.source.cells, *PYTHON_FUNCTIONS}
    close = difflib.get_close_matches(name, sorted(known), 1)
    advice = f"; did you mean `{close[0]}`?" if close else ""
    if hasattr(builtins, name):
        advice = f"; Python's {name} is not part of the language"
    raise CompileError("language.syntax#E2", f"`{name}` is not defined{advice}", frame.span(node))
