"""What each mechanism of products is for: with it turned off, the counts that budgets limit are others."""

from collections import Counter

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import pipeline
from refcompiler.analysis import dot_strategy
from refcompiler.layouts import matrices
from refcompiler.lowering import exchange, fragments


@triton.jit
def product(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr = None):
    rows, cols, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    left, right = a + rows[:, None] * K + k[None, :], b + k[:, None] * N + cols[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(left), tl.load(right), acc, input_precision=PRECISION)
        left += BK
        right += BK * N
    tl.store(c + rows[:, None] * N + cols[None, :], acc)


@triton.jit
def chain(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, cols, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + rows[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + cols[None, :])
    p = tl.dot(x, y).to(tl.float16)
    p = (p - tl.max(p, 1)[:, None].to(tl.float16)).to(tl.float16)
    z = tl.load(b + cols[:, None] * N + cols[None, :])
    tl.store(c + rows[:, None] * N + cols[None, :], tl.dot(p, z))


@triton.jit
def batches(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    g, rows, cols, k = tl.arange(0, 2)[:, None, None], tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x = tl.load(a + g * BM * BK + rows[None, :, None] * BK + k[None, None, :])
    y = tl.load(b + g * BN * BK + k[None, :, None] * BN + cols[None, None, :])
    tl.store(c + g * BM * BN + rows[None, :, None] * BN + cols[None, None, :], tl.dot(x, y))


def counts(kernel, level="simt", num_stages=3, signature="a:*f16:16,b:*f16:16,c:*f32:16,N:i32:16,K:i32:16", **more):
    """How often each op stands in the text, compiled anew."""
    done = kernel.compile(
        signature=signature,
        constexprs={"BM": 64, "BN": 64, "BK": 32, **more},
        arch="sm_80",
        num_stages=num_stages,
    )
    func = pipeline.lay_out(pipeline.optimize(done.func, done.context), done.context)
    if level == "simt":
        func = pipeline.lower(func, done.context)
    return Counter(op.name for op in func.walk())


def test_tensor_cores(monkeypatch):
    assert counts(product)["mma_sync"] == 2  # one for each 16 of K
    monkeypatch.setattr(dot_strategy, "dot_strategy", lambda *_: "fma")
    found = counts(product)
    assert not found["mma_sync"] and found["fma"] == 32  # one for each step along K


def test_batches_on_tensor_cores(monkeypatch):
    found = counts(batches)
    assert (found["mma_sync"], found["ldmatrix"]) == (2, 4)  # a product of each two warps
    monkeypatch.setattr(dot_strategy, "dot_strategy", lambda *_: "fma")
    found = counts(batches)
    assert not found["mma_sync"] and found["fma"] == 32  # one for each step along K


def test_copies_ahead():
    found = counts(product)
    assert (found["cp_async"], found["ld_global"], found["barrier"]) == (6, 0, 5)
    without = counts(product, num_stages=1)
    assert (without["cp_async"], without["ld_global"]) == (0, 2)


def test_products_without_tensor_cores(monkeypatch):
    """Copied ahead like those on tensor cores, and read 4 steps along K at a time."""
    signature = "a:*f32:16,b:*f32:16,c:*f32:16,N:i32:16,K:i32:16"
    found = counts(product, PRECISION="ieee", signature=signature)
    assert (found["cp_async"], found["ld_global"], found["fma"], found["ld_shared"]) == (6, 0, 32, 16)
    without = counts(product, PRECISION="ieee", num_stages=1, signature=signature)
    assert (without["cp_async"], without["ld_global"], without["st_shared"]) == (0, 2, 2)
    monkeypatch.setattr(dot_strategy, "MOST_FMA", 0)
    found = counts(product, PRECISION="ieee", signature=signature)
    assert (found["cp_async"], found["fma"], found["for"]) == (0, 1, 2)  # another loop, over K of the blocks


def test_fragments_by_matrices(monkeypatch):
    found = counts(product)
    assert (found["ldmatrix"], found["ld_shared"]) == (4, 1)  # the one is what the result leaves through
    monkeypatch.setattr(matrices, "matrix_access", lambda *_: None)
    assert not counts(product)["ldmatrix"]


def test_exchanges_share_barriers(monkeypatch):
    with_pass = counts(product, num_stages=1)["barrier"]
    passes = tuple(p for p in pipeline.SIMT if p.name != "delay_shared_loads")
    monkeypatch.setattr(pipeline, "SIMT", passes)
    monkeypatch.setattr(fragments, "is_operand", lambda *_: False)
    monkeypatch.setattr(exchange, "is_operand", lambda *_: False)
    assert counts(product, num_stages=1)["barrier"] > with_pass


def test_products_in_a_chain_agree_on_rows(monkeypatch):
    found = counts(chain)
    assert found["shfl_xor"] == 2
    conversions = counts(chain, "laid_out")["convert_layout"]
    monkeypatch.setattr(dot_strategy, "chained_dots", lambda _: set())
    assert counts(chain, "laid_out")["convert_layout"] > conversions
    assert counts(chain)["shared_alloc"] > found["shared_alloc"]
