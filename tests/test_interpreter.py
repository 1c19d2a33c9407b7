"""The tile interpreter on kernels written as IR text: programs, values, loops, reductions."""

import tracemalloc

import numpy as np
import pytest
from ir_kernels import kernel, out_of, stored

from refcompiler import interpreter
from refcompiler.dialects import clusters, rings
from refcompiler.ir import OPS
from refcompiler.ir.types import DTYPES

ADD = kernel(
    "x: ptr<f32>, y: ptr<f32>, out: ptr<f32>, n: i32",
    """
  %0 = program_id {axis=0} : i32
  %1 = mul %0, 256 : i32
  %2 = arange {start=0, end=256} : vector<256 x i32>
  %3 = add %1, %2 : vector<256 x i32>
  %4 = cmp_lt %3, n : vector<256 x bool>
  %5 = addptr x, %3 : vector<256 x ptr<f32>>
  %6 = load %5, %4, none : vector<256 x f32>
  %7 = addptr y, %3 : vector<256 x ptr<f32>>
  %8 = load %7, %4, none : vector<256 x f32>
  %9 = add %6, %8 : vector<256 x f32>
  %10 = addptr out, %3 : vector<256 x ptr<f32>>
  store %10, %9, %4
""",
)


def test_every_tile_op_has_a_meaning():
    tile_ops = {name for name, cls in OPS.items() if "tile" in cls.levels}
    later = {name for name in tile_ops if OPS[name].__module__ in (rings.__name__, clusters.__name__)} | {"roles"}
    assert tile_ops - later <= set(interpreter.HANDLERS)  # later: made after what the interpreter runs


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 100_000])
def test_vector_add(n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n), np.float32)
    out = np.full(n + 8, -1, np.float32)
    interpreter.run(ADD, (max(1, -(-n // 256)),), {"x": x, "y": y, "out": out, "n": n})
    assert (out[:n] == x + y).all()
    assert (out[n:] == -1).all()


# --- programs and scalars


@pytest.mark.parametrize("chunk", [1, 5, 1 << 16])
def test_program_ids_on_three_axes(chunk, monkeypatch):
    monkeypatch.setattr("refcompiler.interpreter.launch.CHUNK_ELEMENTS", chunk)
    body = "\n".join(
        [
            *(f"  %{i} = program_id {{axis={i}}} : i32" for i in range(3)),
            *(f"  %{i + 3} = num_programs {{axis={i}}} : i32" for i in range(3)),
            "  %6 = mul %2, %4 : i32",
            "  %7 = add %6, %1 : i32",
            "  %8 = mul %7, %3 : i32",
            "  %9 = add %8, %0 : i32",
            "  %10 = mul %0, 10000 : i32",
            "  %11 = mul %1, 100 : i32",
            "  %12 = add %10, %11 : i32",
            "  %13 = add %12, %2 : i32",
            "  %14 = addptr out, %9 : ptr<i32>",
            "  store %14, %13, none",
        ]
    )
    out = out_of("out: ptr<i32>", body, (2, 3, 4), np.int32, grid=(4, 3, 2))
    z, y, x = np.indices((2, 3, 4))
    assert (out == x * 10000 + y * 100 + z).all()


def test_many_programs_of_one_element():
    body = """
  %0 = program_id {axis=0} : i32
  %1 = addptr out, %0 : ptr<i32>
  store %1, %0, none
"""
    assert (out_of("out: ptr<i32>", body, 150_000, np.int32, grid=(150_000,)) == np.arange(150_000)).all()


@pytest.mark.parametrize(
    ("dtype", "argument", "value"),
    [
        ("i32", 2**31 + 5, -(2**31) + 5),
        ("u8", -1, 255),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("bool", 3, True),
        ("f16", 0.1, float(np.float16(0.1))),
        ("bf16", 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-7),  # one rounding
        ("f32", np.float64(0.1), float(np.float32(0.1))),
        ("f64", 0.1, 0.1),
    ],
)
def test_scalar_arguments_take_the_parameter_type(dtype, argument, value):
    numpy_dtype = DTYPES[dtype].numpy
    out = out_of(f"out: ptr<{dtype}>, n: {dtype}", "store out, n, none", (), numpy_dtype, n=argument)
    assert out.astype(np.float64 if dtype == "bf16" else numpy_dtype).item() == value


# --- elementwise


def test_symbolic_integers_wrap_like_others():
    assert stored("mul %0, 1000000000", "vector<8 x i32>", "i32", 8) == [
        (k * 10**9 + 2**31) % 2**32 - 2**31 for k in range(8)
    ]
    assert stored("add %0, 2147483645", "vector<4 x i32>", "i32", 4) == [2**31 - 3, 2**31 - 2, 2**31 - 1, -(2**31)]
    assert stored("sub %0, n", "vector<2 x i32>", "i32", 2, ", n: i32", n=-(2**31)) == [-(2**31), -(2**31) + 1]
    lines = "%1 = cast %0 : vector<4 x i8>\n  %2 = mul %1, 100 : vector<4 x i8>"
    assert stored("add %2, 100", "vector<4 x i8>", "i8", 4, lines=lines) == [100, -56, 44, -112]


@pytest.mark.parametrize("start", [-9, -8, -7, -1, 0, 1])
def test_remainder_of_symbolic_integers(start):
    lines = f"%1 = add %0, {start} : vector<8 x i32>"
    expected = [int(np.fmod(k + start, n)) for n in (8,) for k in range(8)]
    assert stored("rem %1, 8", "vector<8 x i32>", "i32", 8, lines=lines) == expected


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("bound", [-1, 0, 2, 3, 4])
def test_comparisons_of_symbolic_integers(name, bound):
    python = getattr(int, f"__{name}__")
    got = stored(f"cmp_{name} %0, n", "vector<4 x bool>", "bool", 4, ", n: i32", n=bound)
    assert got == [python(k, bound) for k in range(4)]


def test_comparison_of_unsigned_64_bit_integers():
    lines = "%1 = cast %0 : vector<4 x u64>\n  %2 = add %1, n : vector<4 x u64>"
    top = 2**64 - 2
    got = stored("cmp_gt %2, 18446744073709551613:u64", "vector<4 x bool>", "bool", 4, ", n: u64", lines, n=top)
    assert got == [True, True, False, False]


def test_select_takes_either_block_by_element():
    lines = "%1 = and %0, 1 : vector<4 x i32>\n  %2 = cmp_eq %1, 0 : vector<4 x bool>"
    assert stored("select %2, %0, -9", "vector<4 x i32>", "i32", 4, lines=lines) == [0, -9, 2, -9]


def test_bitcasts_keep_the_bits():
    lines = "%1 = bitcast %0 : vector<4 x f32>"
    got = stored("add %1, 1.0", "vector<4 x f32>", "f32", 4, lines=lines)
    assert got == [1.0] * 4  # the least subnormals
    assert stored("bitcast -1.5:f16", "i16", "i16", 1) == [np.float16(-1.5).view(np.int16)]


# --- loops


def test_loops_of_each_program_end_on_their_own():
    # out[p] = the sum of range(p, stop, step), and a store in each iteration leaves marks[p] = the last index
    body = """
  %0 = program_id {axis=0} : i32
  %1 = addptr marks, %0 : ptr<i32>
  %2 = for %3 in range(%0, stop, step) iter_args(%4 = 0) : i32 {
    %5 = add %4, %3 : i32
    store %1, %3, none
    yield %5
  }
  %6 = addptr out, %0 : ptr<i32>
  store %6, %2, none
"""
    for stop, step in ((5, 1), (5, 2), (-3, -1), (2, -3)):
        marks = np.full(6, 99, np.int32)
        header = "out: ptr<i32>, marks: ptr<i32>, stop: i32, step: i32"
        out = out_of(header, body, 6, np.int32, grid=(6,), marks=marks, stop=stop, step=step)
        ranges = [range(p, stop, step) for p in range(6)]
        assert out.tolist() == [sum(r) for r in ranges]
        assert marks.tolist() == [r[-1] if len(r) else 99 for r in ranges]


def test_nested_loops_of_each_program():
    body = """
  %0 = program_id {axis=0} : i32
  %1 = for %2 in range(0, %0, 1) iter_args(%3 = 0) : i32 {
    %4 = for %5 in range(%2, %0, 1) iter_args(%6 = %3) : i32 {
      %7 = add %6, %5 : i32
      yield %7
    }
    %8 = for %9 in range(0, 2, 1) iter_args(%10 = %4) : i32 {
      %11 = add %10, 1 : i32
      yield %11
    }
    yield %8
  }
  %12 = addptr out, %0 : ptr<i32>
  store %12, %1, none
"""
    out = out_of("out: ptr<i32>", body, 7, np.int32, grid=(7,))
    assert out.tolist() == [sum(j for i in range(p) for j in range(i, p)) + 2 * p for p in range(7)]


@pytest.mark.parametrize(
    ("dtype", "start", "stop", "step", "count"),
    [
        ("i64", -(2**63), 2**63 - 1, 2**62, 4),
        ("i64", 2**63 - 1, -(2**63), -(2**62), 4),
        ("u64", 2**64 - 3, 2**64 - 1, 1, 2),
        ("u8", 250, 255, 2, 3),
        ("i8", 127, -128, -100, 3),
        ("i32", 3, 3, 1, 0),
    ],
)
@pytest.mark.parametrize("uniform", [True, False])
def test_loop_bounds_of_every_width(dtype, start, stop, step, count, uniform):
    lines = "%0 = program_id {axis=0} : i32\n"
    start_text = "start"
    if not uniform:  # the second program starts at the stop: no iteration
        lines += f"  %1 = cmp_eq %0, 0 : bool\n  %2 = select %1, start, stop : {dtype}\n"
        start_text = "%2"
    body = f"""
  {lines}
  %3 = for %4 in range({start_text}, stop, step) iter_args(%5 = 0) : i32 {{
    %6 = add %5, 1 : i32
    yield %6
  }}
  %7 = addptr out, %0 : ptr<i32>
  store %7, %3, none
"""
    header = f"out: ptr<i32>, start: {dtype}, stop: {dtype}, step: {dtype}"
    out = out_of(header, body, 2, np.int32, grid=(2,), start=start, stop=stop, step=step)
    assert out.tolist() == [count, count if uniform else 0]


def test_carried_pointers_and_swapped_values():
    body = """
  %0, %1, %2 = for %3 in range(0, 5, 1) iter_args(%4 = x, %5 = 0, %6 = 1) : ptr<i32>, i32, i32 {
    store %4, %6, none
    %7 = addptr %4, 1:i32 : ptr<i32>
    %8 = add %5, %6 : i32
    yield %7, %6, %8
  }
  store %0, %2, none
  store out, %1, none
"""
    x = np.zeros(6, np.int32)
    assert out_of("out: ptr<i32>, x: ptr<i32>", body, 1, np.int32, x=x).tolist() == [5]
    assert x.tolist() == [1, 1, 2, 3, 5, 8]


# --- reductions


def reduced(dtype: str, values, combine: str, extent: int = 8):
    body = f"""
  %0 = arange {{start=0, end={extent}}} : vector<{extent} x i32>
  %1 = addptr x, %0 : vector<{extent} x ptr<{dtype}>>
  %2 = load %1, none, none : vector<{extent} x {dtype}>
  %3 = reduce %2 {{axis=0, combine='{combine}'}} : {dtype}
  store out, %3, none
"""
    numpy_dtype = DTYPES[dtype].numpy
    x = np.array(values).astype(numpy_dtype)
    return out_of(f"out: ptr<{dtype}>, x: ptr<{dtype}>", body, 1, numpy_dtype, x=x)[0]


def test_named_reductions():
    nan = float("nan")
    assert reduced("i8", [100, 100, 100, 0, 0, 0, 0, 1], "add") == 45
    assert reduced("u32", [3, 1, 4, 1, 5, 9, 2, 6], "mul") == 6480
    assert reduced("i16", [3, -1, 4, 1, 5, -9, 2, 6], "minimum") == -9
    assert reduced("f32", [nan, 1, 4, nan, -5, 3, 2, nan], "maximum") == 4
    assert np.isnan(reduced("f32", [nan] * 8, "minimum"))
    assert np.isnan(reduced("f32", [1, nan] * 4, "maximum_nan"))
    assert reduced("bool", [True, False] * 4, "or") and not reduced("bool", [True, False] * 4, "and")
    assert reduced("i32", [1, 2, 4, 8, 1, 2, 4, 8], "xor") == 0
    assert reduced("bf16", [256, 1, 1, 1, 0, 0, 0, 0], "add") == 256 + 2  # 1 + 1 is exact, each 256 + 1 would be lost
    assert reduced("f32", [5], "add", extent=1) == 5


def test_float_sums_are_pairwise():
    # one element at a time, f32 would lose every 1 that follows 2**24
    extent = 4096
    values = np.full(extent, 1.0, np.float32)
    values[0] = 2.0**24
    assert abs(float(reduced("f32", values, "add", extent)) - (2**24 + extent - 1)) <= 2


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reductions_along_each_axis(axis):
    x = np.random.default_rng(0).integers(-50, 50, (2, 4, 8)).astype(np.int32)
    shape = [n for k, n in enumerate(x.shape) if k != axis]
    body = f"""
  %0 = arange {{start=0, end=64}} : vector<64 x i32>
  %1 = addptr x, %0 : vector<64 x ptr<i32>>
  %2 = load %1, none, none : vector<64 x i32>
  %3 = reshape %2 : block<2x4x8 x i32>
  %4 = reduce %3 {{axis={axis}, combine='add'}} : block<{shape[0]}x{shape[1]} x i32>
  %5 = reshape %4 : vector<{shape[0] * shape[1]} x i32>
  %6 = arange {{start=0, end={shape[0] * shape[1]}}} : vector<{shape[0] * shape[1]} x i32>
  %7 = addptr out, %6 : vector<{shape[0] * shape[1]} x ptr<i32>>
  store %7, %5, none
"""
    assert (out_of("out: ptr<i32>, x: ptr<i32>", body, shape, np.int32, x=x) == x.sum(axis)).all()


def test_splats_are_reduced_as_often_as_they_stand_there():
    lines = "%1 = full n : vector<8 x i32>\n  %2 = reduce %1 {axis=0, combine='add'} : i32"
    assert stored("add %0, %2", "vector<2 x i32>", "i32", 2, ", n: i32", lines, n=5) == [40, 41]


ARGMAX = """
  %0 = arange {start=0, end=8} : vector<8 x i32>
  %1 = addptr x, %0 : vector<8 x ptr<f32>>
  %2 = load %1, none, none : vector<8 x f32>
  %3, %4 = reduce %2, %0 {axis=0} : f32, i32 (%5: f32, %6: i32, %7: f32, %8: i32) {
    %9 = cmp_gt %5, %7 : bool
    %10 = cmp_eq %5, %7 : bool
    %11 = cmp_lt %6, %8 : bool
    %12 = and %10, %11 : bool
    %13 = or %9, %12 : bool
    %14 = select %13, %5, %7 : f32
    %15 = select %13, %6, %8 : i32
    yield %14, %15
  }
  store out, %4, none
"""


@pytest.mark.parametrize(
    "values", [[1, 5, 2, 5, 0, 5, -1, 3], [9, 0, 0, 0, 0, 0, 0, 9], [-1, -2, -3, -4, -5, -6, -7, 0]]
)
def test_reduction_by_a_region_over_two_blocks(values):
    x = np.array(values, np.float32)
    assert out_of("out: ptr<i32>, x: ptr<f32>", ARGMAX, 1, np.int32, x=x)[0] == int(np.argmax(x))


def test_a_region_may_give_constants_and_outer_values():
    body = """
  %0 = arange {start=0, end=4} : vector<4 x i32>
  %1, %2 = reduce %0, %0 {axis=0} : i32, i32 (%3: i32, %4: i32, %5: i32, %6: i32) {
    yield 7, n
  }
  %7 = add %1, %2 : i32
  store out, %7, none
"""
    assert out_of("out: ptr<i32>, n: i32", body, 1, np.int32, n=4)[0] == 11


# --- the machine


def test_the_result_does_not_depend_on_the_chunk(monkeypatch):
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 5000), np.float32)
    results = []
    for chunk in (1, 700, 1 << 20):
        monkeypatch.setattr("refcompiler.interpreter.launch.CHUNK_ELEMENTS", chunk)
        out = np.zeros(5000, np.float32)
        interpreter.run(ADD, (20,), {"x": x, "y": y, "out": out, "n": 5000})
        results.append(out.tobytes())
    assert len(set(results)) == 1


def test_memory_stays_bounded_over_a_long_kernel():
    lines = "\n".join(f"  %{k + 1} = add %{k}, %{k} : vector<65536 x f32>" for k in range(3, 300))
    body = f"""
  %0 = arange {{start=0, end=65536}} : vector<65536 x i32>
  %1 = cast %0 : vector<65536 x f32>
  %2 = mul %1, 0.0 : vector<65536 x f32>
  %3 = add %2, 1.0 : vector<65536 x f32>
{lines}
  %400 = addptr out, %0 : vector<65536 x ptr<f32>>
  store %400, %300, none
"""
    out, func = np.zeros(65536, np.float32), kernel("out: ptr<f32>", body)
    tracemalloc.start()
    interpreter.run(func, (1,), {"out": out})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isinf(out).all()
    assert peak < 16 * out.nbytes  # 300 blocks would be alive if none were freed
