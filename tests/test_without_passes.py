"""Each pass that makes code faster can be left out: code is as right as before, and its budgets notice."""

import numpy as np
import pytest
from click.testing import CliRunner

import refcompiler as triton
from conformance.cli import main
from refcompiler import pipeline
from refcompiler.errors import LaunchError
from tests.test_specialize_warps import heads, numbers, product, scores, tiles

BUDGETS = {  # pass -> the budgets that its absence exceeds
    "specialize_warps": "kernels.matmul/warpgroups",
    "form_boxes": "opt.boxes/*",
    "unwrap_indices": "opt.boxes/*",
}


@pytest.mark.parametrize("name", sorted(pipeline.ONLY_FOR_SPEED))
def test_results_stay(name, monkeypatch):
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", name)
    a, b, c = numbers(100, 72), numbers(72, 136), np.zeros((100, 136), np.float32)
    options = {"BM": 64, "BN": 64, "BK": 32, "TURNED": False, "num_warps": 4, "backend": "simt"}
    for kernel in (tiles, scores, heads):
        kernel.clear_cache()
    tiles[(2,)](a, b, c, 100, 136, 72, **options)
    np.testing.assert_array_equal(c, product(a, b))
    tiles.clear_cache()


@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_budgets_notice(name, monkeypatch):
    pytest.importorskip("cuda.bindings")
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", name)
    result = CliRunner().invoke(main, ["run", BUDGETS[name], "--target", "cuda", "-n", "1"])
    assert result.exit_code == 10, result.output


def test_rotation_is_seen():
    """The first product of the next iteration is in the loop only where it is computed ahead."""
    kernel = scores.compile("q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16", {"B": 64, "D": 64})
    assert kernel.asm["laid_out"].count("warpgroup_dot") == 3


def test_a_pass_that_is_needed(monkeypatch):
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", "insert_barriers")
    scores.clear_cache()
    with pytest.raises(LaunchError, match="names insert_barriers, which is no pass that may be left out"):
        scores.compile("q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16", {"B": 64, "D": 64}).asm["laid_out"]


def test_machine_code_is_kept_apart(monkeypatch):
    kernel = triton.jit(scores.fn)
    types = "q:*bf16:16,k:*bf16:16,v:*bf16:16,out:*f32:16,S:i32:16"
    with_all = kernel.compile(types, {"B": 64, "D": 64}).key
    monkeypatch.setenv("TILESPEC_WITHOUT_PASSES", "licm")
    kernel.clear_cache()
    assert kernel.compile(types, {"B": 64, "D": 64}).key != with_all
