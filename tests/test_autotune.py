"""Autotuning: which configuration runs, when it is measured, what is kept, and what launches cost afterwards."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading

import numpy as np
import pytest
from stand_ins import StandInDriver, Status, Tensor

import refcompiler as triton
import refcompiler.language as tl
from refcompiler.autotune import AutotunerError, remembered
from refcompiler.errors import CompileError, InternalError, LaunchError
from refcompiler.jit import CompiledKernel
from refcompiler.runtime import gpu, launcher


def body(x, out, n, BLOCK: tl.constexpr, LIMIT: tl.constexpr = 1 << 20):
    tl.static_assert(BLOCK <= LIMIT)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(out + i, mask=i < n), mask=i < n)


CONFIGS = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=1)]


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def tuned(configs=CONFIGS, **settings):
    return triton.autotune(configs=configs, key=["n"], **settings)(triton.jit(body))


def host(n=200, dtype="f4"):
    return np.ones(n, dtype), np.full(n, 2, dtype)


# --- on host arrays
def test_the_first_legal_configuration_runs_on_host_arrays():
    kernel = tuned([triton.Config({"BLOCK": 64, "LIMIT": 32}), *CONFIGS])
    x, out = host()
    made = kernel[grid](x, out, 200)
    assert (out == 3).all() and kernel.best_config is CONFIGS[0]
    assert made.func.constexprs["BLOCK"] == 64 and made.options.num_warps == 2
    assert [str(c) for c in kernel.skipped] == ["BLOCK: 64, LIMIT: 32, num_warps: 4, num_stages: 3, num_ctas: 1"]
    assert "static assertion failed" in next(iter(kernel.skipped.values()))


def test_all_failing_is_one_error_that_says_why_of_each():
    kernel = tuned([triton.Config({"BLOCK": b, "LIMIT": 99}) for b in (128, 96)])
    x, out = host()
    with pytest.raises(AutotunerError, match="none of the configurations of body can be used") as caught:
        kernel[grid](x, out, 200)
    assert len(caught.value.notes) == 2 and "power of 2" in caught.value.notes[1]
    assert (out == 2).all()


def test_one_configuration_is_not_measured_and_shows_its_own_error():
    kernel = tuned([triton.Config({"BLOCK": 96})], do_bench=lambda *a, **k: pytest.fail("measured"))
    with pytest.raises(CompileError, match="power of 2"):
        kernel[grid](*host(), 200)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: triton.autotune(configs=CONFIGS, key=["N"])(triton.jit(body)), "key: body has no parameter 'N'"),
        (lambda: tuned(reset_to_zero=["y"]), "reset_to_zero: body has no parameter 'y'"),
        (lambda: tuned(prune_configs_by={"top": 1}), "prune_configs_by has no 'top'"),
        (lambda: tuned(prune_configs_by={"top_k": 1.5}), "found 1.5"),
        (lambda: triton.heuristics({"Q": len})(triton.jit(body)), "heuristics: body has no parameter 'Q'"),
        (lambda: triton.heuristics({"BLOCK": 64})(triton.jit(body)), "a function for each parameter by name, found"),
        (lambda: triton.heuristics(["BLOCK"])(triton.jit(body)), "a function for each parameter by name, found list"),
        (lambda: triton.autotune(CONFIGS, key="n")(triton.jit(body)), "key: a list of names of parameters, found 'n'"),
        (
            lambda: triton.autotune(CONFIGS, key=None)(triton.jit(body)),
            "key: a list of names of par.* found None",
        ),
        (lambda: tuned(restore_value="out"), "restore_value: a list of names of parameters, found 'out'"),
        (lambda: tuned([{"BLOCK": 64}]), "configs: a list of triton.Config, found"),
        (lambda: tuned(triton.Config({"BLOCK": 64})), "configs: a list of triton.Config, found"),
        (lambda: triton.Config(None), "values of compile-time parameters by name, found None"),
        (lambda: triton.Config({3: 4}), "values of compile-time parameters by name, found"),
        (lambda: triton.autotune(CONFIGS)(body), "a kernel is decorated, found function"),
        (lambda: tuned(prune_configs_by={"early_config_prune": lambda *a, **k: 5})[grid](*host(), 200), "found 5"),
        (lambda: tuned()[grid](*host(), 200, BLOCK=64), "BLOCK stands in the launch and in the configurations"),
        (lambda: tuned()[grid](*host(), 200, num_warps=4), "num_warps stands in the launch"),
        (lambda: tuned(prune_configs_by={"early_config_prune": lambda *a, **k: []})[grid](*host(), 200), "is left"),
    ],
)
def test_mistakes_say_what_is_wrong(make, message):
    with pytest.raises(LaunchError, match=message):
        make()


# --- measuring, with times that are given
def bench_by(times, calls=None):
    """A do_bench that runs the trial once and answers the next of ``times``."""
    answers = iter(times)

    def do_bench(trial, quantiles):
        assert quantiles == (0.5, 0.2, 0.8)
        trial()
        if calls is not None:
            calls.append(1)
        return [next(answers)] * 3

    return do_bench


def test_the_least_median_wins_and_is_kept_by_key_and_dtypes():
    calls = []
    kernel = tuned(do_bench=bench_by([2.0, 1.0, 1.0, 2.0, 3.0, 1.0], calls))
    kernel[grid](*host(), 200)
    assert kernel.best_config is CONFIGS[1] and kernel.configs_timings[CONFIGS[0]] == [2.0] * 3
    kernel[grid](*host(), 200)
    assert len(calls) == 2
    kernel[grid](*host(), 100)
    assert kernel.best_config is CONFIGS[0] and len(calls) == 4
    kernel[grid](*host(dtype="f8"), 200)
    assert kernel.best_config is CONFIGS[1] and len(calls) == 6
    kernel[grid](*host(), n=200)  # another way to write the first launch
    kernel[grid](n=100, out=host()[1], x=host()[0])
    assert len(calls) == 6 and len(kernel.cache) == 3
    kernel.clear_cache()
    assert not kernel.cache


def test_contents_are_zeroed_kept_and_put_back():
    x, out = host()
    kernel = tuned(restore_value=["out"], do_bench=bench_by([1, 2]))
    kernel[grid](x, out, 200)
    assert (out == 3).all()  # as after one launch
    out[:] = 7
    kernel = tuned(reset_to_zero=["out"], do_bench=bench_by([1, 2]))
    kernel[grid](x, out, 200)
    assert (out == 1).all()


def test_hooks_see_the_arguments_and_the_exception():
    seen = []
    configs = [
        triton.Config({"BLOCK": 64}, pre_hook=lambda args: seen.append(("config", args["BLOCK"], args["n"]))),
        triton.Config({"BLOCK": 96}),
    ]
    kernel = tuned(
        configs,
        do_bench=bench_by([1, 2]),
        pre_hook=lambda args, reset_only=False: seen.append(("before", args["BLOCK"], reset_only)),
        post_hook=lambda args, exception: seen.append(("after", args["BLOCK"], type(exception).__name__)),
    )
    kernel[grid](*host(), 200)
    assert seen == [
        ("config", 64, 200), ("before", 64, False), ("after", 64, "NoneType"),
        ("before", 96, False), ("after", 96, "CompileError"),
        ("before", 64, True), ("config", 64, 200),
    ]  # fmt: skip


def test_errors_that_no_configuration_can_help_are_shown():
    kernel = tuned(do_bench=bench_by([1, 2]))
    with pytest.raises(LaunchError, match="missing"):
        kernel[(1,)](np.ones(4, "f4"), n=4)


def test_pruning_by_arguments_and_by_a_model():
    def early(configs, named, **kwargs):
        assert named["n"] == 200 and not kwargs
        return [c for c in configs if c.kwargs["BLOCK"] > 16]

    many = [triton.Config({"BLOCK": 16 << k}) for k in range(5)]
    prune = {"early_config_prune": early, "perf_model": lambda BLOCK, n, **rest: abs(BLOCK - 128), "top_k": 2}
    kernel = tuned(many, prune_configs_by=prune, do_bench=bench_by([2.0, 1.0]))
    kernel[grid](*host(), 200)
    assert [c.kwargs["BLOCK"] for c in kernel.configs_timings] == [128, 64]
    assert kernel.best_config.kwargs["BLOCK"] == 64
    assert len(kernel.warmup(*host(), 200)) == 2


def test_heuristics_see_what_was_computed_before_and_the_configuration():
    seen = []

    def limit(args):
        seen.append((args["n"], args["BLOCK"], args["num_warps"]))
        return args["BLOCK"] * 2

    kernel = triton.autotune(configs=CONFIGS[:1], key=[])(triton.heuristics({"LIMIT": limit})(triton.jit(body)))
    x, out = host()
    made = kernel[grid](x, out, 200)
    assert seen == [(200, 64, 2)] and made.func.constexprs["LIMIT"] == 128 and (out == 3).all()
    assert kernel.base_fn.fn is body
    order = triton.heuristics({"BLOCK": lambda a: 32, "LIMIT": lambda a: a["BLOCK"]})(triton.jit(body))
    assert order[grid](*host(), 64).func.constexprs == {"BLOCK": 32, "LIMIT": 32}


def test_compiling_for_types_takes_the_first_configuration():
    kernel = tuned()
    made = kernel.compile(signature="x:*f32,out:*f32,n:i32")
    assert made.func.constexprs["BLOCK"] == 64 and made.options.num_warps == 2
    other = kernel.compile(signature="x:*f32,out:*f32,n:i32", constexprs={"BLOCK": 256}, num_warps=8)
    assert other.func.constexprs["BLOCK"] == 256 and other.options.num_warps == 8


def test_without_a_list_the_options_vary():
    kernel = triton.autotune(key=["n"])(triton.jit(body))
    x, out = host()
    made = kernel[grid](x, out, 200, BLOCK=64)
    assert (out == 3).all() and made.options.num_warps == 4 and made.options.num_stages == 3
    assert len(set(kernel.configs)) == len(kernel.configs) == 8 and not any(c.kwargs for c in kernel.configs)
    assert len(triton.autotune(configs=[], key=[])(triton.jit(body)).configs) == 1


def test_configurations_compare_by_what_they_say():
    a, b = triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 64}, num_warps=2)
    assert a == b and hash(a) == hash(b) and a != triton.Config({"BLOCK": 64}) and len({a, b}) == 1


# --- on a GPU whose clock is ours
class CudaTensor(Tensor):
    is_cuda = True


class Clock(StandInDriver):
    """A launch takes as many ms as ``cost`` says of its number of threads; events read the clock."""

    def __init__(self, cost):
        super().__init__()
        self.cost, self.now, self.at, self.events = cost, 0.0, {}, itertools.count(1)

    def cuLaunchKernel(self, handle, x, y, z, threads, *rest):
        self.calls.append(("cuLaunchKernel", threads))
        status = self.answers.pop(0) if self.answers else Status.CUDA_SUCCESS
        self.now += self.cost(threads)
        return (status,)

    def cuEventCreate(self, flags):
        return Status.CUDA_SUCCESS, next(self.events)

    def cuEventRecord(self, event, stream):
        self.at[event] = self.now
        return (Status.CUDA_SUCCESS,)

    def cuEventElapsedTime(self, before, after):
        return Status.CUDA_SUCCESS, self.at[after] - self.at[before]

    def cuEventDestroy(self, event):
        del self.at[event]
        return (Status.CUDA_SUCCESS,)


@pytest.fixture
def clock(monkeypatch, tmp_path):
    pytest.importorskip("cuda.bindings.nvrtc", reason="the compiler wheels are not installed")
    monkeypatch.setenv("TILESPEC_CACHE_DIR", str(tmp_path))
    made = Clock(lambda threads: 3.0 if threads == 64 else 1.0)
    monkeypatch.setattr(gpu, "driver", lambda: made)
    monkeypatch.setattr(gpu, "device_count", lambda: 1)
    monkeypatch.setattr(launcher, "_functions", {})
    for library in ("cupy", "torch"):
        monkeypatch.delitem(sys.modules, library, raising=False)
    return made


def device(n=200):
    return [CudaTensor(np.zeros(n, "f4")) for _ in range(2)]


def test_the_fastest_runs_and_every_event_is_given_back(clock):
    kernel = tuned(warmup=2, rep=20)
    kernel[grid](*device(), 200)
    assert kernel.best_config is CONFIGS[1]
    assert kernel.configs_timings == {CONFIGS[0]: [3.0] * 3, CONFIGS[1]: [1.0] * 3}
    assert not clock.at and len(clock.named("cuMemAlloc")) == len(clock.named("cuMemFree")) == 2
    launches = len(clock.named("cuLaunchKernel"))
    kernel[grid](*device(), 200)
    assert clock.named("cuLaunchKernel")[launches:] == [(32,)]


def test_a_choice_is_kept_for_the_next_process(clock, monkeypatch):
    tuned(warmup=2, rep=20)[grid](*device(), 200)
    monkeypatch.setattr(clock, "cost", lambda threads: 1.0 if threads == 64 else 3.0)
    again = tuned(warmup=2, rep=20)
    before = len(clock.named("cuLaunchKernel"))
    again[grid](*device(), 200)
    assert again.best_config is CONFIGS[1] and len(clock.named("cuLaunchKernel")) == before + 1
    assert again.configs_timings[CONFIGS[0]] == [3.0] * 3
    for other in (
        lambda: tuned(warmup=2, rep=20, cache_results=False)[grid](*device(), 200),
        lambda: tuned(warmup=2, rep=20)[grid](*device(), 201),
        lambda: tuned(CONFIGS[::-1], warmup=2, rep=20)[grid](*device(), 200),
        lambda: monkeypatch.setattr(gpu, "identity", lambda: "another") or tuned(rep=20)[grid](*device(), 200),
    ):
        before = len(clock.named("cuLaunchKernel"))
        other()
        assert len(clock.named("cuLaunchKernel")) > before + 10


def test_a_damaged_choice_is_made_again():
    assert remembered.load("00" * 32, CONFIGS) is None
    for text in (b"{", b"[]", b'{"best": 7, "times": {}}', b'{"best": 0, "times": {"x": [1]}}'):
        remembered.shared_cache().put("00" * 32, text)
        assert remembered.load("00" * 32, CONFIGS) is None
    remembered.save("00" * 32, CONFIGS, CONFIGS[1], {CONFIGS[1]: [1.0, 1.0, 1.0]})
    assert remembered.load("00" * 32, CONFIGS) == (CONFIGS[1], {CONFIGS[1]: [1.0, 1.0, 1.0]})
    remembered.shared_cache().remove("00" * 32)


def test_a_configuration_that_asks_for_too_much_is_left_out(clock):
    kernel = tuned([triton.Config({"BLOCK": 96}), *CONFIGS], warmup=2, rep=20)
    clock.answers = [Status.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES]
    kernel[grid](*device(), 200)
    assert kernel.best_config is CONFIGS[1]
    assert "power of 2" in kernel.skipped[kernel.configs[0]]
    assert "OUT_OF_RESOURCES" in kernel.skipped[CONFIGS[0]]


def test_a_fault_of_the_compiler_is_seen_and_stops_nobody(clock, monkeypatch):
    whole = CompiledKernel.build.func

    def build(self):
        if self.options.num_warps == 2:
            raise InternalError("toolchain.nvrtc", "NVRTC rejects the generated code")
        return whole(self)

    monkeypatch.setattr(CompiledKernel, "build", property(build))
    kernel = tuned(warmup=2, rep=20)
    with pytest.warns(RuntimeWarning, match="rejects the generated code"):
        kernel[grid](*device(), 200)
    assert kernel.best_config is CONFIGS[1] and "toolchain.nvrtc" in kernel.skipped[CONFIGS[0]]


def test_heuristics_are_computed_at_every_launch_on_a_gpu(clock):
    seen = []

    def limit(args):
        seen.append(args["n"])
        return args["BLOCK"]

    kernel = triton.autotune(configs=CONFIGS[1:], key=["n"])(triton.heuristics({"LIMIT": limit})(triton.jit(body)))
    x, out = device()
    for n in (200, 200, 100):
        assert kernel[grid](x, out, n).func.constexprs["LIMIT"] == 128
    assert seen == [200, 200, 100]


def test_a_broken_gpu_is_no_reason_to_try_the_next(clock):
    clock.answers = [Status.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS"):
        tuned()[grid](*device(), 200)


def test_the_account_of_a_tuning(clock, monkeypatch, capsys):
    monkeypatch.setenv("TILESPEC_PRINT_AUTOTUNING", "1")
    tuned([*CONFIGS, triton.Config({"BLOCK": 96})], warmup=2, rep=20)[grid](*device(), 200)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("autotuning of body for (200,")
    assert lines[1].split() == ["1.0000", "ms", *str(CONFIGS[1]).split(), "<-", "chosen"]
    assert lines[3].strip().startswith("left out  BLOCK: 96")


def test_threads_tune_once(clock):
    kernel = tuned(warmup=2, rep=20)
    kernels = []
    threads = [threading.Thread(target=lambda: kernels.append(kernel[grid](*device(), 200))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({id(k) for k in kernels}) == 1 and len(clock.named("cuMemAlloc")) == 2


def test_a_launch_after_tuning_asks_no_more_than_a_plain_one(clock):
    """Counted, not timed: the calls of Python functions of ours that a warm launch makes."""

    def calls(launch) -> int:
        launch(), launch()
        seen = 0

        def profile(frame, event, arg):
            nonlocal seen
            seen += event == "call"

        sys.setprofile(profile)
        try:
            launch()
        finally:
            sys.setprofile(None)
        return seen

    x, out = device()
    plain, kernel = triton.jit(body), tuned(warmup=2, rep=20)
    extra = calls(lambda: kernel[grid](x, out, 200)) - calls(lambda: plain[grid](x, out, 200, BLOCK=64, num_warps=2))
    assert extra <= 0


def test_prepared_launches_keep_kinds_apart(clock, monkeypatch):
    kernel = tuned(warmup=2, rep=20)
    x, out = device()
    kernel[grid](x, out, 200)
    monkeypatch.setattr(clock, "cost", lambda threads: 1.0 if threads == 64 else 3.0)
    kernel[grid](x, out, 100)
    before = len(clock.named("cuLaunchKernel"))
    seen = []
    for n in (200, 100, 100, 200):
        kernel[grid](x, out, n)
        seen.append(kernel.best_config)
    assert seen == [CONFIGS[1], CONFIGS[0], CONFIGS[0], CONFIGS[1]]
    assert clock.named("cuLaunchKernel")[before:] == [(32,), (64,), (64,), (32,)]
    y, other = host()
    kernel[grid](y, other, 200)
    assert (other == 3).all() and kernel.best_config is CONFIGS[0]
    kernel[grid](x, out, 200, warmup=True)
    kernel[grid](x, out, 200, warmup=True)
    assert len(clock.named("cuLaunchKernel")) == before + 4


def test_do_bench_gives_what_is_asked(clock):
    x, out = device()
    kernel = triton.jit(body)

    def launch():
        kernel[grid](x, out, 200, BLOCK=64, num_warps=2)

    assert triton.testing.do_bench(launch, warmup=3, rep=30) == 3.0
    assert triton.testing.do_bench(launch, warmup=3, rep=30, return_mode="all") == [3.0] * 10
    assert triton.testing.do_bench(launch, quantiles=[0.5, 0.9]) == [3.0, 3.0]
    with pytest.raises(LaunchError, match="found 'middle'"):
        triton.testing.do_bench(launch, return_mode="middle")
    assert triton.testing.quantile([4, 1, 3, 2], 0.5) == 2.5 and triton.testing.quantile([5], 0.9) == 5


def test_without_a_gpu_nothing_can_be_timed():
    script = "import refcompiler.testing as t\nt.do_bench(lambda: None)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": ":".join(sys.path)},
    )
    assert "no GPU can be used" in done.stderr


def test_a_report_calls_its_function_and_keeps_a_table(tmp_path, capsys):
    made = triton.testing.Benchmark(
        x_names=["n", "m"], x_vals=[1, (2, 3)], line_arg="which", line_vals=["a", "b"], line_names=["A", "B"],
        plot_name="sums", args={"more": 10},
    )  # fmt: skip

    @triton.testing.perf_report(made)
    def measured(n, m, which, more):
        total = n + m + more
        return total if which == "a" else (-total, 0, 0)

    (rows,) = measured.run(print_data=True, save_path=tmp_path)
    assert rows == [{"n": 1, "m": 1, "A": 12, "B": -12}, {"n": 2, "m": 3, "A": 15, "B": -15}]
    assert (tmp_path / "sums.csv").read_text() == "n,m,A,B\n1,1,12,-12\n2,3,15,-15\n"
    assert capsys.readouterr().out.startswith("sums:\nn,m,A,B\n")
    with pytest.raises(LaunchError, match="draws no plots"):
        measured.run(show_plots=True)
