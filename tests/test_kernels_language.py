"""Kernels that lean on Python: helpers, defaults, closures, tuples, constexpr branches, captured names, assignments."""

import functools
import math

import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(23)
SCALE = tl.constexpr(3)
TABLE = tl.constexpr((1, 4, 9, 16))
THRESHOLD = tl.constexpr(5)
DTYPE = tl.float16
HALF = tl.constexpr(np.float32(0.5))
MODES = tl.constexpr({"double": 2, "triple": 3})


def whole(*shape: int, dtype="i4") -> np.ndarray:
    return RNG.integers(-9, 10, shape).astype(dtype)


@triton.jit
def affine(x, scale=2, *, shift: tl.constexpr = 1):
    """A helper with a default and a keyword-only parameter."""
    return x * scale + shift


@triton.jit
def twice(f: tl.constexpr, x):
    return f(f(x))


@triton.jit
def div_mod(a, b):
    q = a // b
    return q, a - q * b


@triton.jit
def helpers(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    q, r = div_mod(affine(v, shift=7), 3)
    (a, b), c = (q + r, q - r), twice(affine, v)
    tl.store(out + i, a * 100 + b + c + affine(scale=v, x=5), mask=i < n)


def test_helpers():
    x = whole(50)
    t = 2 * x + 7
    q = np.trunc(t / 3).astype("i4")
    r = t - 3 * q
    wanted = (q + r) * 100 + (q - r) + (2 * (2 * x + 1) + 1) + (5 * x + 1)
    check(helpers, (1,), {"x": x, "out": np.zeros(50, "i4"), "n": 50, "BLOCK": 64}, {"out": wanted})


@triton.jit
def captured(x, out, half, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    total = tl.zeros((BLOCK,), tl.int32)
    for k in tl.static_range(len(TABLE)):
        total += v * TABLE[k] + k
    tl.store(out + i, tl.where(v > THRESHOLD, total * SCALE, total + MODES["triple"]))
    tl.store(half + i, v.to(DTYPE) * HALF + math.pi // 1)


def test_captured_names():
    x = whole(32)
    total = x * 30 + 6
    outs = {"out": np.where(x > 5, total * 3, total + 3), "half": (x * 0.5 + 3).astype("f2")}
    check(captured, (1,), {"x": x, **{k: np.zeros_like(v) for k, v in outs.items()}, "BLOCK": 32}, outs)


def make_kernel(op: str, k: int):
    """A kernel made by a function: both names are captured from the closure."""
    op, k = tl.constexpr(op), tl.constexpr(k)

    @triton.jit
    def kernel(x, out, BLOCK: tl.constexpr = 16):
        i = tl.arange(0, BLOCK)
        v = tl.load(x + i)
        if op == "add":
            v += k
        elif op == "mul":
            v *= k
        else:
            v = -v
        tl.store(out + i, v)

    return kernel


@pytest.mark.parametrize(
    ("op", "k", "value"), [("add", 4, lambda x: x + 4), ("mul", 3, lambda x: x * 3), ("", 0, np.negative)]
)
def test_kernels_from_a_factory(op, k, value):
    x = whole(16)
    check(make_kernel(op, k), (1,), {"x": x, "out": np.zeros_like(x)}, {"out": value(x)}, warps=(1,))


@triton.jit
def assignments(out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = b = n
    a += 1
    b -= 1
    c, d = a * 2, b * 2
    c, d = d, c
    (e, f) = (c, d)
    t = (e, f, n)
    g = t[0] + t[-1] + len(t)
    h: tl.constexpr = BLOCK // 4
    j = 7
    j <<= 1
    j |= 1
    j ^= 3
    j %= 9
    k = [v * 2 for v in (1, 2, 3)]
    pass
    ...
    tl.store(out + i, i * g + h + j + k[2] + (m := f - e) + m)


def test_assignments():
    n = 5
    e, f = (n - 1) * 2, (n + 1) * 2
    g, j = e + n + 3, ((14 | 1) ^ 3) % 9
    wanted = np.arange(8, dtype="i4") * g + 2 + j + 6 + 2 * (f - e)
    check(assignments, (1,), {"out": np.zeros(8, "i4"), "n": n, "BLOCK": 8}, {"out": wanted.astype("i4")}, warps=(1,))


@triton.jit
def branches(x, out, bias, MODE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    if bias is not None:
        v += tl.load(bias + i)
    if MODE in ("relu", "relu6") and BLOCK >= 8:
        v = tl.maximum(v, 0)
        if MODE == "relu6":
            v = tl.minimum(v, 6)
    elif not MODE:
        v = v if BLOCK % 2 else -v
    assert BLOCK > 0, "an empty block"
    tl.static_assert(0 < BLOCK <= 1024)
    tl.store(out + i, v)


@pytest.mark.parametrize("mode", ["relu", "relu6", ""])
@pytest.mark.parametrize("bias", [True, False])
def test_compile_time_branches(mode, bias):
    x, b = whole(16), whole(16)
    v = x + b if bias else x
    wanted = {"relu": np.maximum(v, 0), "relu6": np.clip(v, 0, 6), "": -v}[mode]
    arguments = {"x": x, "out": np.zeros_like(x), "bias": b if bias else None, "MODE": mode, "BLOCK": 16}
    check(branches, (1,), arguments, {"out": wanted}, warps=(1,))


@triton.jit
def accumulate(acc, *values):
    for k in tl.static_range(len(values)):
        acc += values[k] * (k + 1)
    return acc


@triton.jit
def power(x, n: tl.constexpr):
    if n == 0:
        return 1
    half = power(x, n // 2)
    if n % 2:
        return half * half * x
    return half * half


@triton.jit
def recursion_and_stars(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    pair = (v, v + 1)
    tl.store(out + i, accumulate(v, *pair, 3) + power(v, 5))


def test_recursion_ends_at_compile_time():
    x = whole(16, dtype="i8")
    wanted = x + x + 2 * (x + 1) + 9 + x**5
    check(recursion_and_stars, (1,), {"x": x, "out": np.zeros_like(x), "BLOCK": 16}, {"out": wanted}, warps=(1,))


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@triton.jit
@logged
def decorated(out, BLOCK: tl.constexpr):
    # a comment that starts left of the code
    # here
    def square(v):
        return v * v

    i = tl.arange(0, BLOCK)
    tl.store(out + i, square(i) + square(3))


def test_a_wrapped_kernel_with_a_nested_function():
    wanted = np.arange(8, dtype="i4") ** 2 + 9
    check(decorated, (1,), {"out": np.zeros(8, "i4"), "BLOCK": 8}, {"out": wanted}, warps=(1,))


@triton.jit
def typed(out, a: tl.float64, b: tl.int8, c: "i64", d: tl.uint32, e: bool):  # noqa: F821
    tl.store(out, a / 3 + b + c + d + e)


def test_annotated_scalars():
    wanted = np.array([0.1 / 3 - 100 + 2**40 + 4000000000 + 1])
    check(
        typed,
        (1,),
        {"out": np.zeros(1), "a": 0.1, "b": -100, "c": 2**40, "d": 4000000000, "e": True},
        {"out": (wanted, 1e-3)},
        warps=(1,),
    )


@triton.jit
def int(float, tid, threadIdx, v1, default, template, shared, BLOCK: tl.constexpr):
    main = tl.arange(0, BLOCK)
    struct = tl.load(float + main)
    for auto in range(tid):
        struct += threadIdx * auto + v1
    tl.store(default + main, struct - template + shared)


def test_names_that_cpp_reserves():
    x = whole(16)
    arguments = {
        "float": x,
        "tid": 3,
        "threadIdx": 2,
        "v1": 5,
        "default": np.zeros_like(x),
        "template": 7,
        "shared": 11,
        "BLOCK": 16,
    }
    check(int, (1,), arguments, {"default": x + 6 + 15 + 4}, warps=(1,))


@triton.jit
def constants(out, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, v * 1 + 0 - 0 | 0)
    tl.store(out + BLOCK + i, (v & -1 ^ 0) // 1 + v % 1 + (v << 0) - (v >> 0))
    tl.store(out + 2 * BLOCK + i, tl.where(True, v, 0) + tl.maximum(v, -2147483648) - tl.minimum(2147483647, v))
    tl.store(out + 3 * BLOCK + i, v * 0 + (v - v) + (v ^ v) + v // v.to(tl.int32) * 0)
    tl.store(out + 4 * BLOCK + i, (v == v).to(tl.int32) + (v < v) + (v != v) + (v >= v) + 2147483647 + 1)
    tl.store(out + 5 * BLOCK + i, tl.sum(tl.full((BLOCK,), 3, tl.int32), 0) + tl.max(tl.zeros((BLOCK,), tl.int32), 0))
    tl.store(out + 6 * BLOCK + i, (-7 // 2) * 1000 + (-7 % 3) * 100 + (v * 0 - 7) // 2 * 10 + (v * 0 - 7) % 3)


def test_constants_fold_without_changing_anything():
    x = whole(16)
    x[x == 0] = 1
    rows = [x, x, x, 0 * x, 0 * x + (2 + 2**31 - 2**32), 0 * x + 48, 0 * x - 4000 + 200 - 30 - 1]
    wanted = np.concatenate(rows).astype("i4")
    check(constants, (1,), {"out": np.zeros_like(wanted), "x": x, "BLOCK": 16}, {"out": wanted}, warps=(1,))
