"""The face of mytriton: names, defaults, what a launch returns; expected values are NumPy's or written down."""

from __future__ import annotations

import inspect
import math
import threading

import numpy as np
import pytest

import refcompiler.mytriton as mytriton
import refcompiler.mytriton.language as tl
from refcompiler.errors import CompileError, LaunchError
from refcompiler.ir import Constant
from refcompiler.mytriton.ssa import SSAPrinter
from tests.stand_ins import OnDevice

NAN = math.nan


@mytriton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def launch_add(n: int = 100, block: int = 32) -> tuple:
    x, y, out = np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
    result = add[(mytriton.cdiv(n, block),)](x, y, out, n, BLOCK=block)
    np.testing.assert_array_equal(out, x + 1)
    return result


# --------------------------------------------------------------------------- names
SIGNATURES = {
    "arange": "(start, end)",
    "empty": "(shape, dtype)",
    "exp": "(value)",
    "full": "(shape, value, dtype)",
    "load": "(ptr, mask=None, other=None)",
    "max": "(value)",
    "maximum": "(lhs, rhs)",
    "min": "(value)",
    "minimum": "(lhs, rhs)",
    "program_id": "(axis)",
    "store": "(ptr, value, mask=None)",
    "sum": "(value)",
    "where": "(condition, true_value, false_value)",
    "zeros": "(shape, dtype)",
}


def test_the_nineteen_names():
    others = {"constexpr", "float32", "int1", "int32", "static_range"}
    assert set(tl.__all__) == {*SIGNATURES, *others}
    assert all(hasattr(tl, name) for name in tl.__all__)


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_have_their_names(name):
    assert str(inspect.signature(getattr(tl, name))) == SIGNATURES[name]


@pytest.mark.parametrize("value, expected", [(1, 1), (2, 2), (3, 4), (1000, 1024), (1024, 1024), (1025, 2048)])
def test_next_power_of_2(value, expected):
    assert mytriton.next_power_of_2(value) == expected


@pytest.mark.parametrize("value", [0, -1])
def test_next_power_of_2_needs_a_positive_number(value):
    with pytest.raises(ValueError):
        mytriton.next_power_of_2(value)


@pytest.mark.parametrize("x, y, expected", [(7, 2, 4), (8, 2, 4), (0, 5, 0), (1, 1024, 1)])
def test_cdiv(x, y, expected):
    assert mytriton.cdiv(x, y) == expected


def test_cuda_available_is_a_bool():
    assert isinstance(mytriton.cuda_available(), bool)


# --------------------------------------------------------------------------- what a launch returns
def test_a_launch_gives_traced_ops_optimised_ops_and_the_source():
    result = launch_add()
    assert isinstance(result, tuple) and len(result) == 3
    ops, ssa, source = result
    assert isinstance(ops, list) and isinstance(ssa, list) and isinstance(source, str)
    assert [op.name for op in ops].count("load") == 2 and ops[-1].name == ssa[-1].name == "store"
    assert 'extern "C" __global__ void' in source and "add(" in source


def test_the_ops_print():
    @mytriton.jit
    def scaled(x, out, n):
        s = tl.load(x)
        for _ in range(n):
            s = s * 2.0
        tl.store(out, s)

    x, out = f32(3.0), f32(0.0)
    ops, _, _ = scaled[1](x, out, 4)
    assert out[0] == 48.0
    assert SSAPrinter().print_ops(ops) == (
        "%0 = load x, none, none : f32\n"
        "%4 = for %1 in range(0, n, 1) iter_args(%2 = %0) : f32 {\n"
        "  %3 = mul %2, 2.0 : f32\n"
        "  yield %3\n"
        "}\n"
        "store out, %4, none\n"
    )
    assert SSAPrinter().print_ops(ops[:1]) == "%0 = load x, none, none : f32\n"


def test_changing_a_result_changes_no_later_launch():
    printer = SSAPrinter()
    first = launch_add()
    before = [printer.print_ops(first[0]), printer.print_ops(first[1]), first[2]]
    for ops in first[:2]:
        store = ops[-1]
        store.operands = (*store.operands[:1], Constant(7.0, store.operands[1].type.element), *store.operands[2:])
        del ops[0]
    second = launch_add()
    assert [printer.print_ops(second[0]), printer.print_ops(second[1]), second[2]] == before


def test_a_kernel_has_its_function_signature_and_cache():
    assert add.fn.__name__ == add.__name__ == "add" and callable(add.fn)
    assert list(add.signature.parameters) == ["x", "y", "out", "n", "BLOCK"]
    assert add.signature.parameters["BLOCK"].annotation is tl.constexpr  # a string under `from __future__`
    bound = add.signature.bind(1, 2, 3, 4, BLOCK=5)
    assert bound.arguments == {"x": 1, "y": 2, "out": 3, "n": 4, "BLOCK": 5}
    add.clear_cache()
    launch_add()


def test_a_kernel_needs_a_grid():
    with pytest.raises(LaunchError, match=r"add\[grid\]"):
        add(1, 2, 3)


