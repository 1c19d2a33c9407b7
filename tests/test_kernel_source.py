"""Kernels whose source is hard to find: made, wrapped, nested, oddly written. They work, or say why not."""

import doctest
import functools
import importlib
import linecache
import os
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import CompileError


def first_after(kernel, *args, **kwargs):
    """What the kernel leaves in the first element of an array of zeros."""
    x = np.zeros(8, np.int32)
    kernel[1](x, *args, **kwargs)
    return x[0]


def refused(function):
    with pytest.raises(CompileError) as caught:
        triton.jit(function)
    return caught.value


def module_from(text, tmp_path, name):
    """A module of this text, imported from a file."""
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(tmp_path))


HEADER = """
import refcompiler as triton
import refcompiler.language as tl
"""


# --- made by calls
def test_text_that_only_exec_saw_is_refused():
    scope = {"tl": tl}
    exec("def made(x):\n    tl.store(x, 4)", scope)
    error = refused(scope["made"])
    assert error.id == "source.unavailable" and "from_source" in error.message and "linecache" in error.message


def test_text_in_linecache_works():
    text = "\n\ndef made(x):\n    tl.store(x, 4)\n"
    linecache.cache["<made here>"] = (len(text), None, text.splitlines(keepends=True), "<made here>")
    scope = {"tl": tl}
    exec(compile(text, "<made here>", "exec"), scope)
    assert first_after(triton.jit(scope["made"])) == 4


def test_the_lines_of_another_text_are_not_taken():
    text = "def other(x):\n    tl.store(x, 4)\n"
    linecache.cache["<of another>"] = (len(text), None, text.splitlines(keepends=True), "<of another>")
    for made in ("def made(x):\n    tl.store(x, 5)", "def other(y):\n    tl.store(y, 5)", "\n\ndef other(x): pass"):
        scope = {"tl": tl}
        exec(compile(made, "<of another>", "exec"), scope)
        assert refused(scope["made" if "made" in made else "other"]).id == "source.unavailable"


def test_functions_made_of_code():
    def kernel(x):
        tl.store(x, VALUE)  # noqa: F821

    made = types.FunctionType(kernel.__code__, {"tl": tl, "VALUE": tl.constexpr(6)}, "renamed")
    compiled = triton.jit(made)
    assert first_after(compiled) == 6
    assert compiled.__name__ == "renamed"
    assert "func @renamed(" in compiled.compile("x:*i32").asm["tile"]


def test_lambdas():
    assert first_after(triton.jit(lambda x, n: tl.store(x, n + 1)), 4) == 5
    one, two = triton.jit(lambda x: tl.store(x, 1)), triton.jit(lambda x: tl.store(x, 2))
    assert (first_after(one), first_after(two)) == (1, 2)
    lines = triton.jit(
        lambda x, n, C: tl.store(
            x,
            n + C,
        )
    )
    assert first_after(lines, 3, 4) == 7
    assert "func @" in one.compile("x:*i32").asm["tile"]


def test_a_lambda_in_a_kernel_is_not_taken_for_its_neighbour():
    table = {"double": triton.jit(lambda v: 2 * v), "triple": triton.jit(lambda v: 3 * v)}
    double, triple = table["double"], table["triple"]

    @triton.jit
    def kernel(x, n):
        tl.store(x, double(n) * 100 + triple(n))

    assert first_after(kernel, 2) == 406


# --- decorated
def test_wrapped_functions_are_read_from_the_inner_one():
    def kernel(x):
        tl.store(x, 1)

    @functools.wraps(kernel)
    def outer(*args):
        raise AssertionError("a kernel is never called")

    assert first_after(triton.jit(outer)) == 1
    assert first_after(triton.jit(functools.wraps(outer)(lambda: None))) == 1


def test_decorated_several_times():
    def plain(function):
        return function

    def options(**kwargs):
        return plain

    @plain
    @triton.jit
    @options(
        a=(1, 2),
        b="def kernel(x): pass",
    )
    @triton.jit(
        do_not_specialize=("n",),
    )
    @plain
    def kernel(x, n):
        tl.store(x, n)

    assert first_after(kernel, 7) == 7
    assert triton.jit(kernel) is kernel


