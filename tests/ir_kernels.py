"""Kernels written as IR text for the interpreter's tests, and running them."""

import numpy as np

from refcompiler import interpreter
from refcompiler.ir import Func, verify
from refcompiler.ir.parser import parse_func
from refcompiler.ir.types import DTYPES


def kernel(header: str, body: str) -> Func:
    """The verified function ``func @k(<header>) { <body> }``; the first line of the body is line 2 of k.ir."""
    func = parse_func(f"func @k({header}) {{\n{body.strip()}\n}}\n", "k.ir")
    verify(func)
    return func


def out_of(header: str, body: str, shape, dtype, grid=(1,), **args) -> np.ndarray:
    """Run a kernel whose parameter ``out`` points to a fresh array, filled with 77, and return that array."""
    out = np.full(shape, 77, dtype)
    interpreter.run(kernel(header, body), grid, {"out": out, **args})
    return out


def stored(expression: str, type_: str, dtype: str, extent: int, header: str = "", lines: str = "", **args) -> list:
    """The elements of a rank-1 block %9 = ``expression``, where %0 = arange(0, extent)."""
    body = f"""
  %0 = arange {{start=0, end={extent}}} : vector<{extent} x i32>
  {lines}
  %9 = {expression} : {type_}
  %10 = addptr out, %0 : vector<{extent} x ptr<{dtype}>>
  store %10, %9, none
"""
    numpy_dtype = DTYPES[dtype].numpy
    return out_of(f"out: ptr<{dtype}>{header}", body, extent, numpy_dtype, **args).tolist()
