"""Generated MLIR, run on the CPU, against the tile interpreter: every scalar function and conversion, whole kernels."""

import numpy as np
import pytest
from compiled import compile_func, differences
from mlir_on_cpu import Machine
from test_cuda_scalars import APPROXIMATE, N, Text, samples
from test_mlir_long_vectors import carried, elementwise, reductions

from refcompiler import interpreter, pipeline
from refcompiler.dialects.scalar import ROWS
from refcompiler.ir.types import ARITHMETIC, BF16, BOOL, F16, F32, F64

pytest.importorskip("mlir.execution_engine")

# LLVM makes f32 operations of 16-bit fma on x86, which round twice; PTX has the instructions.
NOT_HERE = {("fma", F16), ("fma", BF16), ("round_tf32", F32), ("moved", F32)}


def check(text: Text, arguments, tolerances) -> None:
    """The kernel of one warp, in the interpreter and as MLIR; ``tolerances`` has relative ones and what is ignored."""
    func = text.func()
    stages = compile_func(func, num_warps=1, enable_fp_fusion=False)
    wanted = {p.name: a.copy() for p, a in zip(func.params, arguments, strict=True)}
    interpreter.run(stages.tile, (1,), wanted)
    given = [a.copy() for a in arguments]
    entry = pipeline.EMITTERS["mlir"].entry_name(stages.simt)
    Machine(pipeline.emit(stages.simt, "mlir"), entry, 32).run((1,), given)
    wrong = []
    for (name, expected), got in zip(wanted.items(), given, strict=True):
        tolerance, ignored = tolerances.get(name, (0.0, np.zeros(N, bool)))
        bad = differences(expected, got, tolerance) & ~ignored
        if bad.any():
            at = int(np.argmax(bad))
            inputs = [a[at] for a in arguments[:3]]
            wrong.append(f"{name} of {inputs}: {got[at]!r}, expected {expected[at]!r}; {bad.sum()} differ")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_scalar_functions(dtype):
    text = Text(dict.fromkeys("xyz", dtype))
    arguments = [samples(dtype, seed) for seed in (1, 2, 3)]
    tolerances = {}
    for row in ROWS:
        if dtype not in row.dtypes or (row.name, dtype) in NOT_HERE:
            continue
        result = BOOL if row.result == "bool" else dtype
        value = text.add(f"{row.name} {', '.join(text.values[: row.arity])}", str(result))
        text.store(f"out_{row.name}", value, result)
        arguments.append(np.zeros(N, result.numpy))
        unpredictable = row.name in ("div", "rem") and dtype.is_int
        ignored = arguments[1] == 0 if unpredictable else np.zeros(N, bool)
        tolerances[f"out_{row.name}"] = (APPROXIMATE.get(row.name, 0.0), ignored)
    check(text, arguments, tolerances)


@pytest.mark.parametrize("source", ARITHMETIC, ids=str)
def test_conversions(source):
    text = Text({"x": source})
    arguments = [samples(source, 4)]
    for target in ARITHMETIC:
        same_width = target.itemsize == source.itemsize and BOOL not in (source, target)
        for kind in ("cast", "bitcast") if same_width else ("cast",):
            if source is F64 and target in (F16, BF16):
                continue  # a function of LLVM's run-time library, which is not here
            text.store(f"{kind}_{target}", text.add(f"{kind} {text.values[0]}", str(target)), target)
            arguments.append(np.zeros(N, target.numpy))
    check(text, arguments, {})


@pytest.mark.parametrize("seed", range(2))
def test_sine_and_cosine_of_every_magnitude(seed):
    """Within 2 ULP, also where x has to be reduced by many digits of pi."""
    text, rng = Text({"x": F32}), np.random.default_rng(seed)
    for name in ("sin", "cos"):
        text.store(name, text.add(f"{name} {text.values[0]}", "f32"), F32)
    x = (rng.choice([-1, 1], N) * 10.0 ** rng.uniform(-40, 38, N)).astype("f4")
    tolerance = (2.0**-22, np.zeros(N, bool))
    check(text, [x, np.zeros(N, "f4"), np.zeros(N, "f4")], {"sin": tolerance, "cos": tolerance})


SIZE = 1 << 14  # 512 elements for each thread of a warp: arrays, not registers


def run_long(kernel, signature: str, arguments, warps: int = 1) -> None:
    compiled = kernel.compile(signature, {"BLOCK": SIZE}, arch="sm_90a", backend="mlir", num_warps=warps)
    assert "llvm.alloca" in compiled.asm["mlir"]
    Machine(compiled.asm["mlir"], compiled.name, 32 * warps).run((1,), arguments)


def test_long_vectors_elementwise():
    rng = np.random.default_rng(0)
    x, y = rng.permutation(SIZE).astype("f4"), rng.permutation(SIZE).astype("f4")
    out, flags = np.zeros(SIZE, "f2"), np.zeros(SIZE, bool)
    run_long(elementwise, "x:*f32,y:*f32:16,out:*f16,flags:*i1,n:i32", [x, y, out, flags, np.int32(SIZE - 5)])
    x[SIZE - 5 :] = 1.0
    wanted = np.where(x > y, x, y).astype("f2")
    wanted[SIZE - 5 :] = 0
    assert (flags == (x > y)).all() and (out == wanted).all()


def test_long_vectors_reduced():
    x, out = np.random.default_rng(1).permutation(SIZE).astype("f4"), np.zeros(2, "f4")
    run_long(reductions, "x:*f32:16,out:*f32", [x, out])
    assert abs(out[0] - x.sum(dtype="f8")) <= 1e-6 * x.sum(dtype="f8") and out[1] == np.argmax(x)


def test_long_vectors_carried_by_a_loop():
    x, out = np.random.default_rng(2).integers(-9, 9, (3, SIZE)).astype("f4"), np.zeros(SIZE, "f4")
    run_long(carried, "x:*f32:16,out:*f32:16,n:i32", [x, out, np.int32(3)])
    assert (out == x.sum(0)).all()
