"""A kernel and its specialisation to a verified tile function."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import refcompiler.dialects  # noqa: F401  fills the registry of ops
from refcompiler.errors import CompileError
from refcompiler.frontend.calls import Calls
from refcompiler.frontend.context import Context, enter, leave
from refcompiler.frontend.dependencies import Dependencies
from refcompiler.frontend.kernel_source import EMPTY, KernelSource
from refcompiler.frontend.kernel_text import too_deep
from refcompiler.frontend.profile import CORE
from refcompiler.frontend.scope import Frame
from refcompiler.frontend.signature import parse_signature
from refcompiler.frontend.types import constexpr
from refcompiler.ir import Func, Value, verify
from refcompiler.ir.types import PointerType


@dataclass
class Compiled:
    """A tile function and what it was made from: the sources inlined, and what was read outside of them."""

    func: Func
    sources: dict[str, str]
    dependencies: Dependencies


def compile_to_tile(
    fn: Any,
    signature: str | Mapping[str, Any],
    constexprs: Mapping[str, Any] | None = None,
    hints: Mapping[str, int] | None = None,
    profile: str = CORE,
) -> Func:
    """The tile function of a kernel for parameter types ``signature`` and compile-time values ``constexprs``.

    ``fn`` is a Python function, a @jit kernel or a KernelSource; ``signature`` a string such as ``"x:*f32:16,n:i32"``
    or types by name; ``hints`` known divisors by name; ``profile`` the language or an extension of it. Raises
    CompileError with the place in the source.
    """
    source = fn if isinstance(fn, KernelSource) else getattr(fn, "__kernel_source__", None)
    types, known = parse_signature(signature)
    hints = {**known, **(hints or {})}
    return compile_source(source or KernelSource.of(fn), types, constexprs or {}, hints, profile).func


def compile_source(
    source: KernelSource,
    types: Mapping[str, Any],
    constexprs: Mapping[str, Any],
    hints: Mapping[str, int],
    profile: str = CORE,
) -> Compiled:
    """Like ``compile_to_tile`` with types parsed, giving also what the function depends on."""
    header = source.header_span()
    values = _constexpr_values(source, types, constexprs)
    params = [Value(_declared(types[p.name], p.const), p.name) for p in source.parameters if p.name in types]
    shown = {name: _printable(value) for name, value in values.items()}
    func = Func(source.name, params, shown, {p.name: hints[p.name] for p in params if p.name in hints}, span=header)
    context = Context(func, profile)
    frame = Frame(source)
    compiler = Calls(context, frame)
    context.inline = compiler.inline
    by_name = {p.name: p for p in params}
    for parameter in source.parameters:
        frame.bind(parameter.name, by_name.get(parameter.name, values.get(parameter.name)), parameter.node)
    context.sources[f"{source.file}:{source.first_line}:{source.name}"] = source.text
    token = enter(context)
    try:
        compiler.function()
    except RecursionError:
        raise too_deep(context.span) from None
    finally:
        leave(token)
    verify(func)
    return Compiled(func, context.sources, context.dependencies)


def _declared(type_: Any, const: bool) -> Any:
    """The type of a parameter: an annotation ``tl.const`` holds for whatever pointer is passed."""
    return PointerType(type_.pointee, True) if const and isinstance(type_, PointerType) else type_


def _constexpr_values(source: KernelSource, types: Mapping[str, Any], constexprs: Mapping[str, Any]) -> dict[str, Any]:
    """Compile-time parameters in the order of the header; every parameter needs a type or a value."""
    names = [p.name for p in source.parameters]
    unknown = [n for n in (*types, *constexprs) if n not in names]
    if unknown:
        raise CompileError(
            "program.arguments#E1",
            f"{source.name} has no parameter `{unknown[0]}`; it has {', '.join(names)}",
            source.header_span(),
            phase="launch",
        )
    values: dict[str, Any] = {}
    for p in source.parameters:
        if p.kind in (p.kind.VAR_POSITIONAL, p.kind.VAR_KEYWORD):
            message = "a kernel takes no * and no ** parameters; name the parameters"
            raise CompileError("language.syntax#E1", message, source.span(p.node), phase="parse")
        if p.name in types:
            if p.constexpr:
                message = f"parameter `{p.name}` of {source.name} is constexpr; give it a value, not a type"
                raise CompileError("program.arguments#E1", message, source.span(p.node), phase="launch")
            continue
        value = constexprs.get(p.name, p.default)
        if value is EMPTY:
            kind = "a value" if p.constexpr else "a type in the signature"
            message = f"parameter `{p.name}` of {source.name} needs {kind}"
            raise CompileError("program.arguments#E1", message, source.span(p.node), phase="launch")
        value = value.value if isinstance(value, constexpr) else value
        values[p.name] = value.item() if isinstance(value, np.generic) else value
    return values


def _printable(value: Any) -> Any:
    """A compile-time value as the IR text prints it: a Python literal."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, tuple | list):
        return tuple(_printable(v) for v in value)
    return getattr(value, "__qualname__", None) or str(value)
