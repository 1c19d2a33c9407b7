"""Kernels that other small compilers get wrong or crash on, run in the interpreter.

Expected values follow from the arithmetic of Python and NumPy.
"""

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import CompileError, TileSpecError


def launch(kernel, *args, **kwargs):
    kernel[1](*args, **kwargs)


def test_a_load_is_not_moved_past_a_store():
    @triton.jit
    def kernel(x, out):
        v = tl.load(x)
        tl.store(x, 1)
        tl.store(out, v)

    x, out = np.full(1, 5, np.float32), np.zeros(1, np.float32)
    launch(kernel, x, out)
    assert (x[0], out[0]) == (1, 5)


def test_two_arrays_swap():
    @triton.jit
    def kernel(x, y):
        i = tl.arange(0, 4)
        a = tl.load(x + i)
        b = tl.load(y + i)
        tl.store(x + i, b)
        tl.store(y + i, a)

    x, y = np.arange(4, dtype=np.float32), np.arange(4, 8, dtype=np.float32)
    launch(kernel, x, y)
    assert x.tolist() == [4, 5, 6, 7] and y.tolist() == [0, 1, 2, 3]


def test_a_load_before_a_loop_keeps_its_value():
    @triton.jit
    def kernel(x, out, n):
        v = tl.load(x)
        for i in range(n):
            tl.store(x, i)
        tl.store(out, v)

    x, out = np.full(1, 9, np.float32), np.zeros(1, np.float32)
    launch(kernel, x, out, 3)
    assert (x[0], out[0]) == (2, 9)


def test_a_load_then_a_store_feed_a_carried_sum():
    @triton.jit
    def kernel(x, out, n):
        total = 0.0
        for i in range(n):
            v = tl.load(x + i)
            tl.store(x + i, 2 * v)
            total += v
        tl.store(out, total)

    x, out = np.arange(1, 6, dtype=np.float32), np.zeros(1, np.float32)
    launch(kernel, x, out, 5)
    assert out[0] == 15 and x.tolist() == [2, 4, 6, 8, 10]


def test_carried_values_are_taken_all_at_once():
    @triton.jit
    def kernel(out, n):
        a, b, c = 1, 2, 3
        previous, total = 0, 0
        for _ in range(n):
            t = a
            a = b
            b = c
            c = t
            previous = total
            total += 10
        tl.store(out, a)
        tl.store(out + 1, b)
        tl.store(out + 2, c)
        tl.store(out + 3, previous)

    out = np.zeros(4, np.int32)
    launch(kernel, out, 4)
    assert out.tolist() == [2, 3, 1, 30]


def test_division_of_run_time_integers_is_a_float():
    @triton.jit
    def kernel(out, n, A: tl.constexpr):
        tl.store(out, n / 2)
        tl.store(out + 1, 1 / n)
        tl.store(out + 2, tl.sum(tl.arange(0, 4)) / 4)
        tl.store(out + 3, A / 2)

    out = np.zeros(4, np.float32)
    launch(kernel, out, 7, 7)
    assert out.tolist() == [3.5, np.float32(1 / 7), 1.5, 3.5]


def test_maximum_and_max_treat_nan_alike():
    @triton.jit
    def kernel(x, out):
        v = tl.load(x + tl.arange(0, 4))
        tl.store(out, tl.max(v))
        tl.store(out + 1, tl.maximum(tl.load(x), tl.load(x + 1)))
        tl.store(out + 2, tl.argmax(v, 0))

    x, out = np.array([np.nan, 2, 7, np.nan], np.float32), np.zeros(3, np.float32)
    launch(kernel, x, out)
    assert out.tolist() == [7, 2, 2]