def test_a_wrapper_that_keeps_nothing_is_refused():
    def timed(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @triton.jit
    @timed
    def kernel(x):
        tl.store(x, 1)

    with pytest.raises(Exception, match=r"names? (its|the) parameters"):
        first_after(kernel)


# --- oddly written
def test_comments_at_column_zero_and_strings(tmp_path):
    module = module_from(
        HEADER
        + """
def factory():
    @triton.jit
    def kernel(x, n):
        a = n
# a comment at column 0
        text: tl.constexpr = '''
def kernel(x):
    pass
'''
        if len(text) > 3:
# another
            a += 1
        tl.store(x, a)  # the last line
# one after it
    return kernel
""",
        tmp_path,
        "commented",
    )
    assert first_after(module.factory(), 4) == 5


ODD = """
@triton.jit
def \\
        weit(x, n):
    tl.store(x, \\
        n + 1)

if True:
\tif True:
\t\t@triton.jit
\t\tdef tabs(x, n):
\t\t\tif 1:
\t\t\t\ttl.store(x, n + 2)

@triton.jit
def größe(x, ñ):
    Δ = ñ + 3
    tl.store(x, Δ)

@triton.jit
def ﬁne(x, n): tl.store(x, n + 4); pass

class Kernels:
    class Inner:
        @triton.jit
        def method(x, n):
            tl.store(x, n + 5)

    @staticmethod
    @triton.jit
    def static(x, n): tl.store(x, n + 6)

@triton.jit
def twice(x, n):
    tl.store(x, n + 7)

first = twice

@triton.jit
def twice(x, n):
    tl.store(x, n + 8)

def factory(k):
    @triton.jit
    def twice(x, n):
        tl.store(x, n + K)
    K = tl.constexpr(k)
    return twice

@triton.jit
def wrong(x, ñ):
    tl.store(x, ñ + øøø)
"""


def test_continued_lines_tabs_and_unicode(tmp_path):
    module = module_from(
        HEADER + ODD,
        tmp_path,
        "oddly_written",
    )
    kernels = [module.weit, module.tabs, module.größe, module.fine, module.Kernels.Inner.method, module.Kernels.static]
    kernels += [module.first, module.twice, module.factory(9), module.factory(10)]
    assert [first_after(kernel, 100) for kernel in kernels] == [101, 102, 103, 104, 105, 106, 107, 108, 109, 110]
    assert module.Kernels().static is module.Kernels.static
    with pytest.raises(CompileError) as caught:
        first_after(module.wrong, 1)
    line, carets = str(caught.value).splitlines()[1:3]
    assert line[carets.index("^") : carets.rindex("^") + 1] == "øøø"


def test_generated_names_are_what_cuda_takes(tmp_path):
    module = module_from(HEADER + "@triton.jit\ndef größe(x, ñ):\n    tl.store(x, ñ)\n", tmp_path, "unicode_names")
    text = module.größe.compile("x:*i32,ñ:i32").asm["cuda"]
    assert text.isascii()


def test_a_file_that_changed_since_it_was_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    text = HEADER + "def kernel(x):\n    tl.store(x, 1)\n"
    module = module_from(text, tmp_path, "changing")
    path = tmp_path / "changing.py"
    assert first_after(triton.jit(module.kernel)) == 1
    kept = triton.jit(module.kernel)
    for changed in ("# one line more\n" + text, text.replace("1", "2"), text.replace("(x)", "(y)"), "", "def kernel(:"):
        path.write_text(changed)
        os.utime(path, (4e9, 4e9 + len(changed)))
        error = refused(module.kernel)
        assert error.id in ("source.changed", "source.unavailable"), error
    assert first_after(kept) == 1  # read when it was decorated
    path.write_text(text.replace("1", "3"))
    os.utime(path, (4.1e9, 4.1e9))
    assert first_after(triton.jit(importlib.reload(module).kernel)) == 3


# --- what is no function
def test_what_cannot_be_a_kernel():
    class Callable:
        def __call__(self, x):
            tl.store(x, 1)

        def method(self, x):
            tl.store(x, 1)

    def kernel(x, n):
        tl.store(x, n)

    for value, words in {
        len: "`len`, which is not written in Python",
        int: "the class int",
        Callable: "the class Callable",
        Callable(): "an object of Callable",
        Callable().method: "a bound method",
        functools.partial(kernel, n=1): "functools.partial",
        3: "an object of int",
    }.items():
        error = refused(value)
        assert error.id == "source.not_a_function" and words in error.message, error

    async def waits(x):
        tl.store(x, 1)

    error = refused(waits)
    assert error.id == "language.syntax#E1" and "async" in error.message
    assert "async def waits(x):" in str(error)


# --- without a file
PROGRAM = """
import numpy as np
import refcompiler as triton, refcompiler.language as tl
@triton.jit
def kernel(x, n):
    tl.store(x, n + 1)
x = np.zeros(1, np.int32)
kernel[1](x, 4)
print(x[0])
"""


def python(*args, **kwargs):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, env=environment, timeout=120, check=False, **kwargs
    )


def test_python_c():
    result = python("-c", PROGRAM)
    assert result.stdout == "5\n", result.stderr
    # text that the program itself runs has the same file name, and another text
    inner = "exec('import refcompiler as t\\ndef kernel(x):\\n    pass\\nt.jit(kernel)')"
    assert "source.unavailable" in python("-c", inner).stderr


def test_standard_input_says_what_to_do():
    result = python("-", input=PROGRAM)
    assert "source.unavailable" in result.stderr and "define it in a file" in result.stderr


def test_doctest_and_notebook_cells():
    examples = ">>> @triton.jit\n... def kernel(x, n):\n...     tl.store(x, n + 1)\n>>> after(kernel, 4)\n5\n"
    scope = {"triton": triton, "tl": tl, "after": lambda *a: int(first_after(*a))}
    test = doctest.DocTestParser().get_doctest(examples, scope, "cells", "cells", 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
    for number, text in enumerate(
        ["@jit\ndef kernel(x):\n    tl.store(x, 1)\n", "def kernel(x):\n    tl.store(x, 2)\n"]
    ):
        cell = f"<ipython-input-{number}-0123456789ab>"
        linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
        scope = {"tl": tl, "jit": triton.jit}
        exec(compile(text, cell, "exec"), scope)
        assert first_after(triton.jit(scope["kernel"])) == number + 1
