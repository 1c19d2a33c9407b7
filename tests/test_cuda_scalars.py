"""Every scalar function and cast on every dtype in CUDA C++, run on the CPU, against the tile interpreter."""

import cuda_emulator
import numpy as np
import pytest
from compiled import compile_func, differences, run_both

from refcompiler.dialects.scalar import ROWS
from refcompiler.ir import verify
from refcompiler.ir.parser import parse_func
from refcompiler.ir.types import ARITHMETIC, BOOL, F32, DType

pytestmark = pytest.mark.skipif(not cuda_emulator.available(), reason="g++ is not installed")

N = 128
# The C library's functions are as good as the GPU's or better, and differ from the correctly rounded value.
APPROXIMATE = {
    "exp": 1e-6,
    "exp2": 1e-6,
    "exp2_ftz": 1e-6,
    "log": 1e-6,
    "log2": 1e-6,
    "sin": 1e-6,
    "cos": 1e-6,
    "erf": 1e-6,
    "rsqrt": 1e-6,
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scalars")


def samples(dtype: DType, seed: int) -> np.ndarray:
    """Values of the whole range, the corners among them in random places."""
    rng = np.random.default_rng(seed)
    if dtype is BOOL:
        return rng.integers(0, 2, N).astype(bool)
    if dtype.is_int:
        values = rng.integers(dtype.min_int, dtype.max_int, N, dtype=dtype.numpy, endpoint=True)
        corners = [dtype.min_int, dtype.max_int, -1, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, dtype.bits + 1]
        values[: 5 * len(corners)] = [dtype.wrap(c) for c in corners] * 5
    else:
        values = rng.standard_normal(N) * 10.0 ** rng.integers(-6, 6, N)
        corners = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5, 1e30, -1e-30, 65520.0, -1e-7, 2147483648.0]
        values[: 2 * len(corners)] = corners * 2
        with np.errstate(over="ignore", invalid="ignore"):
            values = values.astype(dtype.numpy)
    rng.shuffle(values)
    return values


class Text:
    """IR text of a kernel over N elements, written line by line."""

    def __init__(self, inputs: dict[str, DType]):
        self.params = [f"{name}: ptr<{dtype}>" for name, dtype in inputs.items()]
        self.count = 1
        self.lines = [f"%0 = arange {{start=0, end={N}}} : vector<{N} x i32>"]
        self.values = [self.load(name, dtype) for name, dtype in inputs.items()]

    def add(self, text: str, element: str) -> str:
        name = f"%{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text} : vector<{N} x {element}>")
        return name

    def load(self, name: str, dtype: DType) -> str:
        return self.add(f"load {self.add(f'addptr {name}, %0', f'ptr<{dtype}>')}, none, none", str(dtype))

    def store(self, name: str, value: str, dtype: DType) -> None:
        self.params.append(f"{name}: ptr<{dtype}>")
        pointer = self.add(f"addptr {name}, %0", f"ptr<{dtype}>")
        self.lines.append(f"store {pointer}, {value}, none")

    def func(self):
        func = parse_func(f"func @k({', '.join(self.params)}) {{\n  " + "\n  ".join(self.lines) + "\n}\n")
        verify(func)
        return func


def check(text: Text, folder, arguments, tolerances) -> None:
    stages = compile_func(text.func(), num_warps=1, enable_fp_fusion=False)
    wrong = []
    for name, wanted, got in run_both(stages, folder, (1,), arguments):
        if name in tolerances:
            tolerance, ignored = tolerances[name]
            bad = differences(wanted, got, tolerance) & ~ignored
            if bad.any():
                at = int(np.argmax(bad))
                inputs = [a[at] for a in arguments[:3] if len(a) == N]
                wrong.append(f"{name} of {inputs}: {got[at]!r}, expected {wanted[at]!r}; {bad.sum()} differ")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_scalar_functions(folder, dtype):
    rows = [row for row in ROWS if dtype in row.dtypes]
    text = Text({"x": dtype, "y": dtype, "z": dtype})
    tolerances, outputs = {}, []
    arguments = [samples(dtype, seed) for seed in (1, 2, 3)]
    for row in rows:
        result = BOOL if row.result == "bool" else dtype
        value = text.add(f"{row.name} {', '.join(text.values[: row.arity])}", str(result))
        text.store(f"out_{row.name}", value, result)
        outputs.append(np.zeros(N, result.numpy))
        unpredictable = row.name in ("div", "rem") and dtype.is_int
        tolerances[f"out_{row.name}"] = (
            APPROXIMATE.get(row.name, 0.0),
            arguments[1] == 0 if unpredictable else np.zeros(N, bool),
        )
    check(text, folder, [*arguments, *outputs], tolerances)


@pytest.mark.parametrize("seed", range(4))
def test_sine_and_cosine_of_every_magnitude(folder, seed):
    """Within 2 ULP, also where x has to be reduced by many digits of pi."""
    text, rng = Text({"x": F32}), np.random.default_rng(seed)
    for name in ("sin", "cos"):
        text.store(name, text.add(f"{name} {text.values[0]}", "f32"), F32)
    x = (rng.choice([-1, 1], N) * 10.0 ** rng.uniform(-40, 38, N)).astype("f4")
    tolerance = (2.0**-22, np.zeros(N, bool))
    check(text, folder, [x, np.zeros(N, "f4"), np.zeros(N, "f4")], {"sin": tolerance, "cos": tolerance})


@pytest.mark.parametrize("source", ARITHMETIC, ids=str)
def test_casts(folder, source):
    text = Text({"x": source})
    tolerances, outputs = {}, []
    for target in ARITHMETIC:
        kinds = ["cast"]
        if target.itemsize == source.itemsize and BOOL not in (source, target):
            kinds.append("bitcast")
        for kind in kinds:
            name = f"{kind}_{target}"
            text.store(name, text.add(f"{kind} {text.values[0]}", str(target)), target)
            outputs.append(np.zeros(N, target.numpy))
            tolerances[name] = (0.0, np.zeros(N, bool))
    check(text, folder, [samples(source, 4), *outputs], tolerances)
