"""What a kernel read outside of itself: a change is noticed at the next launch, an equal value compiles nothing."""

from __future__ import annotations

import types

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import CompileError
from refcompiler.frontend.dependencies import Dependencies
from refcompiler.jit import from_source


def value_of(kernel, *args) -> float:
    """What the kernel stores to its first argument, launched now."""
    out = np.zeros(1, np.float64)
    kernel[1](out, *args)
    return out[0]


def compiled_again(kernel) -> bool:
    """Whether a launch compiles although one before it has."""
    out = np.zeros(1, np.float64)
    return kernel.warmup(out) is not kernel.warmup(out)


LEVEL = tl.constexpr(3)


@triton.jit
def reads_global(x):
    tl.store(x, LEVEL)


@triton.jit
def leaf(v):
    return v * LEVEL


@triton.jit
def middle(v):
    return leaf(v) + 1


@triton.jit
def calls_helpers(x):
    tl.store(x, middle(2.0))


def test_a_global_by_another_value_or_type(monkeypatch):
    assert value_of(reads_global) == 3
    for value, stored in ((5, 5), (5.5, 5.5), (-0.0, 0), (0.0, 0), (True, 1)):
        before = reads_global.warmup(np.zeros(1))
        monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(value))
        assert value_of(reads_global) == stored
        assert reads_global.warmup(np.zeros(1)) is not before
    assert np.signbit(value_of(reads_global)) == 0


def test_signed_zero_and_nan(monkeypatch):
    monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(0.0))
    assert not np.signbit(value_of(reads_global))
    monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(-0.0))
    assert np.signbit(value_of(reads_global))
    monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(float("nan")))
    assert np.isnan(value_of(reads_global))
    monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(float("nan")))
    assert not compiled_again(reads_global)


def test_an_equal_value_compiles_nothing(monkeypatch):
    kernel = reads_global.warmup(np.zeros(1))
    monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(LEVEL.value))
    assert reads_global.warmup(np.zeros(1)) is kernel


def test_another_global_matters_not(monkeypatch):
    kernel = reads_global.warmup(np.zeros(1))
    monkeypatch.setitem(globals(), "UNRELATED", tl.constexpr(7))
    monkeypatch.setitem(globals(), "middle", None)
    assert reads_global.warmup(np.zeros(1)) is kernel


def test_a_constexpr_changed_in_place(monkeypatch):
    assert value_of(reads_global) == LEVEL.value
    monkeypatch.setattr(LEVEL, "value", 11)
    assert value_of(reads_global) == 11


def test_what_helpers_of_helpers_read(monkeypatch):
    assert value_of(calls_helpers) == 2 * LEVEL.value + 1
    monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(10))
    assert value_of(calls_helpers) == 21

    @triton.jit
    def other(v):
        return v - 1

    monkeypatch.setitem(globals(), "leaf", other)
    assert value_of(calls_helpers) == 2


def test_helpers_and_values_of_modules():
    tools = types.ModuleType("tools")
    tools.leaf, tools.SCALE = leaf, 4

    @triton.jit
    def kernel(x):
        tl.store(x, tools.leaf(1.0) + tools.SCALE)

    assert value_of(kernel) == LEVEL.value + 4
    tools.SCALE = 5
    assert value_of(kernel) == LEVEL.value + 5

    @triton.jit
    def other(v):
        return v * 100

    tools.leaf = other
    assert value_of(kernel) == 105
    tools.unrelated = 3
    assert not compiled_again(kernel)


def test_attributes_of_classes():
    class Config:
        SCALE = 4

    @triton.jit
    def kernel(x):
        tl.store(x, Config.SCALE)

    assert value_of(kernel) == 4
    Config.SCALE = 5
    assert value_of(kernel) == 5


def test_closures_and_helpers_in_closures():
    scale = tl.constexpr(2)

    @triton.jit
    def helper(v):
        return v * scale

    @triton.jit
    def kernel(x):
        tl.store(x, helper(3.0))

    assert value_of(kernel) == 6
    scale = tl.constexpr(4)
    assert value_of(kernel) == 12

    @triton.jit
    def other(v):
        return v - scale

    helper = other  # noqa: F811
    assert value_of(kernel) == -1
    assert not compiled_again(kernel)


def test_two_closures_of_one_function_are_two_kernels():
    def made(scale):
        @triton.jit
        def kernel(x):
            tl.store(x, scale)

        return kernel

    assert [value_of(made(tl.constexpr(n))) for n in (1, 2, 1)] == [1, 2, 1]


SHAPE = tl.constexpr([2, {"rows": 3}])


@triton.jit
def reads_container(x):
    tl.store(x, SHAPE[0])


def test_containers_changed_in_place():
    assert value_of(reads_container) == 2
    assert not compiled_again(reads_container)
    SHAPE.value[1]["rows"] = 4  # not read, but in the value that is
    assert value_of(reads_container) == 2
    SHAPE.value[0] = 9
    assert value_of(reads_container) == 9


SETTINGS = types.ModuleType("settings")
SETTINGS.WIDTH = 6
FACTOR = 2


def factor():
    return FACTOR


@triton.constexpr_function
def width(n):
    return n * factor() + SETTINGS.WIDTH


@triton.jit
def calls_python(x):
    tl.store(x, width(1))


def test_what_python_functions_read_while_compiling(monkeypatch):
    assert value_of(calls_python) == 8
    assert not compiled_again(calls_python)
    monkeypatch.setattr(SETTINGS, "WIDTH", 7)
    assert value_of(calls_python) == 9
    monkeypatch.setitem(globals(), "FACTOR", 3)
    assert value_of(calls_python) == 10
    monkeypatch.setitem(globals(), "factor", lambda: 50)
    assert value_of(calls_python) == 57


@pytest.mark.parametrize("value", [np.zeros(3), memoryview(b"ab"), iter([1, 2])])
def test_what_changes_without_notice_is_refused(monkeypatch, value):
    monkeypatch.setitem(globals(), "LEVEL", tl.constexpr(value))
    reads_global.clear_cache()
    with pytest.raises(CompileError, match=r"`LEVEL` is of type \w+, which can change") as caught:
        reads_global.warmup(np.zeros(1))
    assert caught.value.id == "language.syntax#E5"
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("value", "shown"), [({1: 2}, "dict"), ({1, 2}, "set"), (np.zeros(2), "ndarray"), (bytearray(b"x"), "bytearray")]
)
def test_constexpr_arguments_without_identity_are_refused(value, shown):
    kernel = from_source("@triton.jit\ndef kernel(x, c: tl.constexpr):\n    tl.store(x, 1.0)\n", "kernel")
    with pytest.raises(Exception, match=f"hashable, found {shown}") as caught:
        kernel.warmup(np.zeros(1), value)
    assert caught.value.id == "program.arguments#E2"


def test_asking_for_a_cell_without_a_value():
    def made():
        def read():
            return later

        found = read.__closure__[0]
        dependencies = Dependencies()
        dependencies.add(found, "later", 3)
        assert not dependencies.are_current()
        later = 3
        assert dependencies.are_current() and read() == 3

    made()
