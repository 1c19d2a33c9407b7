"""The smoke test of an adapter: one legal kernel and one illegal one, before any result of it counts."""

from __future__ import annotations

import numpy as np

from conformance.adapters import Adapter, CallArgument, CompileRequest, Ran, Rejected, Valid
from conformance.buffers import guarded

LEGAL = """@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)
"""
SIGNATURE = (("x", "*f32"), ("out", "*f32"), ("n", "i32"))


def smoke(adapter: Adapter) -> str:
    """Empty if the adapter works at all; otherwise the first thing that is wrong."""
    try:
        return _smoke(adapter)
    except Exception as e:
        return f"raises {type(e).__name__}: {e}"


def _smoke(adapter: Adapter) -> str:
    info = adapter.info()
    if info.defect:
        return info.defect
    if "core" not in info.profiles:
        return "does not claim the profile core"
    answer = adapter.compile(CompileRequest(LEGAL, "copy", SIGNATURE, (("BLOCK", 32),)))
    if not isinstance(answer, Valid):
        return f"a copy kernel does not compile: {answer}"
    if info.runs and (complaint := _run(adapter, answer)):
        return complaint
    illegal = LEGAL.replace("tl.load(", "tl.no_such_function(")
    refused = adapter.compile(CompileRequest(illegal, "copy", SIGNATURE, (("BLOCK", 32),)))
    return "" if isinstance(refused, Rejected) else f"a call of an unknown function is not rejected: {refused}"


def _run(adapter: Adapter, compiled: Valid) -> str:
    x = guarded("x", "in", "f32", (40,), np.arange(40, dtype=np.float32), 0)
    out = guarded("out", "out", "f32", (40,), None, 0)
    arguments = [CallArgument(a.name, a.array, a.storage, a.offset) for a in (x, out)]
    answer = adapter.run(compiled, (2,), [*arguments, CallArgument("n", 33)])
    if not isinstance(answer, Ran):
        return f"a copy kernel does not run: {answer.message}"
    right = np.array_equal(out.array[:33], x.initial[:33]) and out.array[33:].tobytes() == out.initial[33:].tobytes()
    return "" if right and not x.complaint() and not out.complaint() else "a copy kernel gives a wrong result"
