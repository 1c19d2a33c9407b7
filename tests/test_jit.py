"""Launching kernels: binding, specialisation, grids, errors, caches, kernels from text and threads."""

import functools
import re
import textwrap
import threading

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.errors import CompileError, LaunchError, RunError
from refcompiler.jit import from_source

SCALE = tl.constexpr(3)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr = 8):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def scale(x, factor=2.0, *, offset: tl.constexpr = 1):
    i = tl.arange(0, 8)
    tl.store(x + i, tl.load(x + i) * factor + offset)


@triton.jit
def twice(v):
    return v * 2


@triton.jit
def apply(x, f: tl.constexpr):
    i = tl.arange(0, 4)
    tl.store(x + i, f(tl.load(x + i)))


@triton.jit
def with_global(x):
    tl.store(x, SCALE)


@triton.jit
def with_helper(x):
    tl.store(x, twice(tl.load(x)))


@triton.jit
def copy(x, y, n):
    i = tl.arange(0, 8)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


def vectors(n=20, dtype=np.float32):
    x, y = np.arange(n).astype(dtype), np.ones(n, dtype)
    return x, y, np.zeros(n, dtype)


@pytest.mark.parametrize(
    "grid", [3, (3,), (3, 1), [3, 1, 1], (np.int64(3),), lambda meta: (triton.cdiv(20, meta["BLOCK"]),)]
)
def test_launch_on_numpy_arrays(grid):
    x, y, out = vectors()
    kernel = add[grid](x, y, out, 20)
    assert out.tolist() == (x + y).tolist()
    assert kernel.asm["tile"].startswith("func @add(x: ptr<f32>")
    assert "BLOCK=8" in kernel.asm["tile"]


def test_arguments_bind_as_in_python():
    x = np.arange(8, dtype=np.float32)
    scale[1](x)
    assert x.tolist() == [2 * v + 1 for v in range(8)]
    scale[1](factor=0.5, x=x, offset=0)
    assert x.tolist() == [v + 0.5 for v in range(8)]


@pytest.mark.parametrize(
    ("launch", "id", "shown"),
    [
        (lambda x: scale[1](), "program.arguments#E1", "missing argument `x`"),
        (lambda x: scale[1](x, 1.0, 2), "program.arguments#E1", "takes 2 positional"),
        (lambda x: scale[1](x, x=x), "program.arguments#E1", "`x` twice"),
        (lambda x: scale[1](x, fctor=1.0), "program.arguments#E1", "did you mean `factor`"),
        (lambda x: scale[1](x, num_warp=4), "program.arguments#E1", "did you mean `num_warps`"),
        (lambda x: scale[1](x, num_warps=3), "program.arguments#E2", "power of two"),
        (lambda x: scale[1](x, "a"), "program.arguments#E2", "`factor`"),
        (lambda x: scale[1](3), "memory.load#E1", "load needs a pointer"),
        (lambda x: scale[1]([1.0]), "program.arguments#E2", "list"),
        (lambda x: scale[1](x, 2**64), "program.arguments#E3", "64 bits"),
        (lambda x: scale[1](np.broadcast_to(x, x.shape)), "program.arguments#E5", "read-only"),
        (lambda x: scale[1](x.astype(complex)), "program.arguments#E8", "`x`"),
        (lambda x: scale[1](x, offset=[1, [2]]), "arith.promotion#E5", "constexpr [1, [2]]"),
        (lambda x: scale[1](x, offset={}), "program.arguments#E2", "hashable"),
        (lambda x: scale[None](x), "program.grid#E1", "None"),
        (lambda x: scale[1.5](x), "program.grid#E1", "1.5"),
        (lambda x: scale[True](x), "program.grid#E1", "True"),
        (lambda x: scale[()](x), "program.grid#E1", "()"),
        (lambda x: scale[(1, 1, 1, 1)](x), "program.grid#E1", "(1, 1, 1, 1)"),
        (lambda x: scale[lambda meta: "a"](x), "program.grid#E1", "'a'"),
        (lambda x: scale[-1](x), "program.grid#E2", "must be 0 to"),
        (lambda x: scale[(1, -1)](x), "program.grid#E2", "extent 1"),
        (lambda x: scale[(1, 65536)](x), "program.grid#E2", "65535"),
        (lambda x: scale(x), "program.grid#E1", "scale[grid](...)"),
    ],
)
def test_wrong_launches_change_nothing(launch, id, shown):
    x = np.arange(8, dtype=np.float32)
    with pytest.raises((LaunchError, CompileError)) as caught:
        launch(x)
    assert caught.value.id == id, str(caught.value)
    assert shown in str(caught.value)
    assert x.tolist() == list(range(8))


