"""Times the tile interpreter, all checks on, on the kernels that upstream's interpreter was timed on.

Run ``python benchmarks/interpreter.py [runs]``; prints the median, least and greatest time of each kernel in ms.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from refcompiler import interpreter
from refcompiler.ir import Func
from refcompiler.ir.parser import parse_func

VECTOR_ADD = """
func @vector_add(x: ptr<f32>, y: ptr<f32>, out: ptr<f32>, n: i32, BLOCK=1024) {
  %0 = program_id {axis=0} : i32
  %1 = mul %0, 1024 : i32
  %2 = arange {start=0, end=1024} : vector<1024 x i32>
  %3 = add %1, %2 : vector<1024 x i32>
  %4 = cmp_lt %3, n : vector<1024 x bool>
  %5 = addptr x, %3 : vector<1024 x ptr<f32>>
  %6 = load %5, %4, none : vector<1024 x f32>
  %7 = addptr y, %3 : vector<1024 x ptr<f32>>
  %8 = load %7, %4, none : vector<1024 x f32>
  %9 = add %6, %8 : vector<1024 x f32>
  %10 = addptr out, %3 : vector<1024 x ptr<f32>>
  store %10, %9, %4
}
"""

SOFTMAX = """
func @softmax(x: ptr<f32>, out: ptr<f32>, columns: i32, BLOCK=1024) {
  %0 = program_id {axis=0} : i32
  %1 = mul %0, columns : i32
  %2 = arange {start=0, end=1024} : vector<1024 x i32>
  %3 = cmp_lt %2, columns : vector<1024 x bool>
  %4 = addptr x, %1 : ptr<f32>
  %5 = addptr %4, %2 : vector<1024 x ptr<f32>>
  %6 = load %5, %3, -inf : vector<1024 x f32>
  %7 = reduce %6 {axis=0, combine='maximum'} : f32
  %8 = sub %6, %7 : vector<1024 x f32>
  %9 = exp %8 : vector<1024 x f32>
  %10 = reduce %9 {axis=0, combine='add'} : f32
  %11 = div %9, %10 : vector<1024 x f32>
  %12 = addptr out, %1 : ptr<f32>
  %13 = addptr %12, %2 : vector<1024 x ptr<f32>>
  store %13, %11, %3
}
"""

MATMUL_ELEMENT = """
func @matmul_element(a: ptr<f32>, b: ptr<f32>, c: ptr<f32>, M: i32, N: i32, K: i32) {
  %0 = program_id {axis=0} : i32
  %1 = program_id {axis=1} : i32
  %2 = mul %0, K : i32
  %3 = for %4 in range(0, K, 1) iter_args(%5 = 0.0) : f32 {
    %6 = add %2, %4 : i32
    %7 = addptr a, %6 : ptr<f32>
    %8 = load %7, none, none : f32
    %9 = mul %4, N : i32
    %10 = add %9, %1 : i32
    %11 = addptr b, %10 : ptr<f32>
    %12 = load %11, none, none : f32
    %13 = fma %8, %12, %5 : f32
    yield %13
  }
  %14 = mul %0, N : i32
  %15 = add %14, %1 : i32
  %16 = addptr c, %15 : ptr<f32>
  store %16, %3, none
}
"""

MATMUL_TILE = """
func @matmul_tile(a: ptr<f32>, b: ptr<f32>, c: ptr<f32>, M: i32, N: i32, K: i32, BLOCK=16) {
  %0 = program_id {axis=0} : i32
  %1 = program_id {axis=1} : i32
  %2 = arange {start=0, end=16} : vector<16 x i32>
  %3 = mul %0, 16 : i32
  %4 = add %3, %2 : vector<16 x i32>
  %5 = mul %1, 16 : i32
  %6 = add %5, %2 : vector<16 x i32>
  %7 = expand_dims %4 {axis=1} : block<16x1 x i32>
  %8 = expand_dims %6 {axis=0} : block<1x16 x i32>
  %9 = cmp_lt %7, M : block<16x1 x bool>
  %10 = cmp_lt %8, N : block<1x16 x bool>
  %11 = full 0.0 : block<16x16 x f32>
  %12 = mul %7, K : block<16x1 x i32>
  %13 = for %14 in range(0, K, 1) iter_args(%15 = %11) : block<16x16 x f32> {
    %16 = add %12, %14 : block<16x1 x i32>
    %17 = addptr a, %16 : block<16x1 x ptr<f32>>
    %18 = load %17, %9, 0.0 : block<16x1 x f32>
    %19 = mul %14, N : i32
    %20 = add %8, %19 : block<1x16 x i32>
    %21 = addptr b, %20 : block<1x16 x ptr<f32>>
    %22 = load %21, %10, 0.0 : block<1x16 x f32>
    %23 = mul %18, %22 : block<16x16 x f32>
    %24 = add %15, %23 : block<16x16 x f32>
    yield %24
  }
  %25 = mul %7, N : block<16x1 x i32>
  %26 = add %25, %8 : block<16x16 x i32>
  %27 = and %9, %10 : block<16x16 x bool>
  %28 = addptr c, %26 : block<16x16 x ptr<f32>>
  store %28, %13, %27
}
"""


def vector_add(n: int) -> tuple[Func, tuple[int, ...], dict[str, Any], Callable[[dict], bool]]:
    x, y = np.random.default_rng(1).standard_normal((2, n), np.float32)
    args = {"x": x, "y": y, "out": np.empty(n, np.float32), "n": n}
    return parse_func(VECTOR_ADD), (-(-n // 1024),), args, lambda a: bool((a["out"] == x + y).all())


def softmax(rows: int, columns: int):
    x = np.random.default_rng(2).standard_normal((rows, columns), np.float32)
    args = {"x": x, "out": np.empty_like(x), "columns": columns}
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    return parse_func(SOFTMAX), (rows,), args, lambda a: bool(np.allclose(a["out"], expected, 1e-5))


def matmul(text: str, size: int, block: int):
    a, b = np.random.default_rng(3).standard_normal((2, size, size), np.float32)
    args = {"a": a, "b": b, "c": np.empty_like(a), "M": size, "N": size, "K": size}
    expected = a.astype(np.float64) @ b
    grid = (-(-size // block),) * 2
    return parse_func(text), grid, args, lambda args: bool(np.allclose(args["c"], expected, 1e-4, 1e-4))


CASES = {
    "vector add, 1,048,576 elements": lambda: vector_add(1 << 20),
    "vector add, 1,000,003 elements": lambda: vector_add(1_000_003),
    "softmax, 256 x 781": lambda: softmax(256, 781),
    "matmul 64^3, an element per program": lambda: matmul(MATMUL_ELEMENT, 64, 1),
    "matmul 64^3, a 16 x 16 tile per program": lambda: matmul(MATMUL_TILE, 64, 16),
    "matmul 70^3, a 16 x 16 tile per program": lambda: matmul(MATMUL_TILE, 70, 16),
}


def main(runs: int) -> None:
    print(f"{'kernel':<42}{'median':>9}{'least':>9}{'most':>9}  ms")
    for name, make in CASES.items():
        func, grid, args, right = make()
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            interpreter.run(func, grid, args)
            times.append((time.perf_counter() - start) * 1e3)
        if not right(args):
            raise SystemExit(f"{name}: wrong result")
        print(f"{name:<42}{statistics.median(times):9.2f}{min(times):9.2f}{max(times):9.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
