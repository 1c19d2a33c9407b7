"""A case's parameters bound to a concrete call: source, types, shapes, scalars, constexprs, grid, arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance import model
from conformance.adapters import CallArgument, CompileRequest
from conformance.buffers import GuardedArray, guarded
from conformance.dtypes import DTYPES
from conformance.expressions import evaluate
from conformance.inputs import fill
from conformance.signatures import parameters, source_level, substitute

DEFAULT_ARCH = "sm_90a"


@dataclass(frozen=True)
class BoundArgument:
    """An argument with its dtype and shape (None for scalars); scalars have a value."""

    declared: model.Argument
    dtype: str
    shape: tuple[int, ...] | None
    value: Any = None

    @property
    def type_text(self) -> str:
        hint = f":{self.declared.hint}" if self.declared.hint else ""
        return ("*" if self.shape is not None else "") + self.dtype + hint


@dataclass(frozen=True)
class BoundCall:
    """Everything about a launch except the contents of its arrays."""

    source: str
    entry: str
    arguments: tuple[BoundArgument, ...]
    constexprs: Mapping[str, Any]
    options: Mapping[str, Any]
    grid: tuple[int, ...]
    params: Mapping[str, Any]
    profile: str = "core"
    launch_grid: Any = None
    """The grid in the form the launch passes it: the tuple, a list, an int, or a function of the arguments."""

    def request(self, emit: Sequence[str] = (), arch: str = "") -> CompileRequest:
        """What an adapter is asked to compile."""
        return CompileRequest(
            self.source,
            self.entry,
            tuple((a.declared.name, a.type_text) for a in self.arguments),
            tuple(self.constexprs.items()),
            tuple(self.options.items()),
            arch or DEFAULT_ARCH,
            tuple(emit),
            profile=self.profile,
        )

    def names(self) -> dict[str, Any]:
        """Names an oracle or a limit may use, apart from arrays; scalars have the type the kernel sees."""
        scalars = {a.declared.name: _typed(a) for a in self.arguments if a.shape is None}
        return {**self.params, **self.constexprs, **scalars, "grid": self.grid}


def _typed(argument: BoundArgument) -> Any:
    """A scalar argument as the kernel receives it: wrapped or rounded to its type."""
    kind = DTYPES[argument.dtype]
    with np.errstate(all="ignore"):
        return np.asarray(argument.value).astype(kind.numpy)[()]


def bind(program: model.Program, params: Mapping[str, Any], *, shapes: bool = True) -> BoundCall:
    """The call of a program with parameters; with `shapes` False only what a compilation needs is evaluated."""
    env: dict[str, Any] = dict(params)
    source = substitute(program.source, dict(params), triton=source_level(program.source) == "kernel")
    scalars: dict[str, Any] = {}
    for a in program.arguments:
        if not a.is_array and (shapes or a.value or a.name in params):
            try:
                scalars[a.name] = evaluate(a.value, env) if a.value else env.get(a.name)
            except Exception:
                if shapes:
                    raise
    env.update({k: v for k, v in scalars.items() if v is not None})
    arguments = tuple(_argument(a, params, env, scalars, shapes) for a in program.arguments)
    dtype_words = {d: d for d in DTYPES}
    constexprs = {
        name: params[name]
        for name, is_constexpr in parameters(source, program.entry).items()
        if is_constexpr and name in params
    }
    for name, value in program.constexprs.items():
        constexprs[name] = evaluate(value, {**dtype_words, **env}) if isinstance(value, str) else value
    options = {k: evaluate(v, env) if isinstance(v, str) else v for k, v in program.options.items()}
    grid = _extents(program.grid, {**env, **constexprs}) if shapes else ()
    launch_grid = _formed(program, grid) if shapes else ()
    return BoundCall(
        source, program.entry, arguments, constexprs, options, grid, dict(params), program.profile, launch_grid
    )


def _extents(texts: Sequence[str], env: Mapping[str, Any]) -> tuple[Any, ...]:
    """The extents of a grid; what is no integer stays as it is, for an implementation to refuse."""
    values = (evaluate(text, env) for text in texts)
    return tuple(v if isinstance(v, bool | float) else int(v) for v in values)


def _formed(program: model.Program, grid: tuple[Any, ...]) -> Any:
    """The grid as `grid_form` says; a function evaluates the expressions on the arguments that it is called with."""
    match program.grid_form:
        case "list":
            return list(grid)
        case "int":
            (extent,) = grid
            return extent
        case "numpy":
            return tuple(kind(n) for kind, n in zip((np.int64, np.uint8, np.int16), grid, strict=False))
        case "function":
            return lambda meta: _extents(program.grid, meta)
    return grid


def _argument(
    a: model.Argument, params: Mapping[str, Any], env: Mapping[str, Any], scalars: Mapping[str, Any], shapes: bool
) -> BoundArgument:
    dtype = substitute(a.dtype, dict(params), triton=False)
    if a.shape is None:
        return BoundArgument(a, dtype, None, scalars.get(a.name))
    return BoundArgument(a, dtype, tuple(int(evaluate(e, env)) for e in a.shape) if shapes else ())


def make_arrays(
    call: BoundCall, inputs: Mapping[str, str], seed: str, *, aligned: bool = False
) -> dict[str, GuardedArray]:
    """Guarded arrays of a call: input sets, poison in outputs; one seed in four moves arrays off their alignment,
    unless they are to be ``aligned``."""
    digest = hashlib.sha256(seed.encode()).digest()
    arrays: dict[str, GuardedArray] = {}
    index = 0
    for a in call.arguments:
        if a.shape is None:
            continue
        name, role = a.declared.name, a.declared.role
        contents = None
        if role != "out":
            contents = fill(
                inputs.get(name, "ints(0, 8)"),
                a.dtype,
                a.shape,
                instance=seed,
                array=name,
                index=index,
                params=call.names(),
            )
            index += 1
        shift = 1 if digest[0] % 4 == 0 and not a.declared.hint and not aligned else 0
        arrays[name] = guarded(name, role, a.dtype, a.shape, contents, shift)
    return arrays


def call_arguments(
    call: BoundCall, arrays: Mapping[str, GuardedArray], modifiers: Mapping[str, str]
) -> list[CallArgument]:
    """What the launch receives, in signature order, with the case's `arguments:` applied."""
    result = []
    for a in call.arguments:
        name = a.declared.name
        if a.shape is None:
            argument = CallArgument(name, a.value)
        else:
            g = arrays[name]
            argument = CallArgument(name, g.array, g.storage, g.offset)
        if name in modifiers:
            changed = _modify(argument, modifiers[name], call, arrays)
            if changed is None:
                continue
            argument = changed
        argument.bent = bool(modifiers)
        result.append(argument)
    return result


