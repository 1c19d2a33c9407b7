"""What each mechanism of products is for: with it turned off, the counts that budgets limit are others."""

import re
from collections import Counter

import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import pipeline
from refcompiler.analysis import dot_strategy
from refcompiler.kernels.matmul import matmul_descriptors
from refcompiler.layouts import matrices
from refcompiler.lowering import control, dot, exchange, fragments


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


FFMA = re.compile(r"FFMA R\d+, (R\d+)(\.reuse)?, (R\d+)(\.reuse)?, (R\d+)(\.reuse)? ;")


def cycles_of_a_multiply_add(backend, folder, monkeypatch):
    """What registers allow: an instruction reads one even and one odd register in a cycle, besides those that the one
    before it keeps for it."""
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(folder))
    pointers = [f"{name}:*f32:16" for name in ("a", "b", "c", "bias")]
    strides = [f"stride_{name}" for name in ("a", "b", "c", "ab", "bb", "cb")]
    integers = ["batches:i32", *(f"{name}:i32:16" for name in ("M", "N", "K", *strides))]
    no = dict.fromkeys(("TURN_B", "TURN_C", "BATCHED", "HAS_BIAS", "BIAS_OF_ROWS"), False)
    sizes = {"BM": 128, "BN": 128, "BK": 16, "GROUP": 8}
    matmul_descriptors.clear_cache()
    kernel = matmul_descriptors.compile(
        signature=",".join(pointers + integers),
        constexprs={**sizes, **no, "TURN_A": True, "PRECISION": "ieee", "ACTIVATION": "none"},
        arch="sm_90a",
        backend=backend,
        num_warps=8,
        num_stages=2,
    )
    kept, cycles = {}, []
    for found in FFMA.finditer(kernel.asm["sass"]):
        sources = [(found[i], found[i + 1]) for i in (1, 3, 5)]
        read = [int(register[1:]) % 2 for place, (register, _) in enumerate(sources) if kept.get(place) != register]
        kept = {place: register for place, (register, reuse) in enumerate(sources) if reuse}
        cycles.append(max(1, read.count(0), read.count(1)))
    assert len(cycles) == 1024
    return sum(cycles) / len(cycles)


@pytest.mark.parametrize("backend", ["cuda", "mlir"])
def test_multiply_adds_read_at_full_rate(backend, tmp_path, monkeypatch):
    assert cycles_of_a_multiply_add(backend, tmp_path / "both", monkeypatch) < 1.15
    with monkeypatch.context() as without:
        without.setattr(dot, "_order", lambda left, right: list(range(len(left))))
        assert cycles_of_a_multiply_add(backend, tmp_path / "plain", without) > 1.2


def test_sums_are_where_multiply_adds_want_them(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "_is_sum", lambda *_: False)
    assert cycles_of_a_multiply_add("cuda", tmp_path, monkeypatch) > 1.3
