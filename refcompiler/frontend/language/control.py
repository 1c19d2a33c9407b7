"""Loops, checks and hints."""

from __future__ import annotations

import sys
from typing import Any

from refcompiler.frontend.builtin import builtin
from refcompiler.frontend.context import Context, describe, here, is_runtime
from refcompiler.frontend.language.arguments import static, static_text
from refcompiler.frontend.types import to_language
from refcompiler.ir import Constant, Value
from refcompiler.ir.types import BOOL, DType, element_of, shape_of


def _header_only(name: str) -> Any:
    raise here().error("control.for_range#E7", f"tl.{name} stands in the header of a for loop only")


@builtin
def range(
    arg1,
    arg2=None,
    step=None,
    num_stages=None,
    loop_unroll_factor=None,
    disallow_acc_multi_buffer=False,
    flatten=False,
    warp_specialize=False,
    disable_licm=False,
):
    """A loop at run time, like Python's range; the named options are hints that change no value.

    Spec: control.for_range
    """
    return _header_only("range")


@builtin
def static_range(arg1, arg2=None, step=None):
    """A loop unrolled while compiling, like Python's range; bounds and index are constexpr.

    Spec: control.static_range
    """
    return _header_only("static_range")


@builtin
def condition(arg1, disable_licm=False):
    """The condition of a `while`, with hints that change no value. Spec: control.while"""
    raise here().error("control.while#E1", "tl.condition stands in the header of a while loop only")


@builtin
def static_assert(cond, msg=""):
    """Stop compiling with `msg` where the constexpr `cond` is false. Spec: control.assert"""
    c = here()
    if is_runtime(cond):
        raise c.error(
            "control.constexpr#E2", f"static_assert needs a constexpr condition, found {describe(cond)}", "cond"
        )
    if not cond:
        text = static_text(c, msg, "msg", "control.assert#E2")
        raise c.error("control.assert#E2", f"static assertion failed{': ' + text if text else ''}", "cond")


@builtin
def static_print(*values, sep=" ", end="\n", file=None, flush=False):
    """Print while compiling; run-time values print as their types. Spec: control.static_print"""
    c = here()
    shown = [str(to_language(v.type)) if isinstance(v, Value) else str(v) for v in values]
    words = static_text(c, sep, "sep", "control.calls#E3"), static_text(c, end, "end", "control.calls#E3")
    stream = sys.stdout if static(c, file, "file") is None else file
    if not hasattr(stream, "write"):
        raise c.error("control.calls#E3", f"file must be a stream, found {describe(file)}", "file")
    stream.write(words[0].join(shown) + words[1])


@builtin
def device_assert(cond, msg="", mask=None):
    """Stop the kernel with `msg` where `cond` is false and `mask` is true; GPUs check in debug builds.

    Spec: control.assert
    """
    c = here()
    condition = as_condition(c, cond, "cond")
    if mask is not None:
        # Not `condition or not mask`: that would take poison from elements that the mask leaves out.
        condition = c.emit("select", as_condition(c, mask, "mask"), condition, Constant(True, BOOL))
    message = static_text(c, msg, "msg", "control.assert#E1")
    c.op("assert", condition, message=message, at={"condition": "cond"})


def as_condition(c: Context, value: Any, at: str | None = None) -> Value:
    """A bool value for an assertion."""
    if isinstance(value, bool):
        return Constant(value, BOOL)
    if not isinstance(value, Value) or element_of(value.type) is not BOOL:
        raise c.error("control.assert#E1", f"the condition of an assertion must be bool, found {describe(value)}", at)
    return value


@builtin
def assume(cond):
    """A promise that `cond` is true; it changes no value. Spec: control.hints"""
    as_condition(here(), cond, "cond")


def _hint(input: Any, values: Any, what: str) -> Any:
    c = here()
    given = static(c, values, "values")
    given = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not isinstance(input, Value):
        raise c.error("control.hints#E1", f"a hint is about a run-time value, found {describe(input)}", "input")
    rank = max(1, len(shape_of(input.type)))
    if len(given) != rank or not all(isinstance(v, int) and v > 0 for v in given):
        raise c.error(
            "control.hints#E1", f"values holds one positive constexpr integer per axis, found {given}", "values"
        )
    element = element_of(input.type)
    if isinstance(input, Constant) or not (isinstance(element, DType) and element.is_int):
        return input  # what points or is no index has no use for it
    return c.emit("hint", input, at={"x": "input"}, **{what: given})


@builtin
def multiple_of(input, values):
    """A promise that the first element of each aligned run of `input` is a multiple of `values`; gives `input`.

    Spec: control.hints
    """
    return _hint(input, values, "divisible")


@builtin
def max_contiguous(input, values):
    """A promise that runs of `values` elements of `input` count up by one; gives `input`. Spec: control.hints"""
    return _hint(input, values, "contiguous")


@builtin
def max_constancy(input, values):
    """A promise that runs of `values` elements of `input` are equal; gives `input`. Spec: control.hints"""
    return _hint(input, values, "constant")


@builtin
def debug_barrier():
    """Nothing: what a program does is in order, and the compiler places all barriers. Spec: atomic.order"""
