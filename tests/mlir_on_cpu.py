"""Runs generated MLIR on the CPU: LLVM compiles the text for this machine, one thread of the system for each thread.

What only a GPU has is exchanged for functions of this module: thread and program ids, barriers, shuffles, accesses with
cache operators. Everything else, so nearly all the emitter writes, is executed as it stands, with this processor's own
faults: x86 rounds to bf16 with subnormals flushed, and LLVM has no conversion from f64 to 16 bits here.
`tests.mlir_on_cpu:target`
is a target of the command line: tilespec run reduce.sum --target tests.mlir_on_cpu:target
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from conformance.adapters import Info, Ran, Rejected, TargetUnavailable, reference
from conformance.dtypes import DTYPES
from oracles.formats import FORMATS, to_format

SHARED_BYTES = 232448
PASSES = (
    "convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,convert-vector-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts"
)
PLACES = [f"{word}_{axis}" for word in ("tid", "ctaid", "nctaid") for axis in "xyz"]
SHUFFLES: dict[str, Callable[[int, int], int]] = {
    "bfly": lambda lane, mask: lane ^ mask,
    "idx": lambda lane, other: other & 31,
    "up": lambda lane, delta: lane - delta,
    "down": lambda lane, delta: lane + delta,
}
# llvm.nvvm.X -> arguments, result, meaning: conversions toward zero, which saturate
TOWARD_ZERO = {
    f"{word}2f.rz": (f"i{bits}", "f32") for word, bits in (("i", 32), ("ui", 32), ("ll", 64), ("ull", 64))
} | {f"f2{word}.rz": ("f32", f"i{bits}") for word, bits in (("i", 32), ("ui", 32), ("ll", 64), ("ull", 64))}

FLOAT8 = {"e4m3": "f8e4m3", "e5m2": "f8e5m2"}  # LLVM's names -> the specification's

REPLACED = [
    (r"gpu\.module @kernels \{", "module {"),
    (r"gpu\.func @(\w+)\((.*?)\) kernel attributes \{.*?\} \{", r"llvm.func @\1(\2) {"),
    (r"gpu\.return", "llvm.return"),
    (
        r"llvm\.mlir\.global external @shared\(\) \{.*?\} : !llvm\.array<0 x i8>",
        f"llvm.mlir.global internal @shared() {{alignment = 16 : i64}} : !llvm.array<{SHARED_BYTES} x i8> {{\n"
        f"    %0 = llvm.mlir.zero : !llvm.array<{SHARED_BYTES} x i8>\n"
        f"    llvm.return %0 : !llvm.array<{SHARED_BYTES} x i8>\n  }}",
    ),
    (r"!llvm\.ptr<[13]>", "!llvm.ptr"),
    (r" \{addr_space = 1 : i32\}", ""),
    (r"nvvm\.read\.ptx\.sreg\.(\w+)\.(\w) : i32", r"llvm.call @emu_\1_\2() : () -> i32"),
    (r"nvvm\.barrier0|nvvm\.bar\.warp\.sync \S+ : i32", "llvm.call @emu_barrier() : () -> ()"),
    (
        r"nvvm\.shfl\.sync (\w+) \S+, (\S+), (\S+), \S+ : i32 -> i32",
        r"llvm.call @emu_\1(\2, \3) : (i32, i32) -> i32",
    ),
    (r"nvvm\.vote\.sync any \S+, (\S+) -> i1", r"llvm.call @emu_any(\1) : (i1) -> i1"),
    (r"llvm\.nvvm\.sqrt\.rn\.f", "llvm.sqrt.f32"),
    (r"llvm\.nvvm\.sqrt\.rn\.d", "llvm.sqrt.f64"),
    (r"llvm\.nvvm\.ex2\.approx\.ftz\.f", "llvm.exp2.f32"),
    (r'llvm\.call_intrinsic "llvm\.nvvm\.(\w+)\.rz"', r"llvm.call @emu_\1_rz"),
    (r'llvm\.call_intrinsic "llvm\.nvvm\.ff\.to\.(\w+)x2\.rn"', r"llvm.call @emu_to_\1"),
    (
        r'(%\S+) = llvm\.call_intrinsic "llvm\.nvvm\.(\w+)x2\.to\.f16x2\.rn"\((\S+)\) : \(i16\) -> (\S+)',
        r"\1_bits = llvm.call @emu_from_\2(\3) : (i16) -> i32\n    \1 = llvm.bitcast \1_bits : i32 to \4",
    ),
    (
        r'llvm\.inline_asm asm_dialect = att "mov\.b64 \$0, \$1;", "=l,l" (\S+) : \(!llvm\.ptr\) -> !llvm\.ptr',
        r"llvm.getelementptr \1[0] : (!llvm.ptr) -> !llvm.ptr, i8",
    ),
    (
        r'llvm\.inline_asm has_side_effects asm_dialect = att "ld\.\S+ [^"]*", "[^"]*" (\S+) : \(!llvm\.ptr\) -> i16\b',
        r"llvm.call @emu_load_narrow(\1) : (!llvm.ptr) -> i16",
    ),
    (
        r'llvm\.inline_asm has_side_effects asm_dialect = att "ld\.[^"]*", "[^"]*" (\S+) : \(!llvm\.ptr\) -> (\S+.*)',
        r"llvm.load \1 : !llvm.ptr -> \2",
    ),
    (
        r'llvm\.inline_asm has_side_effects asm_dialect = att "st\.\S*\.(?:b32|b64) \[[^"]*", "l,[rl],~\{memory\}" '
        r"(\S+), (\S+) : \(!llvm\.ptr, (\w+)\) -> \(\)",
        r"llvm.store \2, \1 : \3, !llvm.ptr",
    ),
    (
        r'llvm\.inline_asm has_side_effects asm_dialect = att "st\.\S*\.v2\.b64 [^"]*", "[^"]*" '
        r"(\S+), (\S+), (\S+) : \(.*?\) -> \(\)",
        r"llvm.call @emu_store_two(\1, \2, \3) : (!llvm.ptr, i64, i64) -> ()",
    ),
    (
        r'llvm\.inline_asm has_side_effects asm_dialect = att "stmatrix\.\S+\.(x\d)\.(trans)\.shared\.b16 [^"]*", '
        r'"[^"]*" (.*) : (\(.*?\)) -> \(\)',
        r"llvm.call @emu_stmatrix_\1_\2(\3) : \4 -> ()",
    ),
    (
        r'llvm\.inline_asm has_side_effects asm_dialect = att "stmatrix\.\S+\.(x\d)\.shared\.b16 [^"]*", '
        r'"[^"]*" (.*) : (\(.*?\)) -> \(\)',
        r"llvm.call @emu_stmatrix_\1(\2) : \3 -> ()",
    ),
]


def _store_matrices(count: int, trans: bool) -> str:
    """A function for stmatrix: each lane writes its own elements to the rows that others name."""
    lines, made = [], iter(range(1000))

    def let(text: str) -> str:
        lines.append(f"%v{(number := next(made))} = {text}")
        return f"%v{number}"

    def const(number: int) -> str:
        return let(f"llvm.mlir.constant({number} : i32) : i32")

    base = let("llvm.mlir.addressof @shared : !llvm.ptr")
    low = let(f"llvm.ptrtoint {base} : !llvm.ptr to i32")
    own = let(f"llvm.sub %to, {low} : i32")
    lane = let(f"llvm.and {let('llvm.call @emu_tid_x() : () -> i32')}, {const(31)} : i32")
    across, down = let(f"llvm.and {lane}, {const(3)} : i32"), let(f"llvm.lshr {lane}, {const(2)} : i32")
    for matrix in range(count):
        for half in range(2):
            pair = let(f"llvm.add {let(f'llvm.shl {across}, {const(1)} : i32')}, {const(half)} : i32")
            row, column = (pair, down) if trans else (down, pair)
            named = let(f"llvm.add {row}, {const(8 * matrix)} : i32")
            start = let(f"llvm.call @emu_idx({own}, {named}) : (i32, i32) -> i32")
            place = let(f"llvm.getelementptr {base}[{start}] : (!llvm.ptr, i32) -> !llvm.ptr, i8")
            place = let(f"llvm.getelementptr {place}[{column}] : (!llvm.ptr, i32) -> !llvm.ptr, i16")
            element = let(f"llvm.lshr %w{matrix}, {const(16 * half)} : i32")
            lines.append(f"llvm.store {let(f'llvm.trunc {element} : i32 to i16')}, {place} : i16, !llvm.ptr")
    given = ", ".join(f"%w{i}: i32" for i in range(count))
    body = "".join(f"    {line}\n" for line in [*lines, "llvm.return"])
    return f"  llvm.func internal @emu_stmatrix_x{count}{'_trans' * trans}(%to: i32, {given}) {{\n{body}  }}\n"


def _any_lane() -> str:
    """A function for vote.sync.any: each lane joins with another one, half a warp in the end."""
    lines = ["%x0 = llvm.zext %given : i1 to i32"]
    for step in range(5):
        lines += [
            f"%m{step} = llvm.mlir.constant({1 << step} : i32) : i32",
            f"%o{step} = llvm.call @emu_bfly(%x{step}, %m{step}) : (i32, i32) -> i32",
            f"%x{step + 1} = llvm.or %x{step}, %o{step} : i32",
        ]
    lines += ["%any = llvm.trunc %x5 : i32 to i1", "llvm.return %any : i1"]
    return "  llvm.func internal @emu_any(%given: i1) -> i1 {\n" + "".join(f"    {line}\n" for line in lines) + "  }\n"


HELPERS = """
  llvm.func internal @emu_store_two(%place: !llvm.ptr, %x: i64, %y: i64) {
    llvm.store %x, %place : i64, !llvm.ptr
    %next = llvm.getelementptr %place[1] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %y, %next : i64, !llvm.ptr
    llvm.return
  }
