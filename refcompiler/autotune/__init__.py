"""Choosing compile-time parameters: `@autotune` by measuring, `@heuristics` by computing them from the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refcompiler.autotune.config import Config
from refcompiler.autotune.heuristics import Heuristics
from refcompiler.autotune.pruning import Pruning
from refcompiler.autotune.tuner import Autotuner, AutotunerError

__all__ = ["Autotuner", "AutotunerError", "Config", "Heuristics", "autotune", "heuristics"]


# For kernels whose blocks are fixed: what the options alone can gain. The first is what a plain launch has.
DEFAULT_CONFIGS = tuple(Config({}, num_warps=w, num_stages=s) for w, s in
                        ((4, 3), (8, 3), (2, 3), (16, 3), (4, 2), (8, 2), (4, 4), (8, 4)))  # fmt: skip


def autotune(
    configs: Sequence[Config] | None = None,
    key: Sequence[str] = (),
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = True,
) -> Callable[[Any], Autotuner]:
    """Choose one of ``configs`` for each combination of the values of the ``key`` parameters and of the dtypes of all
    arguments: the fastest on the GPU, measured at the first launch of that combination and kept on disk; the first that
    is legal for NumPy arrays. Left out, ``configs`` are DEFAULT_CONFIGS, which vary the options of the compiler.

    ``prune_configs_by``: ``early_config_prune(configs, named_args, **kwargs)`` gives the configurations worth trying;
    ``perf_model(**everything)`` estimates times, of which the best ``top_k`` (a number, or a share of all) are tried.
    ``reset_to_zero`` names arrays that are zeroed before every trial and after the last, ``restore_value`` arrays that
    get their contents back after every trial. ``pre_hook(kwargs, reset_only)`` and ``post_hook(kwargs, exception)``
    replace these two. ``warmup`` and ``rep`` are milliseconds for each configuration (25 and 100). ``do_bench(call,
    quantiles)`` measures instead, on NumPy arrays too. ``cache_results=False`` measures anew in every process.
    ``use_cuda_graph`` is accepted for compatibility and changes nothing.
    """

    def decorate(fn: Any) -> Autotuner:
        return Autotuner(
            fn,
            DEFAULT_CONFIGS if configs is None else configs,
            key,
            pruning=Pruning.of(prune_configs_by),
            reset_to_zero=reset_to_zero or (),
            restore_value=restore_value or (),
            pre_hook=pre_hook,
            post_hook=post_hook,
            warmup=25 if warmup is None else warmup,
            rep=100 if rep is None else rep,
            do_bench=do_bench,
            cache_results=cache_results,
        )

    return decorate


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Compute parameters at every launch: each function gets all arguments by name, those computed before included."""

    def decorate(fn: Any) -> Heuristics:
        return Heuristics(fn, values)

    return decorate
