"""Generated kernels as source text of the language."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from conformance.dtypes import DTYPES
from conformance.fuzzing.nodes import (
    Assign,
    Atomic,
    Branch,
    Expr,
    Helper,
    Loop,
    Program,
    Remark,
    Return,
    Statement,
    Store,
    While,
)
from conformance.fuzzing.vocabulary import ROWS

ENTRY = "kernel"


def source(program: Program) -> str:
    """The kernel and its helpers as one Python text, with `triton` and `tl` in scope."""
    parameters = ", ".join([*(a.name for a in program.arrays), *(s.name for s in program.scalars)])
    parts = [helper(h) for h in program.helpers]
    body = "\n".join(block(program.body, 1)) or "    pass"
    parts.append(f"@triton.jit\ndef {ENTRY}({parameters}):\n{body}\n")
    return "\n\n".join(parts)


def helper(h: Helper) -> str:
    if h.source:
        return h.source
    results = ", ".join(expression(r) for r in h.results)
    return f"@triton.jit\ndef {h.name}({', '.join(h.parameters)}):\n    return {results}\n"


def block(body: Sequence[Statement], depth: int) -> list[str]:
    """Indented lines; an empty body is `pass`."""
    pad = "    " * depth
    lines: list[str] = []
    for s in body:
        match s:
            case Assign():
                lines.append(pad + _assignment(s))
            case Store():
                function = f"atomic_{s.function}" if isinstance(s, Atomic) else "store"
                mask = "" if s.mask is None else f", mask={expression(s.mask)}"
                lines.append(f"{pad}tl.{function}({expression(s.pointer)}, {expression(s.value)}{mask}{s.options})")
            case Loop():
                bounds = ", ".join(expression(b) for b in s.bounds)
                lines += [f"{pad}for {s.index} in {s.form}({bounds}):", *block(s.body, depth + 1)]
            case While():
                lines += [f"{pad}while {expression(s.condition)}:", *block(s.body, depth + 1)]
            case Branch():
                lines += [f"{pad}if {expression(s.condition)}:", *block(s.then, depth + 1)]
                if s.otherwise:
                    lines += [f"{pad}else:", *block(s.otherwise, depth + 1)]
            case Return():
                lines.append(f"{pad}return")
            case Remark():
                lines.append(pad + s.text)
    return lines or [pad + "pass"]


def _assignment(s: Assign) -> str:
    if s.augmented:
        return f"{s.names[0]} {s.augmented}= {expression(s.values[0].operands[1])}"
    return f"{', '.join(s.names)} = {', '.join(expression(v) for v in s.values)}"


def number(value: Any) -> str:
    """A literal that reads back as the same number; what Python has no literal for is spelt `float('nan')`."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return f'float("{value}")'
        return repr(value) if math.copysign(1.0, value) > 0 else f"({value!r})"
    return str(value) if isinstance(value, bool) or value >= 0 else f"({value})"


def expression(e: Expr) -> str:
    """One expression, with every operation in parentheses."""
    operands = [expression(o) for o in e.operands]
    row = ROWS.get(e.op)
    if row is not None:
        return row.spellings[e.attributes.get("spelling", 0)].format(*operands)
    return _FORMS[e.op](e.attributes, operands, e)


def _tl(dtype: str) -> str:
    return f"tl.{DTYPES[dtype].triton}"


def _load(a: Any, o: list[str], e: Expr) -> str:
    words = ("", "mask=", "other=")
    return f"tl.load({', '.join(w + t for w, t in zip(words, o, strict=False))}{a.get('options', '')})"


def _index(a: Any, o: list[str], e: Expr) -> str:
    kept = ["None" if i in a["axes"] else ":" for i in range(len(e.type.shape))]
    return f"{o[0]}[{', '.join(kept)}]"


def _reduction(a: Any, o: list[str], e: Expr) -> str:
    words = [o[0] if len(o) == 1 else f"({', '.join(o)})", f"axis={a['axis']}"]
    if "combine" in a:
        words.append(f"combine_fn={a['combine']}")
    words += [f"{k}={v}" for k, v in a.get("keywords", {}).items()]
    return f"tl.{a['function']}({', '.join(words)})"


_FORMS: dict[str, Callable[[Any, list[str], Expr], str]] = {
    "name": lambda a, o, e: a["name"],
    "array": lambda a, o, e: a["name"],
    "literal": lambda a, o, e: number(a["value"]),
    "program_id": lambda a, o, e: f"tl.program_id({a['axis']})",
    "num_programs": lambda a, o, e: f"tl.num_programs({a['axis']})",
    "arange": lambda a, o, e: f"tl.arange({a['start']}, {a['start'] + e.type.shape[0]})",
    "full": lambda a, o, e: f"tl.full({e.type.shape}, {o[0]}, {_tl(e.type.dtype)})",
    "cast": lambda a, o, e: f"{o[0]}.to({_tl(e.type.dtype)})",
    "bitcast": lambda a, o, e: f"{o[0]}.to({_tl(e.type.dtype)}, bitcast=True)",
    "where": lambda a, o, e: f"tl.where({', '.join(o)})",
    "clamp": lambda a, o, e: f"tl.clamp({', '.join(o)}{a['keywords']})",
    "addptr": lambda a, o, e: f"({o[0]} {a.get('sign', '+')} {o[1]})",
    "load": _load,
    "expand_dims": _index,
    "broadcast_to": lambda a, o, e: f"tl.broadcast_to({o[0]}, {e.type.shape})",
    "reshape": lambda a, o, e: f"tl.reshape({o[0]}, {e.type.shape})",
    "ravel": lambda a, o, e: f"tl.ravel({o[0]})",
    "trans": lambda a, o, e: f"tl.permute({o[0]}, {a['order']})",
    "reduce": _reduction,
    "scan": _reduction,
    "gather": lambda a, o, e: f"tl.gather({', '.join(o)}, axis={a['axis']})",
    "conditional": lambda a, o, e: f"({o[1]} if {o[0]} else {o[2]})",
    "call": lambda a, o, e: f"{a['helper'].name}({', '.join(o)})",
    "flip": lambda a, o, e: f"tl.flip({o[0]}, {a['axis']})",
    "sort": lambda a, o, e: f"tl.sort({o[0]}, {a['axis']}, descending={a['descending']})",
    "hint": lambda a, o, e: f"tl.{a['function']}({o[0]}, {a['value']})",
}
