"""Emission of tile ops while a kernel is being compiled: the insertion point, spans of arguments, errors."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from refcompiler.dialects.scalar import BY_NAME
from refcompiler.errors import CompileError
from refcompiler.frontend.dependencies import Dependencies
from refcompiler.frontend.profile import CORE
from refcompiler.frontend.types import BY_IR, aggregate
from refcompiler.ir import OPS, Block, Func, Op, Value
from refcompiler.ir.types import FLOATS8, BlockType, Type, element_of
from refcompiler.ir.verifier import MAX_NUMEL, too_many
from refcompiler.source import Span

WIDEN = "cast it first: x.to(tl.float32)"


class Context:
    """What functions of the language append ops to. ``span`` is the current call, ``arguments`` its arguments' spans.

    ``inline`` compiles a call of a kernel-language function in place; the compiler sets it. ``profile`` is the
    language, or the extension of it, that the kernel is written in.
    """

    def __init__(self, func: Func, profile: str = CORE):
        self.func = func
        self.profile = profile
        self.block = func.body
        self.span: Span | None = func.span
        self.arguments: dict[str, Span] = {}
        self.inline: Callable[..., Any]
        self.depth = 0
        self.sources: dict[str, str] = {}
        self.dependencies = Dependencies()

    def op(
        self,
        name: str,
        *operands: Value | None,
        types: Sequence[Type] | None = None,
        body: Block | None = None,
        regions: Sequence[Block] = (),
        at: dict[str, str] | None = None,
        **attrs: Any,
    ) -> Op:
        """Append an op; ``at`` maps its fields to the names of the arguments they come from, where these differ."""
        given = list(types) if types else None
        op = OPS[name](*operands, span=self.span, types=given, body=body, regions=regions, **attrs)
        op.spans = self.arguments
        if at:
            op.spans = self.arguments | {f: self.arguments[a] for f, a in at.items() if a in self.arguments}
        for result in op.results:
            if isinstance(result.type, BlockType) and result.type.padded_numel > MAX_NUMEL:
                raise self.error(
                    "shape.broadcast#E4",
                    f"{too_many(result.type)}, {result.type}, exceeds the maximum of {MAX_NUMEL}; use a smaller block",
                )
        self.block.append(op)
        return op

    def emit(self, name: str, *operands: Value | None, **rest: Any) -> Value:
        """Like ``op``, giving the single result."""
        self._require_arithmetic(name, operands)
        return self.op(name, *operands, **rest).result

    def _require_arithmetic(self, name: str, operands: Sequence[Value | None]) -> None:
        """Refuse to compute with float8, which kernels only keep."""
        for operand in operands if name in BY_NAME or name in ("reduce", "scan") else ():
            element = None if operand is None else element_of(operand.type)
            if element in FLOATS8:
                raise self.error("cast.fp8#E1", f"{name} is not defined for {BY_IR[element]!r}; {WIDEN}")

    def error(
        self, id: str, message: str, at: str | None = None, notes: Sequence[str] = (), phase: str = "type"
    ) -> CompileError:
        """An error at the argument ``at``, or at the whole call."""
        span = self.arguments.get(at, self.span) if at else self.span
        return CompileError(id, message, span, notes=notes, phase=phase)


_CURRENT: ContextVar[Context | None] = ContextVar("refcompiler_context", default=None)


def here() -> Context:
    """The context of the kernel that this thread is compiling. Raises RuntimeError outside of one."""
    context = _CURRENT.get()
    if context is None:
        raise RuntimeError("functions of the kernel language work inside @jit kernels only; nothing was computed")
    return context


def enter(context: Context) -> Any:
    """Make ``context`` current; returns the token that ``leave`` takes."""
    return _CURRENT.set(context)


def leave(token: Any) -> None:
    """Restore what was current before ``enter``."""
    _CURRENT.reset(token)


def is_runtime(value: Any) -> bool:
    """Whether a frontend value exists when the kernel runs: an SSA value, an aggregate, or a tuple or dict with one in
    it."""
    if isinstance(value, Value | aggregate):
        return True
    if isinstance(value, (tuple, list)):
        return any(is_runtime(v) for v in value)
    return isinstance(value, dict) and any(is_runtime(v) for v in value.values())


def elements(value: Any) -> tuple | None:
    """The elements of a compile-time sequence: a tuple, list, range, string, or the keys of a dict. None otherwise."""
    if isinstance(value, tuple | list | range | str | dict):
        return tuple(value)
    return None


def describe(value: Any) -> str:
    """A frontend value as messages name it: the type of run-time values, the text of compile-time ones."""
    if isinstance(value, Value):
        return f"a run-time {value.type}"
    if isinstance(value, aggregate):
        return value.describe()
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, dict):
        return f"a dict of {len(value)}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    return f"constexpr {value!r}"
