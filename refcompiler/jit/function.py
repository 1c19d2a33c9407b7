"""`@jit`: a kernel that is compiled for its arguments when launched, and kept."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from refcompiler.cache import shared_cache
from refcompiler.errors import LaunchError
from refcompiler.frontend import KernelSource, compile_source
from refcompiler.frontend.profile import CORE, known_profile
from refcompiler.frontend.signature import parse_signature
from refcompiler.frontend.types import constexpr
from refcompiler.ir.types import PointerType
from refcompiler.jit.backends import CODE, asked, compiled_for
from refcompiler.jit.build import forget
from refcompiler.jit.compiled import CompiledKernel
from refcompiler.jit.descriptors import Apart, has_descriptors
from refcompiler.jit.grids import Grid, resolve_grid
from refcompiler.jit.prepared import PreparedLaunches
from refcompiler.jit.specialize import OPTIONS, Argument, bind, constexpr_key, specialize, unexpected
from refcompiler.target import DEFAULT_TARGET, target

# Accepted for source compatibility; they change no value, and this compiler has no use for them yet.
_IGNORED_OPTIONS = frozenset({"sanitize_overflow", "launch_cooperative_grid", "launch_pdl"})
# Keywords of a launch that are neither arguments of the kernel nor options of the compiler.
_OF_THE_LAUNCH = ("stream", "warmup", "backend")


_every: weakref.WeakSet[JitFunction] = weakref.WeakSet()


def clear_cache(*, disk: bool = True) -> None:
    """Forget every specialisation of every kernel of this process; ``disk``: and all machine code on disk."""
    for function in list(_every):
        function.clear_cache()
    if disk:
        shared_cache().clear()


class JitFunction:
    """A kernel written in the language. ``kernel[grid](*args, **kwargs)`` compiles it for the arguments and runs it:
    on NumPy arrays in the interpreter, on device arrays on their GPU. The Python function itself is never called."""

    def __init__(
        self,
        source: KernelSource,
        do_not_specialize: Sequence[str | int] = (),
        do_not_specialize_on_alignment: Sequence[str | int] = (),
        debug: bool = False,
        profile: str = CORE,
    ):
        self.__kernel_source__ = source
        self.__name__ = source.name
        self.__doc__ = source.function.__doc__ if source.function else None
        self.__module__ = source.function.__module__ if source.function else "__main__"
        self.__qualname__ = source.function.__qualname__ if source.function else source.name
        if source.function is not None:
            self.__wrapped__ = source.function
        self.fn = source.function
        self._plain, self._unaligned = do_not_specialize, do_not_specialize_on_alignment
        self._own: dict[str, Any] = {"debug": True} if debug else {}
        if known_profile(profile) != CORE:
            self._own["profile"] = profile
        self._lock = threading.Lock()
        self._cache: dict[Any, CompiledKernel] = {}
        self._launches = PreparedLaunches(self._long_way)
        self._names: tuple[frozenset[str], frozenset[str]] | None = None
        self._with_descriptors: dict[tuple, JitFunction] = {}  # what runs where arguments are tensor descriptors
        _every.add(self)

    @property
    def source(self) -> KernelSource:
        return self.__kernel_source__

    @property
    def arg_names(self) -> list[str]:
        """Names of the parameters, in order."""
        return [p.name for p in self.source.parameters]

    def __repr__(self) -> str:
        return f"<jit function {self.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LaunchError(
            "program.grid#E1", f"kernel {self.__name__} is launched with a grid: {self.__name__}[grid](...)"
        )

    __iter__ = None  # Python would otherwise iterate by calling __getitem__ for ever

    def __getitem__(self, grid: Grid) -> Callable[..., CompiledKernel]:
        return partial(self._launches.current, grid)

    def _long_way(self, grid: Grid, args: tuple, kwargs: dict[str, Any]) -> CompiledKernel:
        # A parameter of the kernel may have such a name: then the argument is the kernel's.
        own = {n: kwargs[n] for n in _OF_THE_LAUNCH if n in kwargs and not self._takes(n)}
        rest = {n: v for n, v in kwargs.items() if n not in own}
        return self._launch(grid, args, rest, **own, call=(args, kwargs))

    def _takes(self, name: str) -> bool:
        return any(p.name == name for p in self.source.parameters)

    def run(self, *args: Any, grid: Grid, **kwargs: Any) -> CompiledKernel:
        """Compile for the arguments where needed, then launch unless ``warmup``; gives the compiled kernel."""
        return self[grid](*args, **kwargs)

    def _launch(
        self,
        grid: Grid,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        warmup: bool = False,
        stream: Any = None,
        backend: str | None = None,
        arch: str | None = None,
        call: tuple[Sequence[Any], dict[str, Any]] | None = None,
    ) -> CompiledKernel:
        """The long way: bind, specialise, compile where needed, check, launch; prepare ``call`` for the next time."""
        if has_descriptors(args, kwargs):
            function, rest = self._taking_apart(args, kwargs)
            own = {n: v for n, v in (("stream", stream), ("backend", backend)) if v is not None}
            return function.warmup(grid=grid, arch=arch, **own, **rest) if warmup else function[grid](**own, **rest)
        kernel, arguments, options = self._specialized(args, kwargs, backend, arch, described=warmup)
        if warmup:
            if not _on_host(arguments) and kernel.backend in CODE:
                kernel.make_machine_code()
        else:
            meta = {a.parameter.name: a.value for a in arguments} | options
            runtime = {a.parameter.name: a.value for a in arguments if a.type is not None}
            infos = {a.parameter.name: a.info for a in arguments if a.info is not None}
            queued = kernel.launch(resolve_grid(grid, meta, self.__name__), runtime, infos, stream, asked(backend))
            if queued and call is not None:
                self._launches.add(*call, arguments, options, kernel)
        return kernel

    def prepare(
        self, launches: PreparedLaunches, args: Sequence[Any], kwargs: dict[str, Any], fixed: dict[str, Any]
    ) -> None:
        """Prepare among ``launches`` a launch of these arguments, to which the keywords ``fixed`` are always added."""
        if has_descriptors(args, kwargs):
            return  # the kernel that takes descriptors apart prepares its own
        own = {n: kwargs[n] for n in _OF_THE_LAUNCH if n in kwargs and not self._takes(n)}
        rest = {n: v for n, v in kwargs.items() if n not in own}
        if not own.get("warmup"):
            kernel, arguments, options = self._specialized(args, rest | fixed, own.get("backend"))
            launches.add(args, kwargs, arguments, options, kernel)

    def _specialized(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        backend: str | None,
        arch: str | None = None,
        described: bool = False,
    ) -> tuple[CompiledKernel, list[Argument], dict[str, Any]]:
        """The kernel for arguments, the arguments as bound, and the compiler's options among them."""
        chosen = compiled_for(asked(backend))
        options, rest = self._split(kwargs)
        values = bind(self.source, args, rest)
        plain, unaligned = self._unspecialized()
        arguments = specialize(self.source, values, plain, unaligned, described=described)
        kernel = self._kernel(
            {a.parameter.name: a.type for a in arguments if a.type is not None},
            {a.parameter.name: a.value for a in arguments if a.type is None},
            {a.parameter.name: a.hint for a in arguments if a.hint is not None},
            target(arch).name if arch else _native_arch(arguments),
            chosen,
            options,
        )
        return kernel, arguments, options

    def warmup(self, *args: Any, grid: Grid = (1,), **kwargs: Any) -> CompiledKernel:
        """Compile for the arguments without launching; a launch with such arguments then finds its code.

        An argument may be a description instead: a ``ShapeDtype``, a dtype of NumPy or torch for an aligned array, a
        type as text such as "*f32:16", "i32" or "i32:16". Needs no GPU: the architecture is ``arch=``, else that of the
        GPU, else the default one. Where the tools for machine code are missing, compilation ends before it.
        """
        own = {n: kwargs[n] for n in ("stream", "backend", "arch") if n in kwargs and not self._takes(n)}
        rest = {n: v for n, v in kwargs.items() if n not in own}
        return self._launch(grid, args, rest, warmup=True, **own)

    def specialized(self, *args: Any, **kwargs: Any) -> CompiledKernel:
        """The kernel for these arguments, translated to tile IR and not further: what a launch of them would run."""
        own = {n: kwargs[n] for n in _OF_THE_LAUNCH if n in kwargs and not self._takes(n)}
        rest = {n: v for n, v in kwargs.items() if n not in own}
        function: JitFunction = self
        if has_descriptors(args, rest):
            function, rest = self._taking_apart(args, rest)
            args = ()
        return function._specialized(args, rest, own.get("backend"))[0]

    def compile(
        self,
        signature: str | Mapping[str, Any],
        constexprs: Mapping[str, Any] | None = None,
        arch: str | None = None,
        backend: str | None = None,
        hints: Mapping[str, int] | None = None,
        **options: Any,
    ) -> CompiledKernel:
        """Compile for types instead of arguments: ``signature="x:*f32:16,n:i32"``, ``constexprs={"BLOCK": 256}``.

        ``backend`` is "cuda" or "mlir", the way to machine code, or "interp" or "simt", which run NumPy arrays: as the
        program means, or thread by thread. Left out, TILESPEC_BACKEND says it, else it is "cuda".
        """
        types, hinted = parse_signature(signature)
        chosen, rest = self._split(dict(options))
        if rest:
            raise unexpected(self.source, next(iter(rest)))
        name = target(arch).name if arch else DEFAULT_TARGET.name
        code = compiled_for(asked(backend))
        return self._kernel(types, dict(constexprs or {}), {**hinted, **(hints or {})}, name, code, chosen)

    def clear_cache(self, *, disk: bool = False) -> None:
        """Forget every specialisation in memory; ``disk``: and the machine code of these on disk."""
        with self._lock:
            for kernel in self._cache.values() if disk else ():
                forget(kernel.key)
            self._cache.clear()
            self._launches.clear()
            taking_apart, self._with_descriptors = self._with_descriptors, {}
        for function in taking_apart.values():
            function.clear_cache(disk=disk)

    # --- the cache in memory
    def _kernel(
        self,
        types: dict[str, Any],
        values: dict[str, Any],
        hints: dict[str, int],
        arch: str,
        backend: str,
        options: dict[str, Any],
    ) -> CompiledKernel:
        key = (
            tuple(types.items()),
            tuple((k, constexpr_key(v)) for k, v in values.items()),
            tuple(hints.items()),
            arch,
            backend,
            tuple(
                (name, type(value), value) for name, value in options.items()
            ),  # 1 and True are one key, and not one value
        )
        found = self._cache.get(key)
        if found is not None and found.compiled.dependencies.are_current():
            return found
        with self._lock:
            found = self._cache.get(key)
            if found is not None and found.compiled.dependencies.are_current():
                return found
            static = {k: v.value if isinstance(v, constexpr) else v for k, v in values.items()}
            chosen = _options(options)
            compiled = compile_source(self.source, types, static, hints, chosen.profile)
            kernel = self._cache[key] = CompiledKernel(compiled, arch, backend, chosen)
            return kernel

    def _split(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of the compiler, and arguments of the kernel."""
        names = {p.name for p in self.source.parameters}
        options = dict(self._own)
        rest: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in names or name not in (*OPTIONS, *_IGNORED_OPTIONS):
                rest[name] = value
            elif name in OPTIONS:
                options[name] = value
        return options, rest

    def _taking_apart(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[JitFunction, dict[str, Any]]:
        """The kernel that takes the descriptors among the arguments apart, and its arguments."""
        apart = Apart(self.source, args, kwargs)
        found = self._with_descriptors.get(apart.key)
        if found is None:
            if kwargs.get("profile", self._own.get("profile", CORE)) == CORE:
                apart.check_boxes()
            plain, unaligned = (sorted(names & apart.arguments.keys()) for names in self._unspecialized())
            debug, profile = bool(self._own.get("debug")), self._own.get("profile", CORE)
            found = JitFunction(apart.source(self), plain, unaligned, debug, profile)
            self._with_descriptors[apart.key] = found
        return found, apart.arguments

    def _unspecialized(self) -> tuple[frozenset[str], frozenset[str]]:
        if self._names is None:
            names = [p.name for p in self.source.parameters]

            def named(what: str, entries: Sequence[str | int]) -> frozenset[str]:
                listed = isinstance(entries, Iterable) and not isinstance(entries, str)
                if not listed or any(e not in names and e not in range(len(names)) for e in entries):
                    message = f"{what} is a list of parameters of {self.__name__}, by name or number, found {entries!r}"
                    raise LaunchError("program.arguments#E1", message, notes=[f"it has {', '.join(names)}"])
                return frozenset(names[e] if isinstance(e, int) else e for e in entries)

            self._names = (
                named("do_not_specialize", self._plain),
                named("do_not_specialize_on_alignment", self._unaligned),
            )
        return self._names


def _options(given: dict[str, Any]) -> Any:
    """The pipeline's options, checked."""
    from refcompiler.pipeline import Options

    warps = given.get("num_warps", 4)
    if isinstance(warps, bool) or not isinstance(warps, int) or warps not in (1, 2, 4, 8, 16, 32):
        raise LaunchError("program.arguments#E2", f"num_warps is a power of two from 1 to 32, found {warps!r}")
    stages = given.get("num_stages", 3)
    if isinstance(stages, bool) or not isinstance(stages, int) or stages < 0:
        raise LaunchError("program.arguments#E2", f"num_stages is a non-negative integer, found {stages!r}")
    ctas = given.get("num_ctas", 1)
    if isinstance(ctas, bool) or not isinstance(ctas, int) or ctas not in (1, 2, 4, 8):
        raise LaunchError("program.arguments#E2", f"num_ctas is 1, 2, 4 or 8, found {ctas!r}")
    registers = given.get("maxnreg")
    if registers is not None and (isinstance(registers, bool) or not isinstance(registers, int) or registers <= 0):
        raise LaunchError("program.arguments#E2", f"maxnreg is a positive integer, found {registers!r}")
    for name in ("enable_fp_fusion", "enable_reflect_ftz", "debug"):
        if not isinstance(given.get(name, False), bool):
            raise LaunchError("program.arguments#E2", f"{name} is True or False, found {given[name]!r}")
    known_profile(given.get("profile", CORE))
    return Options(**given)


def _on_host(arguments: list[Argument]) -> bool:
    """Whether all arrays are in host memory; one that is only described is for a GPU."""
    return all(not isinstance(a.type, PointerType) or (a.info is not None and a.info.device is None) for a in arguments)


def _native_arch(arguments: list[Argument]) -> str:
    """The architecture of the GPU that the arrays are on, or that there is; the default one for host arrays."""
    from refcompiler.runtime import gpu_available, native_arch

    devices = [a.info.device for a in arguments if a.info is not None and a.info.device is not None]
    if _on_host(arguments) or (not devices and not gpu_available()):
        return DEFAULT_TARGET.name
    return native_arch(devices[0] if devices else 0)
