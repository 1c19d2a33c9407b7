"""Blocks of any extent: a function means the same before and after padding, and core keeps its errors."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import compile_to_tile

import refcompiler as triton
import refcompiler.language as tl
from conformance.adapters.reference import Interpreter
from conformance.instances import instances
from conformance.loader import load_feature, spec_root
from conformance.runner import Session, run_instance
from refcompiler.errors import CompileError, LaunchError, RunError
from refcompiler.passes.expand_descriptors import expand_descriptors
from refcompiler.passes.pad_extents import keeps_order, pad_extents
from refcompiler.pipeline import Context, lay_out, optimize

FEATURES = sorted((spec_root() / "features" / "ext").glob("any_extent*.yaml"))


class Padded(Interpreter):
    """The interpreter on the function that layouts are given to."""

    def _finish(self, compiled) -> None:
        before = compiled.level("tile_opt")
        before = expand_descriptors(before) or before
        compiled.levels["tile_opt"] = pad_extents(before) or before


@pytest.mark.parametrize("path", FEATURES, ids=lambda p: p.stem)
def test_padding_keeps_the_meaning(path):
    """Every kernel of the profile, run by the interpreter after the pass, still agrees with its oracle."""
    session = Session("padded", Padded())
    judged = [i for i in instances(load_feature(path)) if i.kind == "oracle"]
    assert judged
    for instance in judged:
        result = run_instance(session, instance)
        assert result.status == "pass", f"{instance.id}: {result.message}"
        session.forget()


@triton.jit
def add(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) + 1)


@triton.jit(profile="ext.any_extent")
def add_any(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) + 1)


def test_core_names_the_profile():
    with pytest.raises(CompileError) as caught:
        add.compile("x:*f32,out:*f32", {"N": 100})
    assert caught.value.id == "creation.arange#E2"
    assert "profile='ext.any_extent'" in str(caught.value)


def test_three_ways_to_choose_the_profile():
    x = np.arange(100, dtype=np.float32)
    for launch in (add_any[(1,)], lambda *a, **k: add[(1,)](*a, **k, profile="ext.any_extent")):
        out = np.zeros_like(x)
        launch(x, out, N=100)
        assert (out == x + 1).all()
    text = add.compile("x:*f32,out:*f32", {"N": 100}, profile="ext.any_extent").asm["tile"]
    assert "vector<100 x f32>" in text


def test_unknown_profile():
    with pytest.raises(LaunchError, match=r"profile is one of 'core', 'ext\.any_extent'"):
        add.compile("x:*f32,out:*f32", {"N": 4}, profile="ext.anything")
    with pytest.raises(LaunchError, match="profile is one of"):
        triton.jit(profile="any")(add.fn)


@pytest.mark.parametrize("stage", ["tile", "tile_opt", "laid_out", "simt", "cuda"])
def test_powers_of_two_give_the_text_of_core(stage):
    texts = [k.compile("x:*f32,out:*f32", {"N": 64}).asm[stage].replace("add_any", "add") for k in (add, add_any)]
    assert texts[0] == texts[1]


def test_the_pass_gives_nothing_where_nothing_changes():
    func = optimize(compile_to_tile(add, "x:*f32,out:*f32", {"N": 64}))
    assert pad_extents(func) is None
    assert lay_out(func, Context()).level == "laid_out"


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ((100,), (1, 100), True),
        ((100,), (25, 4), True),
        ((4, 25), (100,), False),
        ((25, 4), (100,), True),
        ((3, 5), (5, 3), False),
        ((3, 4, 5), (12, 5), True),
        ((4, 3, 5), (12, 5), False),
        ((6, 8, 2), (6, 16), True),
        ((2, 3), (1, 2, 1, 3, 1), True),
        ((8, 8), (4, 16), True),
        ((5, 3, 4), (5, 12), True),
        ((1,), (1, 1), True),
    ],
)
def test_which_reshapes_keep_their_order(source, target, kept):
    assert keeps_order(source, target) is kept
    # the padded arrays agree on where each element lies exactly if the pass may leave the reshape as it is
    room = [tuple(1 << (e - 1).bit_length() for e in shape) for shape in (source, target)]
    if np.prod(room[0]) == np.prod(room[1]):
        places = [
            np.arange(np.prod(r)).reshape(r)[tuple(map(slice, s))].ravel()
            for r, s in zip(room, (source, target), strict=True)
        ]
        assert (places[0] == places[1]).all() == kept
    else:
        assert not kept


@triton.jit(profile="ext.any_extent")
def asserted(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_assert(i < N, "inside")
    tl.device_assert(tl.load(x + i) > 0, "positive")


def test_assertions_of_debug_builds_ask_what_is_there():
    made = asserted.compile("x:*i32", {"N": 100}, backend="simt", debug=True)
    assert made.asm["simt"].count(" assert ") == 2
    x = np.ones(100, np.int32)
    made[(1,)](x)
    x[99] = 0
    with pytest.raises(RunError, match="positive"):
        made[(1,)](x)