def test_integers_that_do_not_fit_are_refused():
    @triton.jit
    def multiply(out, n):
        tl.store(out, n * 2**40)

    @triton.jit
    def fill(out):
        tl.store(out + tl.arange(0, 4), tl.full((4,), 1e20, tl.int32))

    for kernel, arguments in ((multiply, (3,)), (fill, ())):
        with pytest.raises(CompileError):
            launch(kernel, np.zeros(4, np.int32), *arguments)
    with pytest.raises(TileSpecError):
        launch(multiply, np.zeros(4, np.int32), 2**70)


def test_int32_wraps():
    @triton.jit
    def kernel(out, n):
        tl.store(out, tl.maximum(n, 0) + 1)
        tl.store(out + 1, -(n + 1))
        tl.store(out + 2, n * n)

    out = np.zeros(3, np.int32)
    launch(kernel, out, 2**31 - 1)
    assert out.tolist() == [-(2**31), -(2**31), 1]


def test_steps_by_keyword_and_run_time_bounds():
    @triton.jit
    def kernel(out, n):
        total = 0
        for i in tl.static_range(0, 8, step=2):
            total += i
        for i in tl.range(n, step=3):
            total += 100 * i
        tl.store(out, total)

    @triton.jit
    def unrolled(out, n):
        for i in tl.static_range(n):
            tl.store(out, i)

    out = np.zeros(1, np.int32)
    launch(kernel, out, 7)
    assert out[0] == 12 + 900
    with pytest.raises(CompileError) as caught:
        launch(unrolled, out, 3)
    assert caught.value.id == "control.static_range#E1"


def test_a_static_loop_leaves_its_index():
    @triton.jit
    def kernel(out):
        k = 99
        for k in tl.static_range(4):  # noqa: B007
            pass
        tl.store(out, k)

    out = np.zeros(1, np.int32)
    launch(kernel, out)
    assert out[0] == 3


def test_equality_inside_helpers():
    @triton.jit
    def is_four(a):
        return tl.where(a == 4, 1, 0) + tl.where(a != 4, 10, 20)

    @triton.jit
    def kernel(out, n):
        tl.store(out, is_four(n))
        tl.store(out + 1, is_four(n + 1))

    out = np.zeros(2, np.int32)
    launch(kernel, out, 4)
    assert out.tolist() == [21, 10]


def test_a_block_does_not_go_to_a_scalar_pointer():
    @triton.jit
    def kernel(out):
        tl.store(out, tl.arange(0, 4))

    with pytest.raises(CompileError) as caught:
        launch(kernel, np.zeros(4, np.int32))
    assert caught.value.id == "memory.store#E4"


def test_all_parts_of_an_address_count():
    @triton.jit
    def kernel(x, out, row):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.load(x + row * 4 + i))

    x, out = np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    launch(kernel, x, out, 2)
    assert out.tolist() == [8, 9, 10, 11]


def test_zeros_of_both_signs_and_many_digits():
    @triton.jit
    def kernel(out):
        tl.store(out, 0.0)
        tl.store(out + 1, -0.0)
        tl.store(out + 2, 0.123456789)

    out = np.ones(3, np.float32)
    launch(kernel, out)
    assert np.signbit(out[:2]).tolist() == [False, True]
    assert out[2] == np.float32(0.123456789)


def test_types_survive_the_optimiser():
    @triton.jit
    def kernel(out, n, m):
        tl.store(out, (n * 1.0) / m)
        tl.store(out + 1, tl.exp(n * 1.0 - 3))
        tl.store(out + 2, tl.where(True, n, 0.5) / 2)
        tl.store(out + 3, tl.sum(tl.where(tl.arange(0, 4) < 2, 1.0, 1.0)))
        tl.store(out + 4, tl.maximum(n, 2.5))

    out = np.zeros(5, np.float32)
    launch(kernel, out, 3, 2)
    assert out.tolist() == [1.5, 1.0, 1.5, 4.0, 3.0]


