"""Blocks of more elements than the threads have registers: MLIR gets loops over arrays, not vectors of thousands."""

import re

import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import pipeline, toolchain
from refcompiler.emitters.mlir.arrays import MAX_REGISTERS


@triton.jit
def elementwise(x, y, out, flags, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n, other=1.0), tl.load(y + i)
    larger = a > b
    tl.store(flags + i, larger)
    tl.store(out + i, tl.where(larger, a.to(tl.float16), b.to(tl.float16)), mask=i < n)


@triton.jit
def reductions(x, out, BLOCK: tl.constexpr):
    a = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out, tl.sum(a))
    tl.store(out + 1, tl.argmax(a, axis=0).to(tl.float32))


@triton.jit
def carried(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(n):
        total += tl.load(x + k * BLOCK + i)
    tl.store(out + i, total)


@triton.jit
def transposed(x, out, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + m[:, None] * N + n[None, :])
    tl.store(out + n[:, None] * M + m[None, :], tl.trans(a), cache_modifier=".cg")


@triton.jit
def product(x, y, out, times, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    total = tl.zeros((M, N), tl.float32)
    for _ in range(times):
        total = tl.dot(a, b, total)
    tl.store(out + m[:, None] * N + n[None, :], total)


KERNELS = [
    (elementwise, "x:*f32,y:*f32:16,out:*f16,flags:*i1,n:i32", {"BLOCK": 1 << 17}),
    (reductions, "x:*f32:16,out:*f32", {"BLOCK": 1 << 16}),
    (carried, "x:*f32:16,out:*f32:16,n:i32", {"BLOCK": 1 << 16}),
    (transposed, "x:*i8:16,out:*i8:16", {"M": 256, "N": 512}),
]


@pytest.mark.parametrize(("kernel", "signature", "constexprs"), KERNELS, ids=lambda v: getattr(v, "__name__", ""))
def test_long_vectors_compile(kernel, signature, constexprs):
    compiled = kernel.compile(signature, constexprs, arch="sm_90a", backend="mlir", num_warps=4)
    text = compiled.asm["mlir"]
    assert "llvm.alloca" in text
    lengths = {int(n) for n in re.findall(r"vector<(\d+)x", text)}
    if kernel is not carried:  # a loop carries a vector, whatever its length
        assert max(lengths) <= MAX_REGISTERS
    assert compiled.asm["cubin"]


def test_the_largest_block_compiles():
    compiled = reductions.compile("x:*f32:16,out:*f32", {"BLOCK": 1 << 20}, arch="sm_90a", backend="mlir", num_warps=4)
    assert toolchain.resources(compiled.asm["cubin"], "reductions")["threads"] == 128


def test_registers_that_fit_are_no_arrays():
    compiled = elementwise.compile(
        "x:*f32,y:*f32,out:*f16,flags:*i1,n:i32", {"BLOCK": 128 * MAX_REGISTERS}, arch="sm_90a", num_warps=4
    )
    assert "llvm.alloca" not in pipeline.emit(compiled.level("simt"), "mlir")


@pytest.mark.parametrize(("columns", "long"), [(128, "mma.sync"), (16, "ldmatrix")])
def test_products_of_more_registers_than_a_thread_has(columns, long):
    constexprs = {"M": 128, "N": columns, "K": 16 if columns == 128 else 128}
    text = product.compile("x:*f16:16,y:*f16:16,out:*f32:16,times:i32", constexprs, "sm_90a", num_warps=1).asm["mlir"]
    assert long in text
    assert "llvm.alloca" in text