def test_read_only_and_transposed_inputs_are_fine():
    x = np.arange(8, dtype=np.float32)
    x.flags.writeable = False
    y = np.zeros((2, 4), np.float32).T
    copy[1](x, y, 8)
    assert y.T.ravel().tolist() == x.tolist()


def test_out_of_bounds_is_found():
    x = np.zeros(4, np.float32)
    with pytest.raises(RunError) as caught:
        scale[1](x)
    assert caught.value.id == "memory.load#E7"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5, "n: i32,"),
        (1, "n: i32 {divisible=1}"),
        (32, "n: i32 {divisible=16}"),
        (-16, "n: i32 {divisible=16}"),
        (2**31, "n: i64 {divisible=16}"),
        (-(2**31) - 1, "n: i64,"),
        (2**63, "n: u64 {divisible=16}"),
        (True, "n: bool"),
        (np.bool_(False), "n: bool"),
        (np.int64(5), "n: i32,"),
        (1.5, "n: f32"),
        (np.float64(1.5), "n: f32"),
    ],
)
def test_specialisation_of_numbers(value, shown):
    x, y, out = vectors()
    assert shown in add.warmup(x, y, out, value).asm["tile"].splitlines()[0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint32", "float16", "float64"])
def test_specialisation_of_arrays(dtype):
    x = np.zeros(32, dtype)
    name = {"bool": "bool", "float16": "f16", "float64": "f64"}.get(
        dtype, dtype.replace("uint", "u").replace("int", "i")
    )
    assert f"x: ptr<{name}>" in copy.warmup(x, x, 5).asm["tile"]


def test_alignment_is_a_hint():
    base = np.zeros(64, np.float32)
    start = (-base.ctypes.data // 4) % 4
    aligned, shifted = base[start : start + 16], base[start + 1 : start + 17]
    header = copy.warmup(aligned, shifted, 5).asm["tile"].splitlines()[0]
    assert "x: ptr<f32> {divisible=16}, y: ptr<f32>, n: i32" in header


@pytest.mark.parametrize(("columns", "hint"), [(1, 1), (16, 16), (520, 8), (0, 16), (-24, 8), (12, None), (521, None)])
def test_what_divides_an_integer_is_a_hint(columns, hint):
    header = copy.warmup(np.zeros(4, np.float32), np.zeros(4, np.float32), columns).asm["tile"].splitlines()[0]
    assert ("n: i32)" if hint is None else f"n: i32 {{divisible={hint}}})") in header


@pytest.mark.parametrize(("columns", "width"), [(520, 8), (512, 8), (516, None), (521, None)])
def test_rows_of_520_elements_of_16_bits_are_accessed_by_16_bytes(columns, width):
    @triton.jit
    def rows(x, out, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        at = tl.program_id(0) * n + i
        tl.store(out + at, tl.load(x + at, mask=i < n) + 1, mask=i < n)

    x, out = np.ones((3, columns), np.float16), np.zeros((3, columns), np.float16)
    kernel = rows[(3,)](x, out, columns, BLOCK=1024, backend="simt")
    np.testing.assert_array_equal(out, x + 1)
    assert ("width=8" in kernel.asm["simt"]) is (width == 8)


@pytest.mark.parametrize(
    ("option", "legal", "wrong", "message"),
    [
        ("num_warps", 4, 4.0, "num_warps is a power of two from 1 to 32, found 4.0"),
        ("num_warps", 1, True, "num_warps is a power of two from 1 to 32, found True"),
        ("num_stages", 1, True, "num_stages is a non-negative integer, found True"),
        ("maxnreg", 32, 32.0, "maxnreg is a positive integer, found 32.0"),
        ("debug", True, 1, "debug is True or False, found 1"),
        ("enable_fp_fusion", False, "no", "enable_fp_fusion is True or False, found 'no'"),
        ("enable_reflect_ftz", False, 0, "enable_reflect_ftz is True or False, found 0"),
    ],
)
def test_options_are_of_their_type(option, legal, wrong, message):
    """Also where an equal value of the right type was met before."""
    x = np.zeros(8, np.float32)
    copy.clear_cache()
    for _ in range(2):
        copy.warmup(x, x, 5, **{option: legal})
        with pytest.raises(LaunchError, match=re.escape(message)):
            copy.warmup(x, x, 5, **{option: wrong})


def test_do_not_specialize():
    @functools.partial(triton.jit, do_not_specialize=["n"], do_not_specialize_on_alignment=[0])
    def kernel(x, y, n):
        tl.store(y, tl.load(x) + n)

    base = np.zeros(64, np.float32)
    base = base[(-base.ctypes.data // 4) % 4 :]
    header = kernel.warmup(base, base, 16).asm["tile"].splitlines()[0]
    assert header.startswith("func @kernel(x: ptr<f32>, y: ptr<f32> {divisible=16}, n: i32)")


@pytest.mark.parametrize("entries", ["n", 7, ["m"], [3], [-1]])
@pytest.mark.parametrize("what", ["do_not_specialize", "do_not_specialize_on_alignment"])
def test_what_is_not_specialized_are_parameters(what, entries):
    kernel = triton.jit(copy.fn, **{what: entries})
    x = np.zeros(8, np.float32)
    with pytest.raises(LaunchError, match=f"{what} is a list of parameters of copy, by name or number, found "):
        kernel.warmup(x, x, 5)


def test_annotations_give_types():
    @triton.jit
    def kernel(x: tl.const, v: tl.float64, k: "i64"):  # noqa: F821
        assert v > k
        tl.load(x)

    header = kernel.warmup(np.zeros(4, np.float32), 1.5, 3).asm["tile"].splitlines()[0]
    assert "x: ptr<const f32>" in header and "v: f64" in header and "k: i64" in header


def test_none_and_functions_are_compile_time():
    @triton.jit
    def kernel(x, y, f):
        if y is None:
            tl.store(x, f(tl.load(x)))

    x = np.full(1, 4, np.int32)
    kernel[1](x, None, twice)
    assert x[0] == 8


def test_functions_as_constexpr_arguments():
    x = np.arange(4, dtype=np.int32)
    apply[1](x, twice)
    assert x.tolist() == [0, 2, 4, 6]


def test_one_specialisation_is_compiled_once():
    x, y, out = vectors()
    first = add.warmup(x, y, out, 20)
    assert add.warmup(x, y, out, 20) is first
    assert add.warmup(x, y, out, 21) is first
    assert add.warmup(x, y, out, 16) is not first
    assert add.warmup(x, y, out, 20, num_warps=8) is not first
    assert add.warmup(x, y, out, 20, BLOCK=16) is not first
    add.clear_cache()
    assert add.warmup(x, y, out, 20) is not first


def test_constexprs_of_equal_value_and_other_type_differ():
    x = np.zeros(8, np.float32)
    kernels = [scale.warmup(x, 1.0, offset=v) for v in (1, 1.0, True, 0.0, -0.0)]
    assert len(set(map(id, kernels))) == 5


def test_a_changed_global_is_noticed(monkeypatch):
    x = np.zeros(1, np.int32)
    with_global[1](x)
    assert x[0] == 3
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(5))
    with_global[1](x)
    assert x[0] == 5
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(5))  # an equal value compiles nothing
    assert with_global.warmup(x) is with_global.warmup(x)


def test_a_changed_helper_is_noticed(monkeypatch):
    x = np.full(1, 7, np.int32)
    with_helper[1](x)
    assert x[0] == 14

    @triton.jit
    def other(v):
        return v + 1

    monkeypatch.setitem(globals(), "twice", other)
    with_helper[1](x)
    assert x[0] == 15


def test_a_changed_constant_of_a_module_is_noticed():
    import types

    settings = types.ModuleType("settings")
    settings.LEVEL = 3

    @triton.jit
    def kernel(x):
        tl.store(x, settings.LEVEL)

    x = np.zeros(1, np.int32)
    kernel[1](x)
    settings.LEVEL = 4
    kernel[1](x)
    assert x[0] == 4


def test_closures_are_read_when_compiled():
    step = tl.constexpr(2)

    @triton.jit
    def kernel(x):
        tl.store(x, step)
        # a comment at column 0 does not end the kernel
        tl.store(x + 1, step + 1)

    x = np.zeros(2, np.int32)
    kernel[1](x)
    assert x.tolist() == [2, 3]
    step = tl.constexpr(9)
    kernel[1](x)
    assert x.tolist() == [9, 10]


TEXT = """\
N = tl.constexpr(4)

@triton.jit
def helper(v):
    return v * N

@triton.jit
def kernel(x, k: tl.constexpr = 2):
    tl.store(x, helper(k))
    tl.store(x, undefined)
"""


def test_kernels_from_text_point_into_their_file(tmp_path):
    path = tmp_path / "feature.yaml"
    path.write_text("id: a.b\nsource: |\n" + textwrap.indent(TEXT, "    "))
    kernel = from_source(TEXT, "kernel", str(path), 3, first_column=4)
    with pytest.raises(CompileError) as caught:
        kernel.compile(signature="x:*i32")
    span = caught.value.span
    assert (span.file, span.line, span.col, span.end_col) == (str(path), 12, 20, 29)
    assert str(caught.value).splitlines()[1:] == [
        "   12 |         tl.store(x, undefined)",
        "      |                     ^^^^^^^^^",
    ]
    x = np.zeros(1, np.int32)
    from_source(TEXT.replace("    tl.store(x, undefined)\n", ""), "kernel")[1](x)
    assert x[0] == 8


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("import os\n", "kernel text holds functions"),
        ("print(1)\n", "kernel text holds functions"),
        ("def kernel(x:\n", "not Python"),
        ("def other(x):\n    pass\n", "no function `kernel`"),
    ],
)
def test_wrong_text(text, shown):
    with pytest.raises(CompileError, match=shown) as caught:
        from_source(text, "kernel")
    assert caught.value.span.file == "<kernel>"


def test_threads_compile_the_same_kernel_once_and_others_rightly():
    add.clear_cache()
    results, errors = [], []

    def work(block):
        try:
            for _ in range(5):
                x, y, out = vectors(64)
                results.append((block, add[triton.cdiv(64, block)](x, y, out, 64, BLOCK=block)))
                assert out.tolist() == (x + y).tolist()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(1 << (2 + i % 4),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len({id(kernel) for _, kernel in results}) == 4
    assert all(f"BLOCK={block}" in kernel.asm["tile"] for block, kernel in results)


def test_numpy_numbers_are_constexpr_arguments():
    @triton.jit
    def ramp(out, BLOCK: tl.constexpr, FLAG: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, i if FLAG else -i)

    out = np.zeros(8, np.int32)
    ramp[1](out, BLOCK=np.int64(8), FLAG=np.bool_(True))
    assert out.tolist() == list(range(8))


def test_integers_are_checked_on_every_path():
    @triton.jit
    def put(out, n):
        tl.store(out, n)

    out = np.zeros(1, np.int64)
    compiled = put.compile(signature="out:*i64,n:i8")
    for wrong, id in ((128, "program.arguments#E3"), (1.5, "program.arguments#E2")):
        with pytest.raises(LaunchError) as caught:
            compiled[1](out, wrong)
        assert caught.value.id == id and out[0] == 0
    compiled[1](out, -128)
    assert out[0] == -128
