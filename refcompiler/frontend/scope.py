"""Names: what a function being compiled has bound, what it captures from outside, and what may be captured."""

from __future__ import annotations

import ast
import builtins
import difflib
import enum
import types
from collections.abc import Callable
from typing import Any

from refcompiler.errors import CompileError
from refcompiler.frontend.context import Context
from refcompiler.frontend.kernel_source import EMPTY, KernelSource
from refcompiler.frontend.types import block_type, constexpr, dtype, pointer_type
from refcompiler.source import Span

# Python's own functions that kernels may call on compile-time values.
PYTHON_FUNCTIONS = frozenset(
    "abs all any ascii bin bool chr dict divmod enumerate float format frozenset getattr hasattr hex int isinstance "
    "len list map max min oct ord pow print range repr reversed round set sorted str sum tuple zip".split()
)
_CLASSES = (type, constexpr, dtype, pointer_type, block_type)


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
        self.names: dict[str, Any] = {}
        self.bound_at: dict[str, ast.AST] = {}
        self.lost: dict[str, str] = {}  # names without a value any more -> why
        self.deleted: set[str] = set()
        self.constexprs: dict[str, ast.AST | None] = {}  # names annotated constexpr -> the statement
        self.frozen: set[str] = set()  # induction variables of run-time loops
        self.loops: list[str] = []  # "static" or "runtime", outermost first

    def span(self, node: ast.AST) -> Span:
        return self.pinned or self.source.span(node, self.caller)

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
            raise CompileError("control.for_range#E6", at.lost[name], frame.span(node))
        if name in at.deleted:
            raise CompileError("language.syntax#E2", f"`{name}` was deleted", frame.span(node))
        at = at.enclosing
    found = frame.source.lookup(name)
    if found is not EMPTY:
        captured = _captured(name, found, frame, node)
        remember(context, frame.source, name, found)
        return captured
    if name in PYTHON_FUNCTIONS:
        return getattr(builtins, name)
    known = {*locals_, *frame.source.scope, *frame.source.cells, *PYTHON_FUNCTIONS}
    close = difflib.get_close_matches(name, sorted(known), 1)
    advice = f"; did you mean `{close[0]}`?" if close else ""
    if hasattr(builtins, name):
        advice = f"; Python's {name} is not part of the language"
    raise CompileError("language.syntax#E2", f"`{name}` is not defined{advice}", frame.span(node))


def remember(context: Context, source: KernelSource, name: str, value: Any) -> None:
    """Note a captured name, so that a later change of what it refers to is seen."""
    key = (id(source), name)
    if key not in context.captured:
        context.captured[key] = (lambda: source.lookup(name), value)


def unchanged(read: Callable[[], Any], seen: Any) -> bool:
    """Whether a captured name still refers to what the compilation saw."""
    now = read()
    if now is seen:
        return True
    if isinstance(now, constexpr) and isinstance(seen, constexpr):
        a, b = now.value, seen.value
        return type(a) is type(b) and a == b and repr(a) == repr(b)
    return False


def capturable(value: Any) -> bool:
    """Whether kernels may refer to such an object outside of them."""
    if value is None or isinstance(
        value, types.ModuleType | types.FunctionType | types.BuiltinFunctionType | enum.Enum
    ):
        return True
    if isinstance(value, _CLASSES):
        return True
    return hasattr(value, "__kernel_source__") or hasattr(value, "__tile_builtin__")


def _captured(name: str, value: Any, frame: Frame, node: ast.AST) -> Any:
    if isinstance(value, constexpr):
        return value.value
    if capturable(value) or callable(value):
        return value
    raise CompileError(
        "language.syntax#E5",
        f"`{name}` is a Python {type(value).__name__} outside of the kernel; kernels read outside values only as "
        f"tl.constexpr: write `{name} = tl.constexpr(...)`, or pass it as a parameter",
        frame.span(node),
    )