def test_names_of_other_languages():
    @triton.jit
    def main(v1, tile_i, default, template, int_, tid_x):
        tl.store(v1, default + template + int_ + tid_x)
        tl.store(tile_i, 1)

    v1, tile_i = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launch(main, v1, tile_i, 1, 2, 3, 4)
    assert (v1[0], tile_i[0]) == (10, 1)


def test_long_unrolling():
    @triton.jit
    def kernel(out, n):
        total = n
        for i in tl.static_range(2000):
            total += i
        tl.store(out, total)

    out = np.zeros(1, np.int32)
    launch(kernel, out, 1)
    assert out[0] == 1 + sum(range(2000))


def test_a_pointer_is_carried():
    @triton.jit
    def kernel(p, out, n, BLOCK: tl.constexpr):
        total = tl.zeros((BLOCK,), tl.float32)
        q = p + tl.arange(0, BLOCK)
        for _ in range(n):
            total += tl.load(q)
            q += BLOCK
        tl.store(out, tl.sum(total))

    x, out = np.arange(32, dtype=np.float32), np.zeros(1, np.float32)
    launch(kernel, x, out, 4, BLOCK=8)
    assert out[0] == x.sum()


def test_expanded_expressions_and_loads():
    @triton.jit
    def kernel(x, out, pid, BM: tl.constexpr):
        rows = (pid * BM + tl.arange(0, BM))[:, None]
        row = tl.load(x + tl.arange(0, 4))[None, :]
        tl.store(out + rows * 4 + tl.arange(0, 4)[None, :], row + rows)

    x, out = np.arange(4, dtype=np.float32), np.zeros((4, 4), np.float32)
    launch(kernel, x, out, 1, BM=2)
    assert out[2:].tolist() == [[2, 3, 4, 5], [3, 4, 5, 6]] and not out[:2].any()


def test_tuples_hold_values_across_a_loop():
    @triton.jit
    def kernel(out, n):
        pair = (n + 1, n + 2)
        total = 0
        for _ in range(n):
            total += pair[0]
        tl.store(out, total + pair[1])

    out = np.zeros(1, np.int32)
    launch(kernel, out, 3)
    assert out[0] == 3 * 4 + 5


def test_a_constant_on_the_left():
    @triton.jit
    def kernel(out, n):
        tl.store(out, tl.where(2 < n, 1, 0) + tl.where(2 >= n, 10, 0))

    out = np.zeros(1, np.int32)
    launch(kernel, out, 3)
    assert out[0] == 1


def test_blocks_of_one_element_broadcast():
    @triton.jit
    def kernel(x, out):
        one = tl.load(x + tl.arange(0, 1))
        tl.store(out + tl.arange(0, 4), one + tl.arange(0, 4))

    x, out = np.full(1, 5, np.float32), np.zeros(4, np.float32)
    launch(kernel, x, out)
    assert out.tolist() == [5, 6, 7, 8]


def test_wide_blocks():
    @triton.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out, tl.sum(tl.load(x + i, i < n, 0)))

    x, out = np.arange(3000, dtype=np.int32), np.zeros(1, np.int32)
    launch(kernel, x, out, 3000, BLOCK=4096)
    assert out[0] == x.sum()


def test_fibonacci_and_nested_loops():
    @triton.jit
    def kernel(out, n):
        a, b = 0, 1
        for _ in range(n):
            a, b = b, a + b
        total = 0
        for i in range(n):
            inner = 0
            for j in range(i, 0, -1):
                inner += j
            total += inner
        tl.store(out, a)
        tl.store(out + 1, total)

    out = np.zeros(2, np.int32)
    launch(kernel, out, 10)
    assert out.tolist() == [55, sum(j for i in range(10) for j in range(1, i + 1))]


def test_loops_of_no_rounds():
    @triton.jit
    def kernel(out, n, K: tl.constexpr):
        total = 7
        for i in range(n):  # noqa: B007
            total += 1
        for k in tl.static_range(K):  # noqa: B007
            total += 1
        for i in range(5, 3):  # noqa: B007
            total += 1
        tl.store(out, total)

    out = np.zeros(1, np.int32)
    launch(kernel, out, 0, 0)
    assert out[0] == 7


