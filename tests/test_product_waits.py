"""When products on their way are waited for: as late as they may, and earlier where ptxas would have all wait."""

import ml_dtypes
import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler import simulator

BF16 = ml_dtypes.bfloat16


def numbers(*shape):
    """Small whole numbers, whose products and sums are exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(BF16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


@triton.jit
def both_sums(q, k, v, out, turned, S, B: tl.constexpr):
    """A product that only the next iteration reads is begun between two that this one waits for."""
    i = tl.arange(0, B)
    queries = tl.make_tensor_descriptor(q, [S, B], [B, 1], [B, B])
    keys = tl.make_tensor_descriptor(k, [S, B], [B, 1], [B, B])
    values = tl.make_tensor_descriptor(v, [S, B], [B, 1], [B, B])
    acc, acc2 = tl.zeros((B, B), tl.float32), tl.zeros((B, B), tl.float32)
    for first in range(0, 2 * B, B):
        x = queries.load([first, 0])
        for s in range(0, S, B):
            y = values.load([s, 0])
            w = tl.clamp(tl.dot(x, keys.load([s, 0]).T), -1.0, 1.0).to(tl.bfloat16)
            acc = tl.dot(w, y, acc)
            acc2 = tl.dot(w.T, y, acc2)
    at = i[:, None] * B + i[None, :]
    tl.store(out + at, acc)
    tl.store(turned + at, acc2)


def test_waits_count_what_was_begun_after_what_they_wait_for():
    signature = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,turned:*f32:16,S:i32:16"
    simt = both_sums.compile(signature, {"B": 64}, "sm_90a", num_warps=4).level("simt")
    q, k, v = numbers(256, 64), numbers(256, 64), numbers(256, 64)
    out, turned = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    simulator.run(simt, (1,), {"q": q, "k": k, "v": v, "out": out, "turned": turned, "S": 256}, count=False)
    weights = [sum(np.clip(product(x, keys.T), -1, 1) for x in np.split(q, 4)[:2]) for keys in np.split(k, 4)]
    assert (out == sum(product(w, y) for w, y in zip(weights, np.split(v, 4), strict=True))).all()
    assert (turned == sum(product(w.T, y) for w, y in zip(weights, np.split(v, 4), strict=True))).all()


@triton.jit
def sums_of_scores(q, k, v, out, totals, S, rounds):
    i, j = tl.arange(0, 128), tl.arange(0, 32)
    queries = tl.make_tensor_descriptor(q, [S, 32], [32, 1], [128, 32])
    keys = tl.make_tensor_descriptor(k, [S, 32], [32, 1], [64, 32])
    values = tl.make_tensor_descriptor(v, [S, 32], [32, 1], [64, 32])
    acc, total = tl.zeros((128, 32), tl.float32), tl.zeros((128, 32), tl.float32)
    for r in range(rounds):
        x = queries.load([r * 128, 0])
        for s in range(0, S, 64):
            y = keys.load([s, 0])
            w = tl.floor(tl.clamp(tl.dot(x, y.T), -2.0, 2.0)).to(tl.bfloat16)
            acc = tl.dot(w, values.load([s, 0]), acc)
            total = total + tl.sum(tl.dot(x, y.T), 1)[:, None]
        acc = tl.clamp(acc, -60.0, 60.0)
    at = i[:, None] * 32 + j[None, :]
    tl.store(out + at, acc)
    tl.store(totals + at, total)


def test_what_ptxas_would_serialize_is_waited_for_at_once():
    pytest.importorskip("cuda.bindings")
    signature = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,totals:*f32:16,S:i32:16,rounds:i32"
    made = sums_of_scores.compile(signature, {}, "sm_90a", num_warps=8, num_stages=2)
    before = made.asm["simt"]
    assert made.asm["cubin"] and made.serialized is None and "HGMMA" in made.asm["sass"]
    assert "roles" in made.asm["simt"] and made.asm["simt"] != before and made.waits_at_once


@triton.jit
def added_to_its_source(x, y, out):
    i = tl.arange(0, 64)
    a = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [64, 64]).load([0, 0])
    b = tl.make_tensor_descriptor(y, [64, 64], [64, 1], [64, 64]).load([0, 0])
    total = tl.dot(a, b) + 1.0
    total = tl.dot(tl.clamp(total, -1.0, 1.0).to(tl.bfloat16), b, total)
    tl.store(out + i[:, None] * 64 + i[None, :], total)


def test_a_left_operand_computed_from_the_accumulator():
    made = added_to_its_source.compile("x:*bf16:16,y:*bf16:16,out:*f32:16", {}, "sm_90a", num_warps=4)
    x, y, out = numbers(64, 64), numbers(64, 64).T.copy(), np.zeros((64, 64), np.float32)
    simulator.run(made.level("simt"), (1,), {"x": x, "y": y, "out": out}, count=False)
    total = product(x, y) + 1
    assert (out == total + product(np.clip(total, -1, 1), y)).all()
