"""Scans in any layout: whichever bits of registers, lanes and warps lie along the axis, in whichever order."""

from __future__ import annotations

import random

import numpy as np
import pytest

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.analysis.layout_homes import Homes
from refcompiler.layouts import LinearLayout, blocked_for, is_scannable, scan


@triton.jit
def later(a, b, c, d):
    return tl.where(c != 0, c, a), b * 3 + d - b * 2


@triton.jit
def kernel(x, out, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    v = tl.load(x + i)
    held, total = tl.associative_scan((v, v), AXIS, later, REVERSE)
    tl.store(out + i, held)
    tl.store(out + A * B + i, total)
    tl.store(out + 2 * A * B + i, tl.cumsum(v, AXIS, REVERSE))


def scattered(seed: int, shape: tuple[int, int], num_warps: int) -> LinearLayout:
    """Each bit of an index on one bit of lane, warp or register, at random; some bits make replicas."""
    chance = random.Random(seed)
    numel = shape[0] * shape[1]
    bases = [1 << bit for bit in range(numel.bit_length() - 1)]
    warps = num_warps.bit_length() - 1
    slots = max(5 + warps, len(bases)) + chance.randrange(3)
    bases += [0] * (slots - len(bases))
    chance.shuffle(bases)
    places = {"lane": bases[:5], "warp": bases[5 : 5 + warps], "register": bases[5 + warps :]}
    return LinearLayout.packed(shape, places)


@pytest.mark.parametrize("seed", range(24))
def test_scans_in_any_layout(seed, monkeypatch):
    shape = random.Random(seed).choice([(1, 64), (8, 32), (64, 8), (256, 2), (4, 128)])
    num_warps = (1, 4, 8)[seed % 3]
    layout = scattered(seed, shape, num_warps)
    monkeypatch.setattr(Homes, "combined", lambda self, op: layout)
    x = np.random.default_rng(seed).integers(-3, 4, shape).astype(np.int32)
    for axis in (0, 1):
        assert is_scannable(layout, axis)
        for reverse in (False, True):
            ordered = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
            held = [ordered[0]]
            for row in ordered[1:]:
                held.append(np.where(row != 0, row, held[-1]))
            sums = np.cumsum(ordered, 0)
            back = [np.moveaxis(np.stack(r)[:: -1 if reverse else 1], 0, axis) for r in (held, sums, sums)]
            values = {"A": shape[0], "B": shape[1], "AXIS": axis, "REVERSE": reverse}
            made = kernel.compile("x:*i32,out:*i32", values, backend="simt", num_warps=num_warps)
            assert str(layout) in made.asm["laid_out"]
            out = np.zeros((3, *shape), np.int32)
            made[(1,)](x, out)
            np.testing.assert_array_equal(out, np.stack(back))
        kernel.clear_cache()


def test_steps_go_outwards_from_neighbours():
    steps = scan(blocked_for((4096,), num_warps=4, vector=4), 0).steps
    assert [(s.kind, len(s.bits)) for s in steps] == [
        ("register", 1), ("register", 1), *[("lane", 1)] * 5, ("warp", 2), *[("register", 1)] * 3,
    ]  # fmt: skip


def test_neighbours_come_to_one_thread_where_too_much_would_be_exchanged():
    """Down a wide plane, in the layout of its loads, every element would be exchanged with other warps."""
    values = {"A": 64, "B": 256, "AXIS": 0, "REVERSE": False}
    text = kernel.compile("x:*f32:16,out:*f32:16", values).asm["laid_out"]
    assert "convert_layout" in text
    values = {"A": 4, "B": 512, "AXIS": 1, "REVERSE": False}
    text = kernel.compile("x:*f32:16,out:*f32:16", values).asm["laid_out"]
    assert "convert_layout" not in text


def test_what_cannot_be_scanned_in_place():
    mixed = LinearLayout.of((2, 32), lane=[(0, 1), (0, 2), (0, 4), (0, 8), (1, 16)], register=[(1, 0)])
    twisted = LinearLayout.of((1, 64), lane=[(0, 1), (0, 3), (0, 4), (0, 8), (0, 16)], register=[(0, 32)])
    doubled = LinearLayout.of((1, 16), lane=[(0, 1), (0, 2), (0, 4), (0, 8), (0, 8)])
    for layout in (mixed, twisted, doubled):
        assert not is_scannable(layout, 1)
        with pytest.raises(ValueError, match="convert before scanning"):
            scan(layout, 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_interpreter_and_simulator_agree_on_every_bit(dtype, reverse):
    name = {np.float32: "f32", np.float16: "f16"}[dtype]
    x = np.random.default_rng(1).normal(size=(4, 256)).astype(dtype)
    found = []
    for backend, num_warps in (("cuda", 4), ("simt", 1), ("simt", 4), ("simt", 8)):
        values = {"A": 4, "B": 256, "AXIS": 1, "REVERSE": reverse}
        made = kernel.compile(f"x:*{name},out:*{name}", values, backend=backend, num_warps=num_warps)
        out = np.zeros((3, 4, 256), dtype)
        made[(1,)](x, out)
        found.append(out.view(np.uint8))
    assert all((f == found[0]).all() for f in found)