def _modify(
    argument: CallArgument, modifier: str, call: BoundCall, arrays: Mapping[str, GuardedArray]
) -> CallArgument | None:
    """`arguments: {x: ...}`: the argument bent as a launch error needs it; None leaves it out of the call."""
    word, _, inside = modifier.partition("(")
    inside = inside.removesuffix(")")
    array = argument.value
    match word:
        case "missing":
            return None
        case "none":
            return CallArgument(argument.name, None)
        case "list":
            return CallArgument(argument.name, array.tolist())
        case "readonly":
            view = array.view()
            view.flags.writeable = False
            return CallArgument(argument.name, view, argument.storage, argument.offset)
        case "view":
            return _view(argument, array[tuple(_slice(part) for part in inside.split(","))])
        case "transposed":
            return _view(argument, array.T)
        case "array":
            g = arrays[inside]
            return CallArgument(argument.name, g.array, g.storage, g.offset)
        case "field":  # of records that have one byte more
            records = np.zeros(array.shape, [("value", array.dtype), ("more", "i1")])
            records["value"] = array
            return CallArgument(argument.name, records["value"])
        case "bits":
            return _view(argument, array.view(DTYPES[inside].numpy))
        case "dtype":
            return CallArgument(argument.name, array.astype(DTYPES[inside].numpy if inside in DTYPES else inside))
        case "value":
            return CallArgument(argument.name, evaluate(inside, call.names()))
        case "positional":
            argument.positional = True
            return argument
        case "named":
            argument.name = inside
            return argument
    raise ValueError(f"unknown argument modifier {modifier!r}")


def _view(argument: CallArgument, view: np.ndarray) -> CallArgument:
    """The argument as a view of the same storage."""
    moved = view.ctypes.data - argument.value.ctypes.data
    return CallArgument(argument.name, view, argument.storage, argument.offset + moved)


def _slice(text: str) -> slice:
    """`1::2` as a slice."""
    return slice(*(int(part) if part.strip() else None for part in text.split(":")))
