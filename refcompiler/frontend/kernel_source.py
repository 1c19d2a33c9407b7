"""A kernel as source: its text, its syntax tree, its parameters and what its names outside refer to."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import CellType, FunctionType
from typing import Any

from refcompiler.errors import CompileError
from refcompiler.frontend.kernel_text import python_function, text_of
from refcompiler.frontend.rules import STRICT, Rules
from refcompiler.frontend.types import constexpr, dtype, pointer_type
from refcompiler.source import Span, parse_python, source_line, span_of

EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel or of a function that kernels call; ``type`` is a forced type or None."""

    name: str
    kind: inspect._ParameterKind
    default: Any
    constexpr: bool
    type: str | None
    const: bool
    node: ast.arg


class KernelSource:
    """The source of a function written in the kernel language.

    ``text`` starts at 1-based ``first_line`` of ``file``, each line ``first_column`` bytes in; ``scope`` and ``cells``
    resolve the names it does not bind. ``library`` functions are part of the language: errors inside them are reported
    at the call. ``defaults`` are those of a nested function, evaluated.
    """

    def __init__(
        self,
        name: str,
        text: str,
        file: str,
        first_line: int,
        scope: Mapping[str, Any],
        cells: Mapping[str, CellType] | None = None,
        function: FunctionType | None = None,
        library: bool = False,
        first_column: int = 0,
        *,
        tree: ast.FunctionDef,
        defaults: Mapping[str, Any] | None = None,
        rules: Rules = STRICT,
    ):
        self.name, self.text, self.file, self.first_line = name, text, file, first_line
        self.first_column = first_column
        self.scope, self.cells = scope, dict(cells or {})
        self.function, self.library = function, library
        self.defaults, self.rules = defaults, rules
        self.tree: ast.FunctionDef = tree

    @classmethod
    def of(cls, function: Callable, library: bool = False, rules: Rules = STRICT) -> KernelSource:
        """The source of a Python function; the function itself is never called. Raises CompileError."""
        function = python_function(function)
        written = text_of(function)
        code = function.__code__
        name = "lambda" if function.__name__ == "<lambda>" else function.__name__
        return cls(
            name,
            written.text,
            code.co_filename,
            written.first_line,
            function.__globals__,
            dict(zip(code.co_freevars, function.__closure__ or (), strict=True)),
            function,
            library,
            tree=written.tree,
            rules=rules,
        )

    def span(self, node: ast.AST, caller: Span | None = None) -> Span:
        return span_of(node, self.file, self.first_line - 1, self.first_column, caller)

    def header_span(self) -> Span:
        """The ``def`` line."""
        line = self.tree.lineno + self.first_line - 1
        text = source_line(self.file, line) or ""
        column = self.tree.col_offset + self.first_column
        return Span(self.file, line, column, line, max(len(text), column + 1))

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        arguments = self.tree.args
        kinds = inspect._ParameterKind
        plain = [(a, kinds.POSITIONAL_ONLY) for a in arguments.posonlyargs]
        plain += [(a, kinds.POSITIONAL_OR_KEYWORD) for a in arguments.args]
        defaults: list[Any] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
        rows = list(zip(plain, defaults, strict=True))
        if arguments.vararg:
            rows.append(((arguments.vararg, kinds.VAR_POSITIONAL), None))
        keyword = [(a, kinds.KEYWORD_ONLY) for a in arguments.kwonlyargs]
        rows += list(zip(keyword, arguments.kw_defaults, strict=True))
        if arguments.kwarg:
            rows.append(((arguments.kwarg, kinds.VAR_KEYWORD), None))
        return tuple(self._parameter(arg, kind, default) for (arg, kind), default in rows)

    def _parameter(self, arg: ast.arg, kind: inspect._ParameterKind, default: ast.expr | None) -> Parameter:
        annotations = annotations_of(self, arg.annotation)
        is_constexpr = any(a is constexpr for a in annotations)
        forced = next((str(a.ir) for a in annotations if isinstance(a, dtype)), None)
        pointer = next((a for a in annotations if isinstance(a, pointer_type)), None)
        if pointer is not None:
            forced = f"*{'k' if pointer.const else ''}{pointer.element_ty.ir}"
        text = next((a for a in annotations if isinstance(a, str)), None)
        const = any(getattr(a, "__name__", None) == "const" for a in annotations)
        value = EMPTY if default is None else self._default(arg.arg, default)
        return Parameter(arg.arg, kind, value, is_constexpr, forced or text, const, arg)

    def _default(self, name: str, node: ast.expr) -> Any:
        if self.defaults is not None:
            return self.defaults[name]
        if self.function is not None:
            values = inspect.signature(self.function).parameters[name].default
            return values.value if isinstance(values, constexpr) else values
        try:
            return ast.literal_eval(node)
        except ValueError:
            found = self._resolve(node)
            if found is EMPTY:
                raise CompileError(
                    "language.syntax#E1",
                    f"the default of {name} must be a literal or a name here",
                    self.span(node),
                    phase="parse",
                ) from None
            return found.value if isinstance(found, constexpr) else found

    @cached_property
    def signature(self) -> inspect.Signature:
        """For binding arguments; checked by Python's own rules."""
        return inspect.Signature(
            [inspect.Parameter(p.name, p.kind, default=p.default) for p in self.parameters],
        )

    def lookup(self, name: str) -> Any:
        """The object that a free name refers to now, or EMPTY."""
        if name in self.cells:
            try:
                return self.cells[name].cell_contents
            except ValueError:
                return EMPTY
        return self.scope.get(name, EMPTY)

    def _resolve(self, node: ast.AST) -> Any:
        """What a dotted name refers to in the function's scope, or EMPTY."""
        if isinstance(node, ast.Name):
            return self.lookup(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._resolve(node.value)
            return getattr(owner, node.attr, EMPTY) if owner is not EMPTY else EMPTY
        return EMPTY


def annotations_of(source: KernelSource, node: ast.expr | None) -> list[Any]:
    """The objects an annotation names: one, or several under `Annotated[...]`; strings are read as annotations."""
    if node is None:
        return []
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            inner = parse_python(node.value, mode="eval").body
        except SyntaxError:
            return [node.value]  # "*fp32"
        found = annotations_of(source, inner)
        return found or [node.value]
    if isinstance(node, ast.Subscript) and "Annotated" in ast.unparse(node.value):
        elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [a for element in elements for a in annotations_of(source, element)]
    found = source._resolve(node)
    if found is not EMPTY:
        return [found]
    # `tl` may be imported only where the kernel is used as text
    return [constexpr] if ast.unparse(node) in ("constexpr", "tl.constexpr") else []


def plain_source(function: FunctionType, rules: Rules) -> KernelSource:
    """The source of a Python function that is no kernel, kept with the function. Raises CompileError."""
    kept: dict[Rules, KernelSource] = function.__dict__.setdefault("__plain_sources__", {})
    if rules not in kept:
        kept[rules] = KernelSource.of(function, rules=rules)
    return kept[rules]
