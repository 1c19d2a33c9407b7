"""Kernels through all levels to CUDA C++, run on the CPU and compared with the tile interpreter bit for bit."""

import cuda_emulator
import numpy as np
import pytest
import simt_kernels as k
from compiled import assert_agrees, compile_kernel

pytestmark = pytest.mark.skipif(not cuda_emulator.available(), reason="g++ is not installed")

RNG = np.random.default_rng(20)


def whole(*shape: int, dtype="f4") -> np.ndarray:
    """Small whole numbers: sums are exact in any order."""
    return RNG.integers(-8, 9, shape).astype(dtype)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cuda")


@pytest.mark.parametrize(
    ("dtype", "hint", "n"),
    [("f4", "", 1003), ("f4", ":16", 1003), *((t, ":16", 1008) for t in ("f4", "f2", "i1", "f8"))],
)
def test_vector_widths(folder, dtype, hint, n):
    name = {"f4": "f32", "f2": "f16", "i1": "i8", "f8": "f64", "i8": "i64"}[dtype]
    pointer = f"*{name}{hint}"
    signature = f"x:{pointer},y:{pointer},out:{pointer},n:i32{':16' if n % 16 == 0 else ''}"
    stages = compile_kernel(k.add_vectors, signature, BLOCK=512)
    assert_agrees(stages, folder, (2,), [whole(n, dtype=dtype), whole(n, dtype=dtype), whole(n, dtype=dtype), n])
    widest = 16 // np.dtype(dtype).itemsize
    widest = min(widest, 512 // 128)  # no thread is left without an element
    assert (f"pack<{widest}, " in stages.cuda) == (n % 16 == 0 and widest > 1)


@pytest.mark.parametrize("num_warps", [1, 2, 8])
def test_two_dimensions(folder, num_warps):
    x = whole(37, 50)
    stages = compile_kernel(k.add_rows, "x:*f32,out:*f32,M:i32,N:i32,sx:i32,so:i32", BM=16, BN=64, num_warps=num_warps)
    assert_agrees(stages, folder, (3, 1), [x, np.zeros_like(x), 37, 50, 50, 50])
    stages = compile_kernel(k.transpose, "x:*f32,out:*f32,M:i32,N:i32", BM=32, BN=32, num_warps=num_warps)
    assert_agrees(stages, folder, (2, 2), [x, np.zeros((50, 37), "f4"), 37, 50])


@pytest.mark.parametrize(
    ("rows", "columns", "num_warps"),
    [(16, 64, 1), (16, 64, 8), (64, 16, 2), (64, 16, 8), (4, 4, 8), (1, 128, 2), (128, 1, 4)],
)
def test_reductions_of_blocks(folder, rows, columns, num_warps):
    signature = "x:*f32,rows:*f32,columns:*f32,M:i32,N:i32"
    stages = compile_kernel(k.reduce_rows_and_columns, signature, BM=rows, BN=columns, num_warps=num_warps)
    m, n = max(1, rows - 3), max(1, columns - 2)
    assert_agrees(stages, folder, (1,), [whole(m, n), whole(m), whole(n), m, n])


@pytest.mark.parametrize(
    ("rows", "columns", "num_warps"), [(1, 1, 2), (4, 8, 1), (16, 64, 1), (16, 64, 8), (128, 4, 1), (128, 4, 8)]
)
def test_reductions_of_two_values(folder, rows, columns, num_warps):
    stages = compile_kernel(k.argmax_rows, "x:*f32,out:*f32,index:*i32", M=rows, N=columns, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [whole(rows, columns), whole(columns), np.zeros(rows, "i4")])


@pytest.mark.parametrize(("axis", "num_warps"), [(0, 4), (1, 1), (1, 4), (2, 4)])
def test_reductions_of_rank_three(folder, axis, num_warps):
    stages = compile_kernel(k.sum_of_three, "x:*f32,out:*f32", A=8, B=16, C=4, AXIS=axis, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [whole(8, 16, 4), whole(8 * 16)])


@pytest.mark.parametrize(("n", "num_warps"), [(1, 1), (1, 4), (2, 32), (32, 1), (4096, 1), (4096, 32), (1 << 16, 8)])
def test_any_block_on_any_number_of_warps(folder, n, num_warps):
    stages = compile_kernel(k.total, "x:*f32,out:*f32", BLOCK=n, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [whole(n), np.zeros(1, "f4")])


@pytest.mark.parametrize("num_warps", [1, 4])
def test_softmax(folder, num_warps):
    x = RNG.standard_normal((37, 50)).astype("f4")
    stages = compile_kernel(k.softmax, "x:*f32,out:*f32,M:i32,N:i32", BM=16, BN=64, num_warps=num_warps)
    assert_agrees(stages, folder, (3,), [x, np.zeros_like(x), 37, 50], tolerance=1e-6)
    stages = compile_kernel(k.online_softmax, "x:*f32,out:*f32,n:i32", BLOCK=128, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [x.ravel()[:300], np.zeros(300, "f4"), 300], tolerance=1e-6)


def test_matmul_by_broadcasting(folder):
    stages = compile_kernel(k.matmul, "a:*f32,b:*f32,c:*f32,M:i32,N:i32,K:i32", BM=16, BN=16, BK=16)
    assert_agrees(stages, folder, (2, 2), [whole(20, 24), whole(24, 18), np.zeros((20, 18), "f4"), 20, 18, 24])


@pytest.mark.parametrize(("rows", "columns", "num_warps"), [(1, 1, 1), (4, 8, 4), (64, 16, 1), (64, 16, 4)])
def test_views(folder, rows, columns, num_warps):
    stages = compile_kernel(k.reshape_and_transpose, "x:*f32,out:*f32", A=rows, B=columns, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [whole(rows * columns), whole(rows + columns)])


@pytest.mark.parametrize(("n", "num_warps"), [(16, 4), (128, 1), (1024, 4)])
def test_program_order_within_a_program(folder, n, num_warps):
    """Each of these reads what other threads wrote, or writes what other threads still have to read."""
    stages = compile_kernel(k.reverse_in_place, "x:*f32", N=n, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [whole(n)])
    stages = compile_kernel(k.read_after_write, "x:*i32,out:*i32", N=n, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [np.zeros(n, "i4"), np.zeros(n, "i4")])
    stages = compile_kernel(k.rotate_in_loop, "x:*i32,n:i32", N=n, num_warps=num_warps)
    assert_agrees(stages, folder, (1,), [np.arange(n, dtype="i4"), 5])


def test_loops(folder):
    stages = compile_kernel(k.swap_carried, "x:*f32,out:*f32,n:i32", N=256)
    assert_agrees(stages, folder, (1,), [whole(512), whole(512), 5])
    stages = compile_kernel(k.scalar_accesses, "x:*f32,out:*f32,n:i32")
    assert_agrees(stages, folder, (1,), [whole(20), whole(21), 20])


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        (0, 10, 3),
        (5, -7, -2),
        (2**31 - 8, 2**31 - 1, 3),
        (8 - 2**31, -(2**31), -5),
        (3, 3, 1),
        (0, 7, 1),
        (4, 0, -1),
    ],
)
def test_loops_count_without_overflow(folder, start, stop, step):
    stages = compile_kernel(k.count_steps, "out:*i32,a:i32,b:i32,c:i32", STEP=step)
    assert_agrees(stages, folder, (1,), [np.zeros(64, "i4"), start, stop, step])