"""


class NotEmulated(Exception):
    """The text has something that only a GPU has."""


def host_text(text: str) -> str:
    """The module for this machine's processor."""
    for pattern, replacement in REPLACED:
        text = re.sub(pattern, replacement, text)
    left = re.search(r"nvvm\.\S+|llvm\.inline_asm.*|@emu_load_narrow.*|arith\.truncf .*f64>? to .*f16>?", text)
    if left is not None:
        raise NotEmulated(left[0])
    declared = [f"llvm.func @emu_{name}() -> i32" for name in PLACES] + ["llvm.func @emu_barrier()"]
    declared += [f"llvm.func @emu_{name}(i32, i32) -> i32" for name in SHUFFLES]
    declared += [f"llvm.func @emu_to_{name}(f32, f32) -> i16" for name in FLOAT8]
    declared += [f"llvm.func @emu_from_{name}(i16) -> i32" for name in FLOAT8]
    declared += [
        f"llvm.func @emu_{name.replace('.', '_')}({source}) -> {target}"
        for name, (source, target) in TOWARD_ZERO.items()
    ]
    helpers = "".join(f"  {line}\n" for line in declared) + HELPERS
    if "@emu_any" in text:
        helpers += _any_lane()
    if "@emu_stmatrix" in text:
        helpers += "".join(_store_matrices(count, trans) for count in (1, 2, 4) for trans in (False, True))
    return text.replace("module {\n", "module {\n" + helpers, 1)


