"""Kernel signatures of the YAML files and what the kernel source itself says about its parameters.

An argument is `name: *DTYPE[SHAPE] [out|inout]` for an array and `name: DTYPE [= VALUE]` for a scalar. DTYPE is a
dtype name or a parameter in braces (`{T}`), optionally with a hint `:16` (divisible by 16) or `:1` (equal to one).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache

from conformance.dtypes import DTYPES
from conformance.model import Argument

TRITON_NAMES = {d.name: d.triton for d in DTYPES.values()}
ARGUMENT = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\s*:\s*(?P<pointer>\*?)(?P<dtype>[a-z][a-z0-9]*|\{[A-Za-z_]\w*\})(?::(?P<hint>16|1))?"
    r"\s*(?:\[(?P<shape>.*)\])?\s*(?P<role>out|inout)?\s*(?:=\s*(?P<value>.+))?"
)


SIMT_HEAD = re.compile(r"simt func @(?P<name>[A-Za-z_]\w*)\((?P<params>[^)]*)\)")


def source_level(source: str) -> str:
    """What a program's source is written in: `kernel` (Triton's surface), or `simt` (text of one SIMT function)."""
    return "simt" if source.lstrip().startswith("simt func ") else "kernel"


class SignatureError(ValueError):
    """An argument that cannot be read."""


def parse_argument(text: str) -> Argument:
    """One line of a signature; raises SignatureError saying what was expected."""
    m = ARGUMENT.fullmatch(text.strip())
    if m is None:
        raise SignatureError(f"{text!r} is not an argument; write 'x: *f32[N]', 'y: *{{T}}[M, N] out' or 'n: i32 = N'")
    dtype, shape = m["dtype"], m["shape"]
    if not dtype.startswith("{") and dtype not in DTYPES:
        raise SignatureError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
    if bool(m["pointer"]) != (shape is not None):
        raise SignatureError(f"{text!r}: an array has both the star and a shape in brackets, a scalar neither")
    if shape is None and m["role"]:
        raise SignatureError(f"{text!r}: a scalar cannot be {m['role']}")
    if shape is not None and m["value"]:
        raise SignatureError(f"{text!r}: an array has no value here; say its contents in the case's inputs")
    extents = None if shape is None else _split(shape)
    return Argument(
        m["name"], dtype, extents, m["role"] or "in", (m["value"] or "").strip(), int(m["hint"]) if m["hint"] else None
    )


def _split(shape: str) -> tuple[str, ...]:
    """Extents separated by commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(shape):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(shape[start:i].strip())
            start = i + 1
    parts.append(shape[start:].strip())
    return tuple(p for p in parts if p)


_ANY_JIT = re.compile(r"^@.*jit", re.MULTILINE)
_PLAIN_JIT = re.compile(r"^@triton\.jit[^\n]*\n(?:@[^\n]*\n)*def\s+([A-Za-z_]\w*)", re.MULTILINE)


@lru_cache(maxsize=1024)
def _functions(source: str) -> tuple[ast.FunctionDef, ...]:
    try:
        tree = ast.parse(substitute(source, None))
    except SyntaxError:
        return ()
    return tuple(n for n in tree.body if isinstance(n, ast.FunctionDef))


def entry_name(source: str) -> str:
    """The last function decorated with `triton.jit`, found by text when the source is not valid Python on purpose; the
    function of SIMT text."""
    if source_level(source) == "simt":
        head = SIMT_HEAD.match(source.lstrip())
        return head["name"] if head else ""
    plain = _PLAIN_JIT.findall(source)
    if plain and len(plain) == len(_ANY_JIT.findall(source)):  # as nearly all are; parsing 500 programs takes a while
        return plain[-1]
    jitted = [f.name for f in _functions(source) if any("jit" in ast.unparse(d) for d in f.decorator_list)]
    if jitted:
        return jitted[-1]
    found = re.findall(r"@triton\.jit[^\n]*\n(?:@[^\n]*\n)*\s*(?:async )?def\s+([A-Za-z_]\w*)", source)
    return found[-1] if found else ""


def parameters(source: str, entry: str) -> dict[str, bool]:
    """Parameter names of a kernel in order, each with whether it is a constexpr; empty if the source cannot be read."""
    if source_level(source) == "simt":
        head = SIMT_HEAD.match(source.lstrip())
        return dict.fromkeys(re.findall(r"(\w+)\s*:", head["params"]), False) if head else {}
    for f in _functions(source):
        if f.name == entry:
            every = (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)
            return {a.arg: a.annotation is not None and "constexpr" in ast.unparse(a.annotation) for a in every}
    return {}


def defaults(source: str, entry: str) -> frozenset[str]:
    """Parameters of a kernel that have a default value."""
    for f in _functions(source):
        if f.name == entry:
            plain = [a.arg for a in (*f.args.posonlyargs, *f.args.args)]
            with_default = plain[len(plain) - len(f.args.defaults) :] if f.args.defaults else []
            keyed = [a.arg for a, d in zip(f.args.kwonlyargs, f.args.kw_defaults, strict=True) if d is not None]
            return frozenset((*with_default, *keyed))
    return frozenset()


PLACEHOLDER = re.compile(r"\{([A-Z][A-Za-z0-9_]*)\}")


def substitute(text: str, params: Mapping[str, object] | None, *, triton: bool = True) -> str:
    """Replace `{T}` by the parameter's value; dtypes in kernel source get Triton's spelling (`float32`).

    With `params` None every placeholder becomes a plain name, which is enough to read the structure of a source.
    """

    def value(m: re.Match[str]) -> str:
        if params is None:
            return m[1]
        if m[1] not in params:
            return m[0]
        v = str(params[m[1]])
        return TRITON_NAMES.get(v, v) if triton else v

    return PLACEHOLDER.sub(value, text)
