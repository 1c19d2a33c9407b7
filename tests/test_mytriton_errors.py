"""Mistakes in kernels of mytriton's surface: each is refused at its place, in words about the kernel."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import refcompiler.mytriton as mytriton
import refcompiler.mytriton.language as tl
from refcompiler.errors import CompileError, LaunchError

HEADER = "def kernel(x, out, n, s, BLOCK: tl.constexpr):\n    i = tl.arange(0, BLOCK)\n"


@mytriton.jit
def whole(x):
    return x


def kernel_of(body: str) -> mytriton.Kernel:
    text = HEADER + "".join(f"    {line}\n" for line in body.split("\n"))
    file = f"<{body}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"tl": tl, "whole": whole, "np": np}
    exec(compile(text, file, "exec"), scope)
    return mytriton.jit(scope["kernel"])


# What stands in the kernel, the text under the caret, and what the message says.
MISTAKES = {
    # that mytriton reported in words of its inside
    "arange to a run-time end": ("j = tl.arange(0, n)", "n", "must be known at compile time"),
    "a shape known at run time": ("z = tl.zeros((n,), tl.float32)", "(n,)", "compile-time integer"),
    "float of a run-time value": ("v = float(n)", "n", r"works on compile-time values only.*tl\.float32"),
    "an unknown function": ("v = tl.sqrt(s)", "tl.sqrt", "tl has no `sqrt`"),
    "an unknown method": ("v = n.too(3)", "n.too", r"has no attribute `too`; did you mean `\.to`"),
    "a pointer times a number": ("v = x * 2", "x", "pointers"),
    "a pointer less a pointer": ("v = x - out", "x - out", "pointer"),
    "a pointer compared": ("v = x < 3", "x", "pointers"),
    "an index of a pointer": ("v = x[0]", "x[0]", "index"),
    "a name bound in a loop only": ("for k in range(n):\n    last = k\ntl.store(out, last)", "last", "before the loop"),
    "an integer as condition": ("tl.store(out, tl.where(n, 1.0, 2.0))", "n", "bool"),
    "a step of zero": ("for k in tl.static_range(0, 4, 0):\n    pass", "0", "cannot be 0"),
    "a raise": ("raise n", "raise n", "not"),
    # that mytriton reported well
    "a mask that is no bool": ("v = tl.load(x + i, mask=i)", "i", "mask must be bool"),
    "an offset that is no integer": ("v = tl.load(x + s)", "s", "integer"),
    "shapes that do not broadcast": ("v = i + tl.arange(0, 7)", "i + tl.arange(0, 7)", r"\[16\].*\[7\]"),
    "a store of a wider block": ("tl.store(out + tl.arange(0, 4), i)", "i", r"\[16\].*\[4\]"),
    "exp of an integer": ("v = tl.exp(n)", "n", "exp is not defined for i32"),
    "a comparison between bits": ("m = i < n & s < 3.0", "s", "integers"),
    "a carried type that changes": (
        "acc = 0\nfor k in range(n):\n    acc = acc + 0.5",
        "acc = acc + 0.5",
        "i32 before the loop and f32",
    ),
    "a carried shape that changes": (
        "acc = 0.0\nfor k in range(n):\n    acc = acc + tl.load(x + i)",
        "acc = acc + tl.load(x + i)",
        "keeps its type",
    ),
    "an index assigned": ("for k in range(n):\n    k = k + 1", "k", "counts the loop"),
    "an else after a loop": (
        "for k in range(n):\n    pass\nelse:\n    tl.store(out, 1.0)",
        "tl.store(out, 1.0)",
        "`else`",
    ),
    "a shape of nothing": ("z = tl.zeros((0,), tl.float32)", "(0,)", "positive"),
    "a dtype that is none": ("z = tl.zeros((4,), 'float')", "'float'", "must be a dtype"),
    "a block to fill with": ("z = tl.full((16,), i, tl.int32)", "i", "takes a scalar"),
    "an axis of the grid": ("p = tl.program_id(3)", "3", "must be 0, 1, or 2"),
    "an arange to nowhere": ("j = tl.arange(4, 4)", "4", "greater than its start"),
    "a missing argument": ("tl.store(out)", "tl.store(out)", "value"),
    "an unknown keyword": ("v = tl.load(x, msk=True)", "tl.load(x, msk=True)", "msk"),
    "a name from nowhere": ("v = nn + 1", "nn", "not defined"),
    "a matrix product": ("v = i @ i", "i @ i", "@"),
    "an exception handler": ("try:\n    v = 1\nfinally:\n    pass", "try:\n    v = 1\nfinally:\n    pass", "try"),
    "a generator": ("yield n", "yield n", "yield"),
}


def under_the_caret(error: CompileError) -> str:
    span = error.span
    lines = linecache.getlines(span.file)[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_col]
    lines[0] = lines[0][span.col :]
    return "".join(lines)


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_refused_at_its_place(what):
    body, place, message = MISTAKES[what]
    x, out = np.zeros(16, np.float32), np.zeros(16, np.float32)
    with pytest.raises(CompileError, match=message) as caught:
        kernel_of(body)[1](x, out, 3, 0.5, BLOCK=16)
    assert "".join(under_the_caret(caught.value).split()) == "".join(place.split())
    assert not out.any()


LAUNCHES = {
    "a dtype that the language lacks": (lambda x: (x.astype(np.complex64), x, 3, 0.5), "`x`.*complex64"),
    "gaps between elements": (lambda x: (np.zeros(32, np.float32)[::2], x, 3, 0.5), "`x`.*not contiguous"),
    "a list": (lambda x: ([1, 2], x, 3, 0.5), "`x`.*list"),
    "no argument": (lambda x: (x, x, 3), "missing argument `s`"),
    "an argument too many": (lambda x: (x, x, 3, 0.5, 16, 17), "positional arguments"),
}


@pytest.mark.parametrize("what", LAUNCHES)
def test_a_launch_is_refused_by_the_name_of_the_argument(what):
    arguments, message = LAUNCHES[what]
    kernel = kernel_of("tl.store(out + i, tl.load(x + i) + s, i < n)")
    keywords = {} if what == "an argument too many" else {"BLOCK": 16}
    with pytest.raises(LaunchError, match=message):
        kernel[1](*arguments(np.zeros(16, np.float32)), **keywords)


# --------------------------------------------------------------------------- the exceptions that scripts catch
@pytest.mark.parametrize(
    "launch, kinds",
    [
        (lambda k, x: k[1](x, x, 3, 0.5, BLOCK=tl.float32), (CompileError, TypeError)),
        (lambda k, x: k[1](None, x, 3, 0.5, BLOCK=16), (CompileError, TypeError)),
        (lambda k, x: k[1]("x", x, 3, 0.5, BLOCK=16), (LaunchError, TypeError)),
        (lambda k, x: k[1](x, x, 3), (LaunchError, TypeError)),
        (lambda k, x: k(x, x, 3, 0.5), (LaunchError, ValueError)),
        (lambda k, x: k[-1](x, x, 3, 0.5, BLOCK=16), (LaunchError, ValueError)),
        (lambda k, x: k[1.5](x, x, 3, 0.5, BLOCK=16), (LaunchError, ValueError)),
    ],
)
def test_errors_are_pythons_too(launch, kinds):
    kernel = kernel_of("tl.store(out + i, tl.load(x + i) + s, i < n)")
    for kind in kinds:
        with pytest.raises(kind):
            launch(kernel, np.zeros(16, np.float32))


def test_a_backend_that_is_none_is_a_value_error(monkeypatch):
    monkeypatch.setenv("MYTRITON_BACKEND", "metal")
    with pytest.raises(ValueError, match="metal"):
        kernel_of("tl.store(out + i, s)")[1](np.zeros(16, np.float32), np.zeros(16, np.float32), 3, 0.5, BLOCK=16)


def test_what_is_no_function_is_a_type_error_at_its_decoration():
    with pytest.raises(TypeError):
        mytriton.jit(print)


def test_an_error_keeps_its_place_and_can_be_made_again():
    with pytest.raises(TypeError) as caught:
        kernel_of("v = nn + 1")[1](np.zeros(16, np.float32), np.zeros(16, np.float32), 3, 0.5, BLOCK=16)
    assert "error[language.syntax#E2]" in str(caught.value) and "^^" in str(caught.value)
    make, parts = caught.value.__reduce__()
    assert str(make(*parts)) == str(caught.value)
