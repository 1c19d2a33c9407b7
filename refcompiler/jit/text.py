"""Kernels given as text, such as a block of a YAML file: read, never run, with errors that point into the file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from refcompiler.dialects.simt.tensor_maps import check_tensor_maps
from refcompiler.errors import CompileError
from refcompiler.frontend import Compiled, KernelSource
from refcompiler.frontend.dependencies import Dependencies
from refcompiler.frontend.kernel_text import too_deep
from refcompiler.frontend.types import constexpr
from refcompiler.ir import verify
from refcompiler.ir.parser import parse_func
from refcompiler.jit.compiled import CompiledKernel
from refcompiler.jit.function import JitFunction
from refcompiler.source import Span, parse_python, register_text, span_of


def from_source(
    text: str,
    entry: str,
    file: str = "<kernel>",
    first_line: int = 1,
    globals: Mapping[str, Any] | None = None,
    *,
    first_column: int = 0,
    file_text: str | None = None,
) -> JitFunction:
    """The kernel ``entry`` of ``text``, which starts at line ``first_line`` (from 1) and ``first_column`` of ``file``.

    The text holds functions (each can be called by the others), `import`s of modules given in ``globals``, and names
    bound to literals or `tl.constexpr(literal)`. ``triton`` and ``tl`` are in scope. ``file_text`` is the content of
    ``file`` where that is no file on disk. Raises CompileError for anything else.
    """
    if file_text is not None:
        register_text(file, file_text)
    elif file.startswith("<"):
        register_text(file, "\n" * (first_line - 1) + text)
    try:
        module = parse_python(text)
    except SyntaxError as error:
        line, column = (error.lineno or 1) + first_line - 1, max(0, (error.offset or 1) - 1) + first_column
        span = Span(file, line, column, line, column + 1)
        raise CompileError("language.syntax#E1", f"not Python: {error.msg}", span, phase="parse") from None
    except RecursionError:
        raise too_deep(Span(file, first_line, first_column, first_line, first_column + 1)) from None
    scope = {**_default_scope(), **(globals or {})}
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            source = KernelSource(node.name, text, file, first_line, scope, first_column=first_column, tree=node)
            scope[node.name] = JitFunction(source)
        elif not _bind(node, scope):
            message = "kernel text holds functions and names bound to literals or tl.constexpr(literal)"
            span = span_of(node, file, first_line - 1, first_column)
            raise CompileError("language.syntax#E1", message, span, phase="parse")
    kernel = scope.get(entry)
    if not isinstance(kernel, JitFunction):
        span = Span(file, first_line, first_column, first_line, first_column + 1)
        raise CompileError("language.syntax#E2", f"no function `{entry}` in this text", span, phase="parse")
    return kernel


def from_simt(text: str, file: str = "<simt>", arch: str = "sm_90a", backend: str = "cuda") -> CompiledKernel:
    """A kernel given as the text of its SIMT function: verified, then simulated, emitted and launched as it is.

    Raises CompileError, of phase parse or verify.
    """
    if file.startswith("<"):
        register_text(file, text)
    func = parse_func(text, file)
    if func.level != "simt":
        raise CompileError("ir.level", f"expected a simt function, found one of level {func.level}", phase="parse")
    try:
        verify(func)
        check_tensor_maps(func)
    except CompileError as error:
        error.phase = "verify"
        raise
    from refcompiler.pipeline import Options

    options = Options(num_warps=func.attrs["num_warps"])
    kernel = CompiledKernel(Compiled(func, {file: text}, Dependencies()), arch, backend, options)
    kernel.levels["simt"] = func
    return kernel


def _default_scope() -> dict[str, Any]:
    import refcompiler

    return {"triton": refcompiler, "tl": refcompiler.language}


def _bind(node: ast.stmt, scope: dict[str, Any]) -> bool:
    """Bind the names of a statement that only names things; False for any other statement."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        return all(name in scope for name in names)
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        value = node.value
        marked = isinstance(value, ast.Call) and ast.unparse(value.func).endswith("constexpr") and len(value.args) == 1
        try:
            found = ast.literal_eval(value.args[0] if marked and isinstance(value, ast.Call) else value)
        except ValueError:
            return False
        scope[node.targets[0].id] = constexpr(found) if marked else found
        return True
    return False
