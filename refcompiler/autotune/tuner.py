"""`@autotune`: a kernel with several configurations, of which each kind of launch gets its fastest.

The kind is told by the values of the key parameters and the dtypes of the arrays. A launch of a kind met before costs
what one of the plain kernel does: it is prepared with the chosen configuration in it.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refcompiler import config as settings
from refcompiler import testing
from refcompiler.autotune import contents, remembered
from refcompiler.autotune.config import Config, configurations
from refcompiler.autotune.decorated import Decorated
from refcompiler.autotune.pruning import Pruning
from refcompiler.errors import CompileError, InternalError, LaunchError
from refcompiler.jit.backends import CODE, asked, compiled_for
from refcompiler.jit.function import JitFunction
from refcompiler.jit.prepared import PreparedLaunches
from refcompiler.runtime import gpu, is_device_array, streams

QUANTILES = (0.5, 0.2, 0.8)  # compared in this order: the median decides
_TOO_LARGE = ("launch.shared", "launch.threads")


class AutotunerError(LaunchError):
    """No configuration is left to run a kernel with."""


class Choice:
    """A configuration, and the keywords that a launch with it gets."""

    __slots__ = ("config", "keywords")

    def __init__(self, config: Config):
        self.config, self.keywords = config, config.all_kwargs()


class _Form:
    """What is known of calls whose arguments have the same names and types: where the facts are that decide."""

    __slots__ = ("facts", "label")

    def __init__(self, names: Sequence[str], values: Sequence[Any], key: Sequence[str], parameters: Sequence[str]):
        deciding = [n for n in (*key, "backend") if n in names]
        typed = [n for n in parameters if n in names and hasattr(values[names.index(n)], "dtype")]
        self.label = (*deciding, *typed)
        places = [names.index(n) for n in self.label]
        self.facts: list[Callable[[Sequence[Any]], Any]] = [operator.itemgetter(at) for at in places[: len(deciding)]]
        self.facts += [_dtype_of(at, values[at]) for at in places[len(deciding) :]]

    def kind(self, values: Sequence[Any]) -> tuple:
        """What tells launches apart that may want different configurations, however they are written."""
        return (self.label, settings.backend_setting(), *[fact(values) for fact in self.facts])


def _dtype_of(at: int, value: Any) -> Callable[[Sequence[Any]], Any]:
    """A function that gives the dtype of the argument ``at``, for torch with whether it is on a GPU."""
    fact = operator.attrgetter("dtype", "is_cuda") if hasattr(value, "is_cuda") else operator.attrgetter("dtype")
    return lambda values: fact(values[at])


class Autotuner(Decorated):
    """A kernel whose configuration is chosen at its first launch of each kind.

    ``configs_timings`` and ``bench_time`` (seconds) tell of the last tuning, ``skipped`` says why configurations were
    left out of it.
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Sequence[str],
        *,
        pruning: Pruning,
        reset_to_zero: Sequence[str],
        restore_value: Sequence[str],
        pre_hook: Callable[..., Any] | None,
        post_hook: Callable[..., Any] | None,
        warmup: float,
        rep: float,
        do_bench: Callable[..., Any] | None,
        cache_results: bool,
    ):
        super().__init__(fn)
        self.configs = configurations("configs", configs) or [Config({})]
        self.keys, self.pruning, self.cache_results = self.names("key", key), pruning, cache_results
        self.reset_to_zero = self.names("reset_to_zero", reset_to_zero)
        self.restore_value = self.names("restore_value", restore_value)
        self.pre_hook, self.post_hook = pre_hook or self._prepare, post_hook or self._tidy
        self.warmup_ms, self.rep_ms, self.do_bench = warmup, rep, do_bench
        self._copies: dict[str, Any] = {}
        self._forms: dict[tuple, _Form] = {}
        self._choices: dict[tuple, Choice] = {}
        self._only = Choice(self.configs[0]) if len(self.configs) == 1 else None
        self._lock = threading.RLock()
        self._launches = PreparedLaunches(self._long_way, frozenset(self.keys))
        self._prepared: dict[Callable[..., Any], Config] = {}
        self._last: Config | None = None
        self.configs_timings: dict[Config, list[float]] = {}
        self.skipped: dict[Config, str] = {}
        self.bench_time = 0.0

    def __repr__(self) -> str:
        return f"<autotuner of {self.fn!r}, {len(self.configs)} configurations>"

    @property
    def cache(self) -> dict[tuple, Config]:
        """The choices of this process by what told the launches apart."""
        return {kind: choice.config for kind, choice in self._choices.items()}

    @property
    def best_config(self) -> Config | None:
        """The configuration of the last launch."""
        return self._prepared.get(self._launches.current, self._last)

    def clear_cache(self) -> None:
        """Forget the choices of this process; those on disk stay."""
        with self._lock:
            self._choices.clear()
            self._prepared.clear()
            self._launches.clear()

    # --- launching
    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return functools.partial(self._launches.current, grid)

    def _long_way(self, grid: Any, args: tuple, keywords: dict[str, Any]) -> Any:
        """Choose, launch, and prepare launches of this kind, unless something is to run before each."""
        self._launches.current = self._launches.run
        values = (*args, *keywords.values()) if keywords else args
        form = self._forms.get((*keywords, *map(type, values)))
        if form is None:
            form = self._new_form(args, keywords, values)
        choice = self._only
        if choice is None:
            try:
                kind = form.kind(values)
                choice = self._choices.get(kind)
            except TypeError as error:
                raise LaunchError("autotune.key", f"{self.__name__}: a key has no hash: {error}") from None
            if choice is None:
                choice = self._choose(grid, args, keywords, kind)
        self._last = choice.config
        if choice.config.pre_hook is not None:
            choice.config.pre_hook(self._everything(args, keywords, choice.config))
        kernel = self.fn[grid](*args, **keywords, **choice.keywords)
        if choice.config.pre_hook is None and isinstance(self.fn, JitFunction) and _on_gpu(args, keywords):
            self.fn.prepare(self._launches, args, keywords, choice.keywords)
            if self._launches.current != self._launches.run:
                self._prepared[self._launches.current] = choice.config
        return kernel

    def _new_form(self, args: tuple, keywords: dict[str, Any], values: tuple) -> _Form:
        names = [*self.arg_names[: len(args)], *keywords]
        twice = sorted({name for config in self.configs for name in config.all_kwargs()} & set(names))
        if twice:
            raise LaunchError(
                "autotune.conflict",
                f"{self.__name__}: {', '.join(twice)} stands in the launch and in the configurations",
                notes=["leave it out of one of them: what is tuned is not given"],
            )
        whole = len(names) == len(values)  # else too many are given, which the launch refuses
        form = _Form(names, values, self.keys, self.arg_names) if whole else _Form((), (), (), ())
        self._forms[(*keywords, *map(type, values))] = form
        return form

    def _everything(self, args: tuple, keywords: Mapping[str, Any], config: Config) -> dict[str, Any]:
        return {**self.positional(args), **keywords, **config.all_kwargs()}

    # --- choosing
    def _choose(self, grid: Any, args: tuple, keywords: dict[str, Any], kind: tuple) -> Choice:
        """The choice for launches of this kind, from the disk or by trying."""
        with self._lock:
            if kind in self._choices:
                return self._choices[kind]
            configs = self._pruned(args, keywords)
            if len(configs) == 1:
                found = configs[0]
            elif self.do_bench is None and not _on_gpu(args, keywords):
                found = self._first_legal(configs, args, keywords)
            else:
                found = self._fastest(configs, grid, args, keywords, kind)
            choice = self._choices[kind] = Choice(found)
            return choice

    def _pruned(self, args: tuple, keywords: dict[str, Any]) -> list[Config]:
        kept = self.pruning.apply(self.configs, self.positional(args), keywords)
        if not kept:
            raise AutotunerError(
                "autotune.pruned",
                f"{self.__name__}: no configuration is left after pruning",
                notes=["early_config_prune must leave at least one"],
            )
        return kept

    def _first_legal(self, configs: Sequence[Config], args: tuple, keywords: dict[str, Any]) -> Config:
        """For arrays in host memory: the first configuration that compiles as far as it will run."""
        self.skipped = {}
        for config in configs:
            try:
                kernel = self.fn.specialized(*args, **keywords, **config.all_kwargs())
                if kernel.backend == "simt":
                    kernel.level("simt")
                return config
            except CompileError as error:
                self.skipped[config] = _reason(error)
                last = error
        raise self._nothing_left() from last

    def _fastest(self, configs: list[Config], grid: Any, args: tuple, keywords: dict[str, Any], kind: tuple) -> Config:
        key = self._disk_key(configs, args, keywords, kind)
        known = remembered.load(key, configs) if key is not None else None
        if known is not None:
            self.configs_timings, self.skipped = known[1], {}
            return known[0]
        began = time.perf_counter()
        times: dict[Config, list[float]] = {}
        self.skipped = {}
        for config in configs:
            try:
                times[config] = self._time(config, grid, args, keywords)
            except (CompileError, LaunchError, InternalError) as error:
                if not _only_this_configuration(error):
                    raise
                self.skipped[config] = _reason(error)
                if isinstance(error, InternalError):
                    warnings.warn(f"{self.__name__}, {config}: {error}", RuntimeWarning, stacklevel=5)
        if not times:
            raise self._nothing_left()
        best = min(times, key=lambda config: times[config])
        self.pre_hook(self._everything(args, keywords, best), reset_only=True)
        self.configs_timings, self.bench_time = times, time.perf_counter() - began
        if key is not None:
            remembered.save(key, configs, best, times)
        if settings.PRINT_AUTOTUNING():
            sys.stderr.write(self._account(kind, best))
        return best

    def _disk_key(self, configs: list[Config], args: tuple, keywords: dict[str, Any], kind: tuple) -> str | None:
        """Where the choice lies on disk; None where it is not kept: times of other machines, or hooks, which no text
        identifies."""
        if not self.cache_results or self.do_bench is not None or any(c.pre_hook for c in configs):
            return None
        for config in configs:
            try:
                kernel = self.fn.specialized(*args, **keywords, **config.all_kwargs())
            except CompileError:
                continue
            return remembered.choice_key(kernel, kind, configs)
        return None

    def _time(self, config: Config, grid: Any, args: tuple, keywords: dict[str, Any]) -> list[float]:
        """Quantiles of the times of one configuration, in ms."""
        everything = self._everything(args, keywords, config)
        launch = self.fn[grid]
        chosen = config.all_kwargs()

        def before() -> None:
            if config.pre_hook is not None:
                config.pre_hook(everything)
            self.pre_hook(everything)

        def kernel() -> None:
            launch(*args, **keywords, **chosen)

        def trial() -> None:
            before()
            try:
                kernel()
            except Exception as error:
                self.post_hook(everything, exception=error)
                raise
            self.post_hook(everything, exception=None)

        if self.do_bench is not None:
            found = self.do_bench(trial, quantiles=QUANTILES)
            return list(found) if isinstance(found, Sequence) else [float(found)]
        trial()  # compiles, and leaves the contents as they were even if it fails
        stream = keywords.get("stream") if "stream" not in self.arg_names else None
        handle = None if stream is None else streams.handle_of(stream)
        times = testing.milliseconds(
            kernel,
            self.warmup_ms,
            self.rep_ms,
            stream=handle,
            before=before,
            after=lambda: self.post_hook(everything, exception=None),
        )
        return [testing.quantile(times, q) for q in QUANTILES]

    def _prepare(self, arguments: dict[str, Any], reset_only: bool = False) -> None:
        """Zero and keep what was asked for; after tuning only zero."""
        contents.zero(self.reset_to_zero, arguments)
        if not reset_only:
            self._copies = contents.kept(self.restore_value, arguments)

    def _tidy(self, arguments: dict[str, Any], exception: Exception | None) -> None:
        """Put back what was kept."""
        contents.put_back(self._copies, arguments)
        self._copies = {}

    def _nothing_left(self) -> AutotunerError:
        notes = [f"{config}: {reason}" for config, reason in self.skipped.items()]
        return AutotunerError(
            "autotune.none", f"none of the configurations of {self.__name__} can be used", notes=notes
        )

    def _account(self, kind: tuple, best: Config) -> str:
        """What a tuning tried and found."""
        lines = [f"autotuning of {self.__name__} for {kind[2:]}: {self.bench_time:.2f} s"]
        for config, times in sorted(self.configs_timings.items(), key=lambda item: item[1]):
            lines.append(f"  {times[0]:9.4f} ms  {config}{'  <- chosen' if config == best else ''}")
        lines += [f"      left out  {config}: {reason}" for config, reason in self.skipped.items()]
        return "\n".join(lines) + "\n"

    # --- compiling without launching
    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> list[Any]:
        """Compile every configuration that is left after pruning; gives the compiled kernels."""
        configs = self._pruned(args, kwargs)
        return [self.fn.warmup(*args, grid=grid, **kwargs, **config.all_kwargs()) for config in configs]

    def specialized(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel for the arguments with the first configuration, as tile IR."""
        return self.fn.specialized(*args, **kwargs, **self.configs[0].all_kwargs())

    def compile(self, signature: Any, constexprs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Compile for types with the first configuration; what is given here counts more than the configuration."""
        first = self.configs[0]
        chosen = {n: v for n, v in first.all_kwargs().items() if n not in first.kwargs}
        return self.fn.compile(signature, {**first.kwargs, **(constexprs or {})}, **{**chosen, **options})


def _on_gpu(args: tuple, keywords: Mapping[str, Any]) -> bool:
    """Whether a launch of these arguments runs machine code."""
    backend = keywords.get("backend")
    chosen = compiled_for(asked(backend if isinstance(backend, str) else None))
    return chosen in CODE and any(is_device_array(v) for v in (*args, *keywords.values())) and gpu.gpu_available()


def _only_this_configuration(error: Exception) -> bool:
    """Whether another configuration may still run: it does not compile, or asks for more than a multiprocessor has."""
    if isinstance(error, CompileError | InternalError):
        return True
    return isinstance(error, LaunchError) and (error.id in _TOO_LARGE or "OUT_OF_RESOURCES" in error.message)


def _reason(error: Exception) -> str:
    message = getattr(error, "message", str(error)).split("\n")[0]
    return f"{message} [{getattr(error, 'id', type(error).__name__)}]"
