"""The tile interpreter on kernels written as IR text: values, masks, loops, reductions and every kind of error."""

import numpy as np
import pytest

from refcompiler import interpreter
from refcompiler.ir import OPS, verify
from refcompiler.ir.parser import parse_func


def kernel(header: str, body: str):
    """The verified function ``func @k(<header>) { <body> }``."""
    func = parse_func(f"func @k({header}) {{\n{body.strip()}\n}}\n", "k.ir")
    verify(func)
    return func


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
    assert tile_ops <= set(interpreter.HANDLERS)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 100_000])
def test_vector_add(n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n), np.float32)
    out = np.full(n + 8, -1, np.float32)
    interpreter.run(ADD, (max(1, -(-n // 256)),), {"x": x, "y": y, "out": out, "n": n})
    assert (out[:n] == x + y).all()
    assert (out[n:] == -1).all()