class Machine:
    """A kernel compiled for this machine, and the threads of one program that run it at a time."""

    def __init__(self, text: str, entry: str, threads: int):
        from mlir import ir, passmanager
        from mlir.execution_engine import ExecutionEngine

        context = ir.Context()
        module = ir.Module.parse(host_text(text), context)
        passmanager.PassManager.parse(f"builtin.module({PASSES})", context).run(module.operation)
        self.engine = ExecutionEngine(module, opt_level=2)
        self.count, self.local, self.kept = threads, threading.local(), []
        self.place: dict[str, int] = {}
        self.barrier = threading.Barrier(threads)
        self.warps = [threading.Barrier(min(32, threads)) for _ in range(0, threads, 32)]
        self.slots = [0] * threads
        i32 = ctypes.c_int32
        for name in PLACES:
            self.give(name, lambda name=name: self.local.tid if name == "tid_x" else self.place.get(name, 0), i32)
        self.give("barrier", self.meet, None)
        for name, source in SHUFFLES.items():
            self.give(name, lambda x, y, source=source: self.shuffle(x, source, y), i32, i32, i32)
        for name, dtype in FLOAT8.items():
            narrow = lambda high, low, d=dtype: int(to_format(low, d).view(np.uint8))  # noqa: E731
            widen = lambda x, d=dtype: int(np.uint8(x & 255).view(FORMATS[d].dtype).astype("f2").view("u2"))  # noqa: E731
            self.give(f"to_{name}", narrow, ctypes.c_int16, ctypes.c_float, ctypes.c_float)
            self.give(f"from_{name}", widen, i32, ctypes.c_int16)
        types = {"i32": i32, "i64": ctypes.c_int64, "f32": ctypes.c_float}
        for name, (source, target) in TOWARD_ZERO.items():
            convert = _to_float if target == "f32" else _to_integer
            bits, unsigned = int((source if target == "f32" else target)[1:]), "u" in name
            function = lambda x, c=convert, b=bits, u=unsigned: c(x, b, u)  # noqa: E731
            self.give(name.replace(".", "_"), function, types[target], types[source])
        address = self.engine.raw_lookup(entry)
        if not address:
            raise NotEmulated("a function of LLVM's run-time library")
        self.call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def give(self, name: str, function: Callable, result, *arguments) -> None:
        callback = ctypes.CFUNCTYPE(result, *arguments)(function)
        self.kept.append(callback)
        self.engine.raw_register_runtime(f"emu_{name}", ctypes.cast(callback, ctypes.c_void_p))

    def meet(self) -> None:
        self.barrier.wait(60)

    def shuffle(self, value: int, source: Callable[[int, int], int], operand: int) -> int:
        thread = self.local.tid
        lane, warp = thread & 31, self.warps[thread >> 5]
        self.slots[thread] = value
        warp.wait(60)
        other = source(lane, operand)
        received = self.slots[thread - lane + other] if 0 <= other < 32 else value
        warp.wait(60)
        return received

    def run(self, grid: Sequence[int], arguments: Sequence[np.ndarray]) -> None:
        """Arrays are written in place; a number is an array without axes."""
        held = [np.array(a.ctypes.data, np.uint64) if a.ndim else np.array(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(held))(*[a.ctypes.data for a in held])
        extents = (*grid, 1, 1)[:3]

        def one(thread: int) -> None:
            self.local.tid = thread
            self.call(ctypes.addressof(pointers))

        for z, y, x in product(*map(range, reversed(extents))):
            places = zip("xyz", (x, y, z), extents, strict=True)
            self.place = {f"{w}_{a}": v for a, at, extent in places for w, v in (("ctaid", at), ("nctaid", extent))}
            threads = [threading.Thread(target=one, args=(t,)) for t in range(self.count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def _to_float(value: int, bits: int, unsigned: bool) -> float:
    """The f32 toward zero of an integer that came signed."""
    value &= (1 << bits) - 1
    if not unsigned and value >> (bits - 1):
        value -= 1 << bits
    shift = max(0, abs(value).bit_length() - 24)
    return float((abs(value) >> shift << shift) * (1 if value >= 0 else -1))


def _to_integer(value: float, bits: int, unsigned: bool) -> int:
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return (
        0 if value != value else min(max(int(value) if abs(value) < 2.0**80 else int(np.sign(value)) << 80, low), high)
    )


def target():
    """The adapter; raises TargetUnavailable without MLIR."""
    from refcompiler import toolchain

    try:
        toolchain.require_mlir()
    except toolchain.ToolUnavailable as e:
        raise TargetUnavailable(f"target mlir_on_cpu: {e.message}") from e
    return OnCpu()


class OnCpu(reference.Interpreter):
    """Kernels compiled to MLIR for sm_90a, run here."""

    backend = "mlir"

    def info(self):
        return Info(name="mlir_on_cpu", version="", capabilities=frozenset({"fp64", "fp8"}))

    def _finish(self, compiled):
        compiled.asm["mlir"]

    def run(self, compiled, grid, arguments):
        from refcompiler.pipeline import EMITTERS

        _, kernel, request = compiled.handle
        dtypes, given = dict(request.signature), {a.name: a.value for a in arguments}
        values = []
        for param in kernel.func.params:
            text = dtypes[param.name]
            value = given[param.name]
            values.append(value if text.startswith("*") else np.array(value, DTYPES[text.split(":")[0]].numpy))
        simt = kernel.level("simt")
        try:
            machine = Machine(kernel.asm["mlir"], EMITTERS["mlir"].entry_name(simt), simt.attrs["threads"])
        except NotEmulated as e:
            return Rejected("run", "mlir_on_cpu", f"not emulated: {e}")
        machine.run(grid if isinstance(grid, tuple) else (grid,), values)
        return Ran()