@pytest.mark.parametrize("grid", [4, (4,), (4, 1), (2, 2, 1), [4], lambda meta: (mytriton.cdiv(100, meta["BLOCK"]),)])
def test_grids(grid):
    @mytriton.jit
    def fill(out, n, BLOCK: tl.constexpr):
        block = tl.program_id(0) * 2 + tl.program_id(1) if PAIR else tl.program_id(axis=0)
        i = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, 1.0, i < n)

    PAIR = tl.constexpr(grid == (2, 2, 1))
    out = np.zeros(100, np.float32)
    fill[grid](out, 100, BLOCK=32)
    assert out.sum() == 100


@pytest.mark.parametrize("grid", [-1, (4, -1), (1.5,), (True,), (1, 1, 1, 1), (), None])
def test_what_is_no_grid(grid):
    x = np.zeros(1, np.float32)
    with pytest.raises(LaunchError, match="grid"):
        add[grid](x, x, x, 1, BLOCK=16)


# --------------------------------------------------------------------------- backends
@pytest.mark.parametrize("name, mark", [("cuda", "__global__"), ("mlir", "gpu.module")])
def test_the_backend_of_old_scripts(monkeypatch, name, mark):
    monkeypatch.setenv("MYTRITON_BACKEND", name)
    assert mark in launch_add().source


@pytest.mark.parametrize("tilespec, mytritons, expected", [("auto", "mlir", "mlir"), ("cuda", "mlir", "cuda")])
def test_device_arrays_run_on_the_backend_that_is_named(monkeypatch, tilespec, mytritons, expected):
    asked = []
    compiled = add.compile("x:*f32,y:*f32,out:*f32,n:i32", {"BLOCK": 32})

    def launch(*args, **kwargs):
        asked.append(kwargs["backend"])
        return compiled

    monkeypatch.setattr(type(add.compiler), "__getitem__", lambda self, grid: launch)
    monkeypatch.setenv("TILESPEC_BACKEND", tilespec)
    monkeypatch.setenv("MYTRITON_BACKEND", mytritons)
    x = OnDevice(np.zeros(4, np.float32))
    result = add[1](x, x, x, 4, BLOCK=32)
    assert asked == [expected] and ("gpu.module" in result.source) is (expected == "mlir")


def test_an_unknown_backend_is_refused_at_the_launch(monkeypatch):
    monkeypatch.setenv("MYTRITON_BACKEND", "metal")
    with pytest.raises(LaunchError, match="MYTRITON_BACKEND is 'metal', expected cuda or mlir"):
        launch_add()


# --------------------------------------------------------------------------- defaults
def elementwise(function, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    @mytriton.jit
    def kernel(x, y, out, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, function(tl.load(x + i), tl.load(y + i)))

    out = np.full_like(x, 99)
    kernel[1](x, y, out, BLOCK=len(x))
    return out


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, NAN, 2.5]
LEFT = f32(*(a for a in SPECIAL for _ in SPECIAL))
RIGHT = f32(*(b for _ in SPECIAL for b in SPECIAL))


@pytest.mark.parametrize("function, better", [(tl.maximum, np.greater), (tl.minimum, np.less)])
def test_extrema_propagate_nan_and_take_the_right_of_equals(function, better):
    found = elementwise(function, LEFT, RIGHT)
    for a, b, out in zip(LEFT, RIGHT, found, strict=True):
        if math.isnan(a) or math.isnan(b):
            assert math.isnan(out), (a, b)
        else:
            expected = a if better(a, b) else b
            assert out == expected and math.copysign(1, out) == math.copysign(1, expected), (a, b)


@pytest.mark.parametrize("function, expected", [(tl.maximum, np.maximum), (tl.minimum, np.minimum)])
def test_extrema_of_integers(function, expected):
    x, y = np.array([3, -5, 2**31 - 1, -(2**31)], np.int32), np.array([4, -6, 0, 7], np.int32)
    np.testing.assert_array_equal(elementwise(function, x, y), expected(x, y))


@mytriton.jit
def reductions(x, out, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out, tl.sum(v))
    tl.store(out + 1, tl.max(v))
    tl.store(out + 2, tl.min(v))


@pytest.mark.parametrize("place", [0, 3, 7, None])
def test_reductions_propagate_nan(place):
    x = np.arange(8, dtype=np.float32)
    if place is not None:
        x[place] = NAN
    out = np.zeros(3, np.float32)
    reductions[1](x, out, BLOCK=8)
    np.testing.assert_array_equal(out, [28.0, 7.0, 0.0] if place is None else [NAN] * 3)


def test_masked_lanes_read_zero_without_other_and_other_needs_no_mask():
    @mytriton.jit
    def kernel(x, out):
        i = tl.arange(0, 8)
        tl.store(out, tl.sum(tl.load(x + i, mask=i < 3)))
        tl.store(out + 1, tl.sum(tl.load(x + i, i < 3, 10.0)))
        tl.store(out + 2, tl.sum(tl.load(x + i, other=10.0)))
        tl.store(out + 3, tl.sum(tl.load(x, mask=i < 3)))
        tl.store(out + 4, tl.load(x, mask=False))

    x, out = np.arange(1, 9, dtype=np.float32), np.full(5, 99, np.float32)
    kernel[1](x, out)
    np.testing.assert_array_equal(out, [6, 56, 36, 3, 0])


