"""A compiled kernel: every stage's text on request, and launching it."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from refcompiler.dialects.simt.tensor_maps import Unmappable
from refcompiler.errors import CompileError, InternalError, LaunchError, TileSpecError
from refcompiler.frontend import Compiled
from refcompiler.ir import Func, print_func
from refcompiler.ir.types import FLOATS8, DType, PointerType
from refcompiler.jit.backends import HOST, asked, executor
from refcompiler.jit.build import Build, build, cache_key, stored
from refcompiler.jit.grids import Grid, resolve_grid
from refcompiler.jit.written import written_params
from refcompiler.remarks import Remark, in_order
from refcompiler.runtime.arrays import ArrayInfo, describe, is_array, reachable
from refcompiler.runtime.overlap import overlap

STAGES = ("tile", "tile_opt", "laid_out", "simt", "cuda", "mlir", "ptx", "cubin", "sass", "remarks")


# Why machine code with warps that fetch is given up: ptxas would make products wait, or cannot compile them.
_WITHOUT_ROLES = ("toolchain.serialized", "toolchain.registers")


class Stages(Mapping[str, Any]):
    """The stages of a kernel by name; each is made when first asked for, and kept."""

    def __init__(self, make: Callable[[str], Any]):
        self._make = make
        self._made: dict[str, Any] = {}
        self._lock = threading.RLock()

    def __getitem__(self, stage: str) -> Any:
        found = self._made.get(stage)
        if found is not None:
            return found
        if stage not in STAGES:
            raise KeyError(f"no stage {stage!r}; there are {', '.join(STAGES)}")
        with self._lock:
            if stage not in self._made:
                self._made[stage] = self._make(stage)
            return self._made[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(STAGES)

    def __len__(self) -> int:
        return len(STAGES)


class CompiledKernel:
    """One specialisation of a kernel. ``asm`` maps a stage to its text (bytes for "cubin"), ``resources`` are the
    registers, spills, stack and shared memory of the cubin; both are made on request."""

    def __init__(self, compiled: Compiled, arch: str, backend: str, options: Any):
        self.compiled, self.arch, self.backend, self.options = compiled, arch, backend, options
        self.func = compiled.func
        self.name = self.func.name
        self.asm = Stages(self._stage)
        self._lock = threading.RLock()
        self.levels: dict[str, Func] = {}
        self.spared_bytes = 0  # of shared memory, which passes leave to what cannot do without it
        self.waits_at_once = False  # for products: ptxas would serialize those that are on their way for longer
        self.serialized: Remark | None = None  # said of machine code that was given up

    def __repr__(self) -> str:
        return f"CompiledKernel({self.name}, {self.arch}, {self.backend})"

    # --- stages
    @property
    def context(self) -> Any:
        """What the passes may ask: options and target."""
        from refcompiler import pipeline
        from refcompiler.target import target

        return pipeline.Context(
            self.options, target(self.arch), spared_bytes=self.spared_bytes, waits_at_once=self.waits_at_once
        )

    def level(self, name: str) -> Func:
        """The function at a stage of the pipeline: "tile_opt", "laid_out" or "simt"."""
        from refcompiler import pipeline

        with self._lock:
            if name not in self.levels:
                if name == "tile_opt":
                    made = pipeline.optimize(self.func, self.context)
                elif name == "laid_out":
                    made = pipeline.lay_out(self.level("tile_opt"), self.context)
                else:
                    made = self._lowered()
                self.levels[name] = made
            return self.levels[name]

    def _lowered(self) -> Func:
        """The function for threads, with less ahead where shared memory is too short for what passes wanted."""
        from refcompiler import pipeline

        try:
            return pipeline.lower(self.level("laid_out"), self.context)
        except CompileError as error:
            context = self.context.sparing(self.level("laid_out"))
            if error.id != "target.shared_memory" or context is None:
                raise
        self.spared_bytes = context.spared_bytes
        self.levels.pop("laid_out")
        self.asm = Stages(self._stage)  # all stages are of one program
        return self._lowered()

    def _stage(self, stage: str) -> Any:
        if stage == "tile":
            return print_func(self.func)
        if stage in ("tile_opt", "laid_out", "simt"):
            return print_func(self.level(stage))
        if stage == "remarks":
            return "".join(f"{remark}\n" for remark in self.remarks) or "no remarks\n"
        if stage in ("cuda", "mlir"):
            from refcompiler import pipeline

            text = pipeline.emit(self.level("simt"), stage, self.context.target)
            return _verified(text) if stage == "mlir" else text
        if stage == "sass":
            from refcompiler import toolchain

            return toolchain.disassemble(self.asm["cubin"])
        return self.build.ptx if stage == "ptx" else self.build.cubin

    @cached_property
    def build(self) -> Build:
        """The machine code, from the cache on disk where it is there."""
        found = stored(self.key)
        if found is not None:
            return found
        try:
            return build(
                self.asm[self.code], self.level("simt"), self.func, self.arch, self.code, self.options, self.key
            )
        except InternalError as error:
            if error.id not in _WITHOUT_ROLES or self.func.level != "tile" or not self.options.fetch_boxes:
                raise
            if self._waiting_at_once():
                return self.build
            warnings.warn(f"{self.name} is compiled without warps that fetch: {error.message}", RuntimeWarning, 2)
            self._become_careful(error.message)
            return self.careful.build

    def _waiting_at_once(self) -> bool:
        """Whether the program is another one from now on: iterations wait for the products that they begin."""
        with self._lock:
            before, waited = self.asm[self.code], self.waits_at_once
            self.waits_at_once = True
            self.levels.clear()
            self.asm = Stages(self._stage)
            self.__dict__.pop("key", None)
            return not waited and self.asm[self.code] != before

    def _become_careful(self, why: str) -> None:
        """Show, at every stage from now on, the program that the machine code is of."""
        with self._lock:
            advice = "other blocks or more warps may help: what products read and add to stays in registers"
            said = f"warps that fetch are given up: {'; '.join(why.splitlines())}"
            self.serialized = Remark("specialize_warps", said, self.func.span, advice)
            self.options = self.careful.options
            self.levels.clear()
            self.asm = Stages(self._stage)
            self.__dict__.pop("key", None)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What passes did to make the kernel fast and what they left, with reasons; made when asked for."""
        from refcompiler import pipeline

        if self.func.level != "tile":
            return ()
        with contextlib.suppress(TileSpecError):  # what does not fit is compiled once more
            self.level("simt")
        context = replace(self.context, remarks=[])
        pipeline.lay_out(pipeline.optimize(self.func, context), context)
        found = context.remarks
        if self.serialized is not None:
            found = [self.serialized, *(remark for remark in found if remark.step != self.serialized.step)]
        return in_order(found)

    def make_machine_code(self) -> bool:
        """Compile as far as the tools of this machine go; whether to machine code."""
        from refcompiler import toolchain

        try:
            return bool(self.build.cubin)
        except toolchain.ToolUnavailable:
            return False

    @cached_property
    def key(self) -> str:
        """Under which the machine code lies in the cache on disk."""
        return cache_key(self.func, self.arch, self.code, self.options) + "w" * self.waits_at_once

    @property
    def code(self) -> str:
        """The backend that its machine code comes from."""
        return "mlir" if self.backend == "mlir" else "cuda"

    @cached_property
    def resources(self) -> dict[str, Any]:
        """Registers, spills, stack, shared memory and threads of the cubin."""
        from refcompiler import toolchain

        found = dict(toolchain.resources(self.build.cubin, self.build.entry))
        return {**found, "threads": self.build.threads, "smem": (found["smem"] or 0) + self.build.shared_bytes}

    @cached_property
    def written(self) -> frozenset[str]:
        """Pointer parameters that the kernel may store through."""
        return written_params(self.func)

    # --- launching
    __iter__ = None  # Python would otherwise iterate by calling __getitem__ for ever

    def __getitem__(self, grid: Grid) -> Callable[..., CompiledKernel]:
        def launch(*args: Any, **kwargs: Any) -> CompiledKernel:
            names = [str(p.name) for p in self.func.params]
            stream = None if "stream" in names else kwargs.pop("stream", None)
            values = dict(zip(names, args, strict=False)) | kwargs
            if len(args) > len(names) or set(values) != set(names):
                raise LaunchError(
                    "program.arguments#E1", f"{self.name} was compiled for the arguments {', '.join(names)}"
                )
            infos = {n: describe(v) for n, v in values.items() if is_array(v)}
            self.launch(resolve_grid(grid, values | self.func.constexprs, self.name), values, infos, stream)
            return self

        return launch

    def launch(
        self,
        grid: tuple[int, int, int],
        values: dict[str, Any],
        infos: dict[str, ArrayInfo],
        stream: Any = None,
        backend: str | None = None,
    ) -> bool:
        """Run on arguments by name; ``infos`` describes those that are arrays, ``backend`` is what was asked for.
        Whether it was queued on a GPU."""
        infos = {name: self._as_float8(name, info) for name, info in infos.items()}
        self._check_arguments(values, infos)
        if 0 in grid:
            return False
        on_host = all(info.device is None for info in infos.values())
        chosen = executor(backend or asked(None), self.backend, on_host)
        if chosen in HOST:
            self._run_on_host(chosen, grid, values, infos)
            return False
        self._for_arrays(self.build.disjoint, infos, lambda kernel: kernel._launch_gpu(grid, values | infos, stream))
        return True

    def _for_arrays(
        self, disjoint: Sequence[tuple[str, str]], infos: Mapping[str, ArrayInfo], run: Callable[[CompiledKernel], Any]
    ) -> None:
        """Run this kernel, or the careful one for arrays that it takes too much for granted of."""
        if overlap(disjoint, infos):
            run(self.careful)
            return
        try:
            run(self)
        except Unmappable:
            if self.func.level != "tile":
                raise
            run(self.careful)

    def _as_float8(self, name: str, info: ArrayInfo) -> ArrayInfo:
        """Bytes that the parameter takes for float8 as an array of that, for libraries that have no float8."""
        declared = self.pointees.get(name)
        return info._replace(dtype=declared.name) if declared in FLOATS8 and info.dtype in ("u8", "i8") else info

    @cached_property
    def pointees(self) -> dict[str, DType]:
        """What the pointer parameters point to, by name."""
        return {str(p.name): p.type.pointee for p in self.func.params if isinstance(p.type, PointerType)}

    @cached_property
    def careful(self) -> CompiledKernel:
        """The same kernel without what this one takes for granted of its arrays: that they do not overlap, and that
        tensor maps describe them."""
        return CompiledKernel(self.compiled, self.arch, self.backend, replace(self.options, fetch_boxes=False))

    def _check_arguments(self, values: dict[str, Any], infos: dict[str, ArrayInfo]) -> None:
        where = {info.device is None for info in infos.values()}
        if len(where) > 1:
            host = [n for n, i in infos.items() if i.device is None]
            device = [n for n, i in infos.items() if i.device is not None]
            raise LaunchError(
                "program.arguments#E6",
                f"kernel {self.name} got host arrays ({', '.join(host)}) and device arrays ({', '.join(device)})",
                notes=["move all of them to one side"],
            )
        for param in self.func.params:
            name = str(param.name)
            info = infos.get(name)
            if isinstance(param.type, PointerType) != (info is not None):
                found = type(values[name]).__name__
                raise LaunchError(
                    "program.arguments#E2", f"argument `{name}` of {self.name} is {param.type}, found {found}"
                )
            if info is not None and isinstance(param.type, PointerType):
                self._check_array(name, param.type, info)
            elif isinstance(param.type, DType) and not param.type.is_float:
                self._check_integer(name, param.type, values[name])

    def _check_integer(self, name: str, dtype: DType, value: Any) -> None:
        """An integer or bool argument: no float, and within the range of its type."""
        if not isinstance(value, int | np.integer | np.bool_):
            found = type(value).__name__
            raise LaunchError("program.arguments#E2", f"argument `{name}` of {self.name} is {dtype}, found {found}")
        low, high = (0, 1) if dtype.is_bool else (dtype.min_int, dtype.max_int)
        if not low <= value <= high:
            raise LaunchError(
                "program.arguments#E3",
                f"argument `{name}` of {self.name} is {value}: {dtype} holds {low} to {high}",
            )

    def _check_array(self, name: str, type_: PointerType, info: ArrayInfo) -> None:
        if info.dtype != type_.pointee.name:
            raise LaunchError(
                "program.arguments#E2",
                f"argument `{name}` of {self.name} is an array of {info.dtype}, expected {type_}",
            )
        if info.readonly and name in self.written:
            raise LaunchError(
                "program.arguments#E5", f"argument `{name}` of {self.name} is read-only, and the kernel writes it"
            )

    def _run_on_host(
        self, backend: str, grid: tuple[int, int, int], values: dict[str, Any], infos: dict[str, ArrayInfo]
    ) -> None:
        """On NumPy arrays: tile IR in the interpreter, or SIMT IR thread by thread in the simulator."""
        from refcompiler import interpreter, simulator

        reached = {n: reachable(info) for n, info in infos.items()}
        arguments = values | {n: memory for n, (memory, _) in reached.items()}
        origins = {n: origin for n, (_, origin) in reached.items() if origin}
        with np.errstate(all="ignore"):  # a float past the range of its parameter's type is infinity, as on a GPU
            if backend == "interp":
                interpreter.run(self.level("tile_opt"), grid, arguments, origins=origins)
            else:
                pairs = self.level("simt").attrs.get("disjoint", ())
                self._for_arrays(
                    pairs,
                    infos,
                    lambda kernel: simulator.run(kernel.level("simt"), grid, arguments, count=False, origins=origins),
                )

    def _launch_gpu(self, grid: tuple[int, int, int], values: dict[str, Any], stream: Any) -> None:
        from refcompiler import runtime

        made = self.build
        args = [values[p.name] for p in made.abi.visible]
        x, y, z = grid
        runtime.launch(self.function, (x * made.num_ctas, y, z), made.threads, args, stream, made.shared_bytes)

    @cached_property
    def function(self) -> Any:
        """The machine code, loaded."""
        from refcompiler import runtime

        return runtime.load_function(self.build.cubin, self.build.entry, self.build.abi)


def _verified(text: str) -> str:
    """MLIR text after MLIR's own verifier; as it is where MLIR is not installed."""
    from refcompiler import toolchain

    with contextlib.suppress(toolchain.ToolUnavailable):
        toolchain.verify_mlir(text)
    return text