def test_truncation_of_floats():
    @triton.jit
    def kernel(x, out):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.load(x + i))

    x, out = np.array([1.9, -1.9, 3e9, np.nan], np.float32), np.zeros(4, np.int32)
    launch(kernel, x, out)
    assert out.tolist() == [1, -1, 2**31 - 1, 0]


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2)])
def test_quotients_of_run_time_and_compile_time(a, b):
    @triton.jit
    def kernel(out, x, y, A: tl.constexpr, B: tl.constexpr):
        tl.store(out, x // y)
        tl.store(out + 1, x % y)
        tl.store(out + 2, A // B)
        tl.store(out + 3, A % B)

    out = np.zeros(4, np.int32)
    launch(kernel, out, a, b, a, b)
    quotient = int(a / b)
    assert out.tolist() == [quotient, a - quotient * b, a // b, a % b]


def test_online_softmax():
    @triton.jit
    def kernel(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        top = tl.full((BLOCK,), float("-inf"), tl.float32)
        weight = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n, BLOCK):
            v = tl.load(x + start + i, start + i < n, other=float("-inf"))
            new = tl.maximum(top, v)
            weight = weight * tl.exp(top - new) + tl.exp(v - new)
            top = new
        best = tl.max(top)
        tl.store(out, tl.sum(weight * tl.exp(top - best)))

    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    out = np.zeros(1, np.float32)
    launch(kernel, x, out, 64, BLOCK=16)
    np.testing.assert_allclose(out[0], np.exp(x.astype(float) - x.max()).sum(), rtol=1e-6)


def test_softmax_along_an_axis():
    @triton.jit
    def kernel(x, out, DIM: tl.constexpr):
        i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
        tl.store(out + i, tl.softmax(tl.load(x + i), DIM))

    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    for dim in (0, 1):
        out = np.zeros_like(x)
        launch(kernel, x, out, dim)
        e = np.exp(x.astype(float) - x.max(axis=dim, keepdims=True))
        np.testing.assert_allclose(out, e / e.sum(axis=dim, keepdims=True), rtol=1e-6)


def test_tiled_matmul():
    @triton.jit
    def kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
        rows, columns, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
        acc = tl.zeros((M, N), dtype=tl.float32)
        for start in range(0, K, BK):
            left = tl.load(a + rows[:, None] * K + start + k[None, :])
            right = tl.load(b + (start + k[:, None]) * N + columns[None, :])
            acc += tl.sum(left[:, :, None] * right[None, :, :], axis=1)
        tl.store(c + rows[:, None] * N + columns[None, :], acc)

    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 4, shape).astype(np.float32) for shape in ((8, 16), (16, 8)))
    c = np.zeros((8, 8), np.float32)
    launch(kernel, a, b, c, M=8, N=8, K=16, BK=4)
    assert (c == a @ b).all()


def test_an_inner_loop_may_count_in_a_name_of_before():
    @triton.jit
    def kernel(out, n):
        k = 7
        tl.store(out + 3, k)
        for i in range(n):
            for k in range(2):
                tl.store(out + i, i * 10 + k)

    out = np.zeros(4, np.int32)
    launch(kernel, out, 3)
    assert out.tolist() == [1, 11, 21, 7]


def test_a_walrus_in_a_comprehension_binds_outside():
    @triton.jit
    def kernel(x, out, n):
        t = tl.load(x)
        k = 50
        for _ in range(n):
            sums = [(t := t + k) for k in (1, 2)]
            tl.store(out + 1, sums[0])
        tl.store(out, t + k)

    x, out = np.full(1, 10, np.int32), np.zeros(2, np.int32)
    launch(kernel, x, out, 3)
    assert out.tolist() == [10 + 9 + 50, 10 + 6 + 1]