def test_creation():
    @mytriton.jit
    def kernel(out, n):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.full((4,), 2.75, tl.int32))
        tl.store(out + 4 + i, tl.full(4, -2.75, tl.int32))
        tl.store(out + 8 + i, tl.full([4], n, tl.float32) / 2)
        tl.store(out + 12 + i, tl.where(tl.full((4,), True, tl.int1), tl.zeros((4,), tl.float32), 5.0))

    out = np.full(16, 99, np.float32)
    kernel[1](out, 3)
    np.testing.assert_array_equal(out, np.repeat([2, -2, 1.5, 0], 4).astype(np.float32))


def test_full_refuses_what_no_integer_holds():
    @mytriton.jit
    def kernel(out):
        tl.store(out + tl.arange(0, 4), tl.full((4,), 1e20, tl.int32))

    with pytest.raises(CompileError, match=r"1e\+20 is no value of tl.int32"):
        kernel[1](np.zeros(4, np.float32))


def test_division_of_integers_gives_a_float_and_flags_are_integers():
    @mytriton.jit
    def kernel(out, n, flag):
        tl.store(out, n / 2)
        tl.store(out + 1, 1 / n)
        tl.store(out + 2, flag + flag)

    out = np.zeros(3, np.float32)
    kernel[1](out, 7, flag=True)
    np.testing.assert_array_equal(out, f32(3.5, 1 / 7, 2))


def test_errors_point_at_arguments_by_their_names_here():
    @mytriton.jit
    def kernel(out):
        tl.store(out, tl.max(3.0))

    with pytest.raises(CompileError) as caught:
        kernel[1](np.zeros(1, np.float32))
    assert "a reduction needs a block, found constexpr 3.0" in str(caught.value)
    line = str(caught.value).splitlines()
    assert line[1][line[2].index("^") :].startswith("3.0)")


def test_kernels_call_kernels():
    @mytriton.jit
    def double(v):
        return v * 2

    @mytriton.jit
    def kernel(x, out):
        i = tl.arange(0, 4)
        tl.store(out + i, double(tl.load(x + i)))

    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    kernel[1](x, out)
    np.testing.assert_array_equal(out, x * 2)


def test_pythons_own_functions_of_run_time_values():
    @mytriton.jit
    def kernel(out, n):
        tl.store(out, abs(n))
        tl.store(out + 1, max(n, 3) + min(n, 2, 1))
        tl.store(out + 2, n.to(tl.float32) / 2)

    out = np.zeros(3, np.float32)
    kernel[1](out, -7)
    np.testing.assert_array_equal(out, f32(7, -4, -3.5))


LIMITS = {"low": [2, (3, 4)], "names": ("a", "b")}
STEP = 5


def shifted(v, by=STEP, *, scale=1):
    if by == 0:
        return v
    return (v + by) * scale


def test_python_around_a_kernel_is_part_of_it():
    bias = 7.0

    @mytriton.jit
    def kernel(x, out, MODE: tl.constexpr):
        i = tl.arange(0, 4)
        v = tl.load(x + i)
        if MODE == LIMITS["names"][-1]:
            v = shifted(v, scale=LIMITS["low"][1][0])
        tl.store(out + i, shifted(v, 0) + bias)

    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    kernel[1](x, out, MODE="b")
    np.testing.assert_array_equal(out, (x + 5) * 3 + 7)
    kernel[1](x, out, "a")
    np.testing.assert_array_equal(out, x + 7)


@pytest.mark.parametrize("shape", [(), (0,), (1, 1)])
def test_arrays_of_no_axis_and_of_no_element(shape):
    @mytriton.jit
    def kernel(x, out, n):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)

    x, out = np.full(shape, 5.0, np.float32), np.zeros(shape, np.float32)
    kernel[1](x, out, x.size)
    np.testing.assert_array_equal(out, x)


def test_threads_launch_one_kernel_and_spoil_what_they_get():
    x = np.arange(100, dtype=np.float32)
    wrong = []

    def work(block: int) -> None:
        for _ in range(3):
            out = np.zeros_like(x)
            result = add[(mytriton.cdiv(100, block),)](x, x, out, 100, BLOCK=block)
            if not np.array_equal(out, 2 * x) or [op.name for op in result.ops].count("store") != 1:
                wrong.append(block)
            result.ops.clear()
            result.ssa.clear()

    threads = [threading.Thread(target=work, args=(block,)) for block in range(3, 19)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_constexprs_are_told_apart_by_type_and_sign():
    @mytriton.jit
    def kernel(out, V: tl.constexpr):
        tl.store(out, V)

    out = f32(9)
    for value in (0.0, -0.0, True, 1, 2.5, -0.0, 0.0):
        kernel[1](out, value)
        assert out[0] == value and math.copysign(1, out[0]) == math.copysign(1, value)
