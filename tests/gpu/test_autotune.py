"""Autotuning on a GPU: every configuration is right, the choice is kept, contents are restored."""

from __future__ import annotations

import pytest

import refcompiler as triton
import refcompiler.language as tl

torch = pytest.importorskip("torch")

CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in (128, 1024) for w in (1, 4)]


def accumulate(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(out + i, mask=i < n) + tl.load(x + i, mask=i < n), mask=i < n)


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def tuned(**settings):
    return triton.autotune(configs=CONFIGS, key=["n"], warmup=1, rep=5, **settings)(triton.jit(accumulate))


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))


def test_contents_are_as_after_one_launch():
    x, out = torch.randn(10_000, device="cuda"), torch.randn(10_000, device="cuda")
    want = out + x
    kernel = tuned(restore_value=["out"])
    kernel[grid](x, out, x.numel())
    assert torch.equal(out, want) and set(kernel.configs_timings) == set(CONFIGS) and not kernel.skipped
    kernel[grid](x, out, x.numel())
    assert torch.equal(out, want + x)


def test_a_choice_is_kept_on_disk():
    x, out = torch.ones(5000, device="cuda"), torch.zeros(5000, device="cuda")
    first, again = tuned(restore_value=["out"]), tuned(restore_value=["out"])
    first[grid](x, out, 5000)
    again[grid](x, out, 5000)
    assert again.best_config == first.best_config and again.bench_time == 0.0
    assert torch.equal(out, 2 * x)


def test_what_does_not_compile_is_left_out():
    x, out = torch.ones(5000, device="cuda"), torch.zeros(5000, device="cuda")
    configs = [triton.Config({"BLOCK": 96}), triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})]
    kernel = triton.autotune(configs=configs, key=[], warmup=1, rep=5, reset_to_zero=["out"])(triton.jit(accumulate))
    kernel[grid](x, out, 5000)
    assert list(kernel.skipped) == configs[:1] and torch.equal(out, x)


def test_do_bench_measures_what_the_gpu_does():
    x = torch.empty(1 << 28, device="cuda")
    median, low, high = triton.testing.do_bench(lambda: x.fill_(1.0), warmup=5, rep=20, quantiles=[0.5, 0.2, 0.8])
    assert 0.1 < low <= median <= high < 50  # 1 GiB: between 10 TB/s and 20 GB/s
