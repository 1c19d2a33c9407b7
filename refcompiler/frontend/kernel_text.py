"""The text and the syntax tree of a Python function, also where it was not written plainly at the top of a file."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import NamedTuple

from refcompiler.errors import CompileError
from refcompiler.source import Span, parse_python, register_text

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_LOADED = time.time()  # a file older than this is what its functions were compiled from


class KernelText(NamedTuple):
    """A function as written: line numbers of ``tree`` count from ``first_line`` (from 1) of its file."""

    tree: ast.FunctionDef
    text: str
    first_line: int


def python_function(function: Callable) -> FunctionType:
    """The Python function inside of decorators that keep it (``functools.wraps``). Raises CompileError for others."""
    try:
        inner = inspect.unwrap(function)
    except ValueError:
        inner = None
    if isinstance(inner, FunctionType):
        return inner
    if isinstance(function, functools.partial):
        found = "a functools.partial; give the function itself, and the values as tl.constexpr arguments or defaults"
    elif inspect.ismethod(function):
        found = f"a bound method; decorate the function `{function.__name__}` in its class"
    elif inspect.isclass(function):
        found = f"the class {function.__name__}"
    elif inspect.isroutine(function):
        found = f"`{function.__name__}`, which is not written in Python"
    else:
        found = f"an object of {type(function).__name__}; decorate a function"
    raise CompileError("source.not_a_function", f"a kernel is a Python function, found {found}", phase="parse")


def text_of(function: FunctionType) -> KernelText:
    """Find a function in the text that Python compiled it from. Raises CompileError where that cannot be read."""
    code = function.__code__
    lines = _lines(function)
    if not 0 < code.co_firstlineno <= len(lines):
        raise _unavailable(function)
    try:
        found = _in_block(lines, code) if code.co_name != "<lambda>" else None
        found = found or _in_file(lines, code)
    except RecursionError:
        raise too_deep(_line_span(code.co_filename, code.co_firstlineno, lines)) from None
    if found is None:
        raise _unavailable(function)
    node, first = found
    end = (node.end_lineno or node.lineno) + first - 1
    if isinstance(node, ast.AsyncFunctionDef):
        span = _line_span(code.co_filename, node.lineno + first - 1, lines)
        raise CompileError("language.syntax#E1", "`async` is not supported; write def", span, phase="parse")
    if _may_have_changed(code) and not _agrees(lines, code):
        span = _line_span(code.co_filename, code.co_firstlineno, lines)
        message = f"{code.co_filename} has changed since `{function.__name__}` was defined; import it again"
        raise CompileError("source.changed", message, span, phase="parse")
    tree = as_definition(node) if isinstance(node, ast.Lambda) else node
    return KernelText(tree, "".join(lines[code.co_firstlineno - 1 : end]), first)


def as_definition(node: ast.Lambda) -> ast.FunctionDef:
    """The `def` that means the same as a lambda."""
    body = ast.copy_location(ast.Return(node.body), node.body)
    return ast.copy_location(ast.FunctionDef("lambda", node.args, [body], [], None), node)


# --- where the text is
def _lines(function: FunctionType) -> list[str]:
    file = function.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, function.__globals__)
    if not lines and file == "<string>":
        words = list(getattr(sys, "orig_argv", []))  # python -c TEXT
        if "-c" in words[:-1]:
            lines = words[words.index("-c") + 1].splitlines(keepends=True)
            register_text(file, "".join(lines))
    return lines


def _in_block(lines: list[str], code: CodeType) -> tuple[Definition, int] | None:
    """The function in the lines of its own block; cheaper than reading the file."""
    first = code.co_firstlineno
    try:
        text = "".join(inspect.getblock(lines[first - 1 :]))
        indented = text[:1] in (" ", "\t", "\f")
        # Indented source goes under an `if`: unlike dedenting this keeps columns and accepts comments at column 0.
        module = parse_python("if 1:\n" + text if indented else text)
    except (SyntaxError, ValueError):
        return None
    if indented:
        ast.increment_lineno(module, -1)
    node = _find(module, code, 1)
    return None if node is None else (node, first)


def _in_file(lines: list[str], code: CodeType) -> tuple[Definition, int] | None:
    try:
        module = parse_python("".join(lines))
    except (SyntaxError, ValueError):
        return None
    node = _find(module, code, code.co_firstlineno)
    if node is None:
        return None
    ast.increment_lineno(node, 1 - code.co_firstlineno)
    return node, code.co_firstlineno


def _find(module: ast.Module, code: CodeType, first_line: int) -> Definition | None:
    """The definition that ``code`` was compiled from, where the text of the function begins at ``first_line``."""
    candidates = [
        node
        for node in ast.walk(module)
        if isinstance(node, Definition)
        and min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) == first_line
        and getattr(node, "name", "<lambda>") == code.co_name
        and _parameters(node) == _code_parameters(code)
    ]
    if len(candidates) > 1:  # several lambdas in a line
        shift = first_line - code.co_firstlineno
        candidates = [node for node in candidates if _contains(node.body, code, shift)]
    return candidates[-1] if candidates else None


def _parameters(node: Definition) -> list[str]:
    a = node.args
    return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if p is not None]


def _code_parameters(code: CodeType) -> list[str]:
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags])


def _contains(body: ast.expr | list[ast.stmt], code: CodeType, shift: int) -> bool:
    """Whether the body is where the instructions of ``code`` come from."""
    first: ast.expr | ast.stmt = body[0] if isinstance(body, list) else body
    last: ast.expr | ast.stmt = body[-1] if isinstance(body, list) else body
    begin, end = (first.lineno, first.col_offset), (last.end_lineno, last.end_col_offset)
    places = [
        ((line + shift, column), (end_line + shift, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and (column, end_column) != (0, 0)
    ]
    return bool(places) and all(begin <= a and b <= end for a, b in places)


# --- whether it is still the text
def _may_have_changed(code: CodeType) -> bool:
    if code.co_filename == "<string>":
        return True
    try:
        return os.stat(code.co_filename).st_mtime > _LOADED
    except OSError:
        return False  # a cell of a notebook, an example of a doctest: the text is only in memory


def _agrees(lines: list[str], code: CodeType) -> bool:
    """Whether compiling the text again gives the function."""
    if any(name.startswith("@py") for name in code.co_varnames):
        return True  # assertions that pytest has rewritten
    future = code.co_flags & sum(getattr(__import__("__future__"), n).compiler_flag for n in _FUTURE)
    try:
        module = compile("".join(lines), code.co_filename, "exec", flags=future, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(_same(code, other) for other in _inside(module))


_FUTURE = ("annotations", "generator_stop", "barry_as_FLUFL")


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)


def _same(x: CodeType, y: CodeType) -> bool:
    fields = ("co_name", "co_firstlineno", "co_code", "co_names", "co_varnames", "co_freevars")
    if any(getattr(x, field) != getattr(y, field) for field in fields) or len(x.co_consts) != len(y.co_consts):
        return False
    return all(
        _same(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else repr(a) == repr(b)
        for a, b in zip(x.co_consts, y.co_consts, strict=True)
    )


# --- errors
def too_deep(span: Span | None) -> CompileError:
    """The error for text that nests beyond what Python recurses into."""
    return CompileError(
        "control.calls#E1", "expressions or calls nest too deep; split them into statements", span, phase="parse"
    )


def _line_span(file: str, line: int, lines: list[str]) -> Span:
    text = lines[line - 1].rstrip() if 0 < line <= len(lines) else ""
    column = len(text) - len(text.lstrip())
    return Span(file, line, column, line, max(len(text), column + 1))


def _unavailable(function: FunctionType) -> CompileError:
    return CompileError(
        "source.unavailable",
        f"the source of `{function.__name__}` ({function.__code__.co_filename}) cannot be read; define it in a file or "
        "a notebook, add its text to linecache, or give the text to refcompiler.jit.from_source",
        phase="parse",
    )
