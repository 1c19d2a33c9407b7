"""Every language function with every kind of argument: either it compiles or it is one located error of ours."""

import inspect

import pytest
from kernels import compile_body

import refcompiler.language as tl
from refcompiler.errors import CompileError

VALUES = [
    "n",
    "f",
    "b",
    "X",
    "x",
    "m",
    "X + k",
    "k < 4",
    "3",
    "0",
    "-1.5",
    "True",
    "None",
    "'a'",
    "(1, 2)",
    "(x, k)",
    "tl.float32",
    "tl",
    "jit_add",
    "(n, 4)",
    "tl.constexpr",
    "[]",
    "1e400",
    "slice",
]
PRELUDE = "k = tl.arange(0, 8)\nx = tl.load(X + k)\nm = tl.zeros((4, 8), tl.int32)\n"
GOOD = {
    "axis": "0",
    "dtype": "tl.float32",
    "shape": "(8,)",
    "combine_fn": "jit_add",
    "start": "0",
    "end": "8",
    "pointer": "X + k",
    "dim": "0",
    "axes": "0",
}
FUNCTIONS = sorted(
    n for n in tl.__all__ if hasattr(getattr(tl, n), "__tile_builtin__") or hasattr(getattr(tl, n), "__kernel_source__")
)
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>", "<", "==", "is", "in", "and", "or"]


def only_our_errors(body):
    try:
        compile_body(PRELUDE + body)
    except CompileError as error:
        assert error.span is not None and "^" in str(error), body


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, capsys):
    parameters = [p for p in inspect.signature(getattr(tl, name)).parameters.values() if p.kind is not p.VAR_KEYWORD]
    required = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    for parameter in parameters:
        for value in VALUES:
            given = {p: GOOD.get(p, "x") for p in required} | {parameter.name: value}
            if parameter.kind is parameter.VAR_POSITIONAL:
                arguments = [*(given[p] for p in required), value]
            else:
                arguments = [f"{p}={v}" for p, v in given.items()]
            only_our_errors(f"r = tl.{name}({', '.join(arguments)})")


@pytest.mark.parametrize("operator", OPERATORS)
def test_binary_operators(operator):
    for left in VALUES:
        for right in VALUES[::2]:
            only_our_errors(f"r = ({left}) {operator} ({right})")


@pytest.mark.parametrize("value", VALUES)
def test_other_places_of_a_value(value):
    for body in (
        f"r = -({value})",
        f"r = ~({value})",
        f"r = not ({value})",
        f"r = +({value})",
        f"r = ({value}).shape",
        f"r = ({value}).to(tl.int32)",
        f"r = ({value})[0]",
        f"r = ({value})[:, None]",
        f"r = x[{value}]",
        f"r = (1, 2)[{value}]",
        f"r = ({value})(1)",
        f"r = 1 if ({value}) else 2",
        f"for i in range({value}):\n    r = i",
        f"for i in tl.range(0, 8, {value}):\n    r = i",
        f"for i in tl.static_range({value}):\n    r = i",
        f"for i in {value}:\n    r = i",
        f"a, c = {value}",
        f"r = {value}\nr += 1",
        f"r: tl.constexpr = {value}",
        f"r = [v for v in {value}]",
        f"assert {value}",
        f"assert b, {value}",
        f'r = f"{{{value}}}"',
        f"r = min(n, {value})",
        f"r = len({value})",
        f"r = jit_add({value}, {value})",
        f"r = jit_add(*{value})",
        f"r = {value}\nfor i in range(n):\n    r = {value}",
        f"return {value}",
    ):
        only_our_errors(body)
