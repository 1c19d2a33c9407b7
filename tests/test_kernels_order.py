"""Kernels that need the order of elements: scans, sorts, gathers and shapes, of any extent, also as emulated CUDA."""

import numpy as np
import pytest
from kernel_checks import check

import refcompiler as triton
import refcompiler.language as tl

RNG = np.random.default_rng(12)
ANY = "ext.any_extent"


@triton.jit(profile=ANY)
def compact(x, out, count, N: tl.constexpr):
    """Moves what is positive to the front: a scan gives each element its place."""
    i = tl.arange(0, N)
    v = tl.load(x + i)
    keep = v > 0
    places = tl.cumsum(keep.to(tl.int32), 0) - 1
    tl.store(out + places, v, mask=keep)
    tl.store(count, tl.sum(keep.to(tl.int32), 0))


@pytest.mark.parametrize("n", [1, 64, 100, 1000])
def test_compaction(n):
    x = RNG.integers(-9, 10, n).astype(np.int32)
    kept = x[x > 0]
    wanted = np.concatenate([kept, np.zeros(n - len(kept), np.int32)])
    arguments = {"x": x, "out": np.zeros(n, np.int32), "count": np.zeros(1, np.int32), "N": n}
    check(compact, (1,), arguments, {"out": wanted, "count": np.array([len(kept)], np.int32)}, warps=(1, 4))


@triton.jit
def step(a, b, c, d):
    return a * c, b * c + d


@triton.jit(profile=ANY)
def recurrence(a, b, h, T: tl.constexpr, D: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    _, state = tl.associative_scan((tl.load(a + i), tl.load(b + i)), 0, step, REVERSE)
    tl.store(h + i, state)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("steps", "width"), [(64, 4), (33, 3), (512, 1), (5, 128)])
def test_linear_recurrence(steps, width, reverse):
    a, b = (RNG.integers(-2, 3, (steps, width)).astype(np.int64) for _ in range(2))
    state, states = np.zeros(width, np.int64), []
    for t in reversed(range(steps)) if reverse else range(steps):
        with np.errstate(over="ignore"):
            state = a[t] * state + b[t]
        states.append(state)
    wanted = np.stack(states[::-1] if reverse else states)
    arguments = {"a": a, "b": b, "h": np.zeros_like(b), "T": steps, "D": width, "REVERSE": reverse}
    check(recurrence, (1,), arguments, {"h": wanted}, warps=(1, 4))


@triton.jit(profile=ANY)
def ranks(x, order, out, N: tl.constexpr):
    """Sorts keys that hold their places, then fetches by them."""
    i = tl.arange(0, N)
    v = tl.load(x + i)
    keys = tl.sort(v.to(tl.int64) * 1024 + i)
    places = (keys & 1023).to(tl.int32)
    tl.store(order + i, places)
    tl.store(out + i, tl.gather(v, places, 0))


@pytest.mark.parametrize("n", [1, 16, 100, 256])
def test_stable_order(n):
    x = RNG.integers(0, 9, n).astype(np.int32)
    order = np.argsort(x, kind="stable").astype(np.int32)
    arguments = {"x": x, "order": np.zeros(n, np.int32), "out": np.zeros_like(x), "N": n}
    check(ranks, (1,), arguments, {"order": order, "out": x[order]}, warps=(1, 4))


@triton.jit(profile=ANY)
def shuffled(x, out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    v = tl.load(x + tl.arange(0, A * B * C))
    w = tl.permute(tl.reshape(v, (A, B, C)), (2, 0, 1))
    low, high = tl.split(tl.join(tl.flip(w, 1), w * 2))
    tl.store(out + tl.arange(0, 2 * A * B * C), tl.cat(tl.ravel(low), tl.ravel(high)))


@pytest.mark.parametrize("shape", [(2, 4, 8), (3, 5, 7), (1, 6, 4), (16, 2, 16)])
def test_shapes(shape):
    x = RNG.integers(-99, 99, shape).astype(np.float32)
    turned = x.transpose(2, 0, 1)
    wanted = np.concatenate([np.flip(turned, 1).ravel(), (turned * 2).ravel()])
    a, b, c = shape
    arguments = {"x": x, "out": np.zeros_like(wanted), "A": a, "B": b, "C": c}
    check(shuffled, (1,), arguments, {"out": wanted}, warps=(1, 4))


@triton.jit(profile=ANY)
def softmax(x, out, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.softmax(tl.load(x + i), 1))


@pytest.mark.parametrize("shape", [(1, 100), (7, 33), (3, 1000)])
def test_softmax_of_any_width(shape):
    x = RNG.standard_normal(shape).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    arguments = {"x": x, "out": np.zeros_like(x), "M": shape[0], "N": shape[1]}
    check(softmax, (1,), arguments, {"out": (e / e.sum(1, keepdims=True), 1e-6)}, warps=(1, 4))