@pytest.mark.parametrize("pointee", ["f32", "i8"])
@pytest.mark.parametrize(
    ("load", "store", "keep"), [(".ca", ".wb", ""), (".cg", ".cg", "evict_first"), (".cv", ".wt", "")]
)
def test_cache_modifiers(folder, pointee, load, store, keep):
    dtype = {"f32": "f4", "f16": "f2", "i8": "i1", "i64": "i8"}[pointee]
    signature = f"x:*{pointee}:16,out:*{pointee}:16"
    stages = compile_kernel(k.cached_copy, signature, BLOCK=512, LOAD=load, STORE=store, KEEP=keep)
    assert_agrees(stages, folder, (1,), [whole(512, dtype=dtype), whole(512, dtype=dtype)])


def test_bool_in_memory_is_a_byte(folder):
    stages = compile_kernel(k.volatile_copy, "x:*i1,out:*i1", BLOCK=64)
    assert_agrees(stages, folder, (1,), [whole(64) > 0, np.zeros(64, bool)])


def test_names_of_parameters_collide_with_nothing(folder):
    names = "r tid threadIdx load shared expf asm __syncthreads _A".split()
    signature = "int:*f32,float:*f32," + ",".join(f"{name}:f32" for name in names)
    stages = compile_kernel(k.awkward_names, signature)
    assert_agrees(stages, folder, (1,), [whole(64), whole(64), *map(float, range(1, 10))])


def test_asserts_stop_debug_builds_only(folder):
    x = whole(64)
    stages = compile_kernel(k.checked, "x:*f32,n:f32")
    assert "trap" not in stages.cuda
    assert_agrees(compile_kernel(k.checked, "x:*f32,n:f32", debug=True), folder, (1,), [x, 100.0])
    program = cuda_emulator.build(compile_kernel(k.checked, "x:*f32,n:f32", debug=True).cuda, folder)
    with pytest.raises(cuda_emulator.EmulationError, match="trap"):
        cuda_emulator.launch(program, (1,), [x, np.float32(0.0)])


@pytest.mark.parametrize(
    ("kernel", "signature", "constexprs", "arguments"),
    [
        (k.reverse_in_place, "x:*f32", {"N": 256}, [whole(256)]),
        (k.total, "x:*f32,out:*f32", {"BLOCK": 256}, [whole(256), np.zeros(1, "f4")]),
        (k.rotate_in_loop, "x:*i32,n:i32", {"N": 256}, [np.arange(256, dtype="i4"), np.int32(3)]),
    ],
)
def test_the_emulator_sees_a_missing_barrier(folder, kernel, signature, constexprs, arguments):
    cuda = compile_kernel(kernel, signature, **constexprs).cuda
    assert "__syncthreads" in cuda
    with pytest.raises(cuda_emulator.EmulationError, match="barrier is missing"):
        cuda_emulator.emulate(cuda.replace("__syncthreads();", "", 1), folder, (1,), arguments)
