"""Both backends on the GPU from the same SIMT IR: equal bits, and those of the interpreter where a result is exact."""

import sys
from pathlib import Path

import ml_dtypes  # noqa: F401  NumPy's bf16
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_cuda_scalars import APPROXIMATE, N, Text, samples

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import interpreter, pipeline, runtime, toolchain
from refcompiler.dialects.scalar import ROWS
from refcompiler.ir.types import ARITHMETIC, BOOL, DTYPES, F32
from refcompiler.jit.build import kernel_abi
from refcompiler.target import TARGETS

BACKENDS = ("cuda", "mlir")


class OnDevice:
    """A NumPy array of any dtype in device memory; bf16 travels as bytes."""

    def __init__(self, array, cupy):
        self.host = array
        self.memory = cupy.asarray(array.view(np.uint8))
        known = array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str if known else f"<V{array.dtype.itemsize}",
            "data": (self.memory.data.ptr, False), "version": 3, "strides": None,
        }  # fmt: skip
        self.dtype = array.dtype

    def get(self):
        return self.memory.get().view(self.host.dtype)


@pytest.fixture(scope="module")
def cupy():
    pytest.importorskip("mlir.ir")
    return pytest.importorskip("cupy")


def run(func, arguments, cupy) -> dict[str, list[np.ndarray]]:
    """What each backend leaves in each array, and the interpreter, for one program of one warp."""
    context = pipeline.Context(pipeline.Options(num_warps=1, enable_fp_fusion=False), TARGETS[runtime.native_arch()])
    tile = pipeline.optimize(func, context)
    simt = pipeline.lower(pipeline.lay_out(tile, context), context)
    expected = {p.name: a.copy() for p, a in zip(func.params, arguments, strict=True)}
    interpreter.run(tile, (1,), expected)
    found = {"interp": list(expected.values())}
    for backend in BACKENDS:
        artifacts = toolchain.COMPILERS[backend](pipeline.emit(simt, backend), runtime.native_arch())
        entry = pipeline.EMITTERS[backend].entry_name(simt)
        device = [OnDevice(a, cupy) for a in arguments]
        function = runtime.load_function(artifacts.cubin, entry, kernel_abi(func))
        runtime.launch(function, (1, 1, 1), 32, device, None, int(simt.attrs.get("shared_bytes", 0)))
        cupy.cuda.runtime.deviceSynchronize()
        found[backend] = [d.get() for d in device]
    return found


def differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where bits differ, NaNs being equal."""
    different = a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")
    if a.dtype.kind in "fV":
        with np.errstate(all="ignore"):
            different &= ~(np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64)))
    return different


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_scalar_functions(dtype, cupy):
    text = Text(dict.fromkeys("xyz", dtype))
    arguments = [samples(dtype, seed) for seed in (1, 2, 3)]
    rows = [row for row in ROWS if dtype in row.dtypes]
    for row in rows:
        result = BOOL if row.result == "bool" else dtype
        text.store(
            f"out_{row.name}", text.add(f"{row.name} {', '.join(text.values[: row.arity])}", str(result)), result
        )
        arguments.append(np.zeros(N, result.numpy))
    found = run(text.func(), arguments, cupy)
    wrong = []
    for row, expected, cuda, mlir in zip(rows, *(found[name][3:] for name in ("interp", *BACKENDS)), strict=True):
        unpredictable = row.name in ("div", "rem") and dtype.is_int
        counted = arguments[1] != 0 if unpredictable else np.ones(N, bool)
        pairs = [("cuda", cuda, "mlir", mlir)]
        if row.name not in APPROXIMATE:
            pairs.append(("interp", expected, "mlir", mlir))
        for first, a, second, b in pairs:
            bad = differ(a, b) & counted
            if bad.any():
                at = int(np.argmax(bad))
                inputs = [x[at] for x in arguments[: row.arity]]
                wrong.append(f"{row.name} of {inputs}: {first} {a[at]!r}, {second} {b[at]!r}; {bad.sum()} differ")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source", ARITHMETIC, ids=str)  # float8 is cast to few others: cast.fp8
def test_conversions(source, cupy):
    text = Text({"x": source})
    arguments = [samples(source, 4)]
    for target in ARITHMETIC:
        same_width = target.itemsize == source.itemsize and BOOL not in (source, target)
        for kind in ("cast", "bitcast") if same_width else ("cast",):
            text.store(f"{kind}_{target}", text.add(f"{kind} {text.values[0]}", str(target)), target)
            arguments.append(np.zeros(N, target.numpy))
    func = text.func()
    found = run(func, arguments, cupy)
    names = [p.name for p in func.params]
    wrong = [
        f"{name}: {first}" for first in ("interp", "cuda")
        for name, a, b in zip(names, found[first], found["mlir"], strict=True) if differ(a, b).any()
    ]  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("seed", range(4))
def test_sine_and_cosine_of_every_magnitude(seed, cupy):
    """The same polynomials and the same reduction: the same bits."""
    text, rng = Text({"x": F32}), np.random.default_rng(seed)
    for name in ("sin", "cos"):
        text.store(name, text.add(f"{name} {text.values[0]}", "f32"), F32)
    x = (rng.choice([-1, 1], N) * 10.0 ** rng.uniform(-40, 38, N)).astype("f4")
    found = run(text.func(), [x, np.zeros(N, "f4"), np.zeros(N, "f4")], cupy)
    for a, b in zip(found["cuda"], found["mlir"], strict=True):
        assert not differ(a, b).any()


@triton.jit
def long_vectors(x, y, out, flags, total, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n, other=1.0), tl.load(y + i)
    larger = a > b
    tl.store(flags + i, larger)
    tl.store(out + i, tl.where(larger, a.to(tl.float16), b.to(tl.float16)), mask=i < n, cache_modifier=".cg")
    tl.store(total, tl.sum(larger.to(tl.int32)))
    tl.store(total + 1, tl.argmax(a, axis=0))


@triton.jit
def carried(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(n):
        total += tl.load(x + k * BLOCK + i)
    tl.store(out + i, total)


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks_of_more_elements_than_registers(backend, cupy):
    size = 1 << 16
    rng = np.random.default_rng(0)
    x, y = rng.permutation(size).astype("f4"), rng.permutation(size).astype("f4")
    given = [cupy.asarray(a) for a in (x, y, np.zeros(size, "f2"), np.zeros(size, bool), np.zeros(2, "i4"))]
    long_vectors[(1,)](*given, size - 5, BLOCK=size, backend=backend)
    out, flags, total = (a.get() for a in given[2:])
    x[size - 5 :] = 1.0
    assert (flags == (x > y)).all() and total[0] == (x > y).sum() and total[1] == np.argmax(x)
    wanted = np.where(x > y, x, y).astype("f2")
    wanted[size - 5 :] = 0
    assert (out == wanted).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_vectors_carried_by_a_loop(backend, cupy):
    size = 1 << 16
    x = np.random.default_rng(1).integers(-1000, 1000, (3, size)).astype("f4")
    given, out = cupy.asarray(x), cupy.zeros(size, "f4")
    carried[(1,)](given.ravel(), out, 3, BLOCK=size, backend=backend)
    assert (out.get() == x.sum(0)).all()
